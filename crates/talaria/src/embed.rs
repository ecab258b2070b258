//! What a program in another language embeds: sealing, opening, signing and checking of what is in memory,
//! with keys and certificates that come as bytes, armored or not.
//!
//! The bindings are made of this. Unlike the library below, it reads the clock, holds its locks itself, and
//! notices that a store has changed, so every value can be kept as long as the program runs and be used by
//! all of its threads.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use talaria_cert::first_packet;
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::{Cert, Fingerprint};
use talaria_message::policy;
use talaria_message::{
    Acceptance, EncryptOptions, Facts, Issuer, Lookup, MessageError, MessageKind, NotAccepted,
    Profile, Recipients, Recognised, Sealer, SignatureReport, SigningKey, Unsigned,
    decryption_keys, read_certs, signing_key, unarmored,
};
use talaria_store::{Access, Order, Query, StoreError};

use crate::{Error, Stores};

/// Seconds since 1970.
fn now() -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sealer for passphrases and for all certificates in `certs`, each of which has one or more.
/// `profile` is `None` for the newest that all of them have announced.
///
/// # Errors
///
/// [`Error::Message`]: nobody to seal for, no certificate where there should be one, or one that cannot be
/// encrypted to.
pub fn sealer<P: AsRef<[u8]>, C: AsRef<[u8]>>(
    passphrases: &[P],
    certs: &[C],
    profile: Option<Profile>,
) -> Result<Sealer, Error> {
    let mut recipients = Recipients::default();
    for cert in parse_all(certs)? {
        recipients.add(&cert, policy(), now())?;
    }
    passwords(passphrases).into_iter().for_each(|password| recipients.add_password(password));
    let options = EncryptOptions { profile, threads: 1, ..EncryptOptions::default() };
    Ok(Sealer::new(&recipients, options)?)
}

/// Opens messages with passphrases and secret keys. One message at a time: a program that opens on several
/// threads has one for each.
pub struct Opener(Mutex<talaria_message::Opener>);

impl Opener {
    /// Takes all secret keys in `keys`; the locked ones among them are unlocked with one of
    /// `key_passphrases` when a message is for them.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if there is no key where one should be.
    pub fn new<P: AsRef<[u8]>, K: AsRef<[u8]>>(
        passphrases: &[P],
        keys: &[K],
        key_passphrases: &[P],
    ) -> Result<Self, Error> {
        let unlocking = passwords(key_passphrases);
        let ask = Arc::new(Mutex::new(move |asked: usize, _: &_| unlocking.get(asked).cloned()));
        let certs = parse_all(keys)?;
        if !certs.iter().all(Cert::is_tsk) {
            return Err(MessageError::Malformed("there is no secret key").into());
        }
        let keys = certs.iter().flat_map(|cert| decryption_keys(cert, &ask)).collect();
        Ok(Self(Mutex::new(talaria_message::Opener::new(keys, passwords(passphrases)))))
    }

    /// The content of a message, whose signatures nobody looks at.
    ///
    /// # Errors
    ///
    /// [`Error::Message`]; nothing of the message is returned.
    pub fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let nobody = Box::new(|_: &Issuer| Vec::new());
        let verifier = talaria_message::Verifier::new(nobody, policy(), now());
        Ok(lock(&self.0).open(&encrypted(sealed)?, &verifier)?.0)
    }

    /// The content of a message and the reports on its signatures, none if it is not signed. With `signers`,
    /// each of them must have made a good one.
    ///
    /// # Errors
    ///
    /// [`Error::Message`], with [`MessageError::NotAccepted`] for a bad signature or one that is missing;
    /// nothing of the message is returned.
    pub fn open_verified(
        &self,
        sealed: &[u8],
        verifier: &Verifier,
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

/// The policy of callers who expect signers, or none in particular.
fn acceptance(signers: Option<&[Fingerprint]>, unsigned: Unsigned) -> Acceptance {
    match signers {
        Some(signers) => Acceptance::Expected(signers.to_vec()),
        None => Acceptance::NoneBad(unsigned),
    }
}

/// Fingerprints of certificates or keys, in hexadecimal.
///
/// # Errors
///
/// [`MessageError::Usage`] for anything else.
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

/// The message that only the recipients of `sealer` can read, signed with `key`.
///
/// # Errors
///
/// [`Error::Message`] if the key refuses.
pub fn seal_signed(sealer: &Sealer, plain: &[u8], key: &Key) -> Result<Vec<u8>, Error> {
    Ok(sealer.seal_signed(plain, std::slice::from_mut(&mut *lock(&key.signing)), now())?)
}

/// Does the work of a call from another language. A panic is a bug of ours, and an error like any other there.
///
/// # Errors
///
/// That of `work`, or [`Error::Bug`].
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // What a panic left behind is behind locks, which go on (see `lock`), or is dropped.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Error::Bug))
}

