//! Keys in gpg-agent, which may have them on disk or on a card.
//!
//! The secret key stays in the agent. The agent signs digests and unwraps session keys, and asks
//! for passphrases and PINs itself unless some were given. Sequoia's own crate for gpg-agent needs
//! a Cap'n Proto compiler to build and an asynchronous runtime to run. This module implements only
//! the small part of the protocol that talaria needs.

mod assuan;
pub(crate) mod error;
mod expression;

use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use openpgp::crypto::mem::Protected;
use openpgp::crypto::mpi::{self, MPI};
use openpgp::crypto::{Decryptor, Password, SessionKey, Signer, ecdh};
use openpgp::packet::Key;
use openpgp::packet::key::{PublicParts, UnspecifiedRole};
use openpgp::types::HashAlgorithm;
use parking_lot::Mutex;
use talaria_cert::{Fingerprint, Keygrip, Summary};
use talaria_message::{
    DecryptionKey, Elsewhere, MessageError, Purpose, Rules, SigningKey, make, openpgp, usable,
};
use talaria_store::{Order, Query};

pub use self::error::{AgentError, Refusal};

use self::assuan::{Connection, Inquiry};
use self::expression::Expression;
use crate::error::{Error, of_make};
use crate::keys::questions::with_parsed;
use crate::stores::Stores;

/// Carries an [`AgentError`] through Sequoia, which preserves the chain of causes but not the type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Passed(#[source] AgentError);

/// A certificate whose secret keys, or some of them, are in the agent.
#[derive(Clone, Debug)]
pub struct AgentCert {
    /// The summary of the certificate.
    pub summary: Summary,
    /// The keys whose secrets the agent has.
    pub secrets: Vec<Fingerprint>,
}

/// Whether to start an agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Start {
    /// Use an agent only if it runs already.
    Never,
    /// Start an agent if none runs.
    IfAbsent,
}

/// A client of gpg-agent.
#[derive(Clone)]
pub struct Agent {
    socket: PathBuf,
    /// Passphrases for keys in the agent; without any the agent asks for them itself.
    passwords: Vec<Password>,
}

