//! Keys in gpg-agent, which may have them on disk or on a card.
//!
//! The secret key stays in the agent. The agent signs digests and unwraps session keys, and asks
//! for passphrases and PINs itself unless some were given. Sequoia's own crate for gpg-agent needs
//! a Cap'n Proto compiler to build and an asynchronous runtime to run. This crate implements only
//! the small part of the protocol that talaria needs.
//!
//! ```no_run
//! use talaria_agent::{Agent, Start};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The agent of the user's GnuPG home directory, which is started if none runs.
//! let agent = Agent::find(Start::IfAbsent, Vec::new())?;
//! println!("The agent has {} secret keys.", agent.keygrips()?.len());
//! # Ok(())
//! # }
//! ```

mod assuan;
mod error;
mod expression;

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use openpgp::crypto::mem::Protected;
use openpgp::crypto::mpi::{self, MPI};
use openpgp::crypto::{Decryptor, Password, SessionKey, Signer, ecdh};
use openpgp::packet::Key;
use openpgp::packet::key::{PublicParts, UnspecifiedRole};
use openpgp::types::HashAlgorithm;
use parking_lot::Mutex;
use talaria_cert::{Keygrip, hex};
use talaria_message::{MessageError, openpgp, with_stored};

pub use self::error::{AgentError, Refusal};

use self::assuan::{Connection, Inquiry};
use self::expression::Expression;

