//! Sources of passphrases: a file, a descriptor, the environment, or the user.

use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use talaria::Error;
use talaria::message::keep_secrets_in_memory;
use talaria::message::openpgp::crypto::Password;
use zeroize::Zeroizing;

use crate::error::CliError;
use crate::paint::harmless;
use crate::{descriptor, progress};

/// The maximum length of a passphrase in bytes, without the line end.
const PASSPHRASE_BYTES_MAX: usize = 4096;
/// After an interrupt the process ends within this time.
const SIGNAL_TAKES: Duration = Duration::from_secs(2);

/// Sources of a passphrase. Without these options, talaria asks on the terminal.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct PassphraseArgs {
    /// Read the passphrase from the first line of FILE (can be repeated)
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Vec<PathBuf>,
    /// Read the passphrase from file descriptor N, up to the end of the line
    #[arg(long, value_name = "N")]
    pub(crate) passphrase_fd: Option<i32>,
    /// Read the passphrase from the environment variable NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) passphrase_env: Option<String>,
    /// The passphrase as read: a pipe gives it only once.
    #[arg(skip)]
    read: Kept,
}

/// Passphrases already read.
#[derive(Clone, Default)]
struct Kept(OnceLock<Vec<Password>>);

/// Leaves the passphrases out.
impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

impl PassphraseArgs {
    /// The passphrases from the options. Each source is read only once, however often this function
    /// is called.
    pub(crate) fn given(&self) -> Result<Vec<Password>, CliError> {
        if let Some(read) = self.read.0.get() {
            return Ok(read.clone());
        }
        let read = self.read()?;
        Ok(self.read.0.get_or_init(|| read).clone())
    }

    fn read(&self) -> Result<Vec<Password>, CliError> {
        let mut passwords = Vec::new();
        for path in &self.passphrase_file {
            let name = path.display().to_string();
            let failed = |source| Error::Io { action: "read", name: name.clone(), source };
            let line = first_line(descriptor::open(path).map_err(failed)?).map_err(failed)?;
            passwords.push(passphrase(&line, &name)?);
        }
        if let Some(number) = self.passphrase_fd {
            let name = format!("file descriptor {number}");
            let failed = |source| Error::Io { action: "read", name: name.clone(), source };
            let line = first_line(talaria_disk::duplicate(number).map_err(failed)?);
            passwords.push(passphrase(&line.map_err(failed)?, &name)?);
        }
        if let Some(name) = &self.passphrase_env {
            keep_secrets_in_memory();
            let value = std::env::var(name).map_err(|_| {
                CliError::Usage(format!(
                    "the environment variable {name} is not set (named by --passphrase-env)"
                ))
            })?;
            let value = Zeroizing::new(value.into_bytes());
            passwords.push(passphrase(&value, &format!("the environment variable {name}"))?);
        }
        Ok(passwords)
    }
}

/// Sources of a new passphrase, besides those of the current one.
#[derive(Clone, Debug, Default, clap::Args)]
#[expect(clippy::struct_field_names, reason = "they are the names of the options")]
pub(crate) struct NewPassphraseArgs {
    /// Read the new passphrase from the first line of FILE
    #[arg(long, value_name = "FILE", conflicts_with = "no_passphrase")]
    new_passphrase_file: Option<PathBuf>,
    /// Read the new passphrase from file descriptor N, up to the end of the line
    #[arg(long, value_name = "N", conflicts_with = "no_passphrase")]
    new_passphrase_fd: Option<i32>,
    /// Read the new passphrase from the environment variable NAME
    #[arg(long, value_name = "NAME", conflicts_with = "no_passphrase")]
    new_passphrase_env: Option<String>,
}

impl From<NewPassphraseArgs> for PassphraseArgs {
    fn from(new: NewPassphraseArgs) -> Self {
        Self {
            passphrase_file: new.new_passphrase_file.into_iter().collect(),
            passphrase_fd: new.new_passphrase_fd,
            passphrase_env: new.new_passphrase_env,
            read: Kept::default(),
        }
    }
}

/// The first line of a file, without its line end. A line that is too long is returned with one
/// byte too many.
fn first_line(mut file: File) -> io::Result<Zeroizing<Vec<u8>>> {
    keep_secrets_in_memory();
    let mut line = Zeroizing::new(Vec::with_capacity(PASSPHRASE_BYTES_MAX + 2));
    // Read byte by byte, because data after the line in a pipe belongs to another reader.
    let mut byte = Zeroizing::new([0]);
    while line.len() < PASSPHRASE_BYTES_MAX + 2 {
        match file.read(&mut *byte) {
            Ok(0) => break,
            Ok(_) if byte[0] == b'\n' => break,
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(line)
}

/// Checks a passphrase from `source`. An empty one protects nothing and is usually a mistake. A
/// truncated one would be a different passphrase.
fn passphrase(bytes: &[u8], source: &str) -> Result<Password, CliError> {
    if bytes.is_empty() {
        return Err(CliError::EmptyPassphrase { origin: source.to_owned() });
    }
    if bytes.len() > PASSPHRASE_BYTES_MAX {
        return Err(CliError::Usage(format!(
            "the passphrase from {source} is longer than {PASSPHRASE_BYTES_MAX} bytes"
        )));
    }
    Ok(Password::from(bytes))
}

/// Asks for a passphrase on the terminal; `None` without a terminal, or if the user enters nothing.
pub(crate) fn ask(prompt: &str) -> Option<Password> {
    if !io::stderr().is_terminal() && File::open("/dev/tty").is_err() {
        return None;
    }
    keep_secrets_in_memory();
    let _alone = progress::terminal();
    match rpassword::prompt_password(format!("{}: ", harmless(prompt))) {
        Ok(text) => Some(Zeroizing::new(text))
            .filter(|text| !text.is_empty())
            .map(|text| Password::from(text.as_str())),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            // During the prompt the terminal does not turn Ctrl-C into a signal, so send it here.
            let _ = kill_process(getpid(), Signal::INT);
            std::thread::sleep(SIGNAL_TAKES);
            None
        }
        Err(_) => None,
    }
}

/// Asks for a new passphrase, twice.
pub(crate) fn ask_new(prompt: &str) -> Result<Password, CliError> {
    let missing = || {
        CliError::Usage(
            "a passphrase is needed, and there is no terminal to ask for it; give it with --passphrase-file, \
             --passphrase-fd or --passphrase-env"
                .into(),
        )
    };
    let first = ask(prompt).ok_or_else(missing)?;
    let second = ask("Repeat the passphrase").ok_or_else(missing)?;
    if first != second {
        return Err(CliError::Usage("the passphrases differ".into()));
    }
    Ok(first)
}
