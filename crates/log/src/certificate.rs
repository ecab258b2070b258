//! Certificates of authors, as they stand in genesis and in grants.
//!
//! A certificate says which keys may sign for an author, and when they end: arithmetic alone,
//! without the time of a node and without policy, so that every node comes to the same.

use std::sync::Arc;

use talaria_cert::{
    Cert, Ed25519Key, ErrorKind, Key, KeySetup, PacketRef, Signature, Tag, Verdict, Verification,
    kind, verdicts,
};
use talaria_message::{KeyFault, MessageError, Purpose, Rules, openpgp, usable};

use crate::bytes::Malformed;
use crate::name::KeyName;

/// Longest certificate, in bytes.
pub const CERTIFICATE_BYTES_MAX: usize = 16_384;

/// The certificate of an author.
#[derive(Clone)]
pub struct Certificate {
    bytes: Vec<u8>,
    name: KeyName,
    keys: Vec<Arc<MemberKey>>,
}

/// A certificate is not fit to sign entries of a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// By the policy, no key of the certificate may sign now.
    #[error(transparent)]
    Policy(#[from] MessageError),
    /// The certificate has no form that a log stores.
    #[error("a log cannot store the certificate {name}: {source}")]
    Form {
        /// The fingerprint of the certificate.
        name: String,
        /// The reason.
        source: Malformed,
    },
}

impl SignerError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Policy(error) => error.kind(),
            Self::Form { .. } => ErrorKind::UnfitKey,
        }
    }
}

/// A key that may sign entries.
pub(crate) struct MemberKey {
    pub(crate) name: KeyName,
    /// The body of the public key packet.
    body: Vec<u8>,
    pub(crate) algorithm: u8,
    pub(crate) ed25519: Option<Ed25519Key>,
    /// The end of the key and of the primary key, whichever is earlier, in seconds since 1970.
    pub(crate) expires: Option<u64>,
    created: u64,
    setup: KeySetup,
}

impl MemberKey {
    fn of(packet: PacketRef<'_>) -> Option<Self> {
        let key = Key::parse(packet).ok()?;
        Some(Self {
            name: KeyName::of(key.fingerprint())?,
            body: packet.body.to_vec(),
            algorithm: key.algorithm,
            ed25519: Ed25519Key::of(&key),
            expires: None,
            created: key.created.into(),
            setup: KeySetup::default(),
        })
    }

    /// Whether both are one key. Two keys may have one name: the fingerprints of version 4 are
    /// SHA-1.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.body == other.body
    }

    /// Whether the key made a signature that is a whole packet.
    pub(crate) fn made(&self, signature: &Signature<'_>, digest: &talaria_cert::HashValue) -> bool {
        let packet = PacketRef { tag: Tag::PUBLIC_KEY, body: &self.body };
        let Ok(key) = Key::parse(packet) else { return false };
        let mut job = None;
        match self.setup.verify(&key, signature, digest, |deferred| job = Some(deferred)) {
            Verdict::Unchecked => job.is_some_and(|job| job.verdict() == Verdict::Good),
            verdict => verdict == Verdict::Good,
        }
    }
}

