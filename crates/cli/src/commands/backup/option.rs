//! Values of options: fingerprints, identifiers and durations.

use talaria::backup::Id;
use talaria::message::openpgp::Fingerprint;

pub(super) fn parse_fingerprint(text: &str) -> Result<Fingerprint, String> {
    let parsed: Result<Fingerprint, _> = text.parse();
    match parsed {
        Ok(fingerprint @ (Fingerprint::V4(_) | Fingerprint::V6(_))) => Ok(fingerprint),
        _ => Err("a fingerprint has 40 or 64 hexadecimal digits".into()),
    }
}

pub(super) fn parse_id(text: &str) -> Result<Id, String> {
    text.parse().map_err(|_| "an identifier has 64 hexadecimal digits".into())
}

/// Seconds of a duration such as `30d`.
pub(super) fn parse_duration(text: &str) -> Result<u32, String> {
    let refused = || "a duration is a number with h, d, w or y, such as 30d".to_owned();
    let split = text.len().checked_sub(1).filter(|at| text.is_char_boundary(*at));
    let (number, unit) = text.split_at(split.ok_or_else(refused)?);
    let seconds = match unit {
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        "y" => 366 * 86_400,
        _ => return Err(refused()),
    };
    let number: u32 = number.parse().map_err(|_| refused())?;
    number.checked_mul(seconds).ok_or_else(|| "the duration is too long".into())
}
