//! `talaria man`

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap_mangen::roff::{Roff, bold, italic, roman};

use crate::cli::{EXIT_STATUSES, command};
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::examples;
use crate::output::{Existing, Target};
use crate::terminal::{Form, Output};

/// Print or write the manual pages
///
/// Prints one page, or with --dir writes one file per command (talaria.1, talaria-import.1, …).
/// Pages of an earlier version in that folder are replaced, and no other files.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Command whose page to print, such as `key generate` [default: talaria itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write all pages into DIR
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
    /// Replace files that talaria has not written
    #[arg(long, requires = "dir")]
    overwrite: bool,
}

/// The files of the user and their contents.
const FILES: [(&str, &str); 5] = [
    ("~/.local/share/talaria/certs.db", "the store: certificates, owner trust, TOFU data, peers"),
    ("~/.local/share/talaria/keys/", "secret keys, one file each, readable only by you"),
    (
        "~/.local/share/talaria/keys/revocations/",
        "revocation certificates of keys that were generated here",
    ),
    (
        "~/.local/share/talaria/backup/",
        "what this machine remembers of backup repositories, and the cache of unchanged files",
    ),
    (
        "~/.config/talaria/config.toml",
        "default values of options: store, keys, trust-model, tofu-default-policy, gpg-agent",
    ),
];