/// A secret key that signs.
pub struct Key {
    signing: Mutex<SigningKey>,
    certificate: String,
}

impl Key {
    /// The newest key that may sign of the one certificate in `bytes`, unlocked.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if there is none, if there are more, or if the passphrase does not fit.
    pub fn from_bytes(bytes: &[u8], passphrase: Option<&[u8]>) -> Result<Self, Error> {
        let certs = parse(bytes)?;
        let [cert] = &certs[..] else {
            return Err(MessageError::Usage("a key to sign with is one, not several").into());
        };
        let mut ask = |asked: usize, _: &_| passphrase.filter(|_| asked == 0).map(Password::from);
        let signing = Mutex::new(signing_key(cert, policy(), now(), &mut ask)?);
        Ok(Self { signing, certificate: cert.fingerprint().to_hex() })
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
    /// [`Error::Message`] if the key refuses.
    pub fn sign(&self, data: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(lock(&self.signing).sign(data, now())?)
    }

    /// A detached signature on each of `data`, on all cores.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if the key refuses.
    pub fn sign_many<B: AsRef<[u8]> + Sync>(&self, data: &[B]) -> Result<Vec<Vec<u8>>, Error> {
        Ok(lock(&self.signing).sign_many(data, now())?)
    }
}

/// A store to read, or a keyring file.
#[derive(Clone)]
pub struct Certificates(Arc<Mutex<Stores>>);

impl Certificates {
    /// Opens the store at `path`.
    ///
    /// # Errors
    ///
    /// What [`Stores::open`] can meet.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let stores = Stores::open(&[path.to_owned()], Access::Read, now())?;
        Ok(Self(Arc::new(Mutex::new(stores))))
    }

    /// All certificates that `query` names, as they are stored. Anybody can make a certificate with any
    /// user ID: to encrypt, ask for a fingerprint, or use [`Self::recipient`].
    ///
    /// # Errors
    ///
    /// [`Error::Query`], [`Error::NotFound`], or what reading can meet.
    pub fn lookup(&self, query: &str) -> Result<Vec<Vec<u8>>, Error> {
        let certs = find(&lock(&self.0), &query.parse()?)?;
        Ok(certs.iter().map(|cert| cert.as_bytes().to_vec()).collect())
    }

    /// The only certificate that `query` names and that can be encrypted to, as it is stored.
    ///
    /// # Errors
    ///
    /// What [`Stores::recipient`] can meet.
    pub fn recipient(&self, query: &str) -> Result<Vec<u8>, Error> {
        let stores = lock(&self.0);
        let query: Query = query.parse()?;
        let name = stores.recipient(&query, policy(), now())?.fingerprint().to_hex();
        // Another certificate may have its key as a subkey.
        let mut found = find(&stores, &name.parse()?)?;
        found.retain(|cert| cert.fingerprint().to_string() == name);
        let cert = found.pop().ok_or(Error::NotFound { query: query.to_string() })?;
        Ok(cert.as_bytes().to_vec())
    }

    fn last_change(&self) -> Result<i64, StoreError> {
        lock(&self.0).iter().map(|opened| opened.store.last_change()).sum()
    }
}

