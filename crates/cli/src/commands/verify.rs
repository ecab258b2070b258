//! `talaria verify`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria::message::{
    Acceptance, ContentDigest, Facts, Literal, Message, MessageError, MessageKind, NotAccepted,
    ReadLimits, ReadOptions, SignatureReport, Unsigned, Verifier, read_signatures, verify_message,
};
use talaria::{RequiredSigners, SignerBeliefs, status};

use crate::context::Context;
use crate::error::CliError;
use crate::files::{Source, spool, watched};
use crate::output::{OutputArgs, Target};
use crate::render::printable;
use crate::signatures::{self, SignerArgs, StatusArgs, StatusFile};
use crate::trust::{TrustArgs, record};

/// Verify signatures
///
/// `talaria verify SIGNATURE FILE` verifies a detached signature, as gpg does. If SIGNATURE is
/// named like the file (`x.sig` or `x.asc` for `x`), FILE can be left out. A signed message or a
/// cleartext-signed text is one file; --output writes its content if the signatures are accepted.
/// If such a file is named like a signature of another file, both must have the same content.
///
/// Signers' certificates are looked up in the store, and in the files of --signer-file. The exit
/// status is 0 if at least one signature is good and none is bad, or with --signer or
/// --signer-file, if those signers have good signatures. Otherwise it is
/// 1. Signatures by a certificate that you called bad are refused.
#[derive(Debug, clap::Args)]
#[command(mut_arg("output", |arg| {
    arg.help("Write the signed content to FILE if its signatures are accepted").conflicts_with("signature")
}))]
pub(crate) struct Args {
    /// Detached signature, signed message, or (with --signature) the signed file [default: standard
    /// input]
    #[arg(value_name = "SIGNATURE")]
    input: Option<PathBuf>,
    /// File that the detached signature is for
    #[arg(value_name = "FILE", conflicts_with_all = ["signature", "output"])]
    file: Option<PathBuf>,
    /// Detached signature; the argument is then the signed file
    #[arg(long, short, value_name = "FILE")]
    signature: Option<PathBuf>,
    #[command(flatten)]
    signers: SignerArgs,
    #[command(flatten)]
    status: StatusArgs,
    #[command(flatten)]
    trust: TrustArgs,
    /// Largest accepted ratio of content size to message size
    #[arg(long, value_name = "N", default_value_t = ReadLimits::default().expansion)]
    max_expansion: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let (signature, document) = args.files();
    let name = if signature.is_some() { signature } else { document };
    verify(args, cx).map_err(|error| error.unread().of_input(name))
}

impl Args {
    /// The detached signature, if the arguments name one, and the file or message.
    fn files(&self) -> (Option<&Path>, Option<&Path>) {
        match &self.file {
            Some(file) => (self.input.as_deref(), Some(file)),
            None => (self.signature.as_deref(), self.input.as_deref()),
        }
    }
}

/// The result of the verification.
struct Checked {
    signatures: Vec<SignatureReport>,
    decision: Result<Facts, NotAccepted>,
    /// The number of bytes of text around a message.
    apart: u64,
    /// The metadata of the written content.
    literal: Option<Literal>,
    /// A sentence on the file that belongs to a signature by its name, when the arguments do not
    /// name the file.
    assumed: Option<String>,
}

