//! `talaria pack`

use std::path::PathBuf;
use std::process::ExitCode;

use talaria::message::{ArmorWriter, EncryptOptions, Label, pack};

use super::encrypt::CompressArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::files::{Source, watched};
use crate::output::OutputArgs;

/// Write a file as an OpenPGP message, neither encrypted nor signed
///
/// Like `gpg --store`: a literal data packet, compressed with --compress.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File to pack [default: standard input]
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,
    #[command(flatten)]
    compress: CompressArgs,
    /// Write ASCII armor
    #[arg(long, short)]
    armor: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    args.output.check(args.input.as_deref())?;
    let source = Source::open(args.input.as_deref())?;
    let size = source.size;
    let mut options = EncryptOptions::default();
    options.compression = args.compress.parsed()?;
    options.size = size;
    let mut target = args.output.open(!args.armor)?;
    let now = cx.now;
    let unfinished = target.unfinished();
    watched(cx, size, &unfinished, |watch| {
        let input = source.watched(watch);
        if args.armor {
            let mut armor = ArmorWriter::new(&mut target, Label::Message)?;
            pack(input, &mut armor, &mut [], &options, now)?;
            armor.finish()?;
        } else {
            pack(input, &mut target, &mut [], &options, now)?;
        }
        Ok(())
    })?;
    target.keep(false)?;
    let json = serde_json::json!({ "action": "pack", "output": args.output.path });
    cx.report(args.output.content(), &json)?;
    Ok(ExitCode::SUCCESS)
}
