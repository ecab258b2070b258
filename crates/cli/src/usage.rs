//! Usage errors: the texts of clap, with tips for users of gpg.

use clap::ValueEnum as _;
use clap::builder::{StyledStr, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use talaria::cert::user_id::visible_text;

use crate::paint::{harmless, own};
use crate::terminal::{ColorWhen, Paint};
use crate::{cli, examples};

/// Options of gpg that talaria does not have, and the replacement for each.
const FROM_GPG: [(&[&str], &str); 32] = [
    (&["-e", "--encrypt"], "talaria encrypt -r CERT FILE"),
    (&["-c", "--symmetric"], "talaria encrypt -c FILE"),
    (&["-d", "--decrypt"], "talaria decrypt FILE"),
    (&["-s", "--sign"], "talaria sign --inline FILE"),
    (&["-b", "--detach-sign", "--detach-sig"], "talaria sign FILE"),
    (&["--clear-sign", "--clearsign"], "talaria sign --cleartext FILE"),
    (&["--verify"], "talaria verify SIGNATURE FILE"),
    (&["-k", "--list-keys", "--list-public-keys", "--fingerprint"], "talaria list"),
    (
        &["--list-sigs", "--list-signatures", "--check-sigs", "--check-signatures"],
        "talaria list --with-sigs",
    ),
    (&["-K", "--list-secret-keys", "--secret"], "talaria key list"),
    (&["--import", "--fast-import"], "talaria import FILE"),
    (&["--export"], "talaria export CERT"),
    (&["--export-secret-keys", "--export-secret-subkeys"], "talaria key export KEY"),
    (
        &[
            "--gen-key",
            "--generate-key",
            "--full-gen-key",
            "--full-generate-key",
            "--quick-gen-key",
            "--quick-generate-key",
        ],
        "talaria key generate \"NAME <ADDRESS>\"",
    ),
    (&["--edit-key"], "talaria key --help (passphrase, expire, add-user-id, add-subkey, revoke)"),
    (&["--sign-key", "--quick-sign-key"], "talaria certify CERT"),
    (&["--lsign-key", "--quick-lsign-key"], "talaria certify --local CERT"),
    (&["--delete-keys", "--delete-key"], "talaria delete CERT"),
    (&["--delete-secret-keys", "--delete-secret-key"], "talaria key delete KEY"),
    (&["--gen-revoke", "--generate-revocation"], "talaria key revoke KEY --output FILE"),
    (
        &["--recv-keys", "--receive-keys", "--search-keys", "--refresh-keys", "--locate-keys"],
        "talaria import --keyserver hkps://keys.openpgp.org CERT",
    ),
    (
        &["--keyring", "--primary-keyring", "--homedir"],
        "talaria --store FILE (a keyring file can be used as it is)",
    ),
    (
        &["--no-default-keyring", "--batch", "--no-tty"],
        "nothing: talaria never asks without a terminal",
    ),
    (&["--list-packets"], "talaria inspect FILE"),
    (
        &["--passphrase"],
        "--passphrase-file, --passphrase-fd or --passphrase-env (other users can read command lines)",
    ),
    (&["--always-trust"], "--trust-model always"),
    (&["--send-keys"], PUBLISH),
    (&["--check-trustdb", "--update-trustdb"], "talaria trust check"),
    (&["--export-ownertrust"], "talaria trust export-ownertrust"),
    (&["--import-ownertrust"], "talaria trust import-ownertrust FILE"),
    (&["--quick-set-expire"], "talaria key expire KEY WHEN"),
    (&["--change-passphrase", "--passwd"], "talaria key passphrase KEY"),
];

/// The way to give a certificate to a keyserver.
const PUBLISH: &str =
    "talaria export --armor CERT --output FILE, and upload FILE on the page of the keyserver";

/// The letters by which a typing error differs from the word that was meant. Guesses that differ
/// more are other words, and mislead.
const TYPING_ERROR_MAX: usize = 2;

/// Words that users type as commands, and the replacement for each.
const COMMANDS: [(&str, &str); 21] = [
    ("remove", "talaria delete CERT"),
    ("renew", "talaria key renew KEY"),
    ("lint", "talaria key check"),
    ("extend", "talaria key expire KEY 2y"),
    ("init", "talaria backup init"),
    ("snapshots", "talaria backup list"),
    ("restore", "talaria backup restore latest --target FOLDER"),
    ("gossip", "talaria peer add HOST"),
    ("version", "talaria --version"),
    ("search", "talaria list WORDS"),
    ("gen-key", "talaria key generate \"NAME <ADDRESS>\""),
    ("generate", "talaria key generate \"NAME <ADDRESS>\""),
    ("keygen", "talaria key generate \"NAME <ADDRESS>\""),
    ("revoke", "talaria key revoke KEY"),
    ("recv", "talaria import --keyserver hkps://keys.openpgp.org CERT"),
    ("fetch", "talaria import --keyserver hkps://keys.openpgp.org CERT"),
    ("refresh", "talaria import --keyserver hkps://keys.openpgp.org CERT"),
    ("upload", PUBLISH),
    ("publish", PUBLISH),
    ("send", PUBLISH),
    ("keyserver", "talaria serve"),
];

/// The text of an error, with the styles of clap if standard error has colour. Clap puts arguments
/// into it as they are, and its own styles cannot be told from those in an argument. So a text with
/// hidden characters has no styles.
///
/// `command` is the command that gave the error.
pub(crate) fn text(error: &clap::Error, command: impl FnOnce() -> clap::Command) -> String {
    let parsed = command().styles(Styles::plain()).try_get_matches();
    let Err(plain) = parsed else { return error.render().to_string() };
    let plain = improved(plain).render().ansi().to_string();
    let is_harmless = plain.lines().all(|line| harmless(line) == line);
    if is_harmless && Paint::stderr().is_on() {
        own(&error.render().ansi().to_string())
    } else {
        plain
    }
}

/// Adds a tip for the next step, and removes misleading tips.
pub(crate) fn improved(mut error: clap::Error) -> clap::Error {
    one_line_each(&mut error);
    remove_far_guesses(&mut error);
    let text = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    let tip = match error.kind() {
        ErrorKind::UnknownArgument => {
            let named = text(&error, ContextKind::InvalidArg).unwrap_or_default();
            let named = named.split(['=', ' ']).next().unwrap_or_default();
            // The tip to pass an option as a value is rarely useful.
            error.remove(ContextKind::Suggested);
            let found = FROM_GPG.iter().find(|(names, _)| names.contains(&named));
            if let Some((_, instead)) = found {
                error.remove(ContextKind::SuggestedArg);
                Some(format!("instead of gpg's {named}, use: {instead}"))
            } else {
                let is_known = error.get(ContextKind::SuggestedArg).is_some();
                instead_of(named, &usage).or_else(|| {
                    (!is_known).then(|| {
                        format!("list the options: talaria {}", with_help(&command_of(&usage)))
                    })
                })
            }
        }
        ErrorKind::InvalidSubcommand => {
            let named = text(&error, ContextKind::InvalidSubcommand).unwrap_or_default();
            let found = COMMANDS.iter().find(|(name, _)| *name == named);
            if let Some((_, instead)) = found {
                error.remove(ContextKind::SuggestedSubcommand);
                Some(format!("use: {instead}"))
            } else if error.get(ContextKind::SuggestedSubcommand).is_some() {
                None
            } else {
                Some(format!("list the commands: talaria {}", with_help(&command_of(&usage))))
            }
        }
        ErrorKind::MissingRequiredArgument => {
            let command = command_of(&usage);
            Some(match example_of(&command) {
                Some(line) => format!("for example: {line}"),
                None => format!("see its arguments: talaria {}", with_help(&command)),
            })
        }
        ErrorKind::InvalidValue => {
            let is_missing =
                text(&error, ContextKind::InvalidValue).is_some_and(|it| it.is_empty());
            let option = text(&error, ContextKind::InvalidArg).filter(|it| it.starts_with("--"));
            option
                .filter(|_| is_missing)
                .map(|option| format!("write the value after the option: {}", plain(&option)))
        }
        ErrorKind::ValueValidation => {
            std::error::Error::source(&error).and_then(|why| number_expected(&why.to_string()))
        }
        ErrorKind::ArgumentConflict => {
            let named = text(&error, ContextKind::InvalidArg);
            let other = text(&error, ContextKind::PriorArg);
            named.zip(other).map(|(named, other)| {
                if named == other {
                    format!("give {} only once", plain(&named))
                } else {
                    format!("leave out {} or {}", plain(&named), plain(&other))
                }
            })
        }
        _ => None,
    };
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Writes arguments so that the end of a line in them ends no line of the error.
fn one_line_each(error: &mut clap::Error) {
    let shown = |text: &String| visible_text(text).into_owned();
    let changed: Vec<(ContextKind, ContextValue)> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(text) => Some((kind, ContextValue::String(shown(text)))),
            ContextValue::Strings(texts) => {
                Some((kind, ContextValue::Strings(texts.iter().map(shown).collect())))
            }
            _ => None,
        })
        .collect();
    for (kind, value) in changed {
        error.insert(kind, value);
    }
}

