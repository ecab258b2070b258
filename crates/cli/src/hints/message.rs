//! Remedies for messages and their keys.

use talaria::message::{Cost, KeyFault, MessageError, MessageKind};

use super::file::file_hint;

/// What the owner of a certificate does about self-signatures with a broken hash function.
pub(crate) fn renewal(fingerprint: &str) -> String {
    format!(
        "talaria key renew {fingerprint}; gpg signs it anew: gpg --quick-set-expire {fingerprint} \
         2y && gpg --quick-set-expire {fingerprint} 2y '*'"
    )
}

pub(crate) fn message_hint(error: &MessageError) -> Option<String> {
    let hint = match error {
        MessageError::OtherKind { found, .. } => return kind_hint(*found, "FILE"),
        MessageError::Read(error) | MessageError::Write(error) => {
            return file_hint("", error);
        }
        MessageError::NoSecret { recipients, .. } if recipients.is_empty() => {
            "The passphrase is wrong or missing. Give it with --passphrase-file, --passphrase-fd or \
             --passphrase-env, or on a terminal."
        }
        MessageError::NoSecret { .. } => {
            "Import the secret key: talaria key import FILE\nOr name its file: add --key-file FILE\nOr use the keys of \
             GnuPG: add --gpg-agent"
        }
        MessageError::Tampered(_) | MessageError::Truncated(_) => {
            "Do not use any of its content. Download it again, or ask the sender."
        }
        MessageError::Unopened { .. } => {
            "Do not use any of its content. Download it again, or ask the sender to encrypt it again to your certificate: \
             talaria export --armor KEY"
        }
        MessageError::Unprotected => "Ask the sender to encrypt it again with a current program.",
        MessageError::OverLimit { what: Cost::Argon2, .. } => {
            "If you trust the sender, raise the limit with --max-argon2."
        }
        MessageError::OverLimit { what: Cost::Expansion, .. } => {
            "If you trust the sender, raise the limit on content with --max-expansion."
        }
        MessageError::Key { name, why: KeyFault::Expired(_) } => {
            let fingerprint = name.split(' ').next().unwrap_or_default();
            return Some(format!(
                "Ask the owner for an updated certificate, or fetch it: talaria import --keyserver \
                 hkps://keys.openpgp.org {fingerprint}\nIf it is your own: talaria key expire {fingerprint} 2y"
            ));
        }
        MessageError::Key { name, why: KeyFault::Weak { .. } } => {
            let fingerprint = name.split(' ').next().unwrap_or_default();
            return Some(format!(
                "Ask the owner for an updated certificate, or fetch it: talaria import --keyserver \
                 hkps://keys.openpgp.org {fingerprint}\nIf it is your own: {}",
                renewal(fingerprint)
            ));
        }
        MessageError::Key { why: KeyFault::Revoked, .. } => {
            "Ask the owner for the new certificate."
        }
        MessageError::Key { why: KeyFault::Locked | KeyFault::WrongPassphrase, .. } => {
            "Give the passphrase with --passphrase-file, --passphrase-fd or --passphrase-env, or run it on a terminal."
        }
        MessageError::Key { .. } => {
            "See what the certificate can be used for: talaria show FINGERPRINT"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The command for an input of this kind.
pub(crate) fn kind_hint(kind: MessageKind, file: &str) -> Option<String> {
    Some(match kind {
        MessageKind::Encrypted => format!("To decrypt it: talaria decrypt {file}"),
        MessageKind::Signed | MessageKind::SignedText => {
            format!("To verify it and write its content: talaria verify --output OUT {file}")
        }
        MessageKind::DetachedSignature => {
            format!("To verify it: talaria verify {file} SIGNED-FILE")
        }
        MessageKind::Packed => {
            format!("To write its content, which nobody signed: talaria unpack {file}")
        }
        MessageKind::Certificate => format!("To import it: talaria import {file}"),
        MessageKind::SecretKey => format!("To import it: talaria key import {file}"),
        MessageKind::Damaged => DAMAGED.to_owned(),
        _ => return None,
    })
}

/// The hint for OpenPGP data that cannot be read.
pub(crate) const DAMAGED: &str = "Download it again, or ask the sender to send it again.";
