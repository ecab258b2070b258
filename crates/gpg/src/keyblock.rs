//! A certificate of a keyring, and what its self-signatures make of its keys now.
//!
//! [`Judge`] decides validity, revocation, expiry and purposes. Here is what GnuPG reports besides:
//! the user IDs in the order of the keyring, and whether a subkey has signed its primary key.

use std::collections::HashMap;

use talaria_cert::{
    Capabilities, Cert, CertificationVerifier, Fingerprint, Gnupg, Judge, Key, KeyId, KeySetup,
    KeySummary, PacketRef, RevokerState, Rules, Signature, Subpackets, Summary, Tag, UserIdContent,
    UserIdSummary, Verdict, Verified, kind, packets,
};

use crate::algorithm;
use crate::session::Session;
use crate::signature::{SignaturePacket, Unreadable};
use crate::time;

/// The type of a signature of a subkey on its primary key.
const BACK_SIGNATURE: u8 = 0x19;

/// Whether a subkey has signed its primary key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Back {
    /// It is the primary key, or it has.
    Good,
    /// There is no such signature.
    Missing,
    /// There is one, but the subkey did not make it.
    Bad,
}

/// A key of a certificate.
#[derive(Debug)]
pub(crate) struct KeyState {
    /// The fingerprint.
    pub(crate) fingerprint: Fingerprint,
    /// The key ID.
    pub(crate) id: u64,
    /// The packet of the key.
    tag: Tag,
    pub(crate) body: Vec<u8>,
    /// The algorithm and the size: `rsa2048`.
    pub(crate) name: String,
    /// Seconds since 1970.
    pub(crate) created: u32,
    /// Seconds since 1970; 0 for never.
    pub(crate) expires: u32,
    /// It or its primary key has expired.
    pub(crate) has_expired: bool,
    /// It or its primary key is revoked.
    pub(crate) is_revoked: bool,
    /// A self-signature binds it, and one the primary key.
    pub(crate) is_valid: bool,
    /// The owner means it for signing.
    pub(crate) signs: bool,
    /// The purposes in GnuPG's numbers.
    pub(crate) usage: u32,
    /// Whether it has signed the primary key.
    pub(crate) back: Back,
    /// It is revoked itself.
    is_revoked_itself: bool,
    /// The first revocation behind it and before the next subkey, whatever it is worth.
    pub(crate) revocation: Option<SignaturePacket>,
    /// Its signature on the primary key: the time, in seconds since 1970, and the digest.
    back_made: Option<(u32, u8)>,
}

impl KeyState {
    /// The public key.
    pub(crate) fn key(&self) -> Option<Key<'_>> {
        Key::parse(PacketRef { tag: self.tag, body: &self.body }).ok()
    }
}

/// A user ID of a certificate.
#[derive(Debug)]
pub(crate) struct UserId {
    /// The text, or GnuPG's description of an attribute.
    pub(crate) text: Vec<u8>,
    /// The text or the subpackets, as they are in the packet.
    pub(crate) raw: Vec<u8>,
    /// It is revoked.
    pub(crate) is_revoked: bool,
    is_text: bool,
    is_good: bool,
    /// It is revoked or has expired.
    pub(crate) is_rejected: bool,
    is_primary: bool,
}

/// A text or a status line about a self-signature, which GnuPG repeats whenever it reads the
/// certificate.
#[derive(Debug)]
enum Note {
    Text(String),
    /// A text about an error.
    Error(String),
    /// A text for `--verbose`.
    Chat(String),
    /// The key with this key ID has expired.
    Expired(u64, u32),
    /// A digest is rejected.
    Rejected(u8),
}

/// A certificate of a keyring.
#[derive(Debug)]
pub(crate) struct Keyblock {
    /// The primary key first.
    keys: Vec<KeyState>,
    user_ids: Vec<UserId>,
    notes: Vec<Note>,
    judge: Judge,
    /// The state at this time.
    pub(crate) summary: Summary,
    /// The owner has not revoked the certificate, but somebody who was named for it has.
    pub(crate) is_revoked_by_other: bool,
    /// Somebody who was named for it may have revoked the certificate: there is a signature by a
    /// key that is missing.
    pub(crate) may_be_revoked: bool,
}

