//! The machine-readable index of HKP (draft-ietf-openpgp-hkp, legacy machine-readable output).

use std::fmt::Write as _;

use talaria_cert::{Summary, UserIdContent, Validity};

/// One `pub` line per certificate with a `uid` line for each user ID that is shown. Times are
/// seconds since 1970, empty where there is none.
pub(crate) fn index<'a>(
    certs: impl ExactSizeIterator<Item = &'a Summary>,
    now: u32,
    shown: impl Fn(&Summary, &[u8]) -> bool,
) -> String {
    let mut out = format!("info:1:{}\n", certs.len());
    for summary in certs {
        let key = &summary.primary;
        let validity = summary.validity(now);
        let _ = writeln!(
            out,
            "pub:{}:{}:{}:{}:{}:{}",
            key.fingerprint,
            key.algorithm,
            key.bits,
            key.created,
            time(key.expires),
            flags(validity),
        );
        for user_id in summary.user_ids.iter().filter(|user_id| user_id.created > 0) {
            let UserIdContent::Text(text) = &user_id.content else { continue };
            if shown(summary, text) {
                out.push_str("uid:");
                escape(text, &mut out);
                let _ = writeln!(
                    out,
                    ":{}:{}:{}",
                    user_id.created,
                    time(user_id.expires),
                    flags(user_id.validity(now))
                );
            }
        }
    }
    out
}

fn time(time: u32) -> String {
    if time == 0 { String::new() } else { time.to_string() }
}

fn flags(validity: Validity) -> &'static str {
    match validity {
        Validity::Revoked => "r",
        Validity::Expired => "e",
        Validity::Invalid | Validity::Valid => "",
    }
}

/// Percent-encodes `:` and `%`, which would end a field, and all characters but printable ASCII.
fn escape(text: &[u8], out: &mut String) {
    for &byte in text {
        if matches!(byte, b' '..=b'~') && byte != b':' && byte != b'%' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_id_cannot_leave_its_line_or_field() {
        let mut out = String::new();
        escape("a:b%\n\r\u{202e}é\0<x@y>".as_bytes(), &mut out);
        assert_eq!(out, "a%3Ab%25%0A%0D%E2%80%AE%C3%A9%00<x@y>");
    }
}
