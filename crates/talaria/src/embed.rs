//! What a program in another language embeds: sealing, opening, signing and checking of what is in memory,
//! with keys and certificates that come as bytes, armored or not.
//!
//! The bindings are made of this. Unlike the library below, it reads the clock, holds its locks itself, and
//! notices that a store has changed, so every value can be kept as long as the program runs and be used by
//! all of its threads.

use std::borrow::Cow;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use talaria_cert::first_packet;
use talaria_message::openpgp::Cert;
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::policy::StandardPolicy;
use talaria_message::{
    ArmorReader, EncryptOptions, Issuer, Lookup, MessageError, Outcome, Profile, Recipients,
    Sealer, SignatureReport, SigningKey, decryption_keys, read_certs, signing_key,
};
use talaria_store::{Access, Order, Query, StoreError};

use crate::{Error, Stores};

static POLICY: StandardPolicy<'static> = StandardPolicy::new();

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
        recipients.add(&cert, &POLICY, now())?;
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
        let verifier = talaria_message::Verifier::new(nobody, &POLICY, now());
        Ok(lock(&self.0).open(&binary(sealed)?, &verifier)?.0)
    }

    /// The content of a message and the reports on its signatures, none if it is not signed.
    ///
    /// # Errors
    ///
    /// [`Error::Message`]; nothing of the message is returned. A signature that is bad is no error.
    pub fn open_verified(
        &self,
        sealed: &[u8],
        verifier: &Verifier,
    ) -> Result<(Vec<u8>, Vec<SignatureReport>), Error> {
        let sealed = binary(sealed)?;
        let current = verifier.current()?;
        let (plain, decrypted) = lock(&self.0).open(&sealed, &current)?;
        Ok((plain, decrypted.signatures))
    }
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
        let signing = Mutex::new(signing_key(cert, &POLICY, now(), &mut ask)?);
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
        let name = stores.recipient(&query, &POLICY, now())?.fingerprint().to_hex();
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
        let verifier = talaria_message::Verifier::new(source.lookup(), &POLICY, moment.now);
        let current = Current { verifier: Arc::new(verifier), moment };
        Ok(Self { current: Mutex::new(current), source })
    }

    /// Checks a detached signature on `data`. Of several signatures in one: the first that is bad, else
    /// the first that is good, else the first.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] only: whatever is wrong with a signature is in the report.
    pub fn verify(&self, signature: &[u8], data: &[u8]) -> Result<SignatureReport, Error> {
        let current = self.current()?;
        Ok(match binary(signature) {
            Ok(packets) if is_one_packet(&packets) => current.one(&packets, data),
            Ok(packets) => several(&current, &packets, data),
            Err(error) => SignatureReport::unreadable(&error.to_string()),
        })
    }

    /// Checks many signatures, each with its data, on all cores; Ed25519 signatures in batches.
    ///
    /// # Errors
    ///
    /// As [`Self::verify`].
    pub fn verify_many<S: AsRef<[u8]>, D: AsRef<[u8]>>(
        &self,
        items: &[(S, D)],
    ) -> Result<Vec<SignatureReport>, Error> {
        let current = self.current()?;
        let decoded: Vec<_> =
            items.iter().map(|(signature, _)| binary(signature.as_ref())).collect();
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
        Ok(decoded
            .iter()
            .zip(items)
            .map(|(packets, (_, data))| match packets {
                Ok(packets) if is_one_packet(packets) => {
                    reports.next().expect("one report for each signature")
                }
                Ok(packets) => several(&current, packets, data.as_ref()),
                Err(error) => SignatureReport::unreadable(&error.to_string()),
            })
            .collect())
    }

    /// The verifier as of now. No lock is held while it works.
    fn current(&self) -> Result<Arc<talaria_message::Verifier<'static>>, Error> {
        let moment = self.source.moment()?;
        let mut current = lock(&self.current);
        if current.moment.change != moment.change {
            // What it knows of certificates may have changed: a key may be revoked now.
            let lookup = self.source.lookup();
            current.verifier =
                Arc::new(talaria_message::Verifier::new(lookup, &POLICY, moment.now));
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

/// What came out of signatures on the same data, as one.
fn several(
    verifier: &talaria_message::Verifier<'_>,
    packets: &[u8],
    mut data: &[u8],
) -> SignatureReport {
    let mut reports = match verifier.detached(packets, &mut data) {
        Ok(reports) => reports,
        Err(error) => return SignatureReport::unreadable(&error.to_string()),
    };
    let is = |wanted: Outcome| reports.iter().position(|report| report.outcome == wanted);
    let place = is(Outcome::Bad).or_else(|| is(Outcome::Good)).unwrap_or(0);
    reports.swap_remove(place)
}

fn is_one_packet(bytes: &[u8]) -> bool {
    let end = bytes.as_ptr_range().end;
    first_packet(bytes).is_some_and(|packet| packet.body.as_ptr_range().end == end)
}

/// Packets, taken out of their armor if they have one.
fn binary(bytes: &[u8]) -> Result<Cow<'_, [u8]>, MessageError> {
    if bytes.first().is_some_and(|octet| octet & 0x80 != 0) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut packets = Vec::new();
    ArmorReader::new(bytes)?.read_to_end(&mut packets).map_err(|error| {
        match error.downcast::<MessageError>() {
            Ok(ours) => ours,
            Err(error) => MessageError::Read(error),
        }
    })?;
    Ok(Cow::Owned(packets))
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
    /// More than one certificate is called that.
    Ambiguous,
    /// The store cannot be read.
    Store,
    /// Anything else.
    Other,
}

impl From<&Error> for ErrorKind {
    fn from(error: &Error) -> Self {
        match error {
            Error::Message(error) => match error {
                MessageError::Usage(_) => Self::Usage,
                MessageError::Malformed(_) | MessageError::Truncated(_) => Self::Malformed,
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
            Error::Ambiguous { .. } => Self::Ambiguous,
            Error::Query(_) => Self::Usage,
            Error::Unrecognised { .. } => Self::Malformed,
            _ => Self::Other,
        }
    }
}