impl Certificate {
    /// Reads a transferable public key in canonical form.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the bytes are none, or too many, or if the primary key has another version
    /// than 4 and 6.
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        const WRONG: Malformed = Malformed::Field("certificate");
        if bytes.len() > CERTIFICATE_BYTES_MAX {
            return Err(Malformed::Limit {
                what: "certificate",
                found: bytes.len() as u64,
                limit: CERTIFICATE_BYTES_MAX as u64,
            });
        }
        let cert = Cert::parse(bytes).ok().filter(|cert| cert.as_bytes() == bytes).ok_or(WRONG)?;
        let name = KeyName::of(cert.fingerprint()).ok_or(WRONG)?;
        let verdicts = verdicts(&[&cert], Verification::Full).remove(0);
        let mut verdicts = verdicts.into_iter();
        let mut keys: Vec<MemberKey> = Vec::new();
        let mut ends = PrimaryEnds::default();
        let mut last = Component::Other;
        for packet in cert.packets() {
            if packet.tag != Tag::SIGNATURE {
                last.finish(&mut keys, &mut ends);
                last = match packet.tag {
                    Tag::PUBLIC_KEY => {
                        keys.extend(MemberKey::of(packet));
                        Component::Primary(None)
                    }
                    Tag::PUBLIC_SUBKEY => {
                        Component::Subkey(MemberKey::of(packet).map(Box::new), None)
                    }
                    _ => Component::UserId(None),
                };
            } else if verdicts.next() == Some(Verdict::Good)
                && let Some(signature) = Signature::parse(packet.body)
            {
                last.sign(&signature);
            }
        }
        last.finish(&mut keys, &mut ends);
        let primary = keys.first().filter(|key| key.name == name);
        let primary = primary.and_then(|key| ends.end(key.created));
        for key in &mut keys {
            key.expires = key.expires.into_iter().chain(primary).min();
        }
        let keys = keys.into_iter().map(Arc::new).collect();
        Ok(Self { bytes: bytes.to_vec(), name, keys })
    }

    /// The part of a certificate that a log needs: without certifications by others and without
    /// older signatures.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if the bytes are no certificate, or one that is too long.
    pub fn minimal(bytes: &[u8]) -> Result<Self, Malformed> {
        let cert = Cert::parse(bytes).map_err(|_| Malformed::Field("certificate"))?;
        let verdicts = verdicts(&[&cert], Verification::Full).remove(0);
        Self::read(cert.minimal(&verdicts).exportable().as_bytes())
    }

    /// The part of a certificate that a log needs, with those subkeys alone that may sign at `now`,
    /// in seconds since 1970, by the policy. This is the policy that genesis and grants must have
    /// passed: afterwards, arithmetic alone counts, so a subkey that is expired, revoked or not for
    /// signing must not be in them.
    ///
    /// # Errors
    ///
    /// [`SignerError::Policy`] if the certificate is revoked or expired, or if no key of it may
    /// sign; [`SignerError::Form`].
    pub fn of_signer(cert: &openpgp::Cert, now: u32) -> Result<Self, SignerError> {
        use openpgp::serialize::MarshalInto as _;

        let name = || cert.fingerprint().to_hex();
        let form = |source| SignerError::Form { name: name(), source };
        let found = usable(cert, Purpose::Sign, Rules::default(), &mut |_| None, now)?;
        let supported = found.keys.iter().filter(|key| key.pk_algo().is_supported());
        let signers: Vec<KeyName> =
            supported.filter_map(|key| KeyName::of_openpgp(&key.fingerprint())).collect();
        if signers.is_empty() {
            let why = KeyFault::Other("has no key that may sign".to_owned());
            return Err(MessageError::Key { name: name(), why }.into());
        }
        let bytes = cert.to_vec().map_err(|_| form(Malformed::Field("certificate")))?;
        let cert = Cert::parse(&bytes).map_err(|_| form(Malformed::Field("certificate")))?;
        let verdicts = verdicts(&[&cert], Verification::Full).remove(0);
        let minimal = cert.minimal(&verdicts).exportable().retain(|_, packet| match packet.tag {
            Tag::PUBLIC_SUBKEY => {
                MemberKey::of(packet).is_some_and(|key| signers.contains(&key.name))
            }
            tag => tag != Tag::USER_ATTRIBUTE,
        });
        let read = Self::read(minimal.as_bytes()).map_err(form)?;
        // The arithmetic of this crate must agree that one of them may sign.
        if read.key_names().any(|key| signers.contains(&key)) {
            Ok(read)
        } else {
            Err(form(Malformed::Field("binding of a signing key")))
        }
    }

    /// The key name of the primary key, and so of the author.
    #[must_use]
    pub fn name(&self) -> KeyName {
        self.name
    }

    /// The bytes of the certificate.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The names of the keys that may sign for the author.
    pub fn key_names(&self) -> impl Iterator<Item = KeyName> {
        self.keys.iter().map(|key| key.name)
    }

    /// The algorithms of the keys that may sign for the author (RFC 9580, section 9.1).
    pub fn algorithms(&self) -> impl Iterator<Item = u8> {
        self.keys.iter().map(|key| key.algorithm)
    }

    /// The end of a key that may sign for the author, or of the primary key if that is earlier, in
    /// seconds since 1970.
    #[must_use]
    pub fn expires(&self, key: KeyName) -> Option<u64> {
        self.key(key)?.expires
    }

    /// The first user ID, for people.
    #[must_use]
    pub fn user_id(&self) -> Option<String> {
        let cert = Cert::parse(&self.bytes).ok()?;
        cert.user_ids().next().map(|id| String::from_utf8_lossy(id).into_owned())
    }

    pub(crate) fn key(&self, name: KeyName) -> Option<&Arc<MemberKey>> {
        self.keys.iter().find(|key| key.name == name)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Arc<MemberKey>> {
        self.keys.iter()
    }
}

