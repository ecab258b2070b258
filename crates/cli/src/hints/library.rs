//! Remedies for the operations of the library, which is the crate `talaria`.

use talaria::StoreFolderKind;
use talaria::agent::AgentError;

use super::backup::backup_hint;
use super::file::file_hint;
use super::gnupg::gnupg_hint;
use super::import_hint::import_hint;
use super::message::message_hint;
use super::store::store_hint;
use crate::shell::shell_word;

/// The remedy if several keys can do what the user wants.
pub(super) const WHICH: &str = "Choose one with -u FINGERPRINT.";

/// The remedy for an operation of the library.
pub(crate) fn library_hint(error: &talaria::Error) -> Option<String> {
    use talaria::Error as E;
    let hint = match error {
        E::NotFound { query } => return Some(import_hint(query)),
        E::Ambiguous { .. } => "Use the fingerprint of one of them.",
        E::Inexact { .. } => "Use the fingerprint or the whole address.",
        E::Unconfirmed { open, .. } => {
            let how = "Anybody can make a certificate with this address. Compare the fingerprint with its owner, and use \
                       it in place of the address. To verify, the file of the certificate will do: --signer-file FILE";
            let confirm = open.as_ref().map(|fingerprint| {
                format!("\nOr confirm the certificate first: talaria certify --local {fingerprint}")
            });
            return Some(format!("{how}{}", confirm.unwrap_or_default()));
        }
        E::Distrusted { name } => {
            let fingerprint = name.split(' ').next().unwrap_or_default();
            return Some(format!(
                "To see your decisions: talaria tofu info {fingerprint}\nTo withdraw it: talaria tofu policy {fingerprint} auto"
            ));
        }
        E::InexactUserId { .. } => "Give the whole user ID.",
        E::NoKey { .. } => {
            "List your keys: talaria key list\nImport a key: talaria key import FILE\nOr use the keys of GnuPG: add \
             --gpg-agent"
        }
        E::NoSigner | E::NoCertifier => {
            "Generate one: talaria key generate \"NAME <ADDRESS>\"\nImport one: talaria key import FILE\nOr use \
             one of gpg-agent: --gpg-agent -u KEY"
        }
        E::WhichSigner { .. } => WHICH,
        E::NoSecret { .. } => {
            "Import the secret key: talaria key import FILE\nOr use the keys of GnuPG: add --gpg-agent"
        }
        E::Exposed { path, .. } => {
            return Some(format!(
                "Run: chmod go= {}\nIf somebody may have read it, change the passphrase or revoke the key.",
                shell_word(path)
            ));
        }
        E::KeyFile { .. } => "Restore it from a backup, or move it out of the folder.",
        E::Agent(AgentError::Absent) => "Start it with --gpg-agent.",
        E::Agent(AgentError::NoHome { .. }) => {
            "Leave out --gpg-agent. If the keys of GnuPG are in another folder, set GNUPGHOME; `gpg --list-keys` makes \
             the folder."
        }
        E::Agent(AgentError::NotStarted(_)) => {
            "See why: gpg-connect-agent --verbose /bye\nOr leave out --gpg-agent."
        }
        E::Agent(AgentError::Gpgconf(_)) => "Install GnuPG, or leave out --gpg-agent.",
        E::Message(error) => return message_hint(error),
        E::Store(error) => return store_hint(error),
        E::Backup(error) => return backup_hint(error),
        E::StoreFolder { path, what } => {
            return Some(match what {
                StoreFolderKind::GnupgHome => format!(
                    "To import it: talaria import {}\nTo use its keyring as it is: --store {}",
                    shell_word(path),
                    shell_word(path.join("pubring.kbx"))
                ),
                StoreFolderKind::Other => {
                    format!("Name a file in it: --store {}", shell_word(path.join("certs.db")))
                }
            });
        }
        E::NoCertificates { .. } => {
            "No store was made. talaria builds from keyrings and keyserver dumps; `gpg --list-packets FILE` or `file \
             FILE` shows what a file is."
        }
        E::Bookmark => "Start again without --after, or name the same store and certificates.",
        E::Dump { .. } => "Dump all certificates, without --incremental, to start anew.",
        E::Interrupted => {
            "All work reported as done is saved. Run the same command again to do the rest."
        }
        E::Keyring { .. } => {
            "Choose a store with --store, and import the keyring: talaria import FILE"
        }
        E::Token { .. } => "Print a token of this store: talaria changes",
        E::Query(_) => "See `talaria help` for the ways to name a certificate.",
        E::Address { .. } => "An address looks like alice@example.org.",
        E::Absent { .. } => "Check the spelling, or ask another server.",
        E::Http { .. } => "Check the address and the network connection, and try again.",
        E::Io { name, source, .. } => return file_hint(name, source),
        E::Gnupg(error) => return gnupg_hint(error),
        E::Foreign { source, .. } => return gnupg_hint(source),
        E::Window { name, source } => return Some(decompress(name, source.program)),
        E::NoUserId { name, .. } | E::NoSubkey { name, .. } => {
            let fingerprint = name.split(' ').next().unwrap_or_default();
            return Some(format!("List its user IDs and subkeys: talaria show {fingerprint}"));
        }
        E::NotKeys { .. } => {
            "A key file holds secret keys, binary or armored, as written by `talaria key export` or `gpg \
             --export-secret-keys`."
        }
        E::Unrecognised { .. } => {
            "talaria reads keyrings (binary or armored), SKS dumps, GnuPG's pubring.kbx, pubring.gpg, pubring.db and \
             owner trust, certificate directories and its own stores."
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The remedy for a compressed input that needs much memory.
pub(crate) fn decompress(name: &str, program: &str) -> String {
    let option = match program {
        "zstd" => " --long=31",
        _ => "",
    };
    format!("If you trust the file: {program} -dc{option} {} | talaria import -", shell_word(name))
}
