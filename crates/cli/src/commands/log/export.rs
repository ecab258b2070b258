//! `talaria log export`

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria_log::{LogError, LogFolder};

use super::folder::open;
use crate::context::{Content, Context};
use crate::error::{CliError, failed};
use crate::output::OutputArgs;
use crate::render::counted;
use crate::shell::shell_word;

/// Write entries for other nodes or programs
///
/// Writes all entries as a stream that `talaria log import` reads on another node. With --pgp,
/// writes each entry as a file with its signature beside it, so that gpg and sq can verify it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write files for other OpenPGP programs into DIR, which is empty or does not exist
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pgp: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    if let Some(target) = &args.pgp {
        return pgp(target, folder, cx);
    }
    args.output.check(None)?;
    let log = open(folder, cx)?;
    let mut target = args.output.open(true)?;
    let name = args.output.path.clone().unwrap_or_else(|| "standard output".into());
    let exported = cx.step("Writing entries", || {
        let mut out = BufWriter::new(&mut target);
        let exported = log.export(&mut out, &name)?;
        let flushed = out.flush();
        flushed.map_err(|source| LogError::Io { action: "write", path: name.clone(), source })?;
        Ok::<_, LogError>(exported)
    })?;
    target.keep(false)?;
    let json = serde_json::json!({
        "action": "log export", "log": log.id().to_string(), "entries": exported.entries,
        "output": args.output.path,
    });
    cx.report(args.output.content(), &json)?;
    if !cx.json {
        cx.status(format_args!("Wrote {}.", counted(exported.entries, "entry")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes files for other programs.
fn pgp(target: &Path, folder: &Path, cx: &Context) -> Result<ExitCode, CliError> {
    let name = target.display().to_string();
    let log: LogFolder = open(folder, cx)?;
    fs::create_dir_all(target).map_err(|error| failed("make", &name, error))?;
    let mut inside = fs::read_dir(target).map_err(|error| failed("read", &name, error))?;
    if inside.next().is_some() {
        return Err(LogError::Occupied { path: target.to_owned() }.into());
    }
    let files = cx.step("Writing signatures", || log.export_pgp(target))?;
    if cx.json {
        let json = serde_json::json!({
            "action": "log export", "log": log.id().to_string(), "output": target,
            "signatures": files.signatures, "proven": files.proven,
            "not_for_gnupg": files.not_for_gnupg, "checkpoints": files.checkpoints,
            "covered": files.covered,
        });
        cx.report(Content::Elsewhere, &json)?;
        return Ok(ExitCode::SUCCESS);
    }
    cx.status(format_args!("Wrote {} to {name}.", counted(files.signatures, "signature")));
    if files.proven > 0 {
        cx.status(format_args!(
            "{} proved by the signature of a batch: see the .proof files.",
            match files.proven {
                1 => "1 entry is".to_owned(),
                count => format!("{} are", counted(count, "entry")),
            }
        ));
    }
    if files.not_for_gnupg > 0 {
        cx.status(format_args!(
            "GnuPG cannot read {}, which have version 6; sq can.",
            counted(files.not_for_gnupg, "signature")
        ));
    }
    if files.covered > 0 {
        cx.status(format_args!(
            "The last valid checkpoint covers {}: see the .tlog-proof files.",
            counted(files.covered, "entry")
        ));
    }
    let place = |name: &str| shell_word(target.join(name));
    cx.status(format_args!(
        "To verify one with gpg: gpg --import {} && gpg --verify {} {}",
        place("certs.pgp"),
        place("00000000.entry.sig"),
        place("00000000.entry")
    ));
    Ok(ExitCode::SUCCESS)
}
