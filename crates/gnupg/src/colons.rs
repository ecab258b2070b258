//! Listings as `gpg --with-colons` writes them (`doc/DETAILS` of GnuPG).
//!
//! Records are those of GnuPG 2.2, byte for byte; how their order and a few of them differ is in
//! `docs/gnupg.md`. The primary user ID comes first, as programs take the first one for it; all
//! else is in canonical order.

use ripemd::{Digest as _, Ripemd160};
use talaria_cert::{
    Capabilities, Cert, Curve, Fingerprint, Gnupg, Key, KeyId, KeySummary, Keygrip, PacketRef,
    Revoker, Signature, Summary, Tag, UserIdContent, UserIdSummary, Validity, kind,
};

/// gpg's text in place of the user ID of an unknown signer, or of one without user IDs.
pub const NO_USER_ID: &[u8] = b"[User ID not found]";

/// Parts of a listing that are not in the certificate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Colons<'a> {
    /// The ownertrust value of the certificate, as in the trust database: 2 undefined, 3 never,
    /// 4 marginal, 5 full, 6 ultimate; 128 is added for a disabled key.
    pub ownertrust: Option<u8>,
    /// The keygrips of the primary key and the subkeys in the order of [`Summary::keys`], as
    /// [`Cert::keys`] gives them; `None` to leave out these lines (`--with-keygrip`).
    pub keygrips: Option<&'a [Option<Keygrip>]>,
    /// The validity letters of the certificate, and of its user IDs in the order of the
    /// summary; unknown if absent.
    pub trust: Option<(u8, &'a [u8])>,
    /// The statistics of each user ID, in the order of the summary (`--with-tofu-info`).
    pub tofu: Option<&'a [Option<TofuStatistics>]>,
    /// The release whose listings these are like.
    pub gnupg: Gnupg,
}

/// The statistics of a binding, for a `tfs` record.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TofuStatistics {
    /// The policy in force.
    pub policy: &'static str,
    /// The user must decide about a conflict.
    pub ask: bool,
    /// The amount of history: 1 nothing, 2 too little, 3 enough for basic trust, 4 a lot.
    pub amount: u8,
    /// Signatures: their number, the first and the last time, the number of days.
    pub signatures: (u64, u32, u32, u64),
    /// Encryptions: the same numbers.
    pub encryptions: (u64, u32, u32, u64),
}

impl Colons<'_> {
    /// The letter of a key that is valid.
    fn key_letter(&self) -> u8 {
        self.trust.map_or(b'-', |(key, _)| key)
    }

    /// Appends the `tfs` record of a user ID, by its index in the summary.
    fn write_tofu(&self, out: &mut Vec<u8>, at: usize) {
        let Some(Some(statistics)) = self.tofu.and_then(|tofu| tofu.get(at)) else { return };
        let TofuStatistics { policy, ask, amount, signatures, encryptions } = statistics;
        let summary = if *ask { 0 } else { *amount };
        let (signatures, first, last, days) = signatures;
        let (encryptions, first_done, last_done, done_days) = encryptions;
        let line = format!(
            "tfs:1:{summary}:{signatures}:{encryptions}:{policy}:{first}:{last}:{first_done}:\
             {last_done}:{amount}:{days}:{done_days}:\n"
        );
        out.extend_from_slice(line.as_bytes());
    }

    /// The letter of a valid user ID, by its index in the summary.
    fn user_id_letter(&self, at: usize) -> u8 {
        match self.trust {
            // All user IDs of one's own certificate are one's own.
            Some((b'u', _)) => b'u',
            Some((_, user_ids)) => user_ids.get(at).copied().unwrap_or(b'-'),
            None => b'-',
        }
    }
}

/// Appends the lines of a certificate, as `gpg --with-colons --list-keys` does.
pub fn write_cert(out: &mut Vec<u8>, summary: &Summary, options: &Colons<'_>, now: u32) {
    let whole = summary.validity(now);
    write_primary(out, summary, options, now);
    // The primary user ID, then the others.
    for first in [true, false] {
        let user_ids = summary.user_ids.iter().enumerate();
        for (at, user_id) in user_ids.filter(|(_, user_id)| user_id.primary == first) {
            write_user_id(out, user_id, whole, options.user_id_letter(at), now);
            options.write_tofu(out, at);
        }
    }
    for (number, subkey) in summary.subkeys.iter().enumerate() {
        write_subkey(out, summary, subkey, (options, number + 1), now);
    }
}