/// The key ID that a signature names. GnuPG reads no fingerprint here.
fn named_by(body: &[u8]) -> KeyId {
    KeyId(SignaturePacket::parse(body.to_vec(), false).map_or(0, |signature| signature.key_id))
}

/// The longest user ID that GnuPG reads, in bytes.
const USER_ID_BYTES_MAX: usize = 2048;

/// The keys of a certificate.
pub(crate) fn keys_of(raw: &[u8]) -> impl Iterator<Item = Key<'_>> {
    let keys = packets(raw).map_while(Result::ok);
    let keys = keys.filter(|packet| matches!(packet.tag, Tag::PUBLIC_KEY | Tag::PUBLIC_SUBKEY));
    keys.filter_map(|packet| Key::parse(packet).ok())
}

/// Why GnuPG reads no certificate with these packets: one is malformed. The text is empty where it
/// has none.
pub(crate) fn damage(raw: &[u8]) -> Option<String> {
    for packet in packets(raw) {
        let Ok(PacketRef { tag, body }) = packet else { return Some(String::new()) };
        match tag {
            Tag::SIGNATURE => match SignaturePacket::parse(body.to_vec(), false) {
                Ok(_) => {}
                Err(Unreadable::Truncated | Unreadable::Ended(_)) => return Some(String::new()),
                Err(Unreadable::Malformed(why)) => return Some(why),
            },
            // What GnuPG knows and does not expect in a certificate.
            Tag(0 | 1 | 3..=5 | 7..=11 | 18..=20 | 63) => return Some(String::new()),
            Tag::USER_ID if body.len() > USER_ID_BYTES_MAX => {
                return Some("packet(13) too large".to_owned());
            }
            Tag::PUBLIC_KEY | Tag::PUBLIC_SUBKEY
                if !Key::parse(PacketRef { tag, body }).is_ok_and(|key| key.version == 4) =>
            {
                return Some(String::new());
            }
            _ => {}
        }
    }
    None
}

impl Keyblock {
    /// Reads and evaluates a certificate. `revoker` finds the body of the primary key of a
    /// designated revoker.
    pub(crate) fn read(
        session: &Session,
        raw: &[u8],
        revoker: impl FnMut(Fingerprint) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        let cert = Cert::parse(raw).ok()?;
        let id = cert.fingerprint().key_id();
        // GnuPG finds self-signatures by the key ID that they name, and the user may reject
        // digests. Revocations count whatever they are.
        let known = Verified::new(cert).weakened(|body| {
            Signature::parse(body).is_some_and(|signature| {
                let is_weak = session.is_weak_for_keys(signature.hash) || named_by(body) != id;
                is_weak && !signature.revokes()
            })
        });
        // GnuPG accepts self-signatures that are dated in the future.
        let made = known.good().filter_map(Signature::parse).map(|signature| signature.created);
        let latest = made.fold(session.now, u32::max);
        let judge = Judge::new(known, Rules::Gnupg(Gnupg::V2_2), latest, revoker);
        let summary = judge.at(latest);
        let is_early = summary.primary.created > session.now && !session.ignores_time_conflict;
        let states = States::new(session, &judge, &summary);
        let mut keys = Vec::new();
        for packet in packets(raw).map_while(Result::ok) {
            if packet.tag == Tag::SIGNATURE {
                note_revocation(keys.last_mut(), packet.body);
            }
            if !matches!(packet.tag, Tag::PUBLIC_KEY | Tag::PUBLIC_SUBKEY) {
                continue;
            }
            let state = Key::parse(packet).ok().and_then(|key| states.of(packet, &key));
            if let Some(mut state) = state {
                state.is_valid &= !is_early;
                keys.push(state);
            }
        }
        let user_ids = user_ids(session, raw, &summary);
        let notes = Notes::of(session, raw, &summary, &keys);
        // GnuPG reads no certificate whose primary key has another version.
        let has_primary = keys.first().is_some_and(|key| key.tag == Tag::PUBLIC_KEY);
        let is_revoked_by_other = summary.primary.revoked && summary.revoked_by().next().is_some();
        let may_be_revoked = !summary.primary.revoked && may_be_revoked(&judge, &summary);
        has_primary.then_some(Self {
            keys,
            user_ids,
            notes,
            judge,
            summary,
            is_revoked_by_other,
            may_be_revoked,
        })
    }

