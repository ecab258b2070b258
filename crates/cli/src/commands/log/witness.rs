//! `talaria log witness`

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use talaria_log::{NOTE_BYTES_MAX, WitnessFolder, public_path, read_public_note_key};

use crate::context::{Content, Context};
use crate::error::{CliError, failed};
use crate::files::Source;
use crate::output::OutputArgs;

/// Cosign checkpoints of logs of others
///
/// A witness says when it saw a checkpoint, and that each one follows the last. It needs no copy of
/// the log and no OpenPGP key, only a folder with its own key and the last state of each log. The
/// folder must not be set back to an earlier state.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a witness with a new key
    ///
    /// Give DIR/key.pub to the owner of a log, who names it at `talaria log init --witness`. The
    /// other files stay with the witness.
    Init(InitArgs),
    /// Let a witness cosign a log
    ///
    /// FILE has the public key of the checkpointer: the file with the end .pub that `talaria log
    /// init --checkpointer` makes.
    Trust(TrustArgs),
    /// Check a checkpoint, and cosign it
    ///
    /// The witness refuses a checkpoint that does not follow the one that it cosigned last. Both
    /// are then evidence that the checkpointer shows different logs: keep them.
    Cosign(CosignArgs),
}

#[derive(Debug, clap::Args)]
struct InitArgs {
    /// Folder of the witness, which does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Name of the witness, such as witness.example.org
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, clap::Args)]
struct TrustArgs {
    /// Folder of the witness
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Public key of the checkpointer
    #[arg(value_name = "FILE")]
    key: PathBuf,
}

#[derive(Debug, clap::Args)]
struct CosignArgs {
    /// Folder of the witness
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Request, from `talaria log checkpoint --request` [default: standard input]
    #[arg(value_name = "REQUEST")]
    request: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Init(args) => init(args, cx),
        Command::Trust(args) => trust(args, cx),
        Command::Cosign(args) => cosign(args, cx),
    }
}

fn init(args: &InitArgs, cx: &Context) -> Result<ExitCode, CliError> {
    let witness = WitnessFolder::create(&args.folder, &args.name)?;
    let key = witness.public().to_string();
    if cx.json {
        let json = serde_json::json!({ "action": "log witness init", "key": key });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        let public = public_path(&args.folder.join("key"));
        cx.status(format_args!("Made the witness {key}.\n  Public key: {}", public.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn trust(args: &TrustArgs, cx: &Context) -> Result<ExitCode, CliError> {
    let key = read_public_note_key(&args.key)?;
    WitnessFolder::open(&args.folder)?.trust(&key)?;
    if cx.json {
        let json = serde_json::json!({ "action": "log witness trust", "origin": key.name });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!("The witness cosigns {}.", key.name));
    }
    Ok(ExitCode::SUCCESS)
}

fn cosign(args: &CosignArgs, cx: &Context) -> Result<ExitCode, CliError> {
    args.output.check(args.request.as_deref())?;
    let path: Option<&Path> = args.request.as_deref();
    let name = path.map_or_else(|| "standard input".to_owned(), |path| path.display().to_string());
    let mut bytes = Vec::new();
    let mut input = Source::open(path)?.plain().take(NOTE_BYTES_MAX as u64 + 1);
    input.read_to_end(&mut bytes).map_err(|error| failed("read", &name, error))?;
    let witness = WitnessFolder::open(&args.folder)?;
    let mut target = args.output.open(false)?;
    let line = witness.cosign(&String::from_utf8_lossy(&bytes), &name, cx.now.into())?;
    target.write_all(line.to_string().as_bytes())?;
    target.keep(false)?;
    let json = serde_json::json!({
        "action": "log witness cosign", "witness": witness.public().name, "time": cx.now,
        "output": args.output.path,
    });
    cx.report(args.output.content(), &json)?;
    if !cx.json {
        cx.status(format_args!("Cosigned."));
    }
    Ok(ExitCode::SUCCESS)
}
