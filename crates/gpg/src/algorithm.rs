//! Names of algorithms as GnuPG writes and reads them.

use talaria_cert::Key;

/// The ciphers of GnuPG 2.2 (RFC 9580, section 9.3).
pub(crate) const CIPHERS: [(u8, &str); 11] = [
    (1, "IDEA"),
    (2, "3DES"),
    (3, "CAST5"),
    (4, "BLOWFISH"),
    (7, "AES"),
    (8, "AES192"),
    (9, "AES256"),
    (10, "TWOFISH"),
    (11, "CAMELLIA128"),
    (12, "CAMELLIA192"),
    (13, "CAMELLIA256"),
];

/// The compressions of GnuPG 2.2 (RFC 9580, section 9.4).
pub(crate) const COMPRESSIONS: [(u8, &str); 4] =
    [(0, "Uncompressed"), (1, "ZIP"), (2, "ZLIB"), (3, "BZIP2")];

/// The number of MD5 (RFC 9580, section 9.5).
const MD5: u8 = 1;

/// The name of an algorithm among some.
pub(crate) fn name(all: &[(u8, &'static str)], number: u8) -> &'static str {
    all.iter().find(|(known, _)| *known == number).map_or("?", |(_, name)| name)
}

/// The number of an algorithm among some by its name, in any case, or by its number behind a
/// letter.
fn number(all: &[(u8, &str)], letter: char, name: &str) -> Option<u8> {
    let named = all.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
    let numbered = || name.to_ascii_uppercase().strip_prefix(letter)?.parse().ok();
    named
        .map(|(number, _)| *number)
        .or_else(|| numbered().filter(|number| all.iter().any(|(known, _)| known == number)))
}

/// The number of a cipher by its name, or as `S9`.
pub(crate) fn cipher_number(name: &str) -> Option<u8> {
    if name.eq_ignore_ascii_case("AES128") { Some(7) } else { number(&CIPHERS, 'S', name) }
}

/// The number of a compression by its name, or as `Z2`.
pub(crate) fn compression_number(name: &str) -> Option<u8> {
    if name.eq_ignore_ascii_case("NONE") { Some(0) } else { number(&COMPRESSIONS, 'Z', name) }
}

/// Whether GnuPG 2.2 computes a digest.
pub(crate) fn is_known_digest(number: u8) -> bool {
    matches!(number, 1..=3 | 8..=11)
}

/// The name of a digest by its number (RFC 9580, section 9.5).
pub(crate) fn digest_name(number: u8) -> &'static str {
    let name = talaria_cert::digest_name(number);
    name.filter(|_| is_known_digest(number)).unwrap_or("?")
}

/// The length of a digest in bytes; 0 for one that no signature of GnuPG 2.2 has.
pub(crate) fn digest_bytes(number: u8) -> usize {
    match number {
        2 | 3 => 20,
        8 => 32,
        9 => 48,
        10 => 64,
        11 => 28,
        _ => 0,
    }
}

/// The number of a digest by its name, in any case, or as `H8`.
pub(crate) fn digest_number(name: &str) -> Option<u8> {
    let upper = name.to_ascii_uppercase();
    let number = match upper.as_str() {
        "RMD160" => 3,
        "SHA-1" => 2,
        name => (1..=11)
            .find(|&number| is_known_digest(number) && digest_name(number) == name)
            .or_else(|| upper.strip_prefix('H')?.parse().ok())?,
    };
    is_known_digest(number).then_some(number)
}

/// The digests of documents that are always refused: MD5 as in gpgv, and SHA-1 and RIPEMD-160, with
/// which two documents can be made that have the same signature.
pub(crate) const WEAK_FOR_DOCUMENTS: [u8; 3] = [MD5, 2, 3];

/// The digests of self-signatures that are always refused.
pub(crate) const WEAK_FOR_KEYS: [u8; 1] = [MD5];

/// Whether GnuPG 2.2 knows a public-key algorithm (RFC 9580, section 9.1).
pub(crate) fn is_known_public(number: u8) -> bool {
    public_name(number) != "?"
}

/// The name of a public-key algorithm.
pub(crate) fn public_name(number: u8) -> &'static str {
    match number {
        1..=3 => "RSA",
        16 => "ELG",
        17 => "DSA",
        18 => "ECDH",
        19 => "ECDSA",
        22 => "EDDSA",
        _ => "?",
    }
}

/// How many numbers a signature has; 0 for an algorithm that does not sign.
pub(crate) fn numbers(number: u8) -> usize {
    match number {
        1..=3 => 1,
        17 | 19 | 22 => 2,
        _ => 0,
    }
}

/// The name of a key's algorithm and size: `rsa2048`, `ed25519`.
pub(crate) fn key_name(key: &Key<'_>) -> String {
    match key.algorithm {
        1..=3 => format!("rsa{}", key.bits()),
        16 => format!("elg{}", key.bits()),
        17 => format!("dsa{}", key.bits()),
        18 | 19 | 22 => key.curve().map_or("E_error", talaria_cert::Curve::name).to_owned(),
        other => format!("unknown_{other}"),
    }
}