/// Removes guesses of clap that are no typing error.
fn remove_far_guesses(error: &mut clap::Error) {
    for (typed, guessed) in [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ] {
        let Some(ContextValue::String(word)) = error.get(typed) else { continue };
        let word = word.split(['=', ' ']).next().unwrap_or_default();
        let is_near = |guess: &String| distance(word, guess) <= TYPING_ERROR_MAX;
        let near: Vec<String> = match error.get(guessed) {
            Some(ContextValue::String(guess)) if !is_near(guess) => Vec::new(),
            Some(ContextValue::Strings(guesses)) => {
                guesses.iter().filter(|guess| is_near(guess)).cloned().collect()
            }
            _ => continue,
        };
        if !near.is_empty() {
            error.insert(guessed, ContextValue::Strings(near));
            continue;
        }
        error.remove(guessed);
        // The usage has the guess in it.
        let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
        if let (ContextKind::SuggestedArg, Some(usage)) = (guessed, usage_of(&command_of(&usage))) {
            // Without styles, which a text of an argument could have, too.
            let usage = StyledStr::from(usage.to_string());
            error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
        }
    }
}

/// The number of letters to insert, to remove or to replace that make one word the other
/// (Levenshtein's distance).
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (at, &theirs) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != theirs);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

/// The usage line of a command.
fn usage_of(command: &str) -> Option<StyledStr> {
    let mut all = cli::command();
    all.build();
    let mut part = &mut all;
    for name in command.split_whitespace() {
        part = part.find_subcommand_mut(name)?;
    }
    Some(part.render_usage())
}

