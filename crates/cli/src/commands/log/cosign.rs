//! `talaria log cosign`

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria_log::{Action, NOTE_BYTES_MAX};

use super::author::SignArgs;
use super::folder::open;
use crate::context::{Content, Context};
use crate::error::{CliError, failed};
use crate::files::Source;
use crate::render::counted;

/// Add the cosignatures of witnesses to a checkpoint
///
/// Reads what a witness answered, and finds the checkpoint for which it holds. Anybody who may
/// write into the log can add it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Answer of a witness [default: standard input]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    sign: SignArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let path = args.file.as_deref();
    let name = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
    let mut bytes = Vec::new();
    let input = Source::open(path)?.plain().take(NOTE_BYTES_MAX as u64 + 1);
    { input }.read_to_end(&mut bytes).map_err(|error| failed("read", &name, error))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut author = args.sign.author(cx)?;
    let log = open(folder, cx)?;
    let found = log.read(|log| log.find_cosigned(&text))?;
    let found = found.ok_or_else(|| {
        CliError::Missing(format!(
            "{name} has no cosignature by a witness of this log on a checkpoint of it; make a request for them: talaria log \
             checkpoint --request FILE"
        ))
    })?;
    let (checkpoint, count) = (found.checkpoint, found.lines.len());
    let id = author.put(&log, Action::Cosign(found), cx.now_ms())?;
    let is_valid = log
        .read(|log| log.checkpoints().iter().any(|one| one.entry == checkpoint && one.is_valid))?;
    if cx.json {
        let json = serde_json::json!({
            "action": "log cosign", "entry": id.to_string(), "of": checkpoint.to_string(),
            "cosignatures": count, "valid": is_valid,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!(
            "Added {} to the checkpoint {checkpoint}{}.",
            counted(count, "cosignature"),
            if is_valid { ", which is valid now" } else { "; more are needed" }
        ));
    }
    Ok(ExitCode::SUCCESS)
}
