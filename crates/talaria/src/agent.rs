//! Keys in GnuPG's agent, which may have them on disk or on a card.
//!
//! The secret stays there: the agent signs digests and unwraps session keys, and asks for passphrases and
//! PINs itself unless some were given. The crate that does this for Sequoia wants a compiler of Cap'n Proto
//! where it is built, and an asynchronous runtime where it runs; what is needed of the protocol is little.

mod assuan;
mod expression;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{fmt, io};

use openpgp::crypto::mem::Protected;
use openpgp::crypto::mpi::{self, MPI};
use openpgp::crypto::{Decryptor, Password, SessionKey, Signer, ecdh};
use openpgp::packet::Key;
use openpgp::packet::key::{PublicParts, UnspecifiedRole};
use openpgp::policy::Policy;
use openpgp::types::HashAlgorithm;
use talaria_cert::{Fingerprint, Keygrip, Summary};
use talaria_message::{
    DecryptionKey, MessageError, Revocations, SigningKey, make, openpgp, usable,
};
use talaria_store::{Order, Query};

use self::assuan::{Connection, Inquiry};
use self::expression::Expression;
use crate::keys::{of_make, with_parsed};
use crate::{Error, Stores};

/// Why the agent did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// There is none, and none was to be started.
    #[error("gpg-agent does not run")]
    Absent,
    /// GnuPG does not say where the agent is.
    #[error("cannot run gpgconf")]
    Gpgconf(#[source] io::Error),
    /// The connection to the agent failed.
    #[error("cannot talk to gpg-agent at {}", socket.display())]
    Io {
        /// Where it listens.
        socket: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The agent refused, or the user did.
    #[error("gpg-agent refuses: {0}")]
    Refused(Refusal),
    /// What the agent says makes no sense.
    #[error("gpg-agent answers with {0}")]
    Malformed(&'static str),
}

/// What the agent says when it refuses, and what can be done where that is known.
#[derive(Debug)]
pub struct Refusal {
    /// Of libgpg-error, without the part of GnuPG that it comes from.
    code: u16,
    text: String,
}

impl Refusal {
    const BAD_PIN: u16 = 87;
    const CARD_REMOVED: u16 = 110;
    const CARD_NOT_PRESENT: u16 = 112;
    const NO_SCDAEMON: u16 = 119;
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)?;
        to.write_str(match self.code {
            Self::BAD_PIN => "; `gpg --card-status` has the number of tries that are left",
            Self::CARD_REMOVED | Self::CARD_NOT_PRESENT => {
                "; the key is on a card: put that in, and see whether `gpg --card-status` finds it"
            }
            Self::NO_SCDAEMON => "; the key is on a card, which needs GnuPG's scdaemon",
            _ => "",
        })
    }
}

/// An error on its way through Sequoia, which hands on what an error comes from, but not its type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Passed(#[source] AgentError);

/// A certificate of which an agent has secrets.
#[derive(Clone, Debug)]
pub struct Held {
    /// What is said of the certificate.
    pub summary: Summary,
    /// The keys of it whose secrets the agent has.
    pub secrets: Vec<Fingerprint>,
}

/// Whether to start an agent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Start {
    /// Only one that runs already is used.
    Never,
    /// One is started if none runs.
    IfAbsent,
}

/// GnuPG's agent.
#[derive(Clone)]
pub struct Agent {
    socket: PathBuf,
    /// Given for its keys; without any the agent asks by itself.
    passwords: Vec<Password>,
}

