//! Status lines like those of GnuPG's `--status-fd` (its doc/DETAILS), for scripts that parse
//! GnuPG's output. Each line starts with `[GNUPG:] `.

mod field;
mod head;

use talaria_message::{
    Decrypted, Encrypted, Literal, MessageError, NotCounted, OpenedBy, Outcome, SignatureReport,
    SigningKey,
};
use talaria_trust::Level;

use self::field::{escaped, escaped_name, key_id};
use self::head::Head;
use crate::error::Error;
use crate::trust::TrustModel;

/// The validity of a signer, and the trust model that computed it.
pub type Trust = Option<(Level, TrustModel)>;

/// The status lines about one signature.
#[must_use]
pub fn signature(report: &SignatureReport, trust: Trust) -> Vec<String> {
    with_prefix(signature_lines(report).into_iter().chain(trust_line(trust)).collect())
}

fn trust_line(trust: Trust) -> Option<String> {
    let (level, model) = trust?;
    let word = match level {
        Level::Unknown | Level::Expired | Level::Undefined => "UNDEFINED",
        Level::Never => "NEVER",
        Level::Marginal => "MARGINAL",
        Level::Full => "FULLY",
        Level::Ultimate => "ULTIMATE",
    };
    Some(format!("TRUST_{word} 0 {model}"))
}

fn signature_lines(report: &SignatureReport) -> Vec<String> {
    let mut lines = vec!["NEWSIG".to_owned()];
    let key_id = report
        .signer
        .as_ref()
        .map(|signer| key_id(&signer.key))
        .or_else(|| report.issuer.as_ref().map(|issuer| issuer.key_id.to_string()))
        .unwrap_or_else(|| "0000000000000000".to_owned());
    let user_id = || {
        let name = report.signer.as_ref().and_then(|signer| signer.user_id.as_deref());
        name.map_or("[?]".to_owned(), escaped)
    };
    let fingerprint = || {
        let named = report.issuer.as_ref().and_then(|issuer| issuer.fingerprint);
        named.map_or("-".to_owned(), |fingerprint| fingerprint.to_string())
    };
    let SignatureReport { algorithm, hash, kind, created, .. } = report;
    let errsig = |code: u8| {
        format!("ERRSIG {key_id} {algorithm} {hash} {kind:02x} {created} {code} {}", fingerprint())
    };
    let made = |lines: &mut Vec<String>, name: &str| {
        lines.push(format!("{name} {key_id} {}", user_id()));
        if let Some(signer) = &report.signer {
            let day = talaria_cert::day(report.created);
            let SignatureReport { expires, version, .. } = report;
            lines.push(format!(
                "VALIDSIG {} {day} {created} {expires} {version} 0 {algorithm} {hash} {kind:02X} {}",
                signer.key, signer.certificate
            ));
        }
    };
    match (&report.outcome, &report.since) {
        (Outcome::Good, Some(NotCounted::Revoked)) => made(&mut lines, "REVKEYSIG"),
        (Outcome::Good, Some(NotCounted::KeyExpired)) => made(&mut lines, "EXPKEYSIG"),
        // As in GnuPG, a line of the validity tells that the user decided against the certificate.
        (Outcome::Good | Outcome::Distrusted, _) => made(&mut lines, "GOODSIG"),
        (Outcome::Bad, _) => lines.push(format!("BADSIG {key_id} {}", user_id())),
        (Outcome::NoKey, _) => {
            lines.push(errsig(9));
            lines.push(format!("NO_PUBKEY {key_id}"));
        }
        (Outcome::NotCounted(NotCounted::Expired), _) => made(&mut lines, "EXPSIG"),
        (Outcome::NotCounted(NotCounted::KeyExpired), _) => made(&mut lines, "EXPKEYSIG"),
        (Outcome::NotCounted(NotCounted::Revoked), _) => made(&mut lines, "REVKEYSIG"),
        // GnuPG's codes: 5 for a rejected digest, 4 for an unsupported algorithm.
        (Outcome::NotCounted(NotCounted::WeakDigest(_)), _) => lines.push(errsig(5)),
        (Outcome::NotCounted(_), _) => lines.push(errsig(1)),
        (Outcome::Unchecked(_), _) => lines.push(errsig(4)),
    }
    lines
}