/// The words of the command in its usage line, such as `key generate`.
fn command_of(usage: &str) -> String {
    let words = usage.split_whitespace().skip_while(|word| *word != "talaria").skip(1);
    let names = words.take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
    names.collect::<Vec<_>>().join(" ")
}

/// The arguments that print the help of a command.
fn with_help(command: &str) -> String {
    if command.is_empty() { "help".to_owned() } else { format!("{command} --help") }
}

/// An example of a command with arguments, from its help.
fn example_of(command: &str) -> Option<&'static str> {
    let lines = examples::of(command).iter();
    // Some examples run another command first.
    let mut lines = lines.filter_map(|(_, line)| line.rsplit(" && ").next());
    lines.find(|line| line.strip_prefix("talaria ") != Some(command))
}

/// An option or argument without the brackets of its usage: `--to CERT` for `--to <CERT>`.
fn plain(arg: &str) -> String {
    arg.replace(['<', '>'], "")
}

/// The tip for a value that is not a number, or not one in the range of the option.
fn number_expected(why: &str) -> Option<String> {
    let is_other = ["invalid digit found", "number too"].iter().any(|text| why.contains(text));
    if is_other {
        return Some("give a whole number".to_owned());
    }
    let (_, range) = why.split_once(" is not in ")?;
    Some(match range.split_once("..=") {
        Some((first, last)) => format!("give a whole number from {first} to {last}"),
        None => format!("give a whole number from {}", range.trim_end_matches('.')),
    })
}

/// Whether a command takes options only.
fn takes_options_only(command: &str) -> bool {
    let mut part = &cli::command();
    for name in command.split(' ') {
        match part.find_subcommand(name) {
            Some(found) => part = found,
            None => return false,
        }
    }
    part.get_positionals().next().is_none()
}

/// The tip for an argument that a command with this usage does not take.
fn instead_of(named: &str, usage: &str) -> Option<String> {
    let of = |command: &str| usage.contains(command);
    if named.starts_with('-') {
        // The options of restic and borg.
        let is_repository = ["-r", "--repository"].contains(&named) && of("talaria backup");
        return is_repository.then(|| "use: --repo REPO".to_owned());
    }
    Some(if of("talaria encrypt") && named.contains('@') {
        format!("name each recipient with --to: talaria encrypt --to {named} FILE")
    } else if of("talaria encrypt") || of("talaria decrypt") || of("talaria sign") {
        format!(
            "`{named}` is one argument too many: name one input file, and the output with --output; quote names with spaces"
        )
    } else if of("talaria backup restore") {
        format!("name a path of the snapshot after a colon: SNAPSHOT:{named}")
    } else if of("talaria verify") {
        "verify one signature at a time: talaria verify SIGNATURE FILE".to_owned()
    } else if takes_options_only(&command_of(usage)) {
        format!("leave out `{named}`: this command takes options only")
    } else {
        format!("quote names with spaces as one argument, and put options before `{named}`")
    })
}