/// A statement on the end of a key: when it was made, and the period after the creation of the key.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
struct Statement {
    made: u32,
    /// Of two statements of one second, the shorter period counts.
    period: std::cmp::Reverse<u64>,
}

/// The period of a key without an end.
const NO_END: u64 = u64::MAX;

impl Statement {
    fn of(signature: &Signature<'_>) -> Self {
        let period = match signature.key_expires_after {
            0 => NO_END,
            period => period.into(),
        };
        Self { made: signature.created, period: std::cmp::Reverse(period) }
    }

    /// The end of a key with this creation time.
    fn end(&self, created: u64) -> Option<u64> {
        (self.period.0 != NO_END).then(|| created + self.period.0)
    }
}

/// The last statements on the end of a primary key.
#[derive(Default)]
struct PrimaryEnds {
    direct: Option<Statement>,
    /// Of the user IDs that state an end.
    certified: Option<Statement>,
}

impl PrimaryEnds {
    /// The end of the primary key, in seconds since 1970.
    fn end(&self, created: u64) -> Option<u64> {
        let of = |statement: Option<Statement>| statement.and_then(|one| one.end(created));
        of(self.direct).or_else(|| of(self.certified))
    }
}

/// A component of a certificate, with its last self-signature.
enum Component {
    Primary(Option<Statement>),
    UserId(Option<Statement>),
    /// With the last binding, and its own end, 0 for none.
    Subkey(Option<Box<MemberKey>>, Option<(Statement, u32)>),
    Other,
}

impl Component {
    fn sign(&mut self, signature: &Signature<'_>) {
        let made = Statement::of(signature);
        match self {
            Self::Primary(last) if signature.kind == kind::DIRECT_KEY => {
                *last = (*last).max(Some(made));
            }
            Self::UserId(last) if kind::CERTIFICATION.contains(&signature.kind) => {
                *last = (*last).max(Some(made));
            }
            Self::Subkey(_, last) if signature.kind == kind::SUBKEY_BINDING => {
                *last = (*last).max(Some((made, signature.expires)));
            }
            _ => {}
        }
    }

    fn finish(&mut self, keys: &mut Vec<MemberKey>, ends: &mut PrimaryEnds) {
        match std::mem::replace(self, Self::Other) {
            Self::Primary(last) => ends.direct = last,
            Self::UserId(last) => {
                let states_end = |statement: &Statement| statement.end(0).is_some();
                ends.certified = ends.certified.max(last.filter(states_end));
            }
            Self::Subkey(Some(mut key), Some((binding, binding_ends))) => {
                let end = binding.end(key.created);
                let binding_ends = Some(u64::from(binding_ends)).filter(|end| *end > 0);
                key.expires = end.into_iter().chain(binding_ends).min();
                keys.push(*key);
            }
            Self::Subkey(..) | Self::Other => {}
        }
    }
}

impl PartialEq for Certificate {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Certificate {}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Certificate({})", self.name)
    }
}
