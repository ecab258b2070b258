//! Assuan, the protocol of gpg-agent: a command line, lines of the answer, and inquiries in
//! between.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use openpgp::crypto::Password;
use talaria_message::openpgp;
use zeroize::Zeroizing;

use crate::error::{AgentError, Refusal};

/// The maximum length of a line in bytes, in both directions.
const LINE_BYTES_MAX: usize = 1000;
/// The maximum length of the data of an answer in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The maximum number of lines of an answer, mostly one for each key of the agent.
const LINES_MAX: usize = 100_000;

/// A connection to the agent.
pub(super) struct Connection {
    stream: BufReader<UnixStream>,
    socket: PathBuf,
}

/// The data with which this side answers the agent's inquiries.
pub(super) struct Inquiry<'a> {
    /// The passphrase of the key.
    pub(super) password: Option<&'a Password>,
    /// The ciphertext to decrypt.
    pub(super) ciphertext: Option<&'a [u8]>,
}

impl Inquiry<'_> {
    pub(super) fn none() -> Self {
        Self { password: None, ciphertext: None }
    }
}

impl Connection {
    pub(super) fn open(socket: &Path) -> Result<Self, AgentError> {
        let stream = UnixStream::connect(socket).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => AgentError::Absent,
            _ => AgentError::Io { socket: socket.to_owned(), source },
        })?;
        let mut connection = Self { stream: BufReader::new(stream), socket: socket.to_owned() };
        connection.answer(&mut Inquiry::none(), &mut |_| {})?;
        Ok(connection)
    }

    /// Tells the agent the user's terminal and display for its prompts. Options that the agent does
    /// not know are skipped.
    pub(super) fn surroundings(&mut self) -> Result<(), AgentError> {
        let variables = [
            ("GPG_TTY", "ttyname"),
            ("TERM", "ttytype"),
            ("DISPLAY", "display"),
            ("XAUTHORITY", "xauthority"),
            ("LC_CTYPE", "lc-ctype"),
            ("LC_MESSAGES", "lc-messages"),
            ("WAYLAND_DISPLAY", "putenv=WAYLAND_DISPLAY"),
            ("DBUS_SESSION_BUS_ADDRESS", "putenv=DBUS_SESSION_BUS_ADDRESS"),
        ];
        for (variable, option) in variables {
            let value = match std::env::var(variable) {
                Ok(value) => value,
                // As GnuPG does. Without it, a prompt on a terminal finds no terminal.
                Err(_) if variable == "GPG_TTY" => {
                    let own = rustix::termios::ttyname(io::stdin(), Vec::new());
                    own.ok().and_then(|name| name.into_string().ok()).unwrap_or_default()
                }
                Err(_) => continue,
            };
            if value.is_empty() || value.contains(char::is_control) {
                continue;
            }
            match self.command(&format!("OPTION {option}={value}")) {
                Ok(()) | Err(AgentError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sends a command whose answer is success or failure.
    pub(super) fn command(&mut self, command: &str) -> Result<(), AgentError> {
        self.ask(command, &mut Inquiry::none(), &mut |_| {}).map(drop)
    }

    /// Sends a command whose answer is data. `status` is called with each status line.
    pub(super) fn ask(
        &mut self,
        command: &str,
        inquiry: &mut Inquiry<'_>,
        status: &mut dyn FnMut(&str),
    ) -> Result<Zeroizing<Vec<u8>>, AgentError> {
        self.send(&[command.as_bytes(), b"\n"].concat())?;
        self.answer(inquiry, status)
    }

    fn answer(
        &mut self,
        inquiry: &mut Inquiry<'_>,
        status: &mut dyn FnMut(&str),
    ) -> Result<Zeroizing<Vec<u8>>, AgentError> {
        let mut data = Zeroizing::new(Vec::with_capacity(ANSWER_BYTES_MAX));
        for _ in 0..LINES_MAX {
            let line = self.line()?;
            let (word, rest) =
                line.split_at(line.iter().position(|&b| b == b' ').unwrap_or(line.len()));
            let rest = rest.strip_prefix(b" ").unwrap_or(rest);
            match word {
                b"OK" => return Ok(data),
                b"ERR" => {
                    return Err(AgentError::Refused(refusal(&String::from_utf8_lossy(rest))));
                }
                b"D" => {
                    if data.len() + rest.len() > ANSWER_BYTES_MAX {
                        return Err(AgentError::Malformed("too much"));
                    }
                    unescape(rest, &mut data);
                }
                b"S" => status(&String::from_utf8_lossy(rest)),
                b"INQUIRE" => self.inform(rest, inquiry)?,
                _ => {}
            }
        }
        Err(AgentError::Malformed("too many lines"))
    }

    /// Answers an inquiry of the agent. The passphrase is given only once: a second inquiry means
    /// that it was wrong.
    fn inform(&mut self, what: &[u8], inquiry: &mut Inquiry<'_>) -> Result<(), AgentError> {
        let keyword = what.split(|&byte| byte == b' ').next().unwrap_or_default();
        match (keyword, inquiry.ciphertext, inquiry.password) {
            (b"CIPHERTEXT", Some(ciphertext), _) => self.data(ciphertext),
            (b"PASSPHRASE", _, Some(password)) => {
                inquiry.password = None;
                password.map(|password| self.data(password))
            }
            (b"PASSPHRASE", ..) => self.send(b"CAN\n"),
            _ => self.send(b"END\n"),
        }
    }

    fn data(&mut self, data: &[u8]) -> Result<(), AgentError> {
        // Escaping may turn each byte into three.
        for part in data.chunks((LINE_BYTES_MAX - 4) / 3) {
            let mut line = Zeroizing::new(Vec::with_capacity(LINE_BYTES_MAX));
            line.extend(b"D ");
            for &byte in part {
                match byte {
                    b'%' | b'\r' | b'\n' => line.extend(format!("%{byte:02X}").bytes()),
                    _ => line.push(byte),
                }
            }
            line.push(b'\n');
            self.send(&line)?;
        }
        self.send(b"END\n")
    }

    fn send(&mut self, line: &[u8]) -> Result<(), AgentError> {
        self.stream.get_mut().write_all(line).map_err(|source| self.failed(source))
    }

    fn line(&mut self) -> Result<Zeroizing<Vec<u8>>, AgentError> {
        let mut line = Zeroizing::new(Vec::with_capacity(LINE_BYTES_MAX + 2));
        let mut limited = (&mut self.stream).take(LINE_BYTES_MAX as u64 + 2);
        let read = limited.read_until(b'\n', &mut line);
        read.map_err(|source| self.failed(source))?;
        if line.pop() != Some(b'\n') {
            return Err(AgentError::Malformed("half a line"));
        }
        Ok(line)
    }

    fn failed(&self, source: io::Error) -> AgentError {
        AgentError::Io { socket: self.socket.clone(), source }
    }
}

/// Parses the agent's error line: a number whose lower half is the error code, and a text in any
/// language.
fn refusal(line: &str) -> Refusal {
    let (number, text) = line.split_once(' ').unwrap_or((line, line));
    let number: u32 = number.parse().unwrap_or_default();
    let code = (number & 0xFFFF) as u16;
    Refusal { number, code, text: text.replace(char::is_control, " ") }
}

/// Escapes a text as an argument of a command. The agent passes it on to pinentry as it is, so no
/// more is escaped than GnuPG escapes.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            ' ' => escaped.push('+'),
            '+' | '"' | '%' | '\0'..'\x20' => escaped.push_str(&format!("%{:02X}", char as u32)),
            _ => escaped.push(char),
        }
    }
    escaped
}

/// Decodes a text with GnuPG's percent escapes.
pub(super) fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    unescape(text.as_bytes(), &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn unescape(text: &[u8], to: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if first == b'%' => {
                to.push(byte);
                rest = &behind[2..];
            }
            _ => {
                to.push(first);
                rest = behind;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_an_error_code() {
        let wrong = refusal("100663383 Bad PIN <SCD>");
        assert_eq!(wrong.code, Refusal::BAD_PIN);
        assert!(wrong.to_string().starts_with("Bad PIN <SCD>; `gpg --card-status`"));
        assert_eq!(refusal("67108983 Pas de chance").code, Refusal::NO_SCDAEMON);
        assert_eq!(refusal("oops").to_string(), "oops");
    }

    #[test]
    fn escapes_read_back() {
        assert_eq!(escaped("a b\n%ü (\"+\")"), "a+b%0A%25ü+(%22%2B%22)");
        assert_eq!(unescaped("/tmp/a%3ab%%zz%2"), "/tmp/a:b%%zz%2");
    }
}