/// The status lines about a decrypted message, with those about its signatures and the validity of
/// their signers. `start` is the first 64 KiB or less of the message; `certificate` contains the
/// key that decrypted it.
#[must_use]
pub fn decrypted(
    decrypted: &Decrypted,
    trust: &[Trust],
    start: &[u8],
    certificate: Option<&str>,
) -> Vec<String> {
    let mut lines = Head::read(start).wrapped;
    if let (OpenedBy::Key(key), Some(certificate)) = (&decrypted.by, certificate) {
        lines.push(format!("DECRYPTION_KEY {key} {certificate} -"));
    }
    let (mdc, aead) = match decrypted.aead {
        None => (2, 0),
        Some(aead) => (0, aead as u8),
    };
    lines.push("BEGIN_DECRYPTION".to_owned());
    lines.push(format!("DECRYPTION_INFO {mdc} {} {aead}", decrypted.cipher as u8));
    lines.push(plaintext_line(&decrypted.literal));
    for (at, report) in decrypted.signatures.iter().enumerate() {
        lines.extend(signature_lines(report));
        lines.extend(trust_line(trust.get(at).copied().flatten()));
    }
    // GnuPG prints `GOODMDC` for AEAD, too.
    lines.extend(["DECRYPTION_OKAY", "GOODMDC", "END_DECRYPTION"].map(str::to_owned));
    with_prefix(lines)
}

/// The status lines about the content of a signed message that is not encrypted.
#[must_use]
pub fn plaintext(literal: &Literal) -> Vec<String> {
    with_prefix(vec![plaintext_line(literal)])
}

fn plaintext_line(literal: &Literal) -> String {
    let format = if literal.text { 75 } else { 62 };
    format!("PLAINTEXT {format} {} {}", literal.date, escaped_name(&literal.name))
}

/// The status lines about expected signers who have signed, like those of gpg's `--assert-signer`.
#[must_use]
pub fn signed_by(fingerprints: impl Iterator<Item = String>) -> Vec<String> {
    with_prefix(fingerprints.map(|name| format!("ASSERT_SIGNER {name}")).collect())
}

/// The form of a signature.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// The signature is separate from the data.
    Detached,
    /// The signature and the data are in one message.
    Inline,
    /// The signature is below a readable text.
    Cleartext,
}

/// The status lines about signatures that were made at `now`, in seconds since 1970.
#[must_use]
pub fn signed(signers: &[SigningKey], form: Form, text: bool, now: u32) -> Vec<String> {
    with_prefix(signed_lines(signers, form, text, now))
}

fn signed_lines(signers: &[SigningKey], form: Form, text: bool, now: u32) -> Vec<String> {
    if signers.is_empty() {
        return Vec::new();
    }
    let mut hashes: Vec<u8> = signers.iter().map(SigningKey::hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let hashes: String = hashes.iter().map(|hash| format!(" H{hash}")).collect();
    let mut lines = vec![format!("BEGIN_SIGNING{hashes}")];
    let (letter, kind) = match form {
        Form::Detached => ('D', u8::from(text)),
        Form::Inline => ('S', u8::from(text)),
        Form::Cleartext => ('C', 1),
    };
    lines.extend(signers.iter().map(|signer| {
        let (algorithm, hash) = (signer.algorithm(), signer.hash());
        let fingerprint = signer.public().fingerprint();
        format!("SIG_CREATED {letter} {algorithm} {hash} {kind:02X} {now} {fingerprint:X}")
    }));
    lines
}

/// The status lines about a message that was encrypted, and signed at `now` by `signers`.
#[must_use]
pub fn encrypted(encrypted: &Encrypted, signers: &[SigningKey], now: u32) -> Vec<String> {
    let mut lines = signed_lines(signers, Form::Inline, false, now);
    let cipher = encrypted.cipher as u8;
    lines.push(match encrypted.aead {
        None => format!("BEGIN_ENCRYPTION 2 {cipher}"),
        Some(aead) => format!("BEGIN_ENCRYPTION 0 {cipher} {}", aead as u8),
    });
    lines.push("END_ENCRYPTION".to_owned());
    with_prefix(lines)
}

/// GnuPG's code for the reason why a named certificate or key is not used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unfit {
    /// A reason without a code of GnuPG.
    Other = 0,
    /// The certificate or key does not exist.
    Missing = 1,
    /// Several certificates or keys match the name.
    Ambiguous = 2,
    /// The secret key is missing.
    NoSecret = 9,
    /// The identity of the certificate is not confirmed.
    Untrusted = 10,
}

