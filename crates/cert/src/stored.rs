//! The stored form of a summary, which listings read instead of the certificate.
//!
//! The layout is described in `docs/formats/store.md`, section "Summary".

use crate::fields::Fields;
use crate::fingerprint::Fingerprint;
use crate::key::{self, Curve};
use crate::revoker::RevokerState;
use crate::rules::Weak;
use crate::signature::Revoker;
use crate::summary::{
    Capabilities, KeySummary, RevokerSummary, Span, Summary, UserIdContent, UserIdSummary,
};

/// First byte of a stored summary: the format version. Version 3 has no [`WITHHELD`] parts, and
/// version 2 no [`WEAK`] ones.
const FORMAT: u8 = 4;
const OLDEST_FORMAT: u8 = 2;

const REVOKED: u8 = 1;
const BOUND: u8 = 2;
const EXPIRES: u8 = 4;
const PRIMARY: u8 = 8;
const CREATED: u8 = 16;
const ATTRIBUTE: u8 = 32;
const WEAK: u8 = 64;
const WITHHELD: u8 = 128;

/// In the second byte of a summary.
const CHECKED: u8 = 1;
const DIRECT: u8 = 2;
const GNUPG_DIFFERS: u8 = 4;

impl Summary {
    /// Appends the stored form to `out`. The stored form does not include the fingerprint of the
    /// primary key.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        let flag = |is: bool, bit: u8| if is { bit } else { 0 };
        out.push(
            flag(self.checked, CHECKED)
                | flag(self.direct, DIRECT)
                | flag(self.gnupg_differs, GNUPG_DIFFERS),
        );
        out.extend_from_slice(&self.holds.from.to_be_bytes());
        // The usual case, a span without end, is stored as 0.
        number(out, u64::from(self.holds.until.wrapping_add(1)));
        number(out, u64::from(self.signatures));
        write_key(out, &self.primary);
        number(out, self.user_ids.len() as u64);
        self.user_ids.iter().for_each(|user_id| write_user_id(out, user_id));
        number(out, self.subkeys.len() as u64);
        for subkey in &self.subkeys {
            out.extend_from_slice(&subkey.fingerprint.to_stored());
            write_key(out, subkey);
        }
        number(out, self.revokers.len() as u64);
        self.revokers.iter().for_each(|revoker| write_revoker(out, revoker));
    }

    /// Reads the stored form of [`Self::write`]. `None` if the bytes are malformed.
    #[must_use]
    pub fn read(fingerprint: Fingerprint, stored: &[u8]) -> Option<Self> {
        let mut input = Fields(stored);
        if !(OLDEST_FORMAT..=FORMAT).contains(&input.byte()?) {
            return None;
        }
        let flags = input.byte()?;
        if flags & !(CHECKED | DIRECT | GNUPG_DIFFERS) != 0 {
            return None;
        }
        let from = input.u32()?;
        let until = u32::try_from(input.number()?).ok()?.wrapping_sub(1);
        let holds = Span { from, until };
        let signatures = u32::try_from(input.number()?).ok()?;
        let primary = input.key(fingerprint)?;
        let user_ids = input.list(Fields::user_id)?;
        let subkeys = input.list(|input| {
            let (fingerprint, rest) = Fingerprint::from_stored(input.0)?;
            input.0 = rest;
            input.key(fingerprint)
        })?;
        let revokers = input.list(Fields::revoker)?;
        input.0.is_empty().then_some(Self {
            primary,
            user_ids,
            subkeys,
            revokers,
            signatures,
            checked: flags & CHECKED != 0,
            direct: flags & DIRECT != 0,
            gnupg_differs: flags & GNUPG_DIFFERS != 0,
            holds,
        })
    }
}

fn write_key(out: &mut Vec<u8>, key: &KeySummary) {
    let flag = |is: bool, bit: u8| if is { bit } else { 0 };
    out.push(
        flag(key.revoked, REVOKED)
            | flag(key.bound, BOUND)
            | flag(key.expires != 0, EXPIRES)
            | flag(key.weak.is_some(), WEAK)
            | flag(key.withheld.0 != 0, WITHHELD),
    );
    out.push(key.algorithm);
    out.push(key.curve.map_or(0, |curve| curve as u8));
    out.push(key.capabilities.0);
    number(out, u64::from(key.bits));
    out.extend_from_slice(&key.created.to_be_bytes());
    if key.expires != 0 {
        out.extend_from_slice(&key.expires.to_be_bytes());
    }
    write_weak(out, key.weak);
    if key.withheld.0 != 0 {
        out.push(key.withheld.0);
    }
}

