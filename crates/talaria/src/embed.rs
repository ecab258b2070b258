//! The base of the language bindings: encrypting, decrypting, signing and verifying data in memory, with keys
//! and certificates that are given as bytes, armored or not.
//!
//! Unlike the library below it, this module reads the clock, does its own locking, and notices changes of a
//! store. So every value can be kept while the program runs, and all threads of the program can use it.

mod log;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use talaria_cert::first_packet;
use talaria_log::{DraftError, LogError, SnapshotError, UpdateError, WitnessError};
use talaria_log_net::NetError;
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::{Cert, Fingerprint};
use talaria_message::policy;
use talaria_message::{
    Acceptance, DecryptionKey, EncryptOptions, ExpectedSigner, Facts, Issuer, Lookup, MessageError,
    MessageKind, NotAccepted, Profile, Recipients, Recognised, Sealer, SignatureReport, SigningKey,
    Unsigned, decryption_keys, read_certs, signing_key, unarmored,
};
use talaria_store::{Access, ChangeNumber, Order, Query, StoreError};

pub use log::{
    HistoryEntry, LogFigures, LogNode, LogWatcher, Revoked, SharedLog, SharedSnapshot,
    SharedWitness, putting, putting_deletable,
};

use crate::error::Error;
use crate::stores::Stores;

/// The current time in seconds since 1970.
fn now() -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sealer for passphrases and for all certificates in `certs`. Each item of `certs` has one or more
/// certificates. With `profile` as `None`, the sealer uses the newest packet format that all certificates
/// have announced.
///
/// # Errors
///
/// [`Error::Message`] if there is no recipient, an item without a certificate, or a certificate without a key
/// to encrypt to.
pub fn sealer<P: AsRef<[u8]>, C: AsRef<[u8]>>(
    passphrases: &[P],
    certs: &[C],
    profile: Option<Profile>,
) -> Result<Sealer, Error> {
    let mut recipients = Recipients::default();
    for cert in parse_all(certs)? {
        recipients.add(&cert, policy(), now())?;
    }
    passwords(passphrases)?.into_iter().for_each(|password| recipients.add_password(password));
    let mut options = EncryptOptions::default();
    options.profile = profile;
    options.threads = 1;
    Ok(Sealer::new(&recipients, options)?)
}

/// Decrypts messages with passphrases and secret keys, one message at a time. A program that decrypts in
/// several threads needs one opener per thread.
pub struct SharedOpener(Mutex<talaria_message::Opener>);

impl SharedOpener {
    /// An opener with all secret keys in `keys`. Locked keys are unlocked with one of `key_passphrases` when
    /// a message is for them.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if an item of `keys` has no key.
    pub fn new<P: AsRef<[u8]>, K: AsRef<[u8]>>(
        passphrases: &[P],
        keys: &[K],
        key_passphrases: &[P],
    ) -> Result<Self, Error> {
        let keys = secret_keys(keys, key_passphrases)?;
        Ok(Self(Mutex::new(talaria_message::Opener::new(keys, passwords(passphrases)?))))
    }

    /// The content of a message; its signatures are ignored.
    ///
    /// # Errors
    ///
    /// [`Error::Message`]; no content is returned then.
    pub fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let nobody = Box::new(|_: &Issuer| Vec::new());
        let verifier = talaria_message::Verifier::new(nobody, policy(), now());
        Ok(lock(&self.0).open(&encrypted(sealed)?, &verifier)?.0)
    }

    /// The content of a message and the reports on its signatures; no reports if the message is not signed.
    /// With `signers`, each of them must have made a good signature.
    ///
    /// # Errors
    ///
    /// [`Error::Message`], with [`MessageError::NotAccepted`] for a bad or missing signature; no content is
    /// returned then.
    pub fn open_verified(
        &self,
        sealed: &[u8],
        verifier: &SharedVerifier,
        signers: Option<&[Fingerprint]>,
    ) -> Result<(Vec<u8>, Vec<SignatureReport>), Error> {
        let sealed = encrypted(sealed)?;
        let current = verifier.current()?;
        let (plain, decrypted) = lock(&self.0).open(&sealed, &current)?;
        acceptance(signers, Unsigned::Accepted)
            .decide(&decrypted.signatures)
            .map_err(MessageError::NotAccepted)?;
        Ok((plain, decrypted.signatures))
    }
}