/// Without the passphrases.
impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Agent {
    /// The agent of the user's GnuPG home directory. It asks for passphrases itself unless `passwords` has
    /// some.
    ///
    /// # Errors
    ///
    /// [`AgentError::Absent`] if none runs; [`AgentError::Gpgconf`]; [`AgentError::Io`].
    pub fn find(start: Start, passwords: Vec<Password>) -> Result<Self, AgentError> {
        let socket = gpgconf(&["--list-dirs", "agent-socket"])?;
        let agent = Self { socket: PathBuf::from(socket), passwords };
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

    /// The keygrips of all secrets that the agent has or knows a card for.
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

    /// The certificates in `stores` of which the agent has secrets, and how many of its secrets belong to none
    /// of them.
    ///
    /// # Errors
    ///
    /// [`Error::Agent`], or what reading can meet.
    pub fn held(&self, stores: &Stores, now: u32) -> Result<(Vec<Held>, usize), Error> {
        let keygrips = self.keygrips()?;
        let mut held: Vec<Held> = Vec::new();
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
                held.push(Held { summary, secrets });
            }
        }
        Ok((held, unknown))
    }

    /// The newest key of `cert` that may sign at `now`, in seconds since 1970, and that the agent has.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if the certificate may not sign; [`Error::NoSecret`] if the agent has none of its
    /// keys; [`Error::Agent`].
    pub fn signing_key(
        &self,
        cert: &openpgp::Cert,
        policy: &dyn Policy,
        now: u32,
    ) -> Result<SigningKey, Error> {
        let revocations = Revocations::of(cert, policy, &mut |_| Vec::new(), now);
        let valid = usable(cert, policy, now, &revocations)?;
        let keys = valid.keys().alive().revoked(false).supported().for_signing();
        let keys = keys.filter(|key| !revocations.hold(&key.key().fingerprint(), now));
        let mut keys: Vec<_> = keys.map(|key| key.key().clone().role_into_unspecified()).collect();
        keys.sort_by_key(|key| std::cmp::Reverse(key.creation_time()));
        for key in keys {
            if self.has(&key)? {
                return Ok(SigningKey::from_signer(Box::new(self.key(key))));
            }
        }
        Err(Error::NoSecret { name: cert.fingerprint().to_hex() })
    }

    /// The primary key of `cert`, if it may certify at `now`, in seconds since 1970, and the agent has it.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if it may not; [`Error::NoSecret`] if the agent does not have it; [`Error::Agent`].
    pub fn certifier(
        &self,
        cert: &openpgp::Cert,
        policy: &dyn Policy,
        now: u32,
    ) -> Result<Box<dyn Signer>, Error> {
        let name = cert.fingerprint().to_hex();
        make::may_certify(cert, policy, now).map_err(|error| of_make("use", &name, error))?;
        let key = cert.primary_key().key().clone().role_into_unspecified();
        if self.has(&key)? { Ok(Box::new(self.key(key))) } else { Err(Error::NoSecret { name }) }
    }

    /// The keys that decrypt of all certificates in `stores` of which the agent has the secrets.
    ///
    /// # Errors
    ///
    /// [`Error::Agent`], or what reading can meet.
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

    fn key(&self, public: Key<PublicParts, UnspecifiedRole>) -> AgentKey {
        AgentKey { agent: self.clone(), public }
    }

    fn connect(&self) -> Result<Connection, AgentError> {
        Connection::open(&self.socket)
    }

    /// A connection on which the agent knows which key is meant, and how to ask the user.
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

    /// Lets `work` run with each of the passphrases until one does, or once if the agent asks by itself.
    /// A card gets no further one after a wrong one: it allows three, and then none, not even the right one.
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

/// A key in the agent.
struct AgentKey {
    agent: Agent,
    public: Key<PublicParts, UnspecifiedRole>,
}

impl Signer for AgentKey {
    fn public(&self) -> &Key<PublicParts, UnspecifiedRole> {
        &self.public
    }

    fn sign(&mut self, hash: HashAlgorithm, digest: &[u8]) -> openpgp::Result<mpi::Signature> {
        let digits: String = digest.iter().map(|octet| format!("{octet:02X}")).collect();
        let answer = self.agent.each_password(|password| {
            let mut connection = self.agent.session("SIGKEY", &self.public)?;
            connection.command(&format!("SETHASH {} {digits}", u8::from(hash)))?;
            connection.ask("PKSIGN", &mut Inquiry { password, ciphertext: None }, &mut |_| {})
        });
        let answer = answer.map_err(Passed)?;
        let answer = Expression::parse(&answer)?;
        let number = |name: &str| {
            let octets = answer.value(name);
            octets.ok_or(AgentError::Malformed("a signature that lacks a number"))
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

/// In front of a point of which a card has given nothing but the coordinate that counts. GnuPG puts it there.
const ABSCISSA_ONLY: u8 = 0x41;

/// What is in a block of PKCS #1 (RFC 8017, section 7.2): behind `0 2`, octets that are not 0, and a 0.
fn unpadded(block: &[u8]) -> Result<&[u8], AgentError> {
    let block = block.strip_prefix(&[0]).unwrap_or(block);
    let rest = block.strip_prefix(&[2]);
    let content = rest.and_then(|rest| {
        let end = rest.iter().position(|&octet| octet == 0)?;
        Some(&rest[end + 1..])
    });
    content.ok_or(AgentError::Malformed("a session key that is not padded"))
}

fn keygrip(key: &Key<PublicParts, UnspecifiedRole>) -> Option<Keygrip> {
    with_parsed(key, |key: &talaria_cert::Key<'_>| talaria_cert::Key::keygrip(key)).flatten()
}

/// The first line of what gpgconf says.
fn gpgconf(args: &[&str]) -> Result<String, AgentError> {
    let mut command = Command::new("gpgconf");
    command.args(args).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(AgentError::Gpgconf)?;
    if !output.status.success() {
        return Err(AgentError::Gpgconf(io::Error::other(format!("{}", output.status))));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(assuan::unescaped(text.lines().next().unwrap_or_default()))
}
