//! `talaria sign`

use std::io::{BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::message::{
    ArmorWriter, EncryptOptions, Label, Literal, pack, sign_cleartext, sign_detached,
};

use talaria::status::{self, Form};

use super::encrypt::CompressArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::files::{Source, watched};
use crate::keys::KeyArgs;
use crate::output::OutputArgs;
use crate::passphrase::PassphraseArgs;
use crate::signatures::{StatusArgs, fingerprints, signers, unfit};

/// Sign a file
///
/// Signs FILE (or standard input). The signature is detached unless --inline or --cleartext is
/// given.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File to sign [default: standard input]
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,
    /// Key to sign with (can be repeated) [default: your only key]
    #[arg(
        long,
        short,
        visible_short_alias = 'u',
        visible_alias = "local-user",
        value_name = "KEY"
    )]
    with: Vec<String>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    passphrase: PassphraseArgs,
    /// Write file and signature as one message
    #[arg(long, group = "form")]
    inline: bool,
    /// Write a readable text with its signature below (cleartext signature)
    #[arg(long, group = "form")]
    cleartext: bool,
    /// Sign as text: the signature stays valid if line endings change
    #[arg(long)]
    text: bool,
    /// Hash algorithm [default: sha256; sha512 for version 6 keys]
    #[arg(long, value_enum)]
    hash: Option<HashArg>,
    #[command(flatten)]
    compress: CompressArgs,
    #[command(flatten)]
    status: StatusArgs,
    /// Write ASCII armor
    #[arg(long, short)]
    armor: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Hash algorithms to sign with.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum HashArg {
    Sha256 = 8,
    Sha384 = 9,
    Sha512 = 10,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut report = args.status.open()?;
    // Look at the files first: a recipient, a key or a passphrase is no use without them.
    args.output.check(args.input.as_deref())?;
    let source = Source::open(args.input.as_deref())?;
    let given = args.passphrase.given()?;
    let mut signers = if args.with.is_empty() {
        let only = report.on_error(args.keys.only_signer(given, cx), |error| {
            status::invalid_signer(unfit(error), "")
        });
        vec![only?]
    } else {
        signers(&args.with, &given, &args.keys, &mut report, cx)?
    };
    if let Some(hash) = args.hash {
        for signer in &mut signers {
            signer.set_hash(hash as u8)?;
        }
    }
    let size = source.size;
    let mut options = EncryptOptions::default();
    options.compression = args.compress.parsed()?;
    options.literal = Literal { text: args.text, ..Literal::default() };
    options.size = size;
    let mut target = args.output.open(!args.armor && !args.cleartext)?;
    let now = cx.now;
    let unfinished = target.unfinished();
    watched(cx, size, &unfinished, |watch| {
        let mut input = BufReader::new(source.watched(watch));
        if args.cleartext {
            sign_cleartext(&mut input, &mut target, &mut signers, now)?;
            return Ok(());
        }
        let label = if args.inline { Label::Message } else { Label::Signature };
        let mut write = |out: &mut dyn Write| -> Result<(), CliError> {
            let mut out = out;
            if args.inline {
                pack(&mut input, &mut out, &mut signers, &options, now)?;
            } else {
                sign_detached(&mut input, &mut out, &mut signers, args.text, now)?;
            }
            Ok(())
        };
        if args.armor {
            let mut armor = ArmorWriter::new(&mut target, label)?;
            write(&mut armor)?;
            armor.finish()?;
            Ok(())
        } else {
            write(&mut target)
        }
    })?;
    target.keep(false)?;
    let form = match (args.inline, args.cleartext) {
        (true, _) => Form::Inline,
        (_, true) => Form::Cleartext,
        _ => Form::Detached,
    };
    report.lines(&status::signed(&signers, form, args.text, now))?;
    let json = serde_json::json!({
        "action": "sign", "output": args.output.path, "signed_by": fingerprints(&signers),
        "form": match form {
            Form::Detached => "detached",
            Form::Inline => "inline",
            Form::Cleartext => "cleartext",
        },
        "created": now,
    });
    cx.report(args.output.content(), &json)?;
    Ok(ExitCode::SUCCESS)
}