/// The keys for decryption in `keys`, which are unlocked with one of `passphrases` when they are needed.
fn secret_keys<K: AsRef<[u8]>, P: AsRef<[u8]>>(
    keys: &[K],
    passphrases: &[P],
) -> Result<Vec<DecryptionKey>, Error> {
    let unlocking = passwords(passphrases)?;
    let ask = Arc::new(Mutex::new(move |asked: usize, _: &_| unlocking.get(asked).cloned()));
    let certs = parse_all(keys)?;
    if !certs.iter().all(Cert::is_tsk) {
        return Err(MessageError::Malformed("no secret key found").into());
    }
    Ok(certs.iter().flat_map(|cert| decryption_keys(cert, &ask)).collect())
}

/// The acceptance policy for callers with or without expected signers.
fn acceptance(signers: Option<&[Fingerprint]>, unsigned: Unsigned) -> Acceptance {
    match signers {
        Some(signers) => {
            Acceptance::Expected(signers.iter().cloned().map(ExpectedSigner::from).collect())
        }
        None => Acceptance::NoneBad(unsigned),
    }
}

/// Parses fingerprints of certificates or keys, in hexadecimal.
///
/// # Errors
///
/// [`MessageError::Usage`] for any other text.
pub fn fingerprints<S: AsRef<str>>(texts: &[S]) -> Result<Vec<Fingerprint>, Error> {
    let parsed = |text: &S| {
        let digits: String = text.as_ref().chars().filter(|c| *c != ' ').collect();
        let fits = matches!(digits.len(), 40 | 64) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        digits.parse().ok().filter(|_| fits).ok_or_else(|| {
            MessageError::Usage("a signer is a fingerprint of 40 or 64 hexadecimal digits").into()
        })
    };
    texts.iter().map(parsed).collect()
}

/// Encrypts a message for the recipients of `sealer`, signed with `key`.
///
/// # Errors
///
/// [`Error::Message`] if the key refuses to sign.
pub fn seal_signed(sealer: &Sealer, plain: &[u8], key: &SharedKey) -> Result<Vec<u8>, Error> {
    Ok(sealer.seal_signed(plain, std::slice::from_mut(&mut *lock(&key.signing)), now())?)
}

/// Runs the work of a call from another language. A panic is a bug in talaria, and the caller gets it as an
/// error.
///
/// # Errors
///
/// The error of `work`, or [`Error::Bug`].
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // Values that a panic left inconsistent are dropped, or are behind locks that tolerate it (see `lock`).
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::Bug))
}

/// A secret key for signing.
pub struct SharedKey {
    signing: Mutex<SigningKey>,
    certificate: String,
    /// The public parts.
    cert: Cert,
}

impl SharedKey {
    /// The newest signing key of the only certificate in `bytes`, unlocked.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if there is no such key, if there are several certificates, or if the passphrase
    /// does not fit.
    pub fn from_bytes(bytes: &[u8], passphrase: Option<&[u8]>) -> Result<Self, Error> {
        let certs = parse(bytes)?;
        let [cert] = &certs[..] else {
            return Err(MessageError::Usage("several keys found; sign with a single key").into());
        };
        let unlocking = passwords(passphrase.as_slice())?;
        let mut ask = |asked: usize, _: &_| unlocking.get(asked).cloned();
        let signing = Mutex::new(signing_key(cert, policy(), now(), &mut ask)?);
        let public = cert.clone().strip_secret_key_material();
        Ok(Self { signing, certificate: cert.fingerprint().to_hex(), cert: public })
    }

    /// The fingerprint of the certificate, in upper-case hexadecimal.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A detached signature on `data`.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if the key refuses to sign.
    pub fn sign(&self, data: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(lock(&self.signing).sign(data, now())?)
    }