    /// The revocation that GnuPG reports for a key: one behind it, or for the last key one of the
    /// primary key.
    pub(crate) fn revocation<'a>(&'a self, key: &'a KeyState) -> Option<&'a SignaturePacket> {
        let of_primary = self.keys[0].revocation.as_ref().filter(|_| self.is_last(key));
        key.revocation.as_ref().or(of_primary)
    }

    /// Whether a key is the last one of the certificate.
    pub(crate) fn is_last(&self, key: &KeyState) -> bool {
        self.keys.last().is_some_and(|last| last.fingerprint == key.fingerprint)
    }

    /// The primary key.
    pub(crate) fn primary(&self) -> &KeyState {
        &self.keys[0]
    }

    /// The first key that a fingerprint or a key ID names.
    pub(crate) fn find(&self, is_meant: impl Fn(&KeyState) -> bool) -> Option<&KeyState> {
        self.keys.iter().find(|key| is_meant(key))
    }

    /// The user ID that stands for the certificate, if it is good.
    pub(crate) fn primary_user_id(&self) -> Option<&UserId> {
        self.user_ids.iter().find(|id| id.is_text && id.is_good && id.is_primary)
    }

    /// The user ID for a certificate without a good one: the first text, or else the first.
    pub(crate) fn any_user_id(&self) -> Option<&UserId> {
        self.user_ids.iter().find(|id| id.is_text).or_else(|| self.user_ids.first())
    }

    /// The user IDs besides the primary one, with or without those that are revoked or expired.
    pub(crate) fn other_user_ids(&self, with_rejected: bool) -> impl Iterator<Item = &UserId> {
        let is_left_out = move |id: &&UserId| id.is_rejected && !with_rejected;
        self.user_ids.iter().filter(move |id| !(is_left_out(id) || id.is_text && id.is_primary))
    }

    /// The subkeys.
    pub(crate) fn subkeys(&self) -> &[KeyState] {
        &self.keys[1..]
    }

    /// The first user ID with a text, and its place among the user IDs and attributes.
    pub(crate) fn user_id(&self, is_meant: impl Fn(&[u8]) -> bool) -> Option<(usize, &UserId)> {
        let mut all = self.user_ids.iter().enumerate();
        all.find(|(_, id)| id.is_text && is_meant(&id.raw))
    }

    /// Whether there is a user attribute.
    pub(crate) fn has_attribute(&self) -> bool {
        self.user_ids.iter().any(|id| !id.is_text)
    }

    /// Whether a user ID names a cipher among the preferred ones.
    pub(crate) fn prefers_cipher(&self, number: u8) -> bool {
        const CIPHERS: u8 = 11;
        let mut lists = self.user_ids.iter().map(|id| self.preferences(Some(id), [CIPHERS]));
        lists.any(|lists| lists.is_some_and(|[ciphers]| ciphers.contains(&number)))
    }

    /// The preferred algorithms of a user ID: those of subpackets of these types, in its newest
    /// self-signature. Without a user ID, it is the primary one. `None` if it is not certain which
    /// self-signature that is.
    pub(crate) fn preferences<const N: usize>(
        &self,
        id: Option<&UserId>,
        kinds: [u8; N],
    ) -> Option<[Vec<u8>; N]> {
        let none = || std::array::from_fn(|_| Vec::new());
        let Some(id) = id.or_else(|| self.primary_user_id()) else { return Some(none()) };
        let created = user_ids_of(&self.summary).get(&UserIdName::Text(&id.raw))?.created;
        if created == 0 {
            return Some(none());
        }
        let mut found = None;
        let mut verdicts = self.judge.verdicts().iter();
        let mut is_meant = false;
        for packet in self.judge.cert().packets() {
            if packet.tag != Tag::SIGNATURE {
                is_meant = packet.tag == Tag::USER_ID && packet.body == id.raw;
                continue;
            }
            let is_good = verdicts.next() == Some(&Verdict::Good);
            if !is_meant || !is_good {
                continue;
            }
            let Ok(signature) = SignaturePacket::parse(packet.body.to_vec(), false) else {
                continue;
            };
            if signature.created != created || !matches!(signature.class, 0x10..=0x13) {
                continue;
            }
            let lists = kinds.map(|kind| {
                signature.hashed(kind).next().map_or(Vec::new(), |found| found.body.to_vec())
            });
            if found.as_ref().is_some_and(|known| *known != lists) {
                return None;
            }
            found = Some(lists);
        }
        found
    }

