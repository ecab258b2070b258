//! The whole command line, from which help, completions and man pages are generated.

use clap::builder::StyledStr;
use clap::builder::styling::{AnsiColor, Effects, Styles};
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser};

use crate::commands::Command;
use crate::examples;
use crate::global::Global;

/// Fast OpenPGP: encrypt, sign, verify, and manage certificates and keys
///
/// talaria encrypts, decrypts, signs and verifies, and keeps OpenPGP certificates (public keys) in
/// a store: one indexed file, safe to use from several programs at the same time.
///
/// Name a certificate or key by its fingerprint, key ID, e-mail address or whole user ID; a QUERY
/// also finds a part of a user ID. As in gpg, a prefix says which of these is meant: =User ID,
/// <mail@address>, @part-of-address, *part of a user ID, +all words, &keygrip. Searches for parts
/// and words ignore case and diacritics.
#[derive(Debug, Parser)]
#[command(
    name = "talaria",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    propagate_version = true,
    disable_help_flag = true,
    disable_version_flag = true
)]
struct Front {
    #[command(flatten)]
    global: Global,
}

/// What was asked for.
pub(crate) struct Cli {
    pub(crate) global: Global,
    pub(crate) command: Command,
}

impl Cli {
    pub(crate) fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let Front { global } = Front::from_arg_matches(matches)?;
        Ok(Self { global, command: Command::of(matches)? })
    }
}

/// The exit statuses of all commands and their meanings.
pub(crate) const EXIT_STATUSES: [(u8, &str); 7] = [
    (0, "success"),
    (1, "not found, not unique, bad signature, wrong passphrase, or declined"),
    (2, "wrong usage: an unknown option, a missing argument"),
    (3, "bad input: not OpenPGP, damaged, or an invalid configuration"),
    (4, "store or key folder damaged, locked or not usable"),
    (5, "reading or writing a file or a network connection failed"),
    (130, "interrupted"),
];

/// Groups of commands in the help of `talaria`, in the order in which new users meet them.
const GROUPS: [(&str, &[&str]); 8] = [
    ("Messages", &["encrypt", "decrypt", "sign", "verify", "inspect", "pack", "unpack"]),
    ("Certificates", &["import", "export", "list", "show", "delete", "stats"]),
    ("Keys and trust", &["key", "certify", "trust", "tofu"]),
    ("Backup", &["backup"]),
    ("Signed log", &["log"]),
    ("Store", &["build", "check", "compact", "index", "tune", "changes"]),
    ("Keyserver", &["serve", "peer", "admin", "dump"]),
    ("Other", &["completions", "man", "bench", "help"]),
];

const HEADING: clap::builder::styling::Style = AnsiColor::Green.on_default().effects(Effects::BOLD);
const LITERAL: clap::builder::styling::Style = AnsiColor::Cyan.on_default().effects(Effects::BOLD);

/// The command line, with the examples added to the help of each command.
pub(crate) fn command() -> clap::Command {
    let styles = Styles::styled()
        .header(HEADING)
        .usage(HEADING)
        .literal(LITERAL)
        .placeholder(AnsiColor::Cyan.on_default());
    let command = Front::command().subcommands(Command::definitions(None));
    let command = command.styles(styles).mut_subcommands(|part| {
        let name = part.get_name().to_owned();
        with_examples(with_headings(part), &name)
    });
    let groups = groups(&command);
    command
        .override_usage("talaria [OPTIONS] <COMMAND>")
        .help_template(StyledStr::from(format!(
            "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{HEADING}Global options:{HEADING:#}\n{{options}}{{after-help}}"
        )))
        .after_help("Run `talaria help COMMAND` for details and examples.")
        .after_long_help(format!(
            "{HEADING}Exit status:{HEADING:#}\n{}\nRun `talaria help COMMAND` for details and examples.",
            EXIT_STATUSES.map(|(status, meaning)| format!("  {status:<4} {meaning}\n")).concat()
        ))
}