    /// A detached signature on each of `data`, on all cores.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if the key refuses to sign.
    pub fn sign_many<B: AsRef<[u8]> + Sync>(&self, data: &[B]) -> Result<Vec<Vec<u8>>, Error> {
        Ok(lock(&self.signing).sign_many(data, now())?)
    }
}

/// A store or keyring file, opened for reading.
#[derive(Clone)]
pub struct Certificates(Arc<Mutex<Stores>>);

impl Certificates {
    /// Opens the store at `path`.
    ///
    /// # Errors
    ///
    /// The errors of [`Stores::open`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let stores = Stores::open(&[path.to_owned()], Access::Read, now())?;
        Ok(Self(Arc::new(Mutex::new(stores))))
    }

    /// All certificates that match `query`, as they are stored. Anybody can make a certificate with any user
    /// ID: to encrypt, query a fingerprint or use [`Self::recipient`].
    ///
    /// # Errors
    ///
    /// [`Error::Query`], [`Error::NotFound`], or errors of reading the store.
    pub fn lookup(&self, query: &str) -> Result<Vec<Vec<u8>>, Error> {
        let certs = find(&lock(&self.0), &query.parse()?)?;
        Ok(certs.iter().map(|cert| cert.as_bytes().to_vec()).collect())
    }

    /// The only certificate that `query` names and that has a key to encrypt to, as it is stored.
    ///
    /// # Errors
    ///
    /// The errors of [`Stores::recipient`].
    pub fn recipient(&self, query: &str) -> Result<Vec<u8>, Error> {
        let stores = lock(&self.0);
        let query: Query = query.parse()?;
        let name = stores.recipient(&query, policy(), now())?.fingerprint().to_hex();
        // Another certificate may have the same key as a subkey.
        let mut found = find(&stores, &name.parse()?)?;
        found.retain(|cert| cert.fingerprint().to_string() == name);
        let cert = found.pop().ok_or(Error::NotFound { query: query.to_string() })?;
        Ok(cert.as_bytes().to_vec())
    }

    /// The sum of the numbers of the last changes, which grows with each change of one of the stores.
    fn last_changes(&self) -> Result<i64, StoreError> {
        lock(&self.0).iter().map(|opened| opened.store.log().last().map(ChangeNumber::get)).sum()
    }
}