    /// Reports that the certificate was looked at, with GnuPG's flags about what is wrong with it.
    pub(crate) fn report_considered(&self, session: &Session, flags: u8) {
        self.report_notes(session);
        session.status.line(&format!("KEY_CONSIDERED {} {flags}", self.primary().fingerprint));
    }

    /// Reports that the certificate was read, for `key`.
    pub(crate) fn report(&self, session: &Session, key: &KeyState) {
        self.report_notes(session);
        let primary = self.primary();
        if key.fingerprint != primary.fingerprint {
            session.chat(|| {
                let (key, primary) = (session.key_id(key.id), session.key_id(primary.id));
                format!("using subkey {key} instead of primary key {primary}")
            });
        }
        session.status.line(&format!("KEY_CONSIDERED {} 0", primary.fingerprint));
    }

    /// Reports what is wrong with the self-signatures.
    pub(crate) fn report_notes(&self, session: &Session) {
        for note in &self.notes {
            match note {
                Note::Text(text) => session.log.info(text),
                Note::Error(text) => session.log.error(text),
                Note::Chat(text) => session.chat(|| text.clone()),
                Note::Rejected(digest) => session.note_rejected(*digest),
                Note::Expired(id, time) => report_expired(session, *id, *time),
            }
        }
    }
}

/// What tells the user IDs and attributes of a certificate apart.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum UserIdName<'a> {
    Text(&'a [u8]),
    /// An attribute of this length in bytes.
    Attribute(u64),
}

impl<'a> UserIdName<'a> {
    pub(crate) fn of(found: &'a UserIdSummary) -> Self {
        match &found.content {
            UserIdContent::Text(text) => Self::Text(text),
            UserIdContent::Attribute { bytes, .. } => Self::Attribute((*bytes).into()),
        }
    }

    /// `None` for a packet of another type.
    pub(crate) fn of_packet(packet: PacketRef<'a>) -> Option<Self> {
        match packet.tag {
            Tag::USER_ID => Some(Self::Text(packet.body)),
            Tag::USER_ATTRIBUTE => Some(Self::Attribute(packet.body.len() as u64)),
            _ => None,
        }
    }
}

/// The user IDs of a summary by their names.
pub(crate) fn user_ids_of(summary: &Summary) -> HashMap<UserIdName<'_>, &UserIdSummary> {
    let mut known = HashMap::new();
    for found in &summary.user_ids {
        known.entry(UserIdName::of(found)).or_insert(found);
    }
    known
}

/// Notes the first revocation behind a key.
fn note_revocation(key: Option<&mut KeyState>, body: &[u8]) {
    let Some(key) = key.filter(|key| key.revocation.is_none()) else { return };
    let signature = SignaturePacket::parse(body.to_vec(), false).ok();
    key.revocation = signature
        .filter(|found| matches!(found.class, kind::KEY_REVOCATION | kind::SUBKEY_REVOCATION));
}

/// Whether there is a revocation by somebody who was named for it and whose key is missing.
fn may_be_revoked(judge: &Judge, summary: &Summary) -> bool {
    let missing = summary.revokers.iter().filter(|found| found.state == RevokerState::Unknown);
    let missing: Vec<KeyId> = missing.map(|found| found.revoker.fingerprint.key_id()).collect();
    let mut signatures = judge.cert().packets().filter(|packet| packet.tag == Tag::SIGNATURE);
    !missing.is_empty()
        && signatures.any(|packet| {
            let class = Signature::parse(packet.body).map(|signature| signature.kind);
            class == Some(kind::KEY_REVOCATION) && missing.contains(&named_by(packet.body))
        })
}

/// What the states of the keys come from.
struct States<'a> {
    session: &'a Session,
    judge: &'a Judge,
    summary: &'a Summary,
    known: HashMap<Fingerprint, &'a KeySummary>,
    /// The newest good bindings of the subkeys, each with the packet of its subkey.
    bindings: HashMap<Fingerprint, (PacketRef<'a>, SignaturePacket)>,
}

