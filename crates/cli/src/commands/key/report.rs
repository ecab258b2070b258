//! A secret key in the form of lists.

use serde::Serialize;
use talaria::keys::{is_unprotected, summary};
use talaria::message::openpgp::{Cert, Fingerprint};

use crate::context::Context;
use crate::error::CliError;
use crate::render::json::{CertJson, cert_json};
use crate::render::text::write_cert;
use crate::terminal::Paint;

/// A secret key in JSON.
#[derive(Serialize)]
struct KeyJson {
    #[serde(flatten)]
    cert: CertJson,
    /// Fingerprints of the keys whose secrets are in the key store.
    secrets: Vec<String>,
    protected: bool,
    path: String,
    /// The fingerprint of a new subkey.
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<String>,
    /// The file of the revocation certificate; for a new key only.
    #[serde(skip_serializing_if = "Option::is_none")]
    revocation: Option<String>,
}

/// Additional facts for the report on a key.
pub(super) enum Extra {
    /// The fingerprint of the added subkey.
    Added(Fingerprint),
    /// The file of the revocation certificate.
    Revocation(String),
}

/// Writes a key in the form of lists.
pub(super) fn write_key(
    out: &mut impl std::io::Write,
    cert: &Cert,
    cx: &Context,
) -> Result<(), CliError> {
    write_key_with(out, cert, &[], cx)
}

/// Writes a key in the form of lists, with additional facts in JSON.
pub(super) fn write_key_with(
    out: &mut impl std::io::Write,
    cert: &Cert,
    extras: &[Extra],
    cx: &Context,
) -> Result<(), CliError> {
    let summary = summary(cert, cx.now)?;
    let path = cx.keys()?.path(&cert.fingerprint());
    let secrets: Vec<String> =
        cert.keys().secret().map(|key| key.key().fingerprint().to_hex()).collect();
    let protected = !is_unprotected(cert);
    if cx.json {
        let path = path.display().to_string();
        let (mut added, mut revocation) = (None, None);
        for extra in extras {
            match extra {
                Extra::Added(subkey) => added = Some(subkey.to_hex()),
                Extra::Revocation(path) => revocation = Some(path.clone()),
            }
        }
        let cert = cert_json(&summary, cx.now);
        let json = KeyJson { cert, secrets, protected, path, added, revocation };
        let text = serde_json::to_string(&json).map_err(std::io::Error::from)?;
        writeln!(out, "{text}")?;
        return Ok(());
    }
    let mut text = Vec::new();
    write_cert(&mut text, &summary, None, &[], &[], cx.now, Paint::stdout());
    // The blank line belongs after the text added here.
    text.pop();
    out.write_all(&text)?;
    if secrets.len() < cert.keys().count() {
        writeln!(out, "secret parts: {}", secrets.join(", "))?;
    }
    if !protected {
        let warning = Paint::stdout().bad("NOT PROTECTED");
        writeln!(out, "{warning} by a passphrase")?;
    }
    writeln!(out)?;
    Ok(())
}
