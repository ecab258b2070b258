//! Checksums for rows that cannot be verified in another way.

/// A 32-bit checksum over `parts`, stored beside them: the first bytes of their SHA-256.
///
/// It detects flipped bits, not deliberate changes.
#[expect(clippy::cast_possible_truncation, reason = "a handle of bytes has 32 bits")]
pub(crate) fn of(parts: &[&[u8]]) -> i64 {
    let handle = talaria_cert::Handle::of_bytes(parts);
    i64::from((handle.0 as u32).cast_signed())
}

/// The checksum of an entry of table `meta`.
pub(crate) fn of_meta(name: &str, value: &[u8]) -> i64 {
    of(&[name.as_bytes(), &[0], value])
}

/// The checksum of owner trust.
pub(crate) fn of_ownertrust(fingerprint: &[u8], value: u8) -> i64 {
    of(&[fingerprint, &[value]])
}

/// The checksum of a redaction.
pub(crate) fn of_redaction(fingerprint: &[u8], user_id: &[u8]) -> i64 {
    of(&[fingerprint, user_id])
}

/// The checksum of a row of table `cert`: a CRC-32 and not a SHA-256, since listings compute it for
/// every row.
pub(crate) fn of_row(parts: &[&[u8]]) -> i64 {
    let mut crc = crc32fast::Hasher::new();
    parts.iter().for_each(|part| crc.update(part));
    i64::from(crc.finalize().cast_signed())
}

/// The checksum of a row of the change log.
pub(crate) fn of_change(number: i64, time: i64, cert: i64, kind: i64) -> i64 {
    of(&[&number.to_be_bytes(), &time.to_be_bytes(), &cert.to_be_bytes(), &kind.to_be_bytes()])
}

/// The checksum of a tombstone.
pub(crate) fn of_tombstone(fingerprint: &[u8], change: i64, blocked: bool) -> i64 {
    of(&[fingerprint, &change.to_be_bytes(), &[u8::from(blocked)]])
}

/// The checksum of a gossip peer.
pub(crate) fn of_peer(host: &str, port: u16, http_port: u16, view: u8) -> i64 {
    of(&[host.as_bytes(), &port.to_be_bytes(), &http_port.to_be_bytes(), &[view]])
}

/// The checksum of a confirmed address.
pub(crate) fn of_published(fingerprint: &[u8], email: &str, time: u32) -> i64 {
    of(&[fingerprint, email.as_bytes(), &time.to_be_bytes()])
}

/// The checksum of damaged bytes that were set aside.
pub(crate) fn of_set_aside(time: u32, fingerprint: &[u8], bytes: &[u8]) -> i64 {
    of(&[&time.to_be_bytes(), fingerprint, bytes])
}

/// The checksum of a binding of an address to a certificate.
pub(crate) fn of_binding(
    (email, fingerprint, user_id): (&[u8], &[u8], &[u8]),
    time: i64,
    (policy, effective): (u8, u8),
    conflict: &[u8],
) -> i64 {
    of(&[email, fingerprint, user_id, &time.to_be_bytes(), &[policy, effective], conflict])
}