/// All certificates that `query` names.
fn find(stores: &Stores, query: &Query) -> Result<Vec<talaria_cert::Cert>, Error> {
    let mut fingerprints = Vec::new();
    stores.visit(std::slice::from_ref(query), Order::Insertion, now(), |_, row| {
        fingerprints.push(row.summary.fingerprint());
        Ok(ControlFlow::Continue(()))
    })?;
    let certs = fingerprints.into_iter().map(|fingerprint| stores.cert(fingerprint));
    Ok(certs.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Checks signatures, as of the time of each call.
pub struct Verifier {
    current: Mutex<Current>,
    source: Source,
}

/// Where certificates come from.
enum Source {
    Given(Arc<Vec<Cert>>),
    Store(Certificates),
}

struct Current {
    verifier: Arc<talaria_message::Verifier<'static>>,
    moment: Moment,
}

/// What a verifier has taken into account.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Moment {
    now: u32,
    /// The latest change of the store.
    change: i64,
}

impl Verifier {
    /// A verifier with all certificates in `certs`.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if there is none where one should be.
    pub fn with_certs<B: AsRef<[u8]>>(certs: &[B]) -> Result<Self, Error> {
        Self::new(Source::Given(Arc::new(parse_all(certs)?)))
    }

    /// A verifier with the certificates of a store, whatever is added to it later.
    ///
    /// # Errors
    ///
    /// [`Error::Store`].
    pub fn with_store(store: &Certificates) -> Result<Self, Error> {
        Self::new(Source::Store(store.clone()))
    }

    fn new(source: Source) -> Result<Self, Error> {
        let moment = source.moment()?;
        let verifier = talaria_message::Verifier::new(source.lookup(), policy(), moment.now);
        let current = Current { verifier: Arc::new(verifier), moment };
        Ok(Self { current: Mutex::new(current), source })
    }

    /// Checks a detached signature on `data`, or several one after the other. With `signers`, each of them
    /// must have made a good one.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] only: whatever is wrong with a signature is in what is returned.
    pub fn verify(
        &self,
        signature: &[u8],
        data: &[u8],
        signers: Option<&[Fingerprint]>,
    ) -> Result<Verification, Error> {
        let current = self.current()?;
        let acceptance = acceptance(signers, Unsigned::Refused);
        let reports = match unarmored(signature) {
            Ok(packets) if is_one_packet(&packets) => vec![current.one(&packets, data)],
            Ok(packets) => several(&current, &packets, data),
            Err(error) => vec![SignatureReport::unreadable(&error.to_string())],
        };
        Ok(Verification::of(reports, &acceptance))
    }

    /// Checks many signatures, each with its data, on all cores; Ed25519 signatures in batches.
    ///
    /// # Errors
    ///
    /// As [`Self::verify`].
    pub fn verify_many<S: AsRef<[u8]>, D: AsRef<[u8]>>(
        &self,
        items: &[(S, D)],
        signers: Option<&[Fingerprint]>,
    ) -> Result<Vec<Verification>, Error> {
        let current = self.current()?;
        let acceptance = acceptance(signers, Unsigned::Refused);
        let decoded: Vec<_> =
            items.iter().map(|(signature, _)| unarmored(signature.as_ref())).collect();
        // What is one packet goes together.
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
            Verification::of(reports, &acceptance)
        };
        Ok(decoded.iter().zip(items).map(|(packets, (_, data))| of(packets, data)).collect())
    }

    /// The verifier as of now. No lock is held while it works.
    fn current(&self) -> Result<Arc<talaria_message::Verifier<'static>>, Error> {
        let moment = self.source.moment()?;
        let mut current = lock(&self.current);
        if current.moment.change != moment.change {
            // What it knows of certificates may have changed: a key may be revoked now.
            let lookup = self.source.lookup();
            current.verifier =
                Arc::new(talaria_message::Verifier::new(lookup, policy(), moment.now));
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
            Self::Store(store) => store.last_change()?,
        };
        Ok(Moment { now: now(), change })
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

/// What came out of checking the signatures on a document.
#[derive(Clone, Debug)]
pub struct Verification {
    /// The signature on which the decision rests.
    pub report: SignatureReport,
    /// Whether the document is accepted.
    pub decision: Result<Facts, NotAccepted>,
}

impl Verification {
    /// By the policy, from at least one report.
    fn of(mut reports: Vec<SignatureReport>, acceptance: &Acceptance) -> Self {
        let decision = acceptance.decide(&reports);
        let report = match acceptance.decisive(&reports) {
            Some(place) => reports.swap_remove(place),
            None => SignatureReport::unreadable("there is no signature"),
        };
        Self { report, decision }
    }
}

/// The reports on signatures on the same data.
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

/// The packets of an encrypted message, taken out of their armor if they have one.
fn encrypted(sealed: &[u8]) -> Result<Cow<'_, [u8]>, MessageError> {
    let found = Recognised::of(sealed, true).map_or(MessageKind::Other, |what| what.kind);
    if found != MessageKind::Encrypted {
        return Err(MessageError::OtherKind { found, wanted: "an encrypted message" });
    }
    unarmored(sealed)
}

