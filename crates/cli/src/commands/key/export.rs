//! `talaria key export`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::message::{ArmorWriter, Label};
use talaria::store::Query;

use crate::context::Context;
use crate::error::CliError;
use crate::output::OutputArgs;
use crate::query::parse_query;

/// Export secret keys
///
/// The exported keys keep their passphrases. `talaria export` exports certificates (public keys).
#[derive(Debug, clap::Args)]
#[command(mut_arg("output", |arg| arg.help("Write to FILE, readable only by you, instead of standard output")))]
pub(super) struct Args {
    /// Keys to export
    #[arg(value_name = "KEY", required = true, value_parser = parse_query)]
    queries: Vec<Query>,
    /// Write ASCII armor
    #[arg(long, short)]
    armor: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    args.output.check(None)?;
    let bytes = cx.keys()?.export(&args.queries)?;
    let mut target = args.output.open(!args.armor)?;
    if args.armor {
        let mut armor = ArmorWriter::new(&mut target, Label::PrivateKey)?;
        armor.write_all(&bytes)?;
        armor.finish()?;
    } else {
        target.write_all(&bytes)?;
    }
    target.keep(true)?;
    let names: Vec<String> = args.queries.iter().map(ToString::to_string).collect();
    let json = serde_json::json!({ "action": "export", "output": args.output.path, "keys": names });
    cx.report(args.output.content(), &json)?;
    Ok(ExitCode::SUCCESS)
}
