//! `talaria log encrypt`

use std::path::Path;
use std::process::ExitCode;

use talaria::message::openpgp::Fingerprint;
use talaria_log::Pattern;

use super::author::SignArgs;
use super::folder::open;
use super::grant::parse_pattern;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::recipients::RecipientArgs;
use crate::render::{counted, printable};
use crate::signatures::StatusArgs;

/// Choose who can read fields of an object
///
/// From now on, values of FIELDS of OBJECT are encrypted to the certificates of --to, and to nobody
/// else. An object that does not exist is created. To remove a reader, run the command again with
/// those who stay: values that are there stay readable for the readers they were encrypted to. Name
/// yourself, or you can neither read nor write these fields.
///
/// Everybody with a copy of the log still sees who writes which field and when, how long the values
/// are, and the key IDs of the readers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Object: its name, or its identity
    #[arg(value_name = "OBJECT")]
    object: String,
    /// Fields: a name, or a start with * behind it
    #[arg(value_name = "FIELDS", value_parser = parse_pattern)]
    fields: Pattern,
    #[command(flatten)]
    recipients: RecipientArgs,
    /// Do not encrypt new values of FIELDS any more
    #[arg(long, conflicts_with = "to")]
    stop: bool,
    #[command(flatten)]
    sign: SignArgs,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    if args.recipients.is_empty() && !args.stop {
        return Err(CliError::Usage(
            "name the readers with --to CERT, yourself included; or end the encryption with --stop"
                .into(),
        ));
    }
    let (readers, certificates) = args.recipients.find(&mut StatusArgs::default().open()?, cx)?;
    let mut author = args.sign.author(cx)?;
    let log = open(folder, cx)?;
    let mut maker = author.maker();
    let now_ms = cx.now_ms();
    let id = if args.stop {
        log.stop_encrypting(&mut maker, &args.object, &args.fields, now_ms)?
    } else {
        log.begin_epoch(&mut maker, &args.object, &args.fields, &readers, now_ms)?
    };
    args.recipients.encrypted_to(&certificates, cx)?;
    let names: Vec<String> = certificates.iter().map(Fingerprint::to_hex).collect();
    let is_reader = names.contains(&author.cert().fingerprint().to_hex());
    if cx.json {
        let json = serde_json::json!({
            "action": "log encrypt", "entry": id.to_string(), "fields": args.fields.as_str(),
            "encrypted": !args.stop, "readers": names, "is_reader": is_reader,
        });
        cx.report(Content::Elsewhere, &json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let fields = printable(args.fields.as_str().as_bytes());
    if args.stop {
        cx.status(format_args!("New values of {fields} are not encrypted any more."));
        return Ok(ExitCode::SUCCESS);
    }
    cx.status(format_args!(
        "New values of {fields} are encrypted to {}.\n  Epoch: {id}",
        counted(names.len(), "reader")
    ));
    if !is_reader {
        cx.status(format_args!(
            "You are not one of them: you can neither read nor write these values."
        ));
    }
    Ok(ExitCode::SUCCESS)
}