/// Appends the lines of a certificate and of all signatures on it, as `gpg --with-colons
/// --list-sigs` does. `summary` must be that of `cert`; `signer` is asked as in
/// [`write_signature`].
pub fn write_cert_with_signatures<'s>(
    out: &mut Vec<u8>,
    cert: &Cert,
    summary: &Summary,
    options: &Colons<'_>,
    now: u32,
    signer: impl FnMut(KeyId) -> Option<&'s [u8]>,
) {
    write_packets_with_signatures(out, cert.packets(), summary, options, now, signer);
}

/// As [`write_cert_with_signatures`], for the packets of a certificate in any order of its
/// components. `summary` must have these in the same order.
pub fn write_packets_with_signatures<'p, 's>(
    out: &mut Vec<u8>,
    packets: impl Iterator<Item = PacketRef<'p>>,
    summary: &Summary,
    options: &Colons<'_>,
    now: u32,
    mut signer: impl FnMut(KeyId) -> Option<&'s [u8]>,
) {
    // The summary has the components in the order of the certificate, less unreadable subkeys.
    let whole = summary.validity(now);
    let mut user_ids = summary.user_ids.iter().enumerate();
    let mut subkeys = summary.subkeys.iter().enumerate().peekable();
    let (mut primary, mut others, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    write_primary(out, summary, options, now);
    let mut lines = &mut *out;
    let mut shown = true;
    for packet in packets.skip(1) {
        match packet.tag {
            Tag::SIGNATURE => {
                if shown {
                    write_signature(lines, packet.body, &mut signer);
                }
            }
            Tag::USER_ID | Tag::USER_ATTRIBUTE => {
                let Some((at, user_id)) = user_ids.next() else { continue };
                lines = if user_id.primary { &mut primary } else { &mut others };
                write_user_id(lines, user_id, whole, options.user_id_letter(at), now);
                options.write_tofu(lines, at);
                shown = true;
            }
            Tag::PUBLIC_SUBKEY => {
                lines = &mut keys;
                let found = Key::parse(packet).ok().map(|key| key.fingerprint());
                let next = subkeys.next_if(|(_, subkey)| found == Some(subkey.fingerprint));
                shown = next.is_some();
                if let Some((number, subkey)) = next {
                    write_subkey(lines, summary, subkey, (options, number + 1), now);
                }
            }
            _ => shown = false,
        }
    }
    for part in [primary, others, keys] {
        out.extend_from_slice(&part);
    }
}

/// Appends the line of a signature, given the body of its packet; nothing if that cannot be read.
///
/// `signer` gives the primary user ID of the certificate with a key of that ID: [`NO_USER_ID`] if
/// it has none, `None` if there is no such certificate.
pub fn write_signature<'s>(
    out: &mut Vec<u8>,
    body: &[u8],
    signer: impl FnOnce(KeyId) -> Option<&'s [u8]>,
) {
    let Some(signature) = Signature::parse(body) else { return };
    let exportable = if signature.exportable { b'x' } else { b'l' };
    let revocation = matches!(
        signature.kind,
        kind::KEY_REVOCATION | kind::SUBKEY_REVOCATION | kind::CERTIFICATION_REVOCATION
    );
    if !revocation
        && !kind::CERTIFICATION.contains(&signature.kind)
        && !matches!(signature.kind, kind::SUBKEY_BINDING | kind::DIRECT_KEY)
    {
        out.extend_from_slice(b"sig::::::::::");
        hex(out, &[signature.kind], LOWER);
        out.extend_from_slice(&[exportable, b':', b'\n']);
        return;
    }
    let issuer = signature.issuer.unwrap_or(KeyId(0));
    let name = signer(issuer);
    out.extend_from_slice(if revocation { b"rev:" } else { b"sig:" });
    out.extend_from_slice(if name.is_some() { b"::" } else { b"?::" });
    number(out, signature.algorithm.into());
    out.push(b':');
    hex(out, &issuer.0.to_be_bytes(), UPPER);
    out.push(b':');
    number(out, signature.created);
    out.push(b':');
    time(out, signature.expires);
    out.push(b':');
    if let Some((depth, amount)) = signature.trust.filter(|&(depth, amount)| depth | amount != 0) {
        number(out, depth.into());
        out.push(b' ');
        number(out, amount.into());
    }
    out.push(b':');
    if let (Some(regex), Some(_)) = (signature.trust_regex, signature.trust) {
        sanitized(out, regex.split(|&b| b == 0).next().unwrap_or_default());
    }
    out.push(b':');
    sanitized(out, name.unwrap_or(NO_USER_ID));
    out.push(b':');
    hex(out, &[signature.kind], LOWER);
    out.push(exportable);
    let reason = signature.revocation_reason.filter(|_| revocation);
    if let Some((code, _)) = reason {
        out.push(b',');
        hex(out, &[code], LOWER);
    }
    out.extend_from_slice(b"::");
    if let Some(fingerprint) = hashed_issuer(&signature, body) {
        hex(out, fingerprint.as_bytes(), UPPER);
    }
    out.extend_from_slice(b":::");
    number(out, signature.hash.into());
    out.push(b':');
    if let Some((_, text @ [_, ..])) = reason {
        out.extend_from_slice(b"::::");
        sanitized(out, text);
        out.push(b':');
    }
    out.push(b'\n');
}

