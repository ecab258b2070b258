//! Which secret keys gpg-agent has in the home directory. Only their names are used.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use talaria_cert::hex::Upper;
use talaria_cert::{Keygrip, hex};

use crate::keyblock::keys_of;

/// The part of a key file that is looked at, in bytes. Cards are named in its first line.
const HEAD_BYTES: usize = 4096;

/// The secret keys of a home directory.
pub(crate) struct Secrets {
    folder: PathBuf,
    grips: HashSet<[u8; 20]>,
}

impl Secrets {
    /// Looks at the names of the agent's files. The error says what is in the way, such as an old
    /// keyring that the agent has not taken over.
    pub(crate) fn of_home(home: &Path) -> Result<Self, &'static str> {
        let folder = home.join("private-keys-v1.d");
        let mut grips = HashSet::new();
        if home.join("secring.gpg").exists() && !home.join(".gpg-v21-migrated").exists() {
            return Err("of an old secret keyring");
        }
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { folder, grips });
            }
            Err(_) => return Err("without secret keys"),
        };
        for entry in entries {
            let name = entry.map_err(|_| "without secret keys")?.file_name();
            grips.extend(name.to_str().and_then(grip));
        }
        Ok(Self { folder, grips })
    }

    /// Makes sure that the agent has a key on disk. The error says what is in the way: it is on a
    /// card, or in another form.
    pub(crate) fn check(&self, Keygrip(grip): Keygrip) -> Result<(), &'static str> {
        let name = format!("{}.key", Upper(&grip));
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let file = File::open(self.folder.join(name)).map_err(|_| "without secret keys")?;
        file.take(HEAD_BYTES as u64).read_to_end(&mut head).map_err(|_| "without secret keys")?;
        let has = |word: &[u8]| head.windows(word.len()).any(|part| part == word);
        if has(b"shadowed-private-key") || !has(b"private-key") {
            return Err("of keys on cards");
        }
        Ok(())
    }

    /// Makes sure that the agent has all keys on disk. The error is as that of [`Self::check`].
    pub(crate) fn check_all(&self) -> Result<(), &'static str> {
        self.grips.iter().try_for_each(|grip| self.check(Keygrip(*grip)))
    }

    /// Whether the agent has a key.
    pub(crate) fn has(&self, grip: Option<Keygrip>) -> bool {
        grip.is_some_and(|Keygrip(grip)| self.grips.contains(&grip))
    }

    /// Whether the agent has a key of a certificate.
    pub(crate) fn has_any(&self, raw: &[u8]) -> bool {
        keys_of(raw).any(|key| self.has(key.keygrip()))
    }
}

/// The keygrip that a file is named after.
fn grip(name: &str) -> Option<[u8; 20]> {
    hex::array(name.strip_suffix(".key")?)
}

/// The lines of a certificate as those of secret keys: `has` says in the order of the keys whether
/// the agent has each.
pub(crate) fn as_secret(lines: &[u8], has: &[bool]) -> Vec<u8> {
    const TOKEN: usize = 14;
    let mut out = Vec::with_capacity(lines.len());
    let mut has = has.iter();
    for line in lines.split_inclusive(|&byte| byte == b'\n') {
        let kind = match line.get(..4) {
            Some(b"pub:") => &b"sec:"[..],
            Some(b"sub:") => b"ssb:",
            _ => {
                out.extend_from_slice(line);
                continue;
            }
        };
        let token: &[u8] = if has.next() == Some(&true) { b"+" } else { b"#" };
        out.extend_from_slice(kind);
        for (at, field) in line.split(|&byte| byte == b':').enumerate().skip(1) {
            if at > 1 {
                out.push(b':');
            }
            out.extend_from_slice(if at == TOKEN { token } else { field });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifteenth_field_says_where_a_secret_key_is() {
        let lines =
            b"pub:u:255:22:00:1:::u:::scSC:::::ed25519:::0:\nuid:u::::1::00::A::::::::::0:\n\
                      sub:u:255:18:00:1::::::e:::::cv25519::\n";
        let wanted = "sec:u:255:22:00:1:::u:::scSC:::+::ed25519:::0:\nuid:u::::1::00::A::::::::::0:\n\
                      ssb:u:255:18:00:1::::::e:::#::cv25519::\n";
        assert_eq!(String::from_utf8(as_secret(lines, &[true, false])).unwrap(), wanted);
    }
}