/// Whether the version is all that the arguments ask for.
pub(crate) fn asks_version() -> bool {
    let mut args = std::env::args_os().skip(1);
    let first = args.next();
    first.is_some_and(|first| first == "--version" || first == "-V") && args.next().is_none()
}

/// Whether the arguments ask for JSON, for arguments that could not be parsed.
pub(crate) fn wants_json() -> bool {
    std::env::args_os().skip(1).take_while(|arg| arg != "--").any(|arg| arg == "--json")
}

/// The colour that the arguments ask for. It is read before them, because help and usage errors
/// have colour, too.
pub(crate) fn wanted_color() -> ColorWhen {
    color_in(std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()))
}

fn color_in(args: impl Iterator<Item = String>) -> ColorWhen {
    let mut args = args.take_while(|arg| arg != "--");
    let mut wanted = ColorWhen::default();
    while let Some(arg) = args.next() {
        let when = match arg.strip_prefix("--color") {
            Some("") => args.next(),
            Some(when) => when.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        // clap reports a wrong value.
        if let Some(when) = when.and_then(|when| ColorWhen::from_str(&when, false).ok()) {
            wanted = when;
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of the error for these arguments.
    fn answer(line: &str) -> String {
        let parsed = cli::command().try_get_matches_from(line.split(' '));
        improved(parsed.unwrap_err()).render().to_string()
    }

    #[test]
    fn usage_errors_have_a_tip() {
        for (line, tip) in [
            ("talaria frobnicate", "list the commands: talaria help"),
            ("talaria key frobnicate", "list the commands: talaria key --help"),
            ("talaria decrypt -j", "list the options: talaria decrypt --help"),
            ("talaria list --secret", "instead of gpg's --secret, use: talaria key list"),
            ("talaria list --validity full", "list the options: talaria list --help"),
            ("talaria list --long --limt 3", "a similar argument exists: '--limit'"),
            (
                "talaria backup init --encryption none",
                "list the options: talaria backup init --help",
            ),
            (
                "talaria upload",
                "use: talaria export --armor CERT --output FILE, and upload FILE on the page of the keyserver",
            ),
            ("talaria keyserver", "use: talaria serve"),
            ("talaria lisst", "a similar subcommand exists: 'list'"),
            ("talaria show", "for example: talaria show bob@example.net"),
            ("talaria trust set bob", "for example: talaria trust set bob@example.net full"),
            ("talaria index add", "for example: talaria index add trigrams"),
            (
                "talaria backup key remove",
                "for example: talaria backup --repo /mnt/backup key remove bob@example.net",
            ),
            ("talaria bench generate", "see its arguments: talaria bench generate --help"),
            ("talaria encrypt --to", "write the value after the option: --to CERT"),
            ("talaria list --limit ten", "give a whole number"),
            ("talaria certify bob --amount 500", "give a whole number from 1 to 255"),
            ("talaria sign --inline --cleartext", "leave out --inline or --cleartext"),
            ("talaria compact now", "leave out `now`: this command takes options only"),
            (
                "talaria verify a b c",
                "verify one signature at a time: talaria verify SIGNATURE FILE",
            ),
            (
                "talaria key passphrase bob --no-passphrase --new-passphrase-file FILE",
                "leave out --no-passphrase or --new-passphrase-file FILE",
            ),
            (
                "talaria key generate bob --no-passphrase --passphrase-env NAME",
                "leave out --no-passphrase or --passphrase-env NAME",
            ),
        ] {
            let text = answer(line);
            let tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
            let tips: Vec<&str> = tips.collect();
            assert_eq!(tips, [tip], "{line}: {text}");
        }
    }

    #[test]
    fn guesses_are_typing_errors() {
        for (one, other, letters) in [
            ("list", "list", 0),
            ("lst", "list", 1),
            ("--limt", "--limit", 1),
            ("", "ab", 2),
            ("secret", "store", 3),
        ] {
            assert_eq!(distance(one, other), letters, "{one} {other}");
        }
        let text = answer("talaria backup init --encryption none");
        assert!(text.contains("Usage: talaria backup init [OPTIONS]"), "{text}");
        let text = answer("talaria list --a\nUsage");
        assert!(text.contains(r"--a\nUsage"), "{text}");
    }

    #[test]
    fn colour_is_found_among_arguments() {
        let color = |line: &str| color_in(line.split(' ').map(str::to_owned));
        assert_eq!(color("list --color never --help"), ColorWhen::Never);
        assert_eq!(color("--color=always lst"), ColorWhen::Always);
        assert_eq!(color("list --color sometimes"), ColorWhen::Auto);
        assert_eq!(color("list -- --color never"), ColorWhen::Auto);
        assert_eq!(color("list --colors=never --color"), ColorWhen::Auto);
    }
}