impl<'a> States<'a> {
    fn new(session: &'a Session, judge: &'a Judge, summary: &'a Summary) -> Self {
        let mut known = HashMap::new();
        for key in summary.keys() {
            known.entry(key.fingerprint).or_insert(key);
        }
        let mut bindings: HashMap<_, (PacketRef<'_>, SignaturePacket)> = HashMap::new();
        let mut verdicts = judge.verdicts().iter();
        let mut subkey = None;
        for packet in judge.cert().packets() {
            if packet.tag != Tag::SIGNATURE {
                let key = Key::parse(packet).ok().filter(|_| packet.tag == Tag::PUBLIC_SUBKEY);
                subkey = key.map(|key| (packet, key.fingerprint()));
                continue;
            }
            let is_good = verdicts.next() == Some(&Verdict::Good);
            let (Some((component, name)), true) = (subkey, is_good) else { continue };
            let Ok(signature) = SignaturePacket::parse(packet.body.to_vec(), false) else {
                continue;
            };
            if signature.class != kind::SUBKEY_BINDING || signature.has_expired(session.now) {
                continue;
            }
            let newest = bindings.get(&name);
            if newest.is_none_or(|(_, newest)| signature.created >= newest.created) {
                bindings.insert(name, (component, signature));
            }
        }
        Self { session, judge, summary, known, bindings }
    }

    /// The state of a key; `None` for one that GnuPG 2.2 does not read.
    fn of(&self, packet: PacketRef<'_>, key: &Key<'_>) -> Option<KeyState> {
        if key.version != 4 {
            return None;
        }
        let summary = self.summary;
        let fingerprint = key.fingerprint();
        let found = *self.known.get(&fingerprint)?;
        let is_primary = fingerprint == summary.fingerprint();
        let now = self.session.now;
        let has_expired = |key: &KeySummary| key.expires != 0 && key.expires < now;
        let KeyId(id) = fingerprint.key_id();
        let (back, back_made) =
            if is_primary { (Back::Good, None) } else { self.back(fingerprint) };
        Some(KeyState {
            fingerprint,
            id,
            tag: packet.tag,
            body: packet.body.to_vec(),
            name: algorithm::key_name(key),
            created: key.created,
            expires: found.expires,
            has_expired: has_expired(found) || has_expired(&summary.primary),
            is_revoked_itself: found.revoked,
            revocation: None,
            is_revoked: found.revoked || summary.primary.revoked,
            is_valid: found.bound
                && summary.primary.bound
                && algorithm::is_known_public(key.algorithm),
            signs: found.capabilities.has(Capabilities::SIGN),
            usage: usage(found.capabilities),
            back,
            back_made,
        })
    }

    /// Whether a subkey has signed its primary key: the newest such signature in its newest binding
    /// decides. The second value is its time and its digest.
    fn back(&self, subkey: Fingerprint) -> (Back, Option<(u32, u8)>) {
        let cert = self.judge.cert();
        let Some((component, binding)) = self.bindings.get(&subkey) else {
            return (Back::Missing, None);
        };
        let component = *component;
        let mut back: Option<SignaturePacket> = None;
        for body in binding.embedded() {
            let Ok(signature) = SignaturePacket::parse(body.to_vec(), false) else { continue };
            let is_newer = back.as_ref().is_none_or(|back| signature.created > back.created);
            if signature.class == BACK_SIGNATURE && is_newer {
                back = Some(signature);
            }
        }
        let Some(back) = back else { return (Back::Missing, None) };
        let made = || {
            let key = Key::parse(component).ok()?;
            let mut verifier = CertificationVerifier::new(cert)?;
            Some(verifier.by(&key, &KeySetup::default(), component, &back.body))
        };
        let created = Key::parse(component).map_or(0, |key| key.created);
        let is_refused = self.session.is_weak_for_keys(back.digest)
            || back.has_unknown_critical
            || created > back.created && !self.session.ignores_time_conflict;
        let is_good = !is_refused && made() == Some(Verdict::Good);
        (if is_good { Back::Good } else { Back::Bad }, Some((back.created, back.digest)))
    }
}

/// The user IDs in the order of the keyring.
fn user_ids(session: &Session, raw: &[u8], summary: &Summary) -> Vec<UserId> {
    let known = user_ids_of(summary);
    let mut user_ids = Vec::new();
    for packet in packets(raw).map_while(Result::ok) {
        let Some(name) = UserIdName::of_packet(packet) else { continue };
        let is_text = packet.tag == Tag::USER_ID;
        let found = known.get(&name).copied();
        let has_expired = |found: &UserIdSummary| {
            found.created == 0 && found.expires != 0 && found.expires <= session.now
        };
        user_ids.push(UserId {
            text: if is_text { packet.body.to_vec() } else { attribute_name(packet.body) },
            raw: packet.body.to_vec(),
            is_revoked: found.is_some_and(|found| found.revoked),
            is_text,
            is_good: found
                .is_some_and(|found| found.created != 0 && !found.revoked && !has_expired(found)),
            is_rejected: found.is_some_and(|found| found.revoked || has_expired(found)),
            is_primary: found.is_some_and(|found| found.primary),
        });
    }
    user_ids
}

/// GnuPG's description of a user attribute (RFC 9580, section 5.12).
fn attribute_name(body: &[u8]) -> Vec<u8> {
    let mut subpackets = Subpackets(body).map_while(|subpacket| subpacket);
    let name = match (subpackets.next(), subpackets.next()) {
        (Some(image), None) if image.kind == 1 => {
            let header = image.body.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
            let format = if image.body.get(3) == Some(&1) { "jpeg" } else { "unknown" };
            let bytes = image.body.len().saturating_sub(usize::from(header));
            format!("[{format} image of size {bytes}]")
        }
        _ => format!("[unknown attribute of size {}]", body.len()),
    };
    name.into_bytes()
}

/// What GnuPG reports on the self-signatures whenever it reads the certificate.
struct Notes<'a> {
    session: &'a Session,
    notes: Vec<Note>,
}

