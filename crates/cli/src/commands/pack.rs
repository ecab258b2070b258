//! `talaria pack`

use std::path::PathBuf;
use std::process::ExitCode;

use talaria::message::{ArmorWriter, EncryptOptions, Label, Literal, pack};

use super::encrypt::CompressArgs;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::files::{Source, Target, check_distinct, watched};

/// Write a file as an OpenPGP message without encryption or signature
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
    /// Write to FILE instead of standard output; the file appears when it is complete
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    check_distinct(args.input.as_deref(), args.output.as_deref())?;
    let source = Source::open(args.input.as_deref())?;
    let size = source.size;
    let options = EncryptOptions {
        compression: args.compress.parsed()?,
        literal: Literal::default(),
        size,
        ..EncryptOptions::default()
    };
    let mut target = Target::open(args.output.as_deref(), !args.armor)?;
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
    let json = serde_json::json!({ "action": "pack", "output": args.output });
    cx.report(Content::of(args.output.as_deref()), &json)?;
    Ok(ExitCode::SUCCESS)
}
