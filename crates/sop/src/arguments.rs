//! Arguments that are missing: the parser of the `sop` crate has one exit code for all that it
//! refuses, the draft has another one for these.

use std::ffi::OsString;

/// `MISSING_ARG` of the draft.
pub(crate) const MISSING_ARG: u8 = 19;

/// A required argument that is missing.
pub(crate) fn missing(arguments: &[OsString]) -> Option<&'static str> {
    let mut words = arguments.iter().map(|word| word.to_str().unwrap_or_default());
    let subcommand = words.find(|word| *word != "--debug")?;
    let rest: Vec<&str> = words.collect();
    if rest.iter().any(|word| matches!(*word, "-h" | "--help")) {
        return None;
    }
    match subcommand {
        "list-profiles" if operands(&rest, &[]) < 1 => Some("SUBCOMMAND"),
        "verify" if operands(&rest, &["--not-before", "--not-after"]) < 1 => Some("SIGNATURES"),
        "validate-userid" => match operands(&rest, &["--validate-at"]) {
            0 => Some("USERID"),
            1 => Some("CERTS"),
            _ => None,
        },
        "certify-userid" if !has(&rest, "--userid") => Some("--userid"),
        "certify-userid" if operands(&rest, &["--userid", "--with-key-password"]) < 1 => {
            Some("KEYS")
        }
        "inline-detach" if !has(&rest, "--signatures-out") => Some("--signatures-out"),
        _ => None,
    }
}

/// How many words are neither options nor, for those of `valued`, their values.
fn operands(words: &[&str], valued: &[&str]) -> usize {
    let mut count = 0;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word == "--" {
            return count + words.count();
        }
        if valued.contains(word) {
            words.next();
        } else if !word.starts_with('-') || *word == "-" {
            count += 1;
        }
    }
    count
}

fn has(words: &[&str], option: &str) -> bool {
    words.iter().any(|word| word.split('=').next() == Some(option))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<&'static str> {
        missing(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn operands_are_separated_from_options_and_their_values() {
        assert_eq!(of("verify"), Some("SIGNATURES"));
        assert_eq!(of("verify --not-before 2020-01-01"), Some("SIGNATURES"));
        assert_eq!(of("verify --not-before=2020-01-01 sig cert"), None);
        assert_eq!(of("--debug verify --not-before 2020-01-01 -- sig"), None);
        assert_eq!(of("validate-userid --addr-spec-only a@example.org"), Some("CERTS"));
        assert_eq!(of("certify-userid key"), Some("--userid"));
        assert_eq!(of("certify-userid --userid a"), Some("KEYS"));
        assert_eq!(of("certify-userid --userid=a key"), None);
        assert_eq!(of("inline-detach --help"), None);
        assert_eq!(of("version"), None);
        assert_eq!(of(""), None);
    }
}