/// The fingerprint of the issuer if the signature covers it: gpg shows no other.
fn hashed_issuer(signature: &Signature<'_>, body: &[u8]) -> Option<Fingerprint> {
    let fingerprint = signature.issuer_fingerprint?;
    let (start, len) = match *body {
        [4 | 5, _, _, _, a, b, ..] => (6, u32::from_be_bytes([0, 0, a, b])),
        [6, _, _, _, a, b, c, d, ..] => (8, u32::from_be_bytes([a, b, c, d])),
        _ => return None,
    };
    let hashed = body.get(start..)?.get(..len as usize)?;
    let bytes = fingerprint.as_bytes();
    // The byte before it is the version, and the one before that the type, 33.
    hashed
        .windows(bytes.len() + 2)
        .any(|window| window[0] & 0x7f == 33 && &window[2..] == bytes)
        .then_some(fingerprint)
}

fn write_primary(out: &mut Vec<u8>, summary: &Summary, options: &Colons<'_>, now: u32) {
    let key = &summary.primary;
    out.extend_from_slice(b"pub:");
    write_key_fields(out, key, summary.validity(now), options.key_letter());
    out.push(b':');
    out.push(ownertrust_letter(options.ownertrust.unwrap_or(0)));
    out.extend_from_slice(b":::");
    capabilities(out, key.capabilities, [b'e', b's', b'c', b'a']);
    capabilities(out, summary.usable(now), [b'E', b'S', b'C', b'A']);
    if options.ownertrust.is_some_and(|value| value & 0x80 != 0) {
        out.push(b'D');
    }
    out.extend_from_slice(b":::::");
    write_curve_and_compliance(out, key);
    // Neither a time of the last update nor an origin is known.
    out.extend_from_slice(b":0:\n");
    for revoker in &summary.revokers {
        write_revoker(out, &revoker.revoker);
    }
    write_fingerprint(out, key, (options, 0));
}