/// The environment variables and their effects.
const ENVIRONMENT: [(&str, &str); 13] = [
    ("TALARIA_STORE", "the store, as --store"),
    ("TALARIA_KEYS", "the folder of secret keys, as --keys"),
    ("TALARIA_CONFIG", "the configuration file; empty: none"),
    ("TALARIA_POLICY", "which certificates may be used, as --policy"),
    ("TALARIA_TRUST_MODEL", "the trust model, as --trust-model"),
    ("TALARIA_LOG", "the folder of a signed log, as --log"),
    ("TALARIA_REPO", "the backup repository, as --repo"),
    ("TALARIA_BACKUP_STATE", "replaces ~/.local/share/talaria/backup"),
    (
        "HOME",
        "where the files above are. Without it, and without XDG_DATA_HOME, the store has to be named",
    ),
    ("XDG_DATA_HOME", "replaces ~/.local/share"),
    ("XDG_CONFIG_HOME", "replaces ~/.config"),
    ("GNUPGHOME", "the home directory of GnuPG, for --gpg-agent"),
    ("NO_COLOR", "if not empty: no colors"),
];

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut top = command().disable_help_subcommand(true);
    top.build();
    if let Some(folder) = &args.dir {
        let failed = |source| talaria::Error::Io {
            action: "write",
            name: folder.display().to_string(),
            source,
        };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut pages = Vec::new();
        collect_pages(folder, &[], &top, &mut pages)?;
        // Nothing is written if one page cannot be.
        let existing = |path: &Path| Existing::of_generated(path, args.overwrite, is_ours);
        for (path, _) in &pages {
            existing(path).check(path)?;
        }
        for (path, page) in &pages {
            let mut target = Target::file(path, existing(path))?;
            target.write_all(page)?;
            target.keep(false)?;
        }
        let count = pages.len();
        cx.status(format_args!("Wrote {count} manual pages to {}.", folder.display()));
        let json = serde_json::json!({ "action": "man", "folder": folder, "pages": count });
        cx.report(Content::Elsewhere, &json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let words: Vec<&str> = args.command.iter().flat_map(|word| word.split(['-', ' '])).collect();
    let (words, command) = found(&top, &words)?;
    Output::stdout(Form::Exact).write_all(&page(&words, command)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The command with these words. The name of a command may have been split at its hyphens.
fn found<'c>(
    top: &'c clap::Command,
    words: &[&str],
) -> Result<(Vec<String>, &'c clap::Command), CliError> {
    let (mut at, mut names, mut rest) = (top, Vec::new(), words);
    while !rest.is_empty() {
        let part = (1..=rest.len()).rev().find_map(|count| {
            let name = rest[..count].join("-");
            Some((count, at.find_subcommand(&name)?))
        });
        let Some((count, part)) = part else {
            return Err(CliError::Usage(format!(
                "there is no command `{}`: `talaria help` lists all commands",
                words.join(" ")
            )));
        };
        names.push(part.get_name().to_owned());
        (at, rest) = (part, &rest[count..]);
    }
    Ok((names, at))
}

/// Adds the page of a command and the pages of its subcommands, each with its path.
fn collect_pages(
    folder: &Path,
    words: &[String],
    command: &clap::Command,
    pages: &mut Vec<(PathBuf, Vec<u8>)>,
) -> Result<(), CliError> {
    pages.push((folder.join(format!("{}.1", title(words))), page(words, command)?));
    for part in command.get_subcommands() {
        let words = [words, &[part.get_name().to_owned()]].concat();
        collect_pages(folder, &words, part, pages)?;
    }
    Ok(())
}

/// The name of the manual in the title of each page.
const MANUAL: &str = "talaria manual";

/// Whether a file is a page of this manual.
fn is_ours(text: &str) -> bool {
    text.lines().any(|line| line.starts_with(".TH TALARIA") && line.contains(MANUAL))
}

/// The name of a command's page.
fn title(words: &[String]) -> String {
    [&["talaria".to_owned()], words].concat().join("-")
}

/// The page of a command.
fn page(words: &[String], command: &clap::Command) -> Result<Vec<u8>, CliError> {
    let title = title(words);
    let mut out = Vec::new();
    let man = clap_mangen::Man::new(
        command
            .clone()
            .display_name(&title)
            .bin_name([&["talaria".to_owned()], words].concat().join(" ")),
    );
    let man = man.title(title.to_uppercase()).manual(MANUAL).source("talaria");
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    // As in the help: one line that says what may follow, without all options in no order.
    section(&mut out, "SYNOPSIS", |roff| {
        let name = [&["talaria".to_owned()], words].concat().join(" ");
        let usage = command.clone().bin_name(name).render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").trim();
        for (at, line) in usage.lines().enumerate() {
            if at > 0 {
                roff.control("br", []);
            }
            roff.text([roman(line.trim())]);
        }
    })?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if command.has_subcommands() {
        section(&mut out, "SUBCOMMANDS", |roff| {
            for part in command.get_subcommands() {
                let about = part.get_about().map(ToString::to_string).unwrap_or_default();
                entry(
                    roff,
                    &format!(
                        "talaria {}",
                        [words, &[part.get_name().to_owned()]].concat().join(" ")
                    ),
                    &about,
                );
            }
        })?;
    }
    let examples = examples::of(&words.join(" "));
    if !examples.is_empty() {
        section(&mut out, "EXAMPLES", |roff| {
            for (about, line) in examples {
                roff.control("TP", []).text([roman(format!("{about}:"))]).text([bold(*line)]);
            }
        })?;
    }
    section(&mut out, "EXIT STATUS", |roff| {
        EXIT_STATUSES
            .iter()
            .for_each(|(status, meaning)| entry(roff, &status.to_string(), meaning));
    })?;
    section(&mut out, "FILES", |roff| {
        for (name, about) in FILES {
            roff.control("TP", []).text([italic(name)]).text([roman(about)]);
        }
    })?;
    section(&mut out, "ENVIRONMENT", |roff| {
        ENVIRONMENT.iter().for_each(|(name, about)| entry(roff, name, about));
    })?;
    section(&mut out, "SEE ALSO", |roff| {
        let mut names: Vec<String> = command
            .get_subcommands()
            .map(|part| self::title(&[words, &[part.get_name().to_owned()]].concat()))
            .collect();
        if let Some((_, parents)) = words.split_last() {
            names.insert(0, self::title(parents));
        }
        names.push("gpg".to_owned());
        let names: Vec<String> = names.iter().map(|name| format!("{name}(1)")).collect();
        roff.text([roman(names.join(", "))]);
    })?;
    Ok(out)
}

fn section(out: &mut Vec<u8>, title: &str, fill: impl FnOnce(&mut Roff)) -> Result<(), CliError> {
    let mut roff = Roff::new();
    roff.control("SH", [title]);
    fill(&mut roff);
    Ok(roff.to_writer(out)?)
}

fn entry(roff: &mut Roff, name: &str, about: &str) {
    roff.control("TP", []).text([bold(name)]).text([roman(about)]);
}
