//! `talaria import`

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use serde::Serialize;
use talaria::cert::Verification;
use talaria::store::{Access, IngestRefusal};
use talaria::{FileReport, ImportOptions, Input, import};

use crate::context::Context;
use crate::error::CliError;
use crate::hints::library::decompress;
use crate::progress::grouped;
use crate::render::{counted, printable};
use crate::shell::shell_word;
use crate::stderr::{complain, say};

/// Add certificates to the store
///
/// The file format is detected: keyrings (binary or armored), SKS dumps, GnuPG's pubring.kbx,
/// pubring.gpg, pubring.db and exported owner trust, GnuPG home directories, certificate
/// directories (pgp.cert.d), other stores, and single revocations; each also compressed with gzip,
/// zstd, xz or bzip2.
///
/// Certificates that are in the store already are merged, never replaced. A bad certificate is
/// reported and does not stop the import.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files, folders or URLs (http, https); - for standard input, which is the default unless it is
    /// a terminal. With --keyserver: fingerprints, key IDs or addresses
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// Fetch the certificates named by FILE from a keyserver (hkps://… or hkp://…)
    #[arg(long, value_name = "SERVER", requires = "files")]
    keyserver: Option<String>,
    /// Fetch the certificate of an e-mail address from the web key directory (WKD) of its domain
    #[arg(long, value_name = "ADDRESS")]
    wkd: Vec<String>,
    /// Skip the verification of self-signatures; `talaria check --verify` does it later
    #[arg(long)]
    no_verify: bool,
}

