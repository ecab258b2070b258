//! What happened, as the lines that GnuPG writes with `--status-fd` (its doc/DETAILS), for scripts that
//! were made for it. Each line starts with `[GNUPG:] `.

mod head;

use talaria_message::{
    Decrypted, Encrypted, Literal, MessageError, NotCounted, OpenedBy, Outcome, SignatureReport,
    SigningKey,
};
use talaria_trust::Level;

use self::head::Head;
use crate::TrustModel;

/// A text in a line: control characters and `%` as GnuPG has them, and those that some programs take for
/// line ends.
fn escaped(text: &str) -> String {
    let plain = |c: char| !c.is_control() && !matches!(c, '%' | '\u{2028}' | '\u{2029}');
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if plain(c) {
            out.push(c);
        } else {
            let mut octets = [0; 4];
            c.encode_utf8(&mut octets).bytes().for_each(|octet| out += &format!("%{octet:02X}"));
        }
    }
    out
}

/// The name of a file in a line: one word.
fn escaped_name(name: &[u8]) -> String {
    let mut out = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        out += &escaped(chunk.valid()).replace(' ', "%20");
        chunk.invalid().iter().for_each(|octet| out += &format!("%{octet:02X}"));
    }
    out
}

/// What is believed of the maker of a signature, and by which model.
pub type Trust = Option<(Level, TrustModel)>;

/// The lines about one signature.
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
            let (year, month, day) = crate::date(report.created);
            let day = format!("{year:04}-{month:02}-{day:02}");
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
        (Outcome::Good, _) => made(&mut lines, "GOODSIG"),
        (Outcome::Bad, _) => lines.push(format!("BADSIG {key_id} {}", user_id())),
        (Outcome::NoKey, _) => {
            lines.push(errsig(9));
            lines.push(format!("NO_PUBKEY {key_id}"));
        }
        (Outcome::NotCounted(NotCounted::Expired), _) => made(&mut lines, "EXPSIG"),
        (Outcome::NotCounted(NotCounted::KeyExpired), _) => made(&mut lines, "EXPKEYSIG"),
        (Outcome::NotCounted(NotCounted::Revoked), _) => made(&mut lines, "REVKEYSIG"),
        // GnuPG's codes: 5 for a digest that is refused, 4 for what is not supported.
        (Outcome::NotCounted(NotCounted::WeakDigest(_)), _) => lines.push(errsig(5)),
        (Outcome::NotCounted(_), _) => lines.push(errsig(1)),
        (Outcome::Unchecked(_), _) => lines.push(errsig(4)),
    }
    lines
}

/// The lines about a message that was decrypted, with those about its signatures and what is believed of
/// their makers. `start` is how the message
/// starts, 64 KiB or less of it; `certificate` has the key that opened it.
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
    // GnuPG says so of AEAD, too.
    lines.extend(["DECRYPTION_OKAY", "GOODMDC", "END_DECRYPTION"].map(str::to_owned));
    with_prefix(lines)
}

/// The lines about the content of a message that was signed and not encrypted.
#[must_use]
pub fn plaintext(literal: &Literal) -> Vec<String> {
    with_prefix(vec![plaintext_line(literal)])
}

fn plaintext_line(literal: &Literal) -> String {
    let format = if literal.text { 75 } else { 62 };
    format!("PLAINTEXT {format} {} {}", literal.date, escaped_name(&literal.name))
}

/// The lines about signers who were expected and have signed, as those of gpg's `--assert-signer`.
#[must_use]
pub fn signed_by(fingerprints: impl Iterator<Item = String>) -> Vec<String> {
    with_prefix(fingerprints.map(|name| format!("ASSERT_SIGNER {name}")).collect())
}

/// What a signature was made as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// Apart from what is signed.
    Detached,
    /// In one message with it.
    Inline,
    /// Below a text.
    Cleartext,
}

/// The lines about signatures that were made at `now`, in seconds since 1970.
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

/// The lines about a message that was encrypted, and signed at `now` by `signers`.
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

/// Why a certificate or a key that was named is not used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unfit {
    /// No reason that GnuPG has a number for.
    Other = 0,
    /// It is not there.
    Missing = 1,
    /// It may be several.
    Ambiguous = 2,
    /// There is no secret key.
    NoSecret = 9,
    /// Nothing says that it belongs to its address.
    Untrusted = 10,
}

/// The line about a recipient that is not encrypted to.
#[must_use]
pub fn invalid_recipient(why: Unfit, name: &str) -> Vec<String> {
    with_prefix(vec![format!("INV_RECP {} {}", why as u8, escaped(name))])
}

/// The line about a key that does not sign.
#[must_use]
pub fn invalid_signer(why: Unfit, name: &str) -> Vec<String> {
    with_prefix(vec![format!("INV_SGNR {} {}", why as u8, escaped(name))])
}

/// The lines about a message that could not be decrypted. `start` is how it starts, 64 KiB or less of it, or
/// `None` for text without armor.
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
        MessageError::Tampered(_) | MessageError::Unopened => why = Some("BADMDC"),
        _ => {}
    }
    lines.push("BEGIN_DECRYPTION".to_owned());
    lines.extend(head.info);
    lines.extend(why.map(str::to_owned));
    lines.push("DECRYPTION_FAILED".to_owned());
    lines.push("END_DECRYPTION".to_owned());
    with_prefix(lines)
}

/// The lines about input that is not what was expected, by how it starts; `None` for text without armor.
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

/// The line about a message that is not signed.
#[must_use]
pub fn unsigned() -> Vec<String> {
    with_prefix(vec!["NODATA 4".to_owned()])
}

/// The key ID that follows from a fingerprint in hexadecimal, or the key ID itself; zeros for a key that
/// is not named.
fn key_id(name: &str) -> String {
    match name.len() {
        40 => name[24..].to_owned(),
        64 => name[..16].to_owned(),
        16 => name.to_owned(),
        _ => "0".repeat(16),
    }
}

fn with_prefix(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().map(|line| format!("[GNUPG:] {line}")).collect()
}