/// All certificates that match `query`.
fn find(stores: &Stores, query: &Query) -> Result<Vec<talaria_cert::Cert>, Error> {
    let mut fingerprints = Vec::new();
    stores.visit(std::slice::from_ref(query), Order::Insertion, now(), |_, row| {
        fingerprints.push(row.summary.fingerprint());
        Ok(ControlFlow::Continue(()))
    })?;
    let certs = fingerprints.into_iter().map(|fingerprint| stores.cert(fingerprint));
    Ok(certs.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Verifies signatures, as of the time of each call.
pub struct SharedVerifier {
    current: Mutex<Current>,
    source: Source,
}

/// The source of the certificates.
enum Source {
    Given(Arc<Vec<Cert>>),
    Store(Certificates),
}

struct Current {
    verifier: Arc<talaria_message::Verifier<'static>>,
    moment: Moment,
}

/// The state of the source that a verifier has seen.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Moment {
    now: u32,
    /// The sum of the numbers of the last changes.
    change: i64,
}

impl SharedVerifier {
    /// A verifier with all certificates in `certs`.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if an item of `certs` has no certificate.
    pub fn with_certs<B: AsRef<[u8]>>(certs: &[B]) -> Result<Self, Error> {
        Self::new(Source::Given(Arc::new(parse_all(certs)?)))
    }

    /// A verifier with the certificates of a store, including those added later. Signatures by certificates that the user of the
    /// store has called bad are [`talaria_message::Outcome::Distrusted`]; such a decision counts from the next change of a certificate
    /// on.
    ///
    /// # Errors
    ///
    /// [`Error::Store`].
    pub fn with_store(store: &Certificates) -> Result<Self, Error> {
        Self::new(Source::Store(store.clone()))
    }

    fn new(source: Source) -> Result<Self, Error> {
        let moment = source.moment()?;
        let current = Current { verifier: Arc::new(source.verifier(moment.now)), moment };
        Ok(Self { current: Mutex::new(current), source })
    }

    /// Verifies one or more detached signatures on `data`. With `signers`, each of them must have made a good
    /// signature.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] only: an invalid signature is reported in the result.
    pub fn verify(
        &self,
        signature: &[u8],
        data: &[u8],
        signers: Option<&[Fingerprint]>,
    ) -> Result<DocumentReport, Error> {
        let current = self.current()?;
        let acceptance = acceptance(signers, Unsigned::Refused);
        let reports = match unarmored(signature) {
            Ok(packets) if is_one_packet(&packets) => vec![current.one(&packets, data)],
            Ok(packets) => several(&current, &packets, data),
            Err(error) => vec![SignatureReport::unreadable(&error.to_string())],
        };
        Ok(DocumentReport::of(reports, &acceptance))
    }

    /// Verifies many signatures, each with its data, on all cores; Ed25519 signatures in batches.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::verify`].
    pub fn verify_many<S: AsRef<[u8]>, D: AsRef<[u8]>>(
        &self,
        items: &[(S, D)],
        signers: Option<&[Fingerprint]>,
    ) -> Result<Vec<DocumentReport>, Error> {
        let current = self.current()?;
        let acceptance = acceptance(signers, Unsigned::Refused);
        let decoded: Vec<_> =
            items.iter().map(|(signature, _)| unarmored(signature.as_ref())).collect();
        // Single packets are verified together, in batches.
        let together: Vec<(&[u8], &[u8])> = decoded
            .iter()
            .zip(items)
            .filter_map(|(packets, (_, data))| {
                let packets = packets.as_ref().ok().filter(|packets| is_one_packet(packets))?;
                Some((&**packets, data.as_ref()))
            })
            .collect();
        let mut reports = current.many(&together).into_iter();
        let mut of = |packets: &Result<Cow<'_, [u8]>, MessageError>, data: &D| {
            let reports = match packets {
                Ok(packets) if is_one_packet(packets) => {
                    vec![reports.next().expect("one report for each signature")]
                }
                Ok(packets) => several(&current, packets, data.as_ref()),
                Err(error) => vec![SignatureReport::unreadable(&error.to_string())],
            };
            DocumentReport::of(reports, &acceptance)
        };
        Ok(decoded.iter().zip(items).map(|(packets, (_, data))| of(packets, data)).collect())
    }

    /// The verifier as of the current time. No lock is held while it works.
    fn current(&self) -> Result<Arc<talaria_message::Verifier<'static>>, Error> {
        let moment = self.source.moment()?;
        let mut current = lock(&self.current);
        if current.moment.change != moment.change {
            // The cached certificates may be outdated: a key may have been revoked since.
            current.verifier = Arc::new(self.source.verifier(moment.now));
        }
        if current.moment != moment {
            current.verifier.set_now(moment.now);
            current.moment = moment;
        }
        Ok(Arc::clone(&current.verifier))
    }
}

impl Source {
    fn moment(&self) -> Result<Moment, StoreError> {
        let change = match self {
            Self::Given(_) => 0,
            Self::Store(store) => store.last_changes()?,
        };
        Ok(Moment { now: now(), change })
    }

    /// A verifier with these certificates. It knows whom the user of the store has called bad so far.
    fn verifier(&self, now: u32) -> talaria_message::Verifier<'static> {
        let verifier = talaria_message::Verifier::new(self.lookup(), policy(), now);
        let Self::Store(store) = self else { return verifier };
        let store = store.clone();
        let mut known: HashMap<String, bool> = HashMap::new();
        verifier.with_distrust(Box::new(move |signer, _| {
            if let Some(bad) = known.get(&signer.certificate) {
                return *bad;
            }
            // Of an unreadable store, nobody can know whom the user has called bad.
            let bad = lock(&store.0).is_bad_certificate(&signer.certificate).unwrap_or(true);
            known.insert(signer.certificate.clone(), bad);
            bad
        }))
    }

    fn lookup(&self) -> Lookup<'static> {
        match self {
            Self::Given(certs) => {
                let certs = Arc::clone(certs);
                Box::new(move |issuer: &Issuer| {
                    let id = issuer.key_id.to_string();
                    let has =
                        |cert: &&Cert| cert.keys().any(|key| key.key().keyid().to_hex() == id);
                    certs.iter().filter(has).cloned().collect()
                })
            }
            Self::Store(store) => {
                let store = store.clone();
                Box::new(move |issuer: &Issuer| lock(&store.0).having(issuer, now()))
            }
        }
    }
}