#[derive(Serialize)]
struct ReportJson<'a> {
    file: String,
    kind: Option<&'static str>,
    read: u64,
    /// The number of secret keys of which only the certificates were imported.
    secret_keys: u64,
    /// The number of secret keys that stay in a GnuPG home directory.
    secret_keys_left: u64,
    new: u64,
    updated: u64,
    unchanged: u64,
    ownertrusts: u64,
    rejected: u64,
    rejects: &'a [talaria::Rejected],
    error: Option<&'a str>,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut inputs: Vec<Input> = match &args.keyserver {
        None if args.files.is_empty() && args.wkd.is_empty() => {
            if io::stdin().is_terminal() {
                return Err(CliError::Usage(
                    "name the files to import, such as friend.asc, or - for standard input".into(),
                ));
            }
            vec![Input::parse("-")]
        }
        Some(server) => args.files.iter().map(|name| Input::keyserver(server, name)).collect(),
        None => args.files.iter().map(|file| Input::parse(file)).collect(),
    };
    let mut options = ImportOptions::new(cx.now);
    if args.no_verify {
        options.verification = Verification::Deferred;
    }
    let mut stores = cx.stores(Access::Create)?;
    let store = stores.writable()?;
    let mut reports = Vec::new();
    for address in &args.wkd {
        // Try the direct method if the advanced one fails.
        let [advanced, direct] = Input::wkd(address)?;
        let mut tried = cx.long(|monitor| import(store, &[advanced], options, monitor))?;
        if tried[0].error.is_some() {
            tried = cx.long(|monitor| import(store, &[direct], options, monitor))?;
        }
        reports.append(&mut tried);
    }
    inputs.dedup();
    reports.extend(cx.long(|monitor| import(store, &inputs, options, monitor))?);
    for report in &reports {
        print(report, cx)?;
    }
    if reports.len() > 1 && !cx.json {
        let sum = |count: fn(&FileReport) -> u64| reports.iter().map(count).sum::<u64>();
        cx.status(format_args!(
            "total: {} read, {} new, {} updated, {} unchanged, {} rejected",
            grouped(sum(|r| r.read)),
            grouped(sum(|r| r.new)),
            grouped(sum(|r| r.updated)),
            grouped(sum(|r| r.unchanged)),
            grouped(sum(|r| r.rejected_count)),
        ));
    }
    let any = |is_so: fn(&FileReport) -> bool| reports.iter().any(is_so);
    let is_bad = |report: &FileReport| {
        (report.error.is_some() && !report.is_absent) || report.rejected_count > 0
    };
    Ok(if any(|report| report.is_unreadable) {
        ExitCode::from(5)
    } else if any(is_bad) {
        ExitCode::from(3)
    } else if any(|report| report.is_absent) {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// The files that an import reads.
const READS: &str = "talaria reads keyrings (binary or armored, also compressed), SKS dumps, the files of GnuPG, \
                     certificate directories and its own stores.";

/// The remedy for an input that could not be read.
fn remedy(report: &FileReport) -> String {
    if let Some(window) = report.window {
        return decompress(&report.input.to_string(), window.program);
    }
    let remedy = match &report.input {
        _ if report.is_absent => {
            "Ask the owner for it, or another server. keys.openpgp.org finds an address only if its owner has confirmed it."
        }
        Input::Url(_) if report.is_unreadable => {
            "Check the address and the network connection, and try again."
        }
        Input::Path(path) if report.is_unreadable && path.to_string_lossy().contains("://") => {
            "talaria reads files, and URLs that start with https:// or http://."
        }
        _ if report.is_unreadable => "Check the spelling, the current folder and the permissions.",
        Input::Path(path) if path.is_dir() => "Name the files in it, such as FOLDER/*.pgp.",
        _ => READS,
    };
    remedy.to_owned()
}

fn print(report: &FileReport, cx: &Context) -> Result<(), CliError> {
    let kind = report.kind.map(talaria::InputKind::name);
    if cx.json {
        let json = ReportJson {
            file: report.input.to_string(),
            kind,
            read: report.read,
            secret_keys: report.secret_keys,
            secret_keys_left: report.secret_keys_left,
            new: report.new,
            updated: report.updated,
            unchanged: report.unchanged,
            ownertrusts: report.ownertrusts,
            rejected: report.rejected_count,
            rejects: &report.rejected,
            error: report.error.as_deref(),
        };
        let mut out = cx.report_stdout();
        serde_json::to_writer(&mut out, &json).map_err(std::io::Error::from)?;
        return Ok(writeln!(out)?);
    }
    let input = &report.input;
    let blocked = IngestRefusal::Blocked.to_string();
    for reject in &report.rejected {
        let name = reject.fingerprint.as_deref().map_or(String::new(), |f| format!(" {f}"));
        complain(format_args!("{input}: {}{name}: {}", reject.place, reject.reason));
        if reject.reason == blocked {
            say(format_args!("  To allow it again: talaria delete --unblock{name}"));
        }
    }
    if report.read == 0 && report.rejected_count > 0 && report.error.is_none() {
        say(format_args!("  No certificate was found. {READS}"));
    }
    let unnamed = report.rejected_count - report.rejected.len() as u64;
    if unnamed > 0 {
        complain(format_args!("{input}: {} more rejected", grouped(unnamed)));
    }
    if let Some(error) = &report.error {
        let error = error.strip_prefix(&format!("{input}: ")).unwrap_or(error);
        let name = input.to_string();
        // A name that is a word alone can be a word of the error, too.
        let is_word = |word: &str| !word.contains(|c: char| !c.is_alphanumeric());
        let names_it = error.contains(&name)
            && (!is_word(&name) || error.split([' ', ':']).any(|word| word == name));
        let name = if names_it { String::new() } else { format!("{input}: ") };
        complain(format_args!("{name}{error}"));
        say(format_args!("  {}", remedy(report)));
    }
    let shown = printable(input.to_string().as_bytes());
    if report.secret_keys > 0 {
        cx.status(format_args!(
            "{shown}: {} in it; only the certificates were imported. To import the secrets:\n  talaria \
             key import {}",
            are(report.secret_keys),
            shell_word(input.to_string())
        ));
    }
    let Some(kind) = kind else { return Ok(()) };
    let mut line = format!(
        "{shown} ({kind}): {} read, {} new, {} updated, {} unchanged, {} rejected",
        grouped(report.read),
        grouped(report.new),
        grouped(report.updated),
        grouped(report.unchanged),
        grouped(report.rejected_count)
    );
    if report.ownertrusts > 0 {
        let values = counted(report.ownertrusts, "owner trust value");
        line.push_str(&format!(", {values}"));
    }
    writeln!(cx.report_stdout(), "{line}")?;
    if report.secret_keys_left > 0 {
        cx.status(format_args!(
            "{shown}: {} in it, left with gpg-agent. To use gpg-agent's keys, give --gpg-agent, or \
             put `gpg-agent = true` into the configuration file.\n  To copy one to talaria: \
             gpg --homedir {} --export-secret-keys KEY | talaria key import -",
            are(report.secret_keys_left),
            shell_word(input.to_string())
        ));
    }
    Ok(())
}

fn are(secret_keys: u64) -> String {
    let verb = if secret_keys == 1 { "is" } else { "are" };
    format!("there {verb} {}", counted(secret_keys, "secret key"))
}
