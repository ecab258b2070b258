//! `talaria log checkpoint`

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria_log::{CheckpointInfo, read_note_key};

use super::author::SignArgs;
use super::folder::open;
use crate::context::{Content, Context};
use crate::error::{CliError, failed};
use crate::output::{Existing, Target};
use crate::render::counted;

/// Say which entries exist now
///
/// A checkpoint covers all entries that this node has. It is signed with the key of the
/// checkpointer, which `talaria log init --checkpointer` made, and by you. Witnesses cosign it with
/// the request that --request writes. Entries of a key that has expired, and of one that was stolen
/// at a stated time, count if a checkpoint covered them before.
///
/// Without --key, the request is for the last checkpoint, and none is made.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Key of the checkpointer
    #[arg(long, value_name = "FILE", required_unless_present = "request")]
    key: Option<PathBuf>,
    /// Write the request to witnesses to FILE (C2SP tlog-witness, add-checkpoint)
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Replace the file of --request if it exists
    #[arg(long, requires = "request")]
    overwrite: bool,
    /// Number of entries in the checkpoint that the witness cosigned last [default: that of the
    /// last one that enough have cosigned]
    #[arg(long, value_name = "N", requires = "request")]
    old: Option<u64>,
    #[command(flatten)]
    sign: SignArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let existing = Existing::with_overwrite(args.overwrite);
    if let Some(path) = &args.request {
        existing.check(path)?;
    }
    let signers = match &args.key {
        Some(path) => Some((read_note_key(path)?, args.sign.author(cx)?)),
        None => None,
    };
    let log = open(folder, cx)?;
    let made = match signers {
        Some((key, mut author)) => {
            Some(log.put_checkpoint(&mut author.maker(), &key, cx.now_ms())?)
        }
        None => None,
    };
    let found = log.read(|log| {
        let checkpoint = match made {
            Some(made) => log.checkpoints().into_iter().find(|one| one.entry == made),
            None => log.last_checkpoint(),
        };
        checkpoint.map(|checkpoint| {
            let request = args
                .request
                .is_some()
                .then(|| log.witness_request_from(&checkpoint.entry, args.old));
            (checkpoint, request, log.genesis().witness_threshold)
        })
    })?;
    let Some((checkpoint, request, needed)) = found else {
        return Err(CliError::Missing(
            "the log has no checkpoint; make one: talaria log checkpoint --key FILE".into(),
        ));
    };
    if let (Some(path), Some(request)) = (&args.request, request) {
        let request = request.ok_or_else(|| {
            let size = checkpoint.head.size;
            CliError::Usage(format!("--old: the checkpoint has only {}", counted(size, "entry")))
        })?;
        let mut file = Target::file(path, existing)?;
        let written = file.write_all(request.to_string().as_bytes());
        written.map_err(|error| failed("write", &path.display().to_string(), error))?;
        file.keep(false)?;
    }
    let CheckpointInfo { entry, head, time, .. } = checkpoint;
    if cx.json {
        let json = serde_json::json!({
            "action": "log checkpoint", "entry": entry.to_string(), "made": made.is_some(),
            "size": head.size, "root": head.root_text(), "time": time, "request": args.request,
        });
        cx.report(Content::Elsewhere, &json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let verb = if made.is_some() { "Made a" } else { "The last" };
    cx.status(format_args!(
        "{verb} checkpoint over {}.\n  Entry: {entry}\n  Root:  {}",
        counted(head.size, "entry"),
        head.root_text()
    ));
    if let (Some(path), true) = (&args.request, needed > 0) {
        cx.status(format_args!(
            "{} must cosign it. Give them {}, and add their answers: talaria log cosign FILE",
            counted(usize::from(needed), "witness"),
            path.display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}
