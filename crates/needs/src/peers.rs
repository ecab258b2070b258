//! Programs of others that tests run beside ours.
//!
//! Tests compare with what certain versions do. An older or newer program can differ without
//! anything being wrong here, so it is left out by name, with its version.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fmt};

/// The programs, with the first version that tests know and the first that they do not know any
/// more.
const KNOWN: [(&str, Version, Version); 9] = [
    ("dirmngr", Version(2, 2), Version(2, 5)),
    ("gosop", Version(1, 1), Version(2, 0)),
    ("gpg", Version(2, 2), Version(2, 5)),
    ("gpgconf", Version(2, 2), Version(2, 5)),
    ("gpgv", Version(2, 2), Version(2, 5)),
    ("rnp", Version(0, 16), Version(0, 19)),
    ("rsop", Version(0, 12), Version(0, 13)),
    ("sq", Version(0, 27), Version(0, 28)),
    ("sqop", Version(0, 27), Version(0, 28)),
];

/// Major and minor number.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Version(u32, u32);

impl Version {
    /// The first number with a dot in what a program says of itself.
    fn read(said: &str) -> Option<Self> {
        said.split_whitespace().find_map(|word| {
            let mut parts = word.trim_start_matches('v').split(['.', '-', '~', '+']);
            Some(Self(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Where a program is in `PATH`, if its version is one that tests know. Otherwise standard error
/// says that it is skipped, and why.
///
/// # Panics
///
/// If the program is none of those that tests know.
#[must_use]
pub fn peer(name: &str) -> Option<PathBuf> {
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    let (_, first, end) = known.unwrap_or_else(|| panic!("{name} is no known peer"));
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths).map(|path| path.join(name)).find(|path| path.is_file());
    match found.ok_or_else(|| "is not installed".to_owned()).and_then(|path| {
        let said = said_by(&path);
        check(&said, *first, *end).map(|()| path)
    }) {
        Ok(path) => Some(path),
        Err(why) => {
            eprintln!("skipped: {name} {why}");
            None
        }
    }
}

/// The version output of a program: SOP has a subcommand for it.
fn said_by(path: &Path) -> String {
    let sop = path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("op"));
    let output = Command::new(path)
        .arg(if sop { "version" } else { "--version" })
        .stdin(Stdio::null())
        .output()
        .map(|output| output.stdout);
    let said = String::from_utf8_lossy(&output.unwrap_or_default()).into_owned();
    said.lines().next().unwrap_or_default().to_owned()
}

fn check(said: &str, first: Version, end: Version) -> Result<(), String> {
    let why = match Version::read(said) {
        None => "does not say its version",
        Some(version) if version < first => "is too old",
        Some(version) if version >= end => "is too new",
        Some(_) => return Ok(()),
    };
    Err(format!("{why} ({said:?}; tests know {first} and later ones below {end})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_from_the_output_of_programs() {
        for (said, version) in [
            ("gpg (GnuPG) 2.2.40", Version(2, 2)),
            ("gpg (GnuPG) 2.4.8-unknown", Version(2, 4)),
            ("sq 0.27.0 (sequoia-openpgp 1.12.0, using Nettle)", Version(0, 27)),
            ("sqop 0.27.3", Version(0, 27)),
            ("rnp 0.16.3-1", Version(0, 16)),
            ("rsop 0.12.0", Version(0, 12)),
            ("gosop 0.0.0", Version(0, 0)),
            ("gosop v1.1.0", Version(1, 1)),
        ] {
            assert_eq!(Version::read(said), Some(version), "{said}");
        }
        assert_eq!(Version::read("gosop development"), None);
    }

    /// sqop has no option for its version, only a subcommand.
    #[test]
    fn a_program_of_the_stateless_interface_is_asked_by_its_subcommand() {
        let sqop = Path::new("/usr/bin/sqop");
        if !sqop.exists() {
            return crate::left_out("sqop");
        }
        assert!(said_by(sqop).starts_with("sqop "), "{}", said_by(sqop));
    }

    /// Debian 12 has gosop of November 2022, which knows no profiles.
    #[test]
    fn errors_name_the_version_of_an_unsuitable_program() {
        let (first, end) = (Version(1, 1), Version(2, 0));
        assert_eq!(check("gosop 1.1.0", first, end), Ok(()));
        assert_eq!(check("gosop 1.9.0", first, end), Ok(()));
        assert_eq!(
            check("gosop 0.0.0", first, end).unwrap_err(),
            "is too old (\"gosop 0.0.0\"; tests know 1.1 and later ones below 2.0)"
        );
        assert!(check("gosop 2.0.0", first, end).unwrap_err().starts_with("is too new"));
        assert!(check("", first, end).unwrap_err().starts_with("does not say"));
    }
}