impl Unfit {
    /// The code for an error.
    #[must_use]
    pub fn of(error: &Error) -> Self {
        match error {
            Error::NotFound { .. } => Self::Missing,
            Error::NoKey { .. } | Error::NoSecret { .. } | Error::NoSigner => Self::NoSecret,
            Error::Ambiguous { .. } | Error::Inexact { .. } => Self::Ambiguous,
            Error::Distrusted { .. } | Error::Doubtful { .. } => Self::Untrusted,
            _ => Self::Other,
        }
    }
}

/// The status line about a rejected recipient.
#[must_use]
pub fn invalid_recipient(why: Unfit, name: &str) -> Vec<String> {
    with_prefix(vec![format!("INV_RECP {} {}", why as u8, escaped(name))])
}

/// The status line about a rejected signing key.
#[must_use]
pub fn invalid_signer(why: Unfit, name: &str) -> Vec<String> {
    with_prefix(vec![format!("INV_SGNR {} {}", why as u8, escaped(name))])
}

/// The status lines about a message that could not be decrypted. `start` is the first 64 KiB or
/// less of the message, or `None` for text without armor.
#[must_use]
pub fn failed(error: &MessageError, start: Option<&[u8]>) -> Vec<String> {
    let Some(start) = start else { return no_data(None) };
    let head = Head::read(start);
    let is_none = matches!(error, MessageError::Malformed(_) | MessageError::OtherKind { .. });
    if is_none && !head.encrypted {
        return no_data(Some(start));
    }
    let mut lines = head.wrapped;
    let mut why = None;
    match error {
        MessageError::NoSecret { recipients, passwords } => {
            lines.extend(recipients.iter().map(|key| format!("NO_SECKEY {}", key_id(key))));
            why = (*passwords > 0).then_some("ERROR symkey_decrypt.maybe_error 11_BAD_PASSPHRASE");
        }
        MessageError::Key { .. } | MessageError::Secret(_) => {
            lines.push("ERROR pkdecrypt_failed 11_BAD_PASSPHRASE".to_owned());
        }
        MessageError::Tampered(_) | MessageError::Unopened { .. } => why = Some("BADMDC"),
        _ => {}
    }
    lines.push("BEGIN_DECRYPTION".to_owned());
    lines.extend(head.info);
    lines.extend(why.map(str::to_owned));
    lines.push("DECRYPTION_FAILED".to_owned());
    lines.push("END_DECRYPTION".to_owned());
    with_prefix(lines)
}

/// The status lines about unexpected input. `start` is its first bytes; `None` for text without
/// armor.
#[must_use]
pub fn no_data(start: Option<&[u8]>) -> Vec<String> {
    let lines = match start {
        None => &["NODATA 1", "NODATA 2"][..],
        Some([]) => &["NODATA 2"],
        Some(start) if Head::read(start).known => &["UNEXPECTED 0"],
        Some(_) => &["NODATA 3"],
    };
    with_prefix(lines.iter().map(|&line| line.to_owned()).collect())
}

/// The status line about a message without a signature.
#[must_use]
pub fn unsigned() -> Vec<String> {
    with_prefix(vec!["NODATA 4".to_owned()])
}

fn with_prefix(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().map(|line| format!("[GNUPG:] {line}")).collect()
}