fn write_subkey(
    out: &mut Vec<u8>,
    summary: &Summary,
    key: &KeySummary,
    (options, number): (&Colons<'_>, usize),
    now: u32,
) {
    out.extend_from_slice(b"sub:");
    let whole = &summary.primary;
    let is_over = whole.expires != 0 && whole.expires < now;
    let mut shown = key.clone();
    if options.gnupg == Gnupg::V2_4 && is_over && (key.expires == 0 || key.expires > whole.expires)
    {
        shown.expires = whole.expires;
    }
    write_key_fields(out, &shown, summary.key_validity(key, now), options.key_letter());
    out.extend_from_slice(b"::::");
    capabilities(out, key.capabilities, [b'e', b's', b'c', b'a']);
    out.extend_from_slice(b":::::");
    write_curve_and_compliance(out, key);
    out.push(b'\n');
    write_fingerprint(out, key, (options, number));
}

/// Fields 2 to 7 of a key, and the empty field 8.
fn write_key_fields(out: &mut Vec<u8>, key: &KeySummary, validity: Validity, letter: u8) {
    out.push(match validity {
        Validity::Invalid => b'i',
        Validity::Revoked => b'r',
        Validity::Expired => b'e',
        Validity::Valid => letter,
    });
    out.push(b':');
    number(out, key.bits.into());
    out.push(b':');
    number(out, key.algorithm.into());
    out.push(b':');
    hex(out, &key.fingerprint.key_id().0.to_be_bytes(), UPPER);
    out.push(b':');
    number(out, key.created);
    out.push(b':');
    time(out, key.expires);
    out.push(b':');
}

/// Fields 17 and 18 of a key.
fn write_curve_and_compliance(out: &mut Vec<u8>, key: &KeySummary) {
    if let (18 | 19 | 22 | 25..=28, Some(curve)) = (key.algorithm, key.curve) {
        out.extend_from_slice(curve.name().as_bytes());
    }
    out.push(b':');
    let generation = key.fingerprint.version() == 5;
    if generation {
        out.push(b'8');
    }
    if de_vs_compliant(key) {
        out.extend_from_slice(if generation { b" 23" } else { b"23" });
    }
    out.push(b':');
}

/// Whether the German office for information security would have the key (compliance flag 23).
fn de_vs_compliant(key: &KeySummary) -> bool {
    match key.algorithm {
        1..=3 => matches!(key.bits, 2048 | 3072 | 4096),
        // With q of 256 bits, which nearly all keys of these sizes have; q is not in a summary.
        17 => matches!(key.bits, 2048 | 3072),
        18 | 19 => matches!(
            key.curve,
            Some(Curve::BrainpoolP256 | Curve::BrainpoolP384 | Curve::BrainpoolP512)
        ),
        _ => false,
    }
}

/// The fingerprint of a key, and its keygrip if wanted: that of the key with that number.
fn write_fingerprint(out: &mut Vec<u8>, key: &KeySummary, (options, number): (&Colons<'_>, usize)) {
    out.extend_from_slice(b"fpr:::::::::");
    hex(out, key.fingerprint.as_bytes(), UPPER);
    out.extend_from_slice(b":\n");
    if let Some(grips) = options.keygrips {
        out.extend_from_slice(b"grp:::::::::");
        if let Some(Some(grip)) = grips.get(number) {
            hex(out, &grip.0, UPPER);
        }
        out.extend_from_slice(b":\n");
    }
}

fn write_revoker(out: &mut Vec<u8>, revoker: &Revoker) {
    const SENSITIVE: u8 = 0x40;
    out.extend_from_slice(b"rvk:::");
    number(out, revoker.algorithm.into());
    out.extend_from_slice(b"::::::");
    hex(out, revoker.fingerprint.as_bytes(), UPPER);
    out.push(b':');
    hex(out, &[revoker.class], LOWER);
    out.extend_from_slice(if revoker.class & SENSITIVE != 0 { b"s:\n" } else { b":\n" });
}

fn write_user_id(
    out: &mut Vec<u8>,
    user_id: &UserIdSummary,
    whole: Validity,
    letter: u8,
    now: u32,
) {
    let attribute = matches!(user_id.content, UserIdContent::Attribute { .. });
    out.extend_from_slice(if attribute { b"uat:" } else { b"uid:" });
    // Its own state goes before that of the key.
    let validity = match user_id.validity(now) {
        own @ (Validity::Revoked | Validity::Expired) => own,
        _ => whole,
    };
    out.push(match validity {
        Validity::Revoked => b'r',
        Validity::Expired => b'e',
        _ => letter,
    });
    out.extend_from_slice(b"::::");
    time(out, user_id.created);
    out.push(b':');
    time(out, user_id.expires);
    out.push(b':');
    match &user_id.content {
        UserIdContent::Text(text) => {
            hex(out, &Ripemd160::digest(text), UPPER);
            out.extend_from_slice(b"::");
            sanitized(out, text);
        }
        UserIdContent::Attribute { count, bytes, digest } => {
            hex(out, digest, UPPER);
            out.extend_from_slice(b"::");
            number(out, *count);
            out.push(b' ');
            number(out, *bytes);
        }
    }
    out.extend_from_slice(b"::::::::::0:\n");
}

fn capabilities(out: &mut Vec<u8>, which: Capabilities, letters: [u8; 4]) {
    let order = [
        Capabilities::ENCRYPT,
        Capabilities::SIGN,
        Capabilities::CERTIFY,
        Capabilities::AUTHENTICATE,
    ];
    for (capability, letter) in order.into_iter().zip(letters) {
        if which.has(capability) {
            out.push(letter);
        }
    }
}

fn ownertrust_letter(value: u8) -> u8 {
    match value & 15 {
        0 => b'-',
        1 => b'e',
        2 => b'q',
        3 => b'n',
        4 => b'm',
        5 => b'f',
        6 => b'u',
        _ => b'?',
    }
}

/// A time, nothing for 0.
fn time(out: &mut Vec<u8>, time: u32) {
    if time != 0 {
        number(out, time);
    }
}

fn number(out: &mut Vec<u8>, mut value: u32) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

const UPPER: &[u8; 16] = b"0123456789ABCDEF";
const LOWER: &[u8; 16] = b"0123456789abcdef";

fn hex(out: &mut Vec<u8>, bytes: &[u8], digits: &[u8; 16]) {
    for byte in bytes {
        out.extend_from_slice(&[digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]);
    }
}

/// Text as one field: control characters, colons and backslashes are escaped.
fn sanitized(out: &mut Vec<u8>, text: &[u8]) {
    let plain = |b: u8| b >= 0x20 && b != 0x7f && b != b':' && b != b'\\';
    let mut rest = text;
    loop {
        let run = rest.iter().position(|&b| !plain(b)).unwrap_or(rest.len());
        out.extend_from_slice(&rest[..run]);
        let Some((&byte, behind)) = rest[run..].split_first() else { return };
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0x0c => out.extend_from_slice(b"\\f"),
            0x0b => out.extend_from_slice(b"\\v"),
            0x08 => out.extend_from_slice(b"\\b"),
            0 => out.extend_from_slice(b"\\0"),
            _ => {
                out.extend_from_slice(b"\\x");
                hex(out, &[byte], LOWER);
            }
        }
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use talaria_cert::Span;

    use super::*;

    #[test]
    fn a_certificate_begins_with_its_own_line() {
        let key = |byte: u8, capabilities| KeySummary {
            fingerprint: Fingerprint::V4([byte; 20]),
            algorithm: 22,
            bits: 255,
            curve: Curve::from_number(8),
            created: 1_600_000_000,
            expires: 1_900_000_000,
            capabilities: Capabilities(capabilities),
            revoked: false,
            bound: true,
            weak: None,
            short: false,
            withheld: Capabilities::default(),
        };
        let summary = Summary {
            primary: key(0, Capabilities::CERTIFY | Capabilities::SIGN),
            user_ids: Vec::new(),
            subkeys: vec![key(1, Capabilities::ENCRYPT)],
            revokers: Vec::new(),
            signatures: 1,
            checked: true,
            direct: true,
            gnupg_differs: false,
            holds: Span { from: 0, until: u32::MAX },
        };
        let mut out = Vec::new();
        write_cert(&mut out, &summary, &Colons::default(), 1_700_000_000);
        assert_eq!(
            String::from_utf8_lossy(out.split(|&b| b == b'\n').next().unwrap()),
            "pub:-:255:22:0000000000000000:1600000000:1900000000::-:::scESC:::::ed25519:::0:"
        );
    }

    #[test]
    fn text_cannot_leave_its_field() {
        let mut out = Vec::new();
        sanitized(&mut out, b"a:b\\c\nd\0e\x07\x7f\xc3\xa9");
        assert_eq!(out, b"a\\x3ab\\x5cc\\nd\\0e\\x07\\x7f\xc3\xa9");
    }

    #[test]
    fn numbers_are_decimal() {
        for value in [0, 9, 10, 4096, u32::MAX] {
            let mut out = Vec::new();
            number(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }
}