/// The command line with one command alone, for arguments without an error: it has no texts. `None`
/// if there is no such command.
pub(crate) fn one_command(name: &str) -> Option<clap::Command> {
    let definition = Command::definitions(Some(name)).pop()?;
    Some(Front::command().subcommand(definition))
}

/// Headings for options that many commands share, by their long names.
const HEADINGS: [(&str, &[&str]); 4] = [
    (
        "Output options",
        &[
            "output",
            "overwrite",
            "armor",
            "compress",
            "profile",
            "aead",
            "hash",
            "status-fd",
            "signatures",
            "with-colons",
            "gnupg",
            "with-keygrip",
            "with-sigs",
            "with-trust",
            "with-tofu-info",
        ],
    ),
    ("Key options", &["key-file", "gpg-agent"]),
    (
        "Passphrase options",
        &[
            "passphrase-file",
            "passphrase-fd",
            "passphrase-env",
            "new-passphrase-file",
            "new-passphrase-fd",
            "new-passphrase-env",
            "no-passphrase",
        ],
    ),
    ("Trust options", &["trusted-only", "trust-model", "tofu-default-policy"]),
];

/// Groups the options of a command under headings: its own options first.
fn with_headings(command: clap::Command) -> clap::Command {
    // For `generate`, the options that describe the key are not output options.
    let is_key = command.get_name() == "generate";
    // Without --output, --overwrite belongs to another option.
    let has_output = command.get_arguments().any(|arg| arg.get_long() == Some("output"));
    let mut place = 0;
    command
        .mut_args(|arg| {
            // The repository or log, which all commands of a group share, comes before their own
            // options.
            place += 1;
            let is_shared = matches!(arg.get_long(), Some("repo" | "log"));
            let order = if is_shared { 0 } else { place };
            let arg = arg.display_order(order);
            let long = arg.get_long().unwrap_or_default();
            let heading = HEADINGS.iter().find(|(_, names)| names.contains(&long));
            match heading {
                Some(_) if is_key && long == "profile" || !has_output && long == "overwrite" => arg,
                Some((heading, _)) => arg.help_heading(*heading),
                _ => arg,
            }
        })
        .mut_subcommands(with_headings)
}

fn with_examples(command: clap::Command, name: &str) -> clap::Command {
    let mut text = String::new();
    for (about, line) in examples::of(name) {
        text.push_str(&format!(
            "  {about}:\n    {LITERAL}$ {}{LITERAL:#}\n",
            examples::folded(line)
        ));
    }
    let command = command.mut_subcommands(|part| {
        let name = format!("{name} {}", part.get_name());
        with_examples(part, &name)
    });
    if text.is_empty() {
        return command;
    }
    command.after_help(format!("{HEADING}Examples:{HEADING:#}\n{}", text.trim_end()))
}

/// The commands by group, each with the first sentence of its help.
fn groups(command: &clap::Command) -> String {
    let about = |name: &str| match command.find_subcommand(name) {
        Some(part) => part.get_about().map(ToString::to_string).unwrap_or_default(),
        None => "Print the help of a command".to_owned(),
    };
    let mut text = String::new();
    for (title, names) in GROUPS {
        text.push_str(&format!("{HEADING}{title}:{HEADING:#}\n"));
        for name in names {
            text.push_str(&format!("  {LITERAL}{name:<12}{LITERAL:#} {}\n", about(name)));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group() {
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = command();
        let mut there: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        there.push("help");
        grouped.sort_unstable();
        there.sort_unstable();
        assert_eq!(grouped, there);
    }

    #[test]
    fn every_command_has_two_examples() {
        fn check(command: &clap::Command, name: &str) {
            assert!(examples::of(name).len() >= 2, "{name}");
            // The benchmarks of `bench` are for developers of talaria.
            for part in command.get_subcommands().filter(|_| name != "bench") {
                check(part, &format!("{name} {}", part.get_name()));
            }
        }
        command().get_subcommands().for_each(|part| check(part, part.get_name()));
    }
}