/// The result of verifying the signatures on a document.
#[derive(Clone, Debug)]
pub struct DocumentReport {
    /// The report on the signature that explains the decision.
    pub report: SignatureReport,
    /// Whether the document is accepted.
    pub decision: Result<Facts, NotAccepted>,
}

impl DocumentReport {
    /// Applies the policy to at least one report.
    fn of(mut reports: Vec<SignatureReport>, acceptance: &Acceptance) -> Self {
        let decision = acceptance.decide(&reports);
        let report = match acceptance.decisive(&reports) {
            Some(place) => reports.swap_remove(place),
            None => SignatureReport::unreadable("no signature found"),
        };
        Self { report, decision }
    }
}

/// The reports on several signatures on the same data.
fn several(
    verifier: &talaria_message::Verifier<'_>,
    packets: &[u8],
    mut data: &[u8],
) -> Vec<SignatureReport> {
    verifier
        .detached(packets, &mut data)
        .unwrap_or_else(|error| vec![SignatureReport::unreadable(&error.to_string())])
}

fn is_one_packet(bytes: &[u8]) -> bool {
    let end = bytes.as_ptr_range().end;
    first_packet(bytes).is_some_and(|packet| packet.body.as_ptr_range().end == end)
}

/// The packets of an encrypted message, without armor.
fn encrypted(sealed: &[u8]) -> Result<Cow<'_, [u8]>, MessageError> {
    let found = Recognised::of(sealed, true).map_or(MessageKind::Other, |what| what.kind);
    if found != MessageKind::Encrypted {
        return Err(MessageError::OtherKind { found, wanted: "an encrypted message" });
    }
    unarmored(sealed)
}

fn passwords<B: AsRef<[u8]>>(texts: &[B]) -> Result<Vec<Password>, Error> {
    let password = |text: &B| match text.as_ref() {
        [] => Err(MessageError::Usage("a passphrase is empty").into()),
        text => Ok(Password::from(text)),
    };
    texts.iter().map(password).collect()
}