/// Leaves the passphrases out.
impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Agent {
    /// Finds the agent of the user's GnuPG home directory. The agent asks for passphrases itself if
    /// `passwords` is empty.
    ///
    /// # Errors
    ///
    /// [`AgentError::Absent`] if no agent runs; [`AgentError::NoHome`], [`AgentError::Gpgconf`] and
    /// [`AgentError::NotStarted`] if none can be started; [`AgentError::Io`].
    pub fn find(start: Start, passwords: Vec<Password>) -> Result<Self, AgentError> {
        if let Some(home) = home().filter(|home| !home.is_dir()) {
            // Without a home directory there is no agent, and most users of talaria have none.
            return Err(match start {
                Start::Never => AgentError::Absent,
                Start::IfAbsent => AgentError::NoHome { home },
            });
        }
        let agent = Self { socket: socket()?, passwords };
        match (agent.connect(), start) {
            (Ok(_), _) => Ok(agent),
            (Err(AgentError::Absent), Start::IfAbsent) => {
                gpgconf(&["--launch", "gpg-agent"])?;
                agent.connect()?;
                Ok(agent)
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Whether the agent has the secret of `key`.
    ///
    /// # Errors
    ///
    /// [`AgentError::Io`].
    pub fn has(&self, key: &Key<PublicParts, UnspecifiedRole>) -> Result<bool, AgentError> {
        let Some(keygrip) = keygrip(key) else { return Ok(false) };
        match self.connect()?.command(&format!("HAVEKEY {keygrip}")) {
            Ok(()) => Ok(true),
            Err(AgentError::Refused(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The keygrips of all secret keys that the agent has, on disk or on a known card.
    ///
    /// # Errors
    ///
    /// [`AgentError::Io`], [`AgentError::Refused`].
    pub fn keygrips(&self) -> Result<Vec<Keygrip>, AgentError> {
        let mut keygrips = Vec::new();
        self.connect()?.ask("KEYINFO --list", &mut Inquiry::none(), &mut |line| {
            let mut words = line.split(' ');
            if words.next() == Some("KEYINFO")
                && let Some(Ok(Query::Keygrip(keygrip))) =
                    words.next().map(|word| format!("&{word}").parse())
            {
                keygrips.push(Keygrip(keygrip));
            }
        })?;
        Ok(keygrips)
    }

    /// The certificates in `stores` whose secret keys the agent has, and the number of the agent's
    /// secret keys that belong to none of these certificates.
    ///
    /// # Errors
    ///
    /// [`Error::Agent`], or errors of reading the stores.
    pub fn held(&self, stores: &Stores, now: u32) -> Result<(Vec<AgentCert>, usize), Error> {
        let keygrips = self.keygrips()?;
        let mut held: Vec<AgentCert> = Vec::new();
        let mut unknown = 0;
        for grip in &keygrips {
            let query = [Query::Keygrip(grip.0)];
            let mut found = Vec::new();
            let visited = stores.visit(&query, Order::Insertion, now, |_, row| {
                found.push(row.summary);
                Ok(ControlFlow::Continue(()))
            });
            match visited {
                Ok(()) => {}
                Err(Error::NotFound { .. }) => unknown += 1,
                Err(error) => return Err(error),
            }
            for summary in found {
                let fingerprint = summary.fingerprint();
                if held.iter().any(|held| held.summary.fingerprint() == fingerprint) {
                    continue;
                }
                let Some(cert) = stores.cert(fingerprint)? else { continue };
                let has = |key: &talaria_cert::Key<'_>| {
                    key.keygrip().is_some_and(|keygrip| keygrips.contains(&keygrip))
                };
                let secrets = cert.keys().filter(has).map(|key| key.fingerprint()).collect();
                held.push(AgentCert { summary, secrets });
            }
        }
        Ok((held, unknown))
    }

    /// The newest signing key of `cert` that is valid at `now`, in seconds since 1970, and that the
    /// agent has.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if the certificate may not sign; [`Error::NoSecret`] if the agent has
    /// none of its signing keys; [`Error::Agent`].
    pub fn signing_key(
        &self,
        cert: &openpgp::Cert,
        rules: Rules,
        now: u32,
    ) -> Result<SigningKey, Error> {
        let mut keys = usable(cert, Purpose::Sign, rules, &mut |_| None, now)?.keys;
        keys.retain(|key| key.pk_algo().is_supported());
        keys.sort_by_key(|key| std::cmp::Reverse(key.creation_time()));
        for key in keys {
            if self.has(&key)? {
                return Ok(SigningKey::from_signer(Box::new(self.key(key))));
            }
        }
        Err(Error::NoSecret { name: cert.fingerprint().to_hex() })
    }

    /// The primary key of `cert`, if the key may certify at `now`, in seconds since 1970, and the
    /// agent has it.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if the key may not certify; [`Error::NoSecret`] if the agent does not
    /// have it; [`Error::Agent`].
    pub fn certifier(
        &self,
        cert: &openpgp::Cert,
        rules: Rules,
        now: u32,
    ) -> Result<Box<dyn Signer>, Error> {
        let name = cert.fingerprint().to_hex();
        make::may_certify(cert, rules, now).map_err(|error| of_make("use", &name, error))?;
        let key = cert.primary_key().key().clone().role_into_unspecified();
        if self.has(&key)? { Ok(Box::new(self.key(key))) } else { Err(Error::NoSecret { name }) }
    }

    /// The decryption keys of all certificates in `stores` whose secret keys the agent has.
    ///
    /// # Errors
    ///
    /// [`Error::Agent`], or errors of reading the stores.
    pub fn decryption_keys(&self, stores: &Stores, now: u32) -> Result<Vec<DecryptionKey>, Error> {
        let keygrips = self.keygrips()?;
        let mut keys: Vec<DecryptionKey> = Vec::new();
        let mut seen = HashSet::new();
        for grip in &keygrips {
            let certs = match stores.parsed(&Query::Keygrip(grip.0), now) {
                Ok(certs) => certs,
                Err(Error::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            };
            let found = certs.iter().flat_map(|cert| cert.keys().map(move |key| (cert, key)));
            for (cert, key) in found {
                let key = key.key().clone().role_into_unspecified();
                if key.pk_algo().for_encryption()
                    && keygrip(&key) == Some(*grip)
                    && seen.insert(key.fingerprint())
                {
                    keys.push(DecryptionKey::new(Box::new(self.key(key)), cert.fingerprint()));
                }
            }
        }
        Ok(keys)
    }

    /// A function that finds an agent when it is called, and the decryption keys as
    /// [`Self::decryption_keys`] does, for [`talaria_message::Secrets`]. Passphrases that were
    /// given for a message are not tried as PINs.
    #[must_use]
    pub fn elsewhere(start: Start, given: Vec<Password>, stores: Stores, now: u32) -> Elsewhere {
        Box::new(move |has_passwords| {
            let given = if has_passwords { Vec::new() } else { given.clone() };
            let agent = Self::find(start, given);
            let agent = agent.map_err(|error| MessageError::Secret(error.into()))?;
            agent.decryption_keys(&stores, now).map_err(|error| MessageError::Secret(error.into()))
        })
    }

    fn key(&self, public: Key<PublicParts, UnspecifiedRole>) -> AgentKey {
        AgentKey { agent: self.clone(), public }
    }

    fn connect(&self) -> Result<Connection, AgentError> {
        Connection::open(&self.socket)
    }

    /// Opens a connection, and tells the agent which key to use and how to ask the user.
    fn session(
        &self,
        command: &str,
        key: &Key<PublicParts, UnspecifiedRole>,
    ) -> Result<Connection, AgentError> {
        let keygrip = keygrip(key).ok_or(AgentError::Malformed("a key that it cannot have"))?;
        let mut connection = self.connect()?;
        connection.surroundings()?;
        if !self.passwords.is_empty() {
            connection.command("OPTION pinentry-mode=loopback")?;
        }
        connection.command(&format!("{command} {keygrip}"))?;
        let text = format!(
            "Please enter the passphrase to unlock the OpenPGP secret key:\n{}",
            key.keyid().to_hex()
        );
        connection.command(&format!("SETKEYDESC {}", assuan::escaped(&text)))?;
        Ok(connection)
    }

    /// Calls `work` with each passphrase until one succeeds, or once if the agent asks for it
    /// itself. After a wrong PIN no other is tried on a card: a card allows three wrong PINs and
    /// then accepts none, not even the right one.
    fn each_password<T>(
        &self,
        mut work: impl FnMut(Option<&Password>) -> Result<T, AgentError>,
    ) -> Result<T, AgentError> {
        let Some((last, others)) = self.passwords.split_last() else { return work(None) };
        for password in others {
            match work(Some(password)) {
                Err(AgentError::Refused(refusal)) if refusal.code != Refusal::BAD_PIN => {}
                done => return done,
            }
        }
        work(Some(last))
    }
}

/// A secret key in the agent.
struct AgentKey {
    agent: Agent,
    public: Key<PublicParts, UnspecifiedRole>,
}

impl Signer for AgentKey {
    fn public(&self) -> &Key<PublicParts, UnspecifiedRole> {
        &self.public
    }

    fn sign(&mut self, hash: HashAlgorithm, digest: &[u8]) -> openpgp::Result<mpi::Signature> {
        let digits: String = digest.iter().map(|byte| format!("{byte:02X}")).collect();
        let answer = self.agent.each_password(|password| {
            let mut connection = self.agent.session("SIGKEY", &self.public)?;
            connection.command(&format!("SETHASH {} {digits}", u8::from(hash)))?;
            connection.ask("PKSIGN", &mut Inquiry { password, ciphertext: None }, &mut |_| {})
        });
        let answer = answer.map_err(Passed)?;
        let answer = Expression::parse(&answer)?;
        let number = |name: &str| {
            let bytes = answer.value(name);
            bytes.ok_or(AgentError::Malformed("a signature that lacks a number"))
        };
        Ok(match self.public.mpis() {
            mpi::PublicKey::RSA { .. } => mpi::Signature::RSA { s: MPI::new(number("s")?) },
            public => {
                let (r, s) = (MPI::new(number("r")?), MPI::new(number("s")?));
                match public {
                    mpi::PublicKey::EdDSA { .. } => mpi::Signature::EdDSA { r, s },
                    mpi::PublicKey::ECDSA { .. } => mpi::Signature::ECDSA { r, s },
                    mpi::PublicKey::DSA { .. } => mpi::Signature::DSA { r, s },
                    _ => return Err(AgentError::Malformed("an unknown signature").into()),
                }
            }
        })
    }
}

impl Decryptor for AgentKey {
    fn public(&self) -> &Key<PublicParts, UnspecifiedRole> {
        &self.public
    }

    fn decrypt(
        &mut self,
        ciphertext: &mpi::Ciphertext,
        plaintext_len: Option<usize>,
    ) -> openpgp::Result<SessionKey> {
        let question = match ciphertext {
            mpi::Ciphertext::RSA { c } => expression::list("rsa", &[("a", c.value())]),
            mpi::Ciphertext::ElGamal { e, c } => {
                expression::list("elg", &[("a", e.value()), ("b", c.value())])
            }
            mpi::Ciphertext::ECDH { e, key } => {
                expression::list("ecdh", &[("s", key), ("e", e.value())])
            }
            _ => return Err(AgentError::Malformed("nothing for this algorithm").into()),
        };
        let mut padded = true;
        let answer = self.agent.each_password(|password| {
            let mut connection = self.agent.session("SETKEY", &self.public)?;
            let mut inquiry = Inquiry { password, ciphertext: Some(&question) };
            connection.ask("PKDECRYPT", &mut inquiry, &mut |line| {
                padded &= line != "PADDING 0";
            })
        });
        let answer = answer.map_err(|error| MessageError::Secret(error.into()))?;
        let answer = Expression::parse(&answer)?;
        let value = answer.value("value").ok_or(AgentError::Malformed("no session key"))?;
        match self.public.mpis() {
            mpi::PublicKey::ECDH { curve, .. } => {
                let shared: Protected = if let Some(x) = value.strip_prefix(&[ABSCISSA_ONLY]) {
                    x.into()
                } else {
                    let point = mpi::ProtectedMPI::from(value.to_vec());
                    point.decode_point(curve)?.0.into()
                };
                ecdh::decrypt_unwrap(&self.public, &shared, ciphertext, plaintext_len)
            }
            _ if padded => Ok(unpadded(value)?.into()),
            _ => Ok(value.into()),
        }
    }
}

/// The prefix that GnuPG puts before a point of which a card has returned the x-coordinate only.
const ABSCISSA_ONLY: u8 = 0x41;

/// The content of a PKCS #1 block (RFC 8017, section 7.2), which follows `0 2`, nonzero bytes, and
/// a 0.
fn unpadded(block: &[u8]) -> Result<&[u8], AgentError> {
    let block = block.strip_prefix(&[0]).unwrap_or(block);
    let rest = block.strip_prefix(&[2]);
    let content = rest.and_then(|rest| {
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some(&rest[end + 1..])
    });
    content.ok_or(AgentError::Malformed("a session key that is not padded"))
}

fn keygrip(key: &Key<PublicParts, UnspecifiedRole>) -> Option<Keygrip> {
    with_parsed(key, |key: &talaria_cert::Key<'_>| talaria_cert::Key::keygrip(key)).flatten()
}

/// The home directory of GnuPG; `None` if only GnuPG knows it.
fn home() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    named("GNUPGHOME").or_else(|| Some(named("HOME")?.join(".gnupg")))
}

/// The socket of the agent, and the home directory that it belongs to.
static SOCKET: Mutex<Option<(Option<PathBuf>, PathBuf)>> = Mutex::new(None);

/// The path of the agent's socket. gpgconf is asked once for each home directory.
fn socket() -> Result<PathBuf, AgentError> {
    let home = home();
    let mut known = SOCKET.lock();
    if let Some((_, socket)) = known.as_ref().filter(|(of, _)| *of == home) {
        return Ok(socket.clone());
    }
    let socket = PathBuf::from(gpgconf(&["--list-dirs", "agent-socket"])?);
    *known = Some((home, socket.clone()));
    Ok(socket)
}

/// The first line of gpgconf's output.
fn gpgconf(args: &[&str]) -> Result<String, AgentError> {
    let mut command = Command::new("gpgconf");
    let output = command.args(args).stdin(Stdio::null()).output().map_err(AgentError::Gpgconf)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().map(str::trim).find(|line| !line.is_empty());
        let why = said.map_or_else(|| output.status.to_string(), str::to_owned);
        return Err(AgentError::NotStarted(why));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(assuan::unescaped(text.lines().next().unwrap_or_default()))
}
