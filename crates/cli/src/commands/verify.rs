//! `talaria verify`

use std::io::{BufRead as _, Read as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use talaria::message::{
    CLEARTEXT_HEAD, Input, Limits, MessageError, SignatureReport, Verifier, verify_cleartext,
    verify_inline,
};
use talaria::status;
use talaria::store::Access;

use crate::context::Context;
use crate::error::CliError;
use crate::files::{Noted, Source, Target, read_failed, watched};
use crate::signatures::{self, StatusArgs};
use crate::trust::TrustArgs;

/// Check signatures
///
/// A detached signature is named with --signature, and checked on FILE; a signed message or a signed text
/// is FILE itself, and --output writes what was signed. Certificates are looked up in the store. Exit
/// status: 0 if a signature is good and counts, and none is bad; 1 otherwise; the reasons are said.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What was signed, or a signed message [default: standard input]
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,
    /// The detached signature
    #[arg(long, short, value_name = "FILE")]
    signature: Option<PathBuf>,
    #[command(flatten)]
    status: StatusArgs,
    #[command(flatten)]
    trust: TrustArgs,
    /// Write what was signed to a file, if a signature of it is good
    #[arg(long, short, value_name = "FILE", conflicts_with = "signature")]
    output: Option<PathBuf>,
}

/// Octets of a file of detached signatures.
const SIGNATURES_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let verifier = Verifier::new(stores.into_lookup(cx.now), cx.policy(), cx.now);
    let mut report = args.status.open()?;
    let source = Source::open(args.input.as_deref())?;
    let size = source.size;
    let mut target =
        args.output.as_deref().map(|path| Target::open(Some(path), true)).transpose()?;
    let signature = args.signature.as_deref().map(|path| Source::open(Some(path))).transpose()?;
    let unfinished = target.as_ref().and_then(Target::unfinished);
    let (result, start) = watched(cx, size, unfinished.as_deref(), |watch| {
        let mut start = Vec::new();
        let Some(signature) = signature else {
            let mut nowhere = std::io::sink();
            let out: &mut (dyn Write + Send) = match &mut target {
                Some(target) => target,
                None => &mut nowhere,
            };
            let mut input = source.buffered(watch);
            if input.fill_buf().map_err(read_failed)?.starts_with(CLEARTEXT_HEAD.as_bytes()) {
                let result = verify_cleartext(&mut input, &verifier).and_then(|(text, reports)| {
                    out.write_all(&text).map_err(MessageError::Write)?;
                    Ok(reports)
                });
                return Ok((result, Some(start)));
            }
            let input = match Input::new(input) {
                Err(error @ MessageError::Malformed(_)) => return Ok((Err(error), None)),
                input => input?,
            };
            let mut input = Noted::new(input, &mut start);
            let result = verify_inline(&mut input, out, &verifier, Limits::default());
            return Ok((result.map(|(_, reports)| reports), Some(start)));
        };
        let input = match Input::new(signature.buffered(watch)) {
            Err(error @ MessageError::Malformed(_)) => return Ok((Err(error), None)),
            input => input?,
        };
        input.take(SIGNATURES_BYTES_MAX).read_to_end(&mut start).map_err(read_failed)?;
        let result = verifier.detached(&start, &mut source.watched(watch));
        Ok((result, Some(start)))
    })?;
    let reports: Vec<SignatureReport> = match result {
        Ok(reports) => reports,
        Err(error) => {
            if let MessageError::Malformed(_) = error {
                report.lines(&status::no_data(start.as_deref()))?;
            }
            return Err(CliError::unfit(error, start.as_deref()));
        }
    };
    let beliefs = args.trust.of_signers(&reports, cx)?;
    for (signature, belief) in reports.iter().zip(&beliefs) {
        let trust = belief.map(|belief| (belief.level, belief.model));
        report.lines(&status::signature(signature, trust))?;
    }
    let none_bad = signatures::report(&reports, &beliefs, cx);
    let good = none_bad && reports.iter().any(SignatureReport::is_good);
    if cx.json {
        for (signature, belief) in reports.iter().zip(beliefs) {
            writeln!(std::io::stdout(), "{}", signatures::json(signature, belief))?;
        }
    }
    if reports.is_empty() {
        report.lines(&status::unsigned())?;
        return Err(CliError::Missing("there is no signature".into()));
    }
    if let (true, Some(target)) = (good, target) {
        target.keep(false)?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
