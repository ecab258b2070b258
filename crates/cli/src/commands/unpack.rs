//! `talaria unpack`

use std::path::PathBuf;
use std::process::ExitCode;

use talaria::message::{Message, MessageError, MessageKind, ReadLimits, Verifier, verify_inline};

use crate::context::Context;
use crate::error::CliError;
use crate::files::{Source, watched};
use crate::output::OutputArgs;

/// Write the content of a message that is not encrypted
///
/// Unpacks the output of `talaria pack` or `gpg --store`, or the content of a signed message.
/// Signatures are not verified: use `talaria verify --output` for that.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Message to unpack [default: standard input]
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,
    /// Largest accepted ratio of content size to message size
    #[arg(long, value_name = "N", default_value_t = ReadLimits::default().expansion)]
    max_expansion: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    unpack(args, cx).map_err(|error| error.of_input(args.input.as_deref()))
}

fn unpack(args: &Args, cx: &Context) -> Result<ExitCode, CliError> {
    args.output.check(args.input.as_deref())?;
    let source = Source::open(args.input.as_deref())?;
    let size = source.size;
    let mut target = args.output.open(false)?;
    let mut limits = ReadLimits::default();
    limits.expansion = args.max_expansion;
    let verifier = Verifier::new(Box::new(|_: &_| Vec::new()), cx.rules(), cx.now);
    let unfinished = target.unfinished();
    let signatures = watched(cx, size, &unfinished, |watch| {
        let message = Message::new(source.buffered(watch))?;
        let found = message.kind();
        if !matches!(
            found,
            MessageKind::Packed | MessageKind::Signed | MessageKind::Damaged | MessageKind::Other
        ) {
            let wanted = "a packed message";
            return Err(MessageError::OtherKind { found, wanted }.into());
        }
        Ok(verify_inline(&mut message.into_packets()?, &mut target, &verifier, limits)?.1)
    })?;
    target.keep(false)?;
    let json = serde_json::json!({
        "action": "unpack", "output": args.output.path, "signatures": signatures.len(),
    });
    cx.report(args.output.content(), &json)?;
    match signatures.len() {
        0 => {}
        1 => cx.status(format_args!("The message has a signature that was not checked.")),
        count => {
            cx.status(format_args!("The message has {count} signatures that were not checked."));
        }
    }
    Ok(ExitCode::SUCCESS)
}