impl<'a> Notes<'a> {
    fn of(session: &'a Session, raw: &[u8], summary: &Summary, keys: &[KeyState]) -> Vec<Note> {
        let mut this = Self { session, notes: Vec::new() };
        let primary = &summary.primary;
        let own = primary.fingerprint.key_id();
        let mut known = HashMap::new();
        for key in keys.iter().filter(|key| key.tag == Tag::PUBLIC_SUBKEY) {
            known.entry(&key.body[..]).or_insert(key);
        }
        let mut subkey: Option<&KeyState> = None;
        let (mut has_user_id, mut has_subkey) = (false, false);
        for packet in packets(raw).map_while(Result::ok) {
            has_user_id |= matches!(packet.tag, Tag::USER_ID | Tag::USER_ATTRIBUTE);
            if packet.tag == Tag::PUBLIC_SUBKEY {
                has_subkey = true;
                this.back(subkey);
                subkey = known.get(packet.body).copied();
            }
            if packet.tag != Tag::SIGNATURE {
                continue;
            }
            this.flaws(packet.body);
            let Some(signature) = Signature::parse(packet.body) else { continue };
            if named_by(packet.body) != own
                || !algorithm::is_known_digest(signature.hash)
                || !algorithm::is_known_public(signature.algorithm)
            {
                continue;
            }
            match signature.kind {
                0x10..=0x13 | 0x30 if !has_user_id => this.without_user_id(own.0, signature.kind),
                kind @ (kind::SUBKEY_BINDING | kind::SUBKEY_REVOCATION) if !has_subkey => {
                    this.without_subkey(own.0, kind);
                }
                _ => {
                    // Until it has read the user IDs, GnuPG does not know that the key has expired.
                    let expires = if has_subkey { primary.expires } else { 0 };
                    let made = (signature.created, signature.hash);
                    this.check(own.0, primary.created, expires, made);
                }
            }
        }
        this.back(subkey);
        this.notes
    }

