//! `talaria key export`

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use talaria::message::{ArmorWriter, Label};
use talaria::store::Query;

use super::super::parse_query;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::files::Target;

/// Export secret keys
///
/// The exported keys keep their passphrases. `talaria export` exports certificates (public keys).
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keys to export
    #[arg(value_name = "KEY", required = true, value_parser = parse_query)]
    queries: Vec<Query>,
    /// Write ASCII armor
    #[arg(long, short)]
    armor: bool,
    /// Write to FILE, readable only by you, instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let bytes = cx.keys()?.export(&args.queries)?;
    let mut target = Target::open(args.output.as_deref(), !args.armor)?;
    if args.armor {
        let mut armor = ArmorWriter::new(&mut target, Label::PrivateKey)?;
        armor.write_all(&bytes)?;
        armor.finish()?;
    } else {
        target.write_all(&bytes)?;
    }
    target.keep(true)?;
    let names: Vec<String> = args.queries.iter().map(ToString::to_string).collect();
    let json = serde_json::json!({ "action": "export", "output": args.output, "keys": names });
    cx.report(Content::of(args.output.as_deref()), &json)?;
    Ok(ExitCode::SUCCESS)
}
