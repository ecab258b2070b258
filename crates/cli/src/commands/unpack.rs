//! `talaria unpack`

use std::path::PathBuf;
use std::process::ExitCode;

use talaria::message::{Limits, Message, MessageError, MessageKind, Verifier, verify_inline};

use crate::context::Context;
use crate::error::CliError;
use crate::files::{Source, Target, watched};

/// Write the content of a message that is not encrypted
///
/// What `talaria pack` and `gpg --store` have packed, or what somebody has signed. Signatures are not
/// checked: `talaria verify --output` does that.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The message [default: standard input]
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,
    /// How many times larger than the message its content may be
    #[arg(long, value_name = "N", default_value_t = Limits::default().expansion)]
    max_expansion: u64,
    /// Write to a file, which is complete or not there [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let source = Source::open(args.input.as_deref())?;
    let size = source.size;
    let mut target = Target::open(args.output.as_deref(), false)?;
    let limits = Limits { expansion: args.max_expansion, ..Limits::default() };
    let verifier = Verifier::new(Box::new(|_: &_| Vec::new()), cx.policy(), cx.now);
    let unfinished = target.unfinished();
    let signatures = watched(cx, size, &unfinished, |watch| {
        let message = Message::new(source.buffered(watch))?;
        let found = message.kind();
        if !matches!(found, MessageKind::Packed | MessageKind::Signed | MessageKind::Other) {
            let wanted = "a message that is packed";
            return Err(MessageError::OtherKind { found, wanted }.into());
        }
        Ok(verify_inline(&mut message.into_packets()?, &mut target, &verifier, limits)?.1)
    })?;
    target.keep(false)?;
    match signatures.len() {
        0 => {}
        1 => cx.status(format_args!("The message has a signature that was not checked.")),
        count => {
            cx.status(format_args!("The message has {count} signatures that were not checked."));
        }
    }
    Ok(ExitCode::SUCCESS)
}
