//! What happened, as the lines that GnuPG writes with `--status-fd` (its doc/DETAILS), for scripts that
//! were made for it. Each line starts with `[GNUPG:] `.

use talaria_message::{Decrypted, Discount, Literal, MessageError, Outcome, SignatureReport};

/// A user ID or a file name in a line: white space and control characters as GnuPG has them.
fn escaped(text: &[u8]) -> String {
    text.iter().fold(String::new(), |out, &octet| match octet {
        b'%' | 0..=0x1f | 0x7f => format!("{out}%{octet:02X}"),
        _ => out + &String::from_utf8_lossy(&[octet]),
    })
}

/// The lines about one signature.
#[must_use]
pub fn signature(report: &SignatureReport) -> Vec<String> {
    let mut lines = vec!["NEWSIG".to_owned()];
    let key_id = report
        .signer
        .as_ref()
        .map(|signer| key_id(&signer.key))
        .or_else(|| report.issuer.as_ref().map(|issuer| issuer.key_id.to_string()))
        .unwrap_or_else(|| "0000000000000000".to_owned());
    let user_id = || {
        let name = report.signer.as_ref().and_then(|signer| signer.user_id.as_deref());
        // Names are UTF-8 in these lines.
        name.map_or("[?]".to_owned(), |name| {
            name.chars()
                .map(|c| {
                    if c.is_control() || c == '%' {
                        format!("%{:02X}", u32::from(c))
                    } else {
                        c.to_string()
                    }
                })
                .collect()
        })
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
        (Outcome::Good, Some(Discount::Revoked)) => made(&mut lines, "REVKEYSIG"),
        (Outcome::Good, Some(Discount::KeyExpired)) => made(&mut lines, "EXPKEYSIG"),
        (Outcome::Good, _) => made(&mut lines, "GOODSIG"),
        (Outcome::Bad, _) => lines.push(format!("BADSIG {key_id} {}", user_id())),
        (Outcome::NoKey, _) => {
            lines.push(errsig(9));
            lines.push(format!("NO_PUBKEY {key_id}"));
        }
        (Outcome::Discounted(Discount::Expired), _) => made(&mut lines, "EXPSIG"),
        (Outcome::Discounted(Discount::KeyExpired), _) => made(&mut lines, "EXPKEYSIG"),
        (Outcome::Discounted(Discount::Revoked), _) => made(&mut lines, "REVKEYSIG"),
        // GnuPG's codes: 5 for a digest that is refused, 4 for what is not supported.
        (Outcome::Discounted(Discount::WeakDigest(_)), _) => lines.push(errsig(5)),
        (Outcome::Discounted(_), _) => lines.push(errsig(1)),
        (Outcome::Unchecked(_), _) => lines.push(errsig(4)),
    }
    with_prefix(lines)
}

/// The lines about a message that was decrypted.
#[must_use]
pub fn decrypted(decrypted: &Decrypted) -> Vec<String> {
    let (mdc, aead) = match decrypted.aead {
        None => (2, 0),
        Some(aead) => (0, aead as u8),
    };
    let mut lines = vec![
        "BEGIN_DECRYPTION".to_owned(),
        format!("DECRYPTION_INFO {mdc} {} {aead}", decrypted.cipher as u8),
        plaintext(&decrypted.literal),
    ];
    if decrypted.aead.is_none() {
        lines.push("GOODMDC".to_owned());
    }
    lines.push("DECRYPTION_OKAY".to_owned());
    lines.push("END_DECRYPTION".to_owned());
    with_prefix(lines)
}

/// The lines about content that was not encrypted.
#[must_use]
pub fn literal(literal: &Literal) -> Vec<String> {
    with_prefix(vec![plaintext(literal)])
}

fn plaintext(literal: &Literal) -> String {
    let kind = if literal.text { 0x75 } else { 0x62 };
    format!("PLAINTEXT {kind:x} {} {}", literal.date, escaped(&literal.name))
}

/// The lines about a message that could not be decrypted.
#[must_use]
pub fn failed(error: &MessageError) -> Vec<String> {
    let mut lines = Vec::new();
    match error {
        MessageError::NoSecret { recipients, .. } => {
            lines.extend(recipients.iter().map(|key| format!("NO_SECKEY {}", key_id(key))));
        }
        MessageError::Malformed(_) => lines.push("NODATA 3".to_owned()),
        MessageError::Tampered(_) => lines.push("BADMDC".to_owned()),
        _ => {}
    }
    lines.push("DECRYPTION_FAILED".to_owned());
    with_prefix(lines)
}

/// The key ID that follows from a fingerprint in hexadecimal, or the key ID itself.
fn key_id(name: &str) -> String {
    match name.len() {
        40 => name[24..].to_owned(),
        64 => name[..16].to_owned(),
        _ => name.to_owned(),
    }
}

fn with_prefix(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().map(|line| format!("[GNUPG:] {line}")).collect()
}
