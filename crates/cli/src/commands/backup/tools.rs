//! Other OpenPGP programs of this machine, and the profiles that they read.

use std::process::{Command, Stdio};

use talaria::backup::EpochProfile;

/// Programs that are looked for, by the names of their commands.
const PROGRAMS: [&str; 3] = ["gpg", "sq", "rnp"];

/// The programs that read a profile.
pub(super) fn readers_of(profile: EpochProfile) -> &'static str {
    match profile {
        EpochProfile::Rfc9580 => "read by talaria, sq 1.0 and rsop; not by GnuPG",
        EpochProfile::LibrePgp => "read by talaria, GnuPG 2.2.21 and RNP; not by sq",
        EpochProfile::Rfc4880 => "read by every OpenPGP program, slower",
        EpochProfile::None => "not encrypted",
    }
}

/// The installed programs, with their versions, that cannot read a profile.
pub(super) fn cannot_read(profile: EpochProfile) -> Vec<String> {
    let installed = PROGRAMS.iter().filter_map(|program| Some((*program, version(program)?)));
    installed
        .filter(|(program, version)| !reads(program, *version, profile))
        .map(|(program, (major, minor, patch))| format!("{program} {major}.{minor}.{patch}"))
        .collect()
}

/// The version of an installed program.
fn version(program: &str) -> Option<(u32, u32, u32)> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).env("LC_ALL", "C");
    let output = command.output().ok()?;
    parse_version(std::str::from_utf8(&output.stdout).ok()?)
}

/// The first word of the first line that starts with a digit, as in `gpg (GnuPG) 2.2.40`.
fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let words = text.lines().next()?.split_whitespace();
    let number = words.into_iter().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = number.split(|c: char| !c.is_ascii_digit());
    let mut part = || parts.next()?.parse().ok();
    Some((part()?, part()?, part().unwrap_or(0)))
}

/// Whether a program reads a profile, as far as is known.
fn reads(program: &str, version: (u32, u32, u32), profile: EpochProfile) -> bool {
    match (profile, program) {
        (EpochProfile::Rfc4880 | EpochProfile::None, _) => true,
        (EpochProfile::Rfc9580, program) => program == "sq" && version >= (1, 0, 0),
        (EpochProfile::LibrePgp, "gpg") => version >= (2, 2, 21),
        (EpochProfile::LibrePgp, program) => program != "sq",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_decide() {
        for (text, version) in [
            ("gpg (GnuPG) 2.2.40\nlibgcrypt 1.10.1\n", Some((2, 2, 40))),
            ("sq 0.27.0 (sequoia-openpgp 1.12.0, using Nettle)\n", Some((0, 27, 0))),
            ("sq 1.0\n", Some((1, 0, 0))),
            ("rnp 0.16.3-1\n", Some((0, 16, 3))),
            ("gpg (GnuPG) 2.5.0-beta34\n", Some((2, 5, 0))),
            ("gpg\n", None),
            ("", None),
        ] {
            assert_eq!(parse_version(text), version, "{text}");
        }
        for (program, version, rfc9580, librepgp) in [
            ("gpg", (2, 2, 20), false, false),
            ("gpg", (2, 2, 21), false, true),
            ("gpg", (2, 4, 8), false, true),
            ("sq", (0, 27, 0), false, false),
            ("sq", (1, 0, 0), true, false),
            ("rnp", (0, 16, 3), false, true),
        ] {
            let all = EpochProfile::ALL.map(|profile| reads(program, version, profile));
            let expected = |profile| match profile {
                EpochProfile::Rfc9580 => rfc9580,
                EpochProfile::LibrePgp => librepgp,
                EpochProfile::Rfc4880 | EpochProfile::None => true,
            };
            assert_eq!(all, EpochProfile::ALL.map(expected), "{program} {version:?}");
        }
    }
}
