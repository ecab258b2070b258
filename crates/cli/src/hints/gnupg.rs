//! Remedies for files of GnuPG.

use talaria::gnupg::GnupgError;

use super::file::file_hint;

pub(crate) fn gnupg_hint(error: &GnupgError) -> Option<String> {
    let hint = match error {
        GnupgError::Io { path, source, .. } => {
            return file_hint(&path.display().to_string(), source);
        }
        GnupgError::NotTofudb { .. } => "GnuPG's database is ~/.gnupg/tofu.db.",
        GnupgError::NotTrustdb | GnupgError::Ownertrust { .. } => {
            "talaria reads GnuPG's trustdb.gpg and the output of `gpg --export-ownertrust`."
        }
        GnupgError::Locked { .. } => "Wait until gpg has ended, and try again.",
        _ => return None,
    };
    Some(hint.to_owned())
}