/// Carries an [`AgentError`] through Sequoia, which preserves the chain of causes but not the type.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Passed(#[source] AgentError);

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
        Self::in_home(home().as_deref(), start, passwords)
    }

    /// The agent of a home directory of GnuPG, which is started if none runs.
    ///
    /// # Errors
    ///
    /// As [`Self::find`].
    pub fn of_home(home: &Path) -> Result<Self, AgentError> {
        Self::in_home(Some(home), Start::IfAbsent, Vec::new())
    }

    /// The same agent, with passphrases to try instead of asking the user.
    #[must_use]
    pub fn with_passwords(self, passwords: Vec<Password>) -> Self {
        Self { passwords, ..self }
    }

    fn in_home(
        home: Option<&Path>,
        start: Start,
        passwords: Vec<Password>,
    ) -> Result<Self, AgentError> {
        if let Some(home) = home.filter(|home| !home.is_dir()) {
            // Without a home directory there is no agent, and most users of talaria have none.
            return Err(match start {
                Start::Never => AgentError::Absent,
                Start::IfAbsent => AgentError::NoHome { home: home.to_owned() },
            });
        }
        let mut agent = Self { socket: PathBuf::new(), passwords };
        for socket in home.map(usual_sockets).unwrap_or_default() {
            agent.socket = socket;
            match agent.connect() {
                Ok(_) => return Ok(agent),
                Err(AgentError::Absent) => {}
                Err(error) => return Err(error),
            }
        }
        agent.socket = socket(home)?;
        match (agent.connect(), start) {
            (Ok(_), _) => Ok(agent),
            (Err(AgentError::Absent), Start::IfAbsent) => {
                gpgconf(home, &["--launch", "gpg-agent"])?;
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
                && let Some(keygrip) = words.next().and_then(hex::array)
            {
                keygrips.push(Keygrip(keygrip));
            }
        })?;
        Ok(keygrips)
    }

    /// The secret key of `public`, which the agent may have.
    #[must_use]
    pub fn key(&self, public: Key<PublicParts, UnspecifiedRole>) -> AgentKey {
        AgentKey { agent: self.clone(), public, name: None }
    }

    fn connect(&self) -> Result<Connection, AgentError> {
        Connection::open(&self.socket)
    }

    /// Opens a connection, and tells the agent which key to use and how to ask the user.
    fn session(
        &self,
        command: &str,
        AgentKey { public: key, name, .. }: &AgentKey,
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
            name.clone().unwrap_or_else(|| key.keyid().to_hex())
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
pub struct AgentKey {
    agent: Agent,
    public: Key<PublicParts, UnspecifiedRole>,
    /// What the agent calls the key where it asks for its passphrase.
    name: Option<String>,
}

impl AgentKey {
    /// Lets the agent call the key so where it asks for its passphrase, instead of by its key ID.
    #[must_use]
    pub fn named(self, name: String) -> Self {
        Self { name: Some(name), ..self }
    }
}

impl Signer for AgentKey {
    fn public(&self) -> &Key<PublicParts, UnspecifiedRole> {
        &self.public
    }

    fn sign(&mut self, hash: HashAlgorithm, digest: &[u8]) -> openpgp::Result<mpi::Signature> {
        let digits: String = digest.iter().map(|byte| format!("{byte:02X}")).collect();
        let answer = self.agent.each_password(|password| {
            let mut connection = self.agent.session("SIGKEY", self)?;
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
            let mut connection = self.agent.session("SETKEY", self)?;
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

/// The keygrip of a key, by which the agent names it; `None` for a kind of key that it cannot have.
#[must_use]
pub fn keygrip(key: &Key<PublicParts, UnspecifiedRole>) -> Option<Keygrip> {
    with_stored(key, |key: &talaria_cert::Key<'_>| talaria_cert::Key::keygrip(key)).flatten()
}

/// The home directory of GnuPG; `None` if only GnuPG knows it.
fn home() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    named("GNUPGHOME").or_else(|| Some(named("HOME")?.join(".gnupg")))
}

/// The socket of the agent, and the home directory that it belongs to.
static SOCKET: Mutex<Option<(Option<PathBuf>, PathBuf)>> = Mutex::new(None);

/// The path of the agent's socket. gpgconf is asked once for each home directory.
fn socket(home: Option<&Path>) -> Result<PathBuf, AgentError> {
    let mut known = SOCKET.lock();
    if let Some((_, socket)) = known.as_ref().filter(|(of, _)| of.as_deref() == home) {
        return Ok(socket.clone());
    }
    let socket = PathBuf::from(gpgconf(home, &["--list-dirs", "agent-socket"])?);
    *known = Some((home.map(Path::to_owned), socket.clone()));
    Ok(socket)
}

/// The places of the agent's socket for a home directory, in the order in which GnuPG tries them.
/// They spare a call of gpgconf.
fn usual_sockets(home: &Path) -> Vec<PathBuf> {
    const SOCKET: &str = "S.gpg-agent";
    let user = rustix::process::getuid().as_raw();
    let mut run = PathBuf::from(format!("/run/user/{user}/gnupg"));
    let usual = std::env::var_os("HOME").map(|user| Path::new(&user).join(".gnupg"));
    if usual.as_deref() != Some(home) {
        run.push(format!("d.{}", short_name(home)));
    }
    vec![run.join(SOCKET), home.join(SOCKET)]
}

/// GnuPG's short name of a home directory: the first 15 bytes of its digest, in z-base-32.
fn short_name(home: &Path) -> String {
    const DIGITS: &[u8; 32] = b"ybndrfg8ejkmcpqxot1uwisza345h769";
    let digest = talaria_cert::sha1(&[home.as_os_str().as_bytes()]);
    let (groups, _) = digest[..15].as_chunks::<5>();
    let mut name = String::new();
    for group in groups {
        let bits = group.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        let digits = (0..8).rev().map(|at| DIGITS[(bits >> (5 * at) & 31) as usize]);
        name.extend(digits.map(char::from));
    }
    name
}

/// The first line of gpgconf's output.
fn gpgconf(home: Option<&Path>, args: &[&str]) -> Result<String, AgentError> {
    let mut command = Command::new("gpgconf");
    home.into_iter().for_each(|home| {
        command.arg("--homedir").arg(home);
    });
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

#[cfg(test)]
mod tests {
    use super::*;

    /// As `gpgconf --homedir /tmp/x/home --list-dirs agent-socket` says it.
    #[test]
    fn folders_of_sockets_have_the_names_that_gnupg_gives_them() {
        assert_eq!(short_name(Path::new("/tmp/x/home")), "saint1qw9b67gcizodcmqsyf");
    }
}