/// All certificates in all of `inputs`.
fn parse_all<B: AsRef<[u8]>>(inputs: &[B]) -> Result<Vec<Cert>, Error> {
    let parsed = inputs.iter().map(|bytes| parse(bytes.as_ref()));
    Ok(parsed.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The certificates in `bytes`, at least one.
fn parse(bytes: &[u8]) -> Result<Vec<Cert>, MessageError> {
    const NONE: MessageError =
        MessageError::Malformed("the input is neither a certificate nor a key");
    let certs: Vec<Cert> =
        read_certs(bytes)?.into_iter().collect::<Result<_, _>>().map_err(|_| NONE)?;
    if certs.is_empty() { Err(NONE) } else { Ok(certs) }
}

/// The kind of an error, for callers in other languages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorKind {
    /// The arguments contradict each other.
    Usage,
    /// The bytes have the wrong format.
    Malformed,
    /// An integrity check of a message failed or is missing.
    Tampered,
    /// No key and no passphrase decrypts the message.
    NoSecret,
    /// A certificate has no key to encrypt to, or a key cannot sign or is locked.
    Key,
    /// A message uses an algorithm or a form that is not supported.
    Unsupported,
    /// A part of a message exceeds its limit.
    TooLarge,
    /// The store does not exist, or has no such certificate.
    NotFound,
    /// Several certificates match the name, or none matches it exactly.
    Ambiguous,
    /// A signature of the message is bad, or a required signature is missing.
    NotAccepted,
    /// A log does not allow a change, or is another log than expected.
    Refused,
    /// The store cannot be read.
    Store,
    /// A bug in talaria: a panic that was caught.
    Bug,
    /// Any other error.
    Other,
}

impl From<&Error> for ErrorKind {
    fn from(error: &Error) -> Self {
        match error {
            Error::Message(error) => Self::of_message(error),
            Error::Store(StoreError::Missing { .. } | StoreError::NotFound(_))
            | Error::NotFound { .. } => Self::NotFound,
            Error::Store(_) => Self::Store,
            Error::Bug => Self::Bug,
            Error::Ambiguous { .. }
            | Error::Inexact { .. }
            | Error::InexactUserId { .. }
            | Error::Unconfirmed { .. } => Self::Ambiguous,
            Error::Distrusted { .. } => Self::Key,
            Error::Log(error) => Self::of_log(error),
            Error::LogUpdate { source, .. } => Self::of_log(source),
            Error::Net(error) => Self::of_net(error),
            Error::NodeKey(_) => Self::Key,
            Error::Witness(error) => Self::of_witness(error),
            Error::Query(_) => Self::Usage,
            Error::Unrecognised { .. } => Self::Malformed,
            _ => Self::Other,
        }
    }
}

impl ErrorKind {
    fn of_net(error: &NetError) -> Self {
        match error {
            NetError::Own { .. } => Self::Usage,
            NetError::NotPublished { .. }
            | NetError::OwnNotPublished { .. }
            | NetError::OtherKey { .. }
            | NetError::NotANode { .. } => Self::Refused,
            NetError::Log(error) => Self::of_log(error),
            _ => Self::Other,
        }
    }

    fn of_witness(error: &WitnessError) -> Self {
        match error {
            WitnessError::Objection(_)
            | WitnessError::Unknown { .. }
            | WitnessError::OtherKey { .. } => Self::Refused,
            WitnessError::Name(_)
            | WitnessError::NotAWitness { .. }
            | WitnessError::Many
            | WitnessError::Cosigners { .. } => Self::Usage,
            WitnessError::NoKey { .. } => Self::Key,
            WitnessError::Request { .. } => Self::Malformed,
            _ => Self::Other,
        }
    }

    fn of_message(error: &MessageError) -> Self {
        match error {
            MessageError::Usage(_) => Self::Usage,
            MessageError::Malformed(_)
            | MessageError::OtherKind { .. }
            | MessageError::Truncated(_) => Self::Malformed,
            MessageError::NotAccepted(_) => Self::NotAccepted,
            MessageError::Tampered(_)
            | MessageError::Unopened { .. }
            | MessageError::Unprotected => Self::Tampered,
            MessageError::NoSecret { .. } => Self::NoSecret,
            MessageError::Key { .. } | MessageError::Secret(_) => Self::Key,
            MessageError::Unsupported(_) => Self::Unsupported,
            MessageError::TooLarge { .. } | MessageError::OverLimit { .. } => Self::TooLarge,
            _ => Self::Other,
        }
    }

    fn of_log(error: &LogError) -> Self {
        match error {
            LogError::Update(error) => match error {
                UpdateError::NoObject(_)
                | UpdateError::Absent { .. }
                | UpdateError::NoEntry(_)
                | UpdateError::NoDeletable(_) => Self::NotFound,
                UpdateError::Ambiguous { .. } => Self::Ambiguous,
                UpdateError::NotReader { .. } => Self::NoSecret,
                UpdateError::EncryptionLost(_) => Self::Refused,
                _ => Self::Usage,
            },
            LogError::NotALog { .. } => Self::NotFound,
            LogError::Draft(DraftError::Key(_)) | LogError::Signer(_) => Self::Key,
            LogError::Readers { source } => Self::of_message(source),
            LogError::Draft(_)
            | LogError::Genesis(_)
            | LogError::OtherLog { .. }
            | LogError::Unexpected { .. }
            | LogError::SnapshotNotInForce { .. }
            | LogError::BadSnapshot { .. } => Self::Refused,
            LogError::NoSnapshot { .. } => Self::NotFound,
            LogError::NotAnExport { .. }
            | LogError::DamagedExport { .. }
            | LogError::Snapshot { source: SnapshotError::Malformed(_), .. } => Self::Malformed,
            LogError::Snapshot { .. } => Self::Refused,
            _ => Self::Store,
        }
    }
}