fn passwords<B: AsRef<[u8]>>(texts: &[B]) -> Vec<Password> {
    texts.iter().map(|text| Password::from(text.as_ref())).collect()
}

/// All certificates in each of `inputs`.
fn parse_all<B: AsRef<[u8]>>(inputs: &[B]) -> Result<Vec<Cert>, Error> {
    let parsed = inputs.iter().map(|bytes| parse(bytes.as_ref()));
    Ok(parsed.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The certificates in `bytes`, at least one.
fn parse(bytes: &[u8]) -> Result<Vec<Cert>, MessageError> {
    const NONE: MessageError = MessageError::Malformed("it is neither a certificate nor a key");
    let certs: Vec<Cert> =
        read_certs(bytes)?.into_iter().collect::<Result<_, _>>().map_err(|_| NONE)?;
    if certs.is_empty() { Err(NONE) } else { Ok(certs) }
}

/// What a caller in another language can do about an error.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorKind {
    /// What was asked for does not go together.
    Usage,
    /// The bytes are not what they should be.
    Malformed,
    /// What protects a message from changes does not hold, or is missing.
    Tampered,
    /// None of the keys and passphrases opens the message.
    NoSecret,
    /// A certificate cannot be encrypted to, or a key cannot sign or is locked.
    Key,
    /// Something in a message cannot be computed here.
    Unsupported,
    /// A part of a message is larger than what is read of it.
    TooLarge,
    /// There is no such store, or no such certificate in it.
    NotFound,
    /// More than one certificate is called that, or none is called exactly that.
    Ambiguous,
    /// A signature of the message is bad, or one that it must have is missing.
    NotAccepted,
    /// The store cannot be read.
    Store,
    /// A bug of ours: a panic that was stopped.
    Bug,
    /// Anything else.
    Other,
}

impl From<&Error> for ErrorKind {
    fn from(error: &Error) -> Self {
        match error {
            Error::Message(error) => match error {
                MessageError::Usage(_) => Self::Usage,
                MessageError::Malformed(_)
                | MessageError::OtherKind { .. }
                | MessageError::Truncated(_) => Self::Malformed,
                MessageError::NotAccepted(_) => Self::NotAccepted,
                MessageError::Tampered(_) | MessageError::Unopened | MessageError::Unprotected => {
                    Self::Tampered
                }
                MessageError::NoSecret { .. } => Self::NoSecret,
                MessageError::Key { .. } | MessageError::Secret(_) => Self::Key,
                MessageError::Unsupported(_) => Self::Unsupported,
                MessageError::TooLarge { .. } => Self::TooLarge,
                _ => Self::Other,
            },
            Error::Store(StoreError::Missing { .. } | StoreError::NotFound(_))
            | Error::NotFound { .. } => Self::NotFound,
            Error::Store(_) => Self::Store,
            Error::Bug => Self::Bug,
            Error::Ambiguous { .. } | Error::Inexact { .. } => Self::Ambiguous,
            Error::Query(_) => Self::Usage,
            Error::Unrecognised { .. } => Self::Malformed,
            _ => Self::Other,
        }
    }
}
