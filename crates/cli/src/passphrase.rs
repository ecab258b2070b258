//! Where passphrases come from: a file, a descriptor, the environment, or the user.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use talaria::Error;
use talaria::message::keep_secrets_in_memory;
use talaria::message::openpgp::crypto::Password;
use zeroize::Zeroizing;

use crate::error::CliError;
use crate::files::descriptor;

/// Octets of a passphrase.
const PASSPHRASE_BYTES_MAX: u64 = 4096;
/// After an interrupt the process ends earlier than this.
const SIGNAL_TAKES: Duration = Duration::from_secs(2);

/// Where a passphrase comes from. Without any of these it is asked for on the terminal.
#[derive(Clone, Debug, Default, clap::Args)]
#[expect(clippy::struct_field_names, reason = "they are the names of the options")]
pub(crate) struct PassphraseArgs {
    /// Read a passphrase from the first line of a file; can be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Vec<PathBuf>,
    /// Read a passphrase from a file descriptor, up to a line end
    #[arg(long, value_name = "N")]
    pub(crate) passphrase_fd: Option<i32>,
    /// Take a passphrase from an environment variable
    #[arg(long, value_name = "NAME")]
    pub(crate) passphrase_env: Option<String>,
}

impl PassphraseArgs {
    /// The passphrases that are named.
    pub(crate) fn given(&self) -> Result<Vec<Password>, CliError> {
        let mut passwords = Vec::new();
        for path in &self.passphrase_file {
            let name = path.display().to_string();
            let failed = |source| Error::Io { action: "read", name: name.clone(), source };
            passwords.push(first_line(File::open(path).map_err(failed)?).map_err(failed)?);
        }
        if let Some(number) = self.passphrase_fd {
            let name = format!("file descriptor {number}");
            let failed = |source| Error::Io { action: "read", name: name.clone(), source };
            let file = File::open(descriptor(number)).map_err(failed)?;
            passwords.push(first_line(file).map_err(failed)?);
        }
        if let Some(name) = &self.passphrase_env {
            keep_secrets_in_memory();
            let value = std::env::var(name)
                .map_err(|_| CliError::Usage(format!("the environment has no {name}")))?;
            passwords.push(Password::from(Zeroizing::new(value).as_str()));
        }
        Ok(passwords)
    }
}

/// Where a new passphrase comes from, beside the one that there is.
#[derive(Clone, Debug, Default, clap::Args)]
#[expect(clippy::struct_field_names, reason = "they are the names of the options")]
pub(crate) struct NewPassphraseArgs {
    /// Read the new passphrase from the first line of a file
    #[arg(long, value_name = "FILE")]
    new_passphrase_file: Option<PathBuf>,
    /// Read the new passphrase from a file descriptor, up to a line end
    #[arg(long, value_name = "N")]
    new_passphrase_fd: Option<i32>,
    /// Take the new passphrase from an environment variable
    #[arg(long, value_name = "NAME")]
    new_passphrase_env: Option<String>,
}

impl From<NewPassphraseArgs> for PassphraseArgs {
    fn from(new: NewPassphraseArgs) -> Self {
        Self {
            passphrase_file: new.new_passphrase_file.into_iter().collect(),
            passphrase_fd: new.new_passphrase_fd,
            passphrase_env: new.new_passphrase_env,
        }
    }
}

fn first_line(file: File) -> io::Result<Password> {
    keep_secrets_in_memory();
    let mut text = Zeroizing::new(Vec::new());
    let mut limited = file.take(PASSPHRASE_BYTES_MAX);
    // Octet by octet: what follows the line in a pipe is not ours.
    let mut octet = [0];
    while limited.read(&mut octet)? == 1 && octet[0] != b'\n' {
        text.push(octet[0]);
    }
    let line = text.strip_suffix(b"\r").unwrap_or(&text);
    Ok(Password::from(line))
}

/// Held while the user is asked, so that no progress is drawn over the question.
pub(crate) static TERMINAL: Mutex<()> = Mutex::new(());

/// Asks for a passphrase on the terminal; `None` without one.
pub(crate) fn ask(prompt: &str) -> Option<Password> {
    if !io::stderr().is_terminal() && File::open("/dev/tty").is_err() {
        return None;
    }
    keep_secrets_in_memory();
    let _alone = TERMINAL.lock().unwrap_or_else(PoisonError::into_inner);
    if io::stderr().is_terminal() {
        // Progress that was drawn before.
        eprint!("\r\x1b[K");
    }
    match rpassword::prompt_password(format!("{prompt}: ")) {
        Ok(text) => Some(Password::from(Zeroizing::new(text).as_str())),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            // While it is asked, the terminal makes no signal of the keys.
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
            "a passphrase is needed: --passphrase-file, --passphrase-fd, --passphrase-env, or a \
             terminal"
                .into(),
        )
    };
    let first = ask(prompt).ok_or_else(missing)?;
    let second = ask("Once again").ok_or_else(missing)?;
    if first != second {
        return Err(CliError::Usage("the passphrases differ".into()));
    }
    Ok(first)
}