fn verify(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut report = args.status.open()?;
    args.output.check(args.input.as_deref())?;
    let signers = args.signers.find(cx)?;
    let expected = &signers.expected;
    let beliefs = args.trust.of_signers(cx);
    let verifier = Verifier::new(signatures::lookup(&signers, true, cx)?, cx.rules(), cx.now)
        .with_distrust(beliefs.distrust());
    let (signature, document) = args.files();
    let source = Source::open(document)?;
    let size = source.size;
    let signature = signature.map(|path| Source::open(Some(path))).transpose()?;
    let mut target = args.output.path.is_some().then(|| args.output.open(true)).transpose()?;
    let unfinished = target.as_ref().map(Target::unfinished).unwrap_or_default();
    let mut start = None;
    let checked = watched(cx, size, &unfinished, |watch| {
        let detached = |signatures: &[u8], document: Source, assumed: Option<String>| {
            let signatures = verifier.detached(signatures, &mut document.watched(watch))?;
            let acceptance = match expected {
                Some(signers) => Acceptance::Expected(signers.clone()),
                None => Acceptance::NoneBad(Unsigned::Refused),
            };
            let decision = acceptance.decide(&signatures);
            Ok(Checked { signatures, decision, apart: 0, literal: None, assumed })
        };
        if let Some(signature) = signature {
            let message = Message::new(signature.buffered(watch))?;
            start = message.start();
            return detached(&read_signatures(&mut message.into_text())?, source, None);
        }
        let message = Message::new(source.buffered(watch))?;
        start = message.start();
        let kind = message.kind();
        let file = signed_file(document);
        if kind == MessageKind::DetachedSignature {
            if target.is_some() {
                let (found, wanted) = (kind, "a signed message");
                return Err(MessageError::OtherKind { found, wanted }.into());
            }
            let name = || file.as_ref().map(|file| file.display().to_string());
            let Some(file) = file.as_ref().filter(|file| file.is_file()) else {
                return Err(CliError::Detached { file: name() });
            };
            let signatures = read_signatures(&mut message.into_text())?;
            let name = printable(file.as_os_str().as_encoded_bytes());
            let assumed = format!("Assuming that {name} is the signed file.");
            return detached(&signatures, Source::open(Some(file))?, Some(assumed));
        }
        // The name says that the signature is on the file beside it.
        let file = file.filter(|file| target.is_none() && file.is_file());
        let mut content = file.as_ref().map(|_| ContentDigest::default());
        let mut nowhere = std::io::sink();
        let disposable = target.as_ref().is_none_or(Target::is_held);
        let output: &mut (dyn Write + Send) = match (&mut target, &mut content) {
            (Some(target), _) => target,
            (None, Some(content)) => content,
            (None, None) => &mut nowhere,
        };
        let mut options = ReadOptions::new(&spool);
        options.expected.clone_from(expected);
        options.disposable = disposable;
        options.limits.expansion = args.max_expansion;
        let received = verify_message(message, output, &verifier, &options)?;
        let mut assumed = None;
        if let (Some(file), Some(content), Ok(_)) = (file, content, &received.decision) {
            let name = file.display().to_string();
            let mut other = Source::open(Some(&file))?.watched(watch);
            if !content.is_of(&mut other, kind, received.literal())? {
                return Err(CliError::OtherContent { file: name });
            }
            let name = printable(file.as_os_str().as_encoded_bytes());
            assumed = Some(format!("{name} has the signed content."));
        }
        Ok(Checked {
            signatures: received.signatures().to_vec(),
            literal: args.output.path.is_some().then(|| received.literal().clone()),
            apart: received.apart,
            decision: received.decision,
            assumed,
        })
    });
    let checked = match checked {
        Ok(checked) => checked,
        Err(error) => {
            report.lines(&error.no_data(start.as_deref()))?;
            return Err(error);
        }
    };
    if let Some(assumed) = &checked.assumed {
        cx.status(format_args!("{assumed}"));
    }
    let accepted = say(&checked, &signers, &beliefs, &mut report, cx)?;
    if let (true, Some(target)) = (accepted, target) {
        target.keep(false)?;
    }
    Ok(if accepted { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Reports the result in all output forms. Returns whether the document is accepted.
fn say(
    checked: &Checked,
    signers: &RequiredSigners,
    beliefs: &SignerBeliefs<'_>,
    report: &mut StatusFile,
    cx: &Context,
) -> Result<bool, CliError> {
    let Checked { signatures, decision, apart, literal, .. } = checked;
    record(beliefs.seen(signatures), cx)?;
    let beliefs = beliefs.of(signatures)?;
    if let Some(literal) = literal.as_ref().filter(|_| decision.is_ok()) {
        report.lines(&status::plaintext(literal))?;
    }
    for (signature, belief) in signatures.iter().zip(&beliefs) {
        let trust = belief.map(|belief| (belief.level, belief.model));
        report.lines(&status::signature(signature, trust))?;
    }
    if signatures.is_empty() {
        report.lines(&status::unsigned())?;
    }
    report.lines(&signatures::found(signers, signatures))?;
    signatures::report(signatures, &beliefs, decision, cx);
    signatures::report_apart(*apart, cx);
    if cx.json {
        let mut out = cx.stdout();
        for (signature, belief) in signatures.iter().zip(beliefs) {
            writeln!(out, "{}", signatures::json(signature, belief))?;
        }
        writeln!(out, "{}", signatures::json_decision(decision))?;
    }
    Ok(decision.is_ok())
}

/// The signed file that belongs to a detached signature by its name, as gpg finds it.
fn signed_file(signature: Option<&Path>) -> Option<PathBuf> {
    let path = signature.filter(|path| *path != Path::new("-"))?;
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    ["sig", "sign", "asc"].contains(&&*extension).then(|| path.with_extension(""))
}