fn write_weak(out: &mut Vec<u8>, weak: Option<Weak>) {
    if let Some(Weak { made, hash }) = weak {
        out.push(hash);
        out.extend_from_slice(&made.to_be_bytes());
    }
}

fn write_revoker(out: &mut Vec<u8>, revoker: &RevokerSummary) {
    let Revoker { class, algorithm, fingerprint } = revoker.revoker;
    out.extend_from_slice(&[revoker.state as u8, class, algorithm]);
    out.extend_from_slice(&fingerprint.to_stored());
}

fn write_user_id(out: &mut Vec<u8>, user_id: &UserIdSummary) {
    let flag = |is: bool, bit: u8| if is { bit } else { 0 };
    out.push(
        flag(user_id.revoked, REVOKED)
            | flag(user_id.primary, PRIMARY)
            | flag(user_id.created != 0, CREATED)
            | flag(user_id.expires != 0, EXPIRES)
            | flag(matches!(user_id.content, UserIdContent::Attribute { .. }), ATTRIBUTE)
            | flag(user_id.weak.is_some(), WEAK),
    );
    for time in [user_id.created, user_id.expires] {
        if time != 0 {
            out.extend_from_slice(&time.to_be_bytes());
        }
    }
    write_weak(out, user_id.weak);
    match &user_id.content {
        UserIdContent::Text(text) => bytes(out, text),
        UserIdContent::Attribute { count, bytes, digest } => {
            number(out, u64::from(*count));
            number(out, u64::from(*bytes));
            out.extend_from_slice(digest);
        }
    }
}

/// Writes a number in groups of seven bits, the lowest first. The high bit is set on all groups but
/// the last.
#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Field types that only stored summaries have.
impl<'a> Fields<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        self.take(len)
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        // Each item takes at least one byte, so a damaged count cannot reserve much memory.
        let count = usize::try_from(self.number()?).ok().filter(|&count| count <= self.0.len())?;
        (0..count).map(|_| item(self)).collect()
    }

    fn key(&mut self, fingerprint: Fingerprint) -> Option<KeySummary> {
        let flags = self.byte()?;
        let algorithm = self.byte()?;
        let curve = match self.byte()? {
            0 => None,
            number => Some(Curve::from_number(number)?),
        };
        let capabilities = Capabilities(self.byte()?);
        let bits = u16::try_from(self.number()?).ok()?;
        let created = self.u32()?;
        let expires = if flags & EXPIRES != 0 { self.u32()? } else { 0 };
        let weak = self.weak(flags)?;
        let withheld = Capabilities(if flags & WITHHELD != 0 { self.byte()? } else { 0 });
        Some(KeySummary {
            fingerprint,
            algorithm,
            bits,
            curve,
            created,
            expires,
            capabilities,
            revoked: flags & REVOKED != 0,
            bound: flags & BOUND != 0,
            weak,
            short: key::is_short(algorithm, bits),
            withheld,
        })
    }

    /// The weakness that a part has if its flags say so.
    fn weak(&mut self, flags: u8) -> Option<Option<Weak>> {
        if flags & WEAK == 0 {
            return Some(None);
        }
        let hash = self.byte()?;
        Some(Some(Weak { made: self.u32()?, hash }))
    }

    fn revoker(&mut self) -> Option<RevokerSummary> {
        let state = match self.byte()? {
            0 => RevokerState::Unknown,
            1 => RevokerState::Silent,
            2 => RevokerState::Revoked,
            _ => return None,
        };
        let (class, algorithm) = (self.byte()?, self.byte()?);
        let (fingerprint, rest) = Fingerprint::from_stored(self.0)?;
        self.0 = rest;
        Some(RevokerSummary { revoker: Revoker { class, algorithm, fingerprint }, state })
    }

    fn user_id(&mut self) -> Option<UserIdSummary> {
        let flags = self.byte()?;
        let created = if flags & CREATED != 0 { self.u32()? } else { 0 };
        let expires = if flags & EXPIRES != 0 { self.u32()? } else { 0 };
        let weak = self.weak(flags)?;
        let content = if flags & ATTRIBUTE != 0 {
            UserIdContent::Attribute {
                count: u32::try_from(self.number()?).ok()?,
                bytes: u32::try_from(self.number()?).ok()?,
                digest: self.take(20)?.try_into().ok()?,
            }
        } else {
            UserIdContent::Text(self.bytes()?.to_vec())
        };
        Some(UserIdSummary {
            content,
            created,
            expires,
            revoked: flags & REVOKED != 0,
            primary: flags & PRIMARY != 0,
            weak,
        })
    }
}