    /// What GnuPG finds wrong in the form of a signature, and of the ones within it.
    fn flaws(&mut self, body: &[u8]) {
        let Ok(signature) = SignaturePacket::parse(body.to_vec(), false) else { return };
        self.notes.extend(signature.flaws().into_iter().map(Note::Error));
        for body in signature.embedded() {
            match SignaturePacket::parse(body.to_vec(), false) {
                Ok(inner) => self.notes.extend(inner.flaws().into_iter().map(Note::Error)),
                Err(Unreadable::Malformed(why)) => self.notes.push(Note::Error(why)),
                Err(_) => self.notes.push(Note::Error("packet(2) too short".to_owned())),
            }
        }
    }

    fn without_user_id(&mut self, id: u64, kind: u8) {
        if !self.session.quiet {
            self.notes.push(Note::Text(format!(
                "key {}: no user ID for key signature packet of class {kind:02x}",
                self.session.key_id(id)
            )));
        }
    }

    fn without_subkey(&mut self, id: u64, kind: u8) {
        let what = if kind == kind::SUBKEY_BINDING { "binding" } else { "revocation" };
        let id = self.session.key_id(id);
        self.notes.push(Note::Chat(format!("key {id}: no subkey for subkey {what} signature")));
    }

    /// Behind the signatures on a subkey, its signature on the primary key is checked.
    fn back(&mut self, subkey: Option<&KeyState>) {
        let Some(key) = subkey else { return };
        let Some(made) = key.back_made else { return };
        let is_checked = self.check_times(key.id, key.created, key.expires, made.0);
        if is_checked && key.is_revoked_itself {
            let id = self.session.key_id(key.id);
            self.notes.push(Note::Chat(format!("Note: signature key {id} has been revoked")));
        }
        self.check_digest(is_checked, made.1);
    }

    /// A check of a signature that a key made at a time, with a digest. The key expires at
    /// `expires`, 0 for never.
    fn check(&mut self, id: u64, created: u32, expires: u32, made: (u32, u8)) {
        let is_checked = self.check_times(id, created, expires, made.0);
        self.check_digest(is_checked, made.1);
    }

    fn check_times(&mut self, id: u64, created: u32, expires: u32, signed: u32) -> bool {
        let conflicts = conflicts(id, created, signed, self.session);
        let is_refused = !conflicts.is_empty() && !self.session.ignores_time_conflict;
        self.notes.extend(conflicts.into_iter().map(Note::Text));
        if !is_refused && expires != 0 && expires < self.session.now {
            self.notes.push(Note::Expired(id, expires));
        }
        !is_refused
    }

    fn check_digest(&mut self, is_checked: bool, digest: u8) {
        if is_checked && self.session.is_weak_for_keys(digest) {
            self.notes.push(Note::Rejected(digest));
        }
    }
}

/// Reports that a key has expired.
pub(crate) fn report_expired(session: &Session, id: u64, expires: u32) {
    session.chat(|| {
        format!("Note: signature key {} expired {}", session.key_id(id), time::local(expires))
    });
    session.status.line(&format!("KEYEXPIRED {expires}"));
}

/// GnuPG's texts about a key that is newer than a signature, made at `signed`, or than now.
pub(crate) fn conflicts(id: u64, created: u32, signed: u32, session: &Session) -> Vec<String> {
    let span = |seconds: u32| {
        let (count, unit) =
            if seconds < 86_400 { (seconds, "second") } else { (seconds / 86_400, "day") };
        format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
    };
    let mut texts = Vec::new();
    let id = session.key_id(id);
    if let Some(seconds) = created.checked_sub(signed).filter(|&seconds| seconds > 0) {
        let span = span(seconds);
        texts.push(format!("public key {id} is {span} newer than the signature"));
        if !session.ignores_time_conflict {
            return texts;
        }
    }
    if let Some(seconds) = created.checked_sub(session.now).filter(|&seconds| seconds > 0) {
        let span = span(seconds);
        texts.push(format!(
            "key {id} was created {span} in the future (time warp or clock problem)"
        ));
    }
    texts
}

/// The purposes of a key in GnuPG's numbers.
fn usage(capabilities: Capabilities) -> u32 {
    let bits = [
        (Capabilities::SIGN, 1),
        (Capabilities::ENCRYPT, 2),
        (Capabilities::CERTIFY, 4),
        (Capabilities::AUTHENTICATE, 8),
    ];
    bits.into_iter().filter(|(purpose, _)| capabilities.has(*purpose)).map(|(_, bit)| bit).sum()
}
