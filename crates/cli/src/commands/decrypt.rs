//! `talaria decrypt`

use std::path::PathBuf;
use std::process::ExitCode;

use talaria::message::{
    HIDDEN_RECIPIENT, Message, MessageError, OpenedBy, Parts, ReadLimits, ReadOptions, Received,
    Secrets, Verifier, read_message,
};
use talaria::store::Access;
use talaria::{Belief, status};

use super::inspect::key_in_words;
use crate::context::Context;
use crate::error::CliError;
use crate::files::{Source, spool, watched};
use crate::keys::KeyArgs;
use crate::output::OutputArgs;
use crate::passphrase::{self, PassphraseArgs};
use crate::render::counted;
use crate::signatures::{self, SignerArgs, StatusArgs};
use crate::trust::{TrustArgs, record};

/// Decrypt a message
///
/// Decrypts FILE (or standard input) with your keys, the keys in --key-file, or a passphrase.
///
/// Signatures are verified with the certificates in the store. If a signature is bad, the exit
/// status is 1 and no output file is left. The same holds for a signature by a certificate that you
/// called bad. With --signer or --signer-file, nothing is written unless those signers have good
/// signatures. A message that is signed but not encrypted is verified as by `talaria verify`.
///
/// Modified or truncated messages are refused; with --output, no file is left of them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Message to decrypt [default: standard input]
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    signers: SignerArgs,
    #[command(flatten)]
    status: StatusArgs,
    #[command(flatten)]
    trust: TrustArgs,
    /// Write the content of RFC 4880 messages before their integrity is verified; check the exit
    /// status before you use it
    #[arg(long)]
    stream_unverified: bool,
    /// Largest accepted ratio of content size to message size
    #[arg(long, value_name = "N", default_value_t = ReadLimits::default().expansion)]
    max_expansion: u64,
    /// Largest accepted cost of Argon2 passphrases: MiB of memory times passes, summed over all
    /// attempts
    #[arg(long, value_name = "MIB", default_value_t = ReadLimits::default().argon2_mib)]
    max_argon2: u64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let read = read(args, cx).inspect_err(|error| tell_recipients(error, cx));
    read.map_err(|error| error.unread().of_input(args.input.as_deref()))
}

/// Tells for whom a message is that could not be decrypted.
fn tell_recipients(error: &CliError, cx: &Context) {
    let CliError::Operation(talaria::Error::Message(
        MessageError::NoSecret { recipients, .. } | MessageError::Unopened { recipients },
    )) = error
    else {
        return;
    };
    // The sender may have hidden a recipient.
    let known: Vec<&String> = recipients.iter().filter(|id| *id != HIDDEN_RECIPIENT).collect();
    if cx.json || known.is_empty() {
        return;
    }
    let stores = cx.stores(Access::Read).ok();
    let named = known.iter().take(RECIPIENTS_MAX);
    let named: Vec<String> =
        named.map(|id| key_in_words(id, "a key", stores.as_ref(), cx.now)).collect();
    let more = match recipients.len() - named.len() {
        0 => String::new(),
        more => format!(", and {}", counted(more, "more recipient")),
    };
    cx.status(format_args!("The message is encrypted to {}{more}.", named.join(", ")));
}

/// The maximum number of recipients that are named.
const RECIPIENTS_MAX: usize = 5;

fn read(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut report = args.status.open()?;
    args.output.check(args.input.as_deref())?;
    let signers = args.signers.find(cx)?;
    let beliefs = args.trust.of_signers(cx);
    let source = Source::open(args.input.as_deref())?;
    let size = source.size;
    let given = args.passphrase.given()?;
    let (keys, elsewhere) = args.keys.decryption(&given, cx)?;
    let mut secrets = Secrets {
        keys,
        elsewhere,
        passwords: given,
        ask: Some(Box::new(|tried| {
            let again = if tried > 0 { "Wrong passphrase. " } else { "" };
            passphrase::ask(&format!("{again}Passphrase of the message"))
        })),
        ..Secrets::default()
    };
    // Decryption works without a store.
    let verifier = Verifier::new(signatures::lookup(&signers, false, cx)?, cx.rules(), cx.now)
        .with_distrust(beliefs.distrust());
    let mut target = args.output.open(false)?;
    let mut options = ReadOptions::new(&spool);
    options.expected.clone_from(&signers.expected);
    // An output file that is deleted after an error needs no second pass.
    options.disposable = target.is_held();
    options.streamed = args.stream_unverified;
    let again = source.again();
    let again = again.as_ref().map(|again| || Ok(again.open()));
    options.again = again.as_ref().map(|again| again as _);
    options.limits.expansion = args.max_expansion;
    options.limits.argon2_mib = args.max_argon2;
    let unfinished = target.unfinished();
    let mut start = None;
    let received = watched(cx, size, &unfinished, |watch| {
        let message = Message::new(source.buffered(watch))?;
        start = message.start();
        Ok(read_message(message, &mut target, &mut secrets, &verifier, &options)?)
    });
    let start = start.as_deref();
    let received = report.on_error(received, |error| match error {
        CliError::Operation(talaria::Error::Message(error)) => status::failed(error, start),
        _ => Vec::new(),
    })?;
    record(beliefs.seen(received.signatures()), cx)?;
    let beliefs = beliefs.of(received.signatures())?;
    let trust: Vec<_> =
        beliefs.iter().map(|belief| belief.map(|belief| (belief.level, belief.model))).collect();
    match &received.parts {
        Parts::Decrypted(decrypted) if report.is_open() => {
            let certificate = certificate(&decrypted.by, &args.keys, cx);
            let start = start.unwrap_or_default();
            let lines = status::decrypted(decrypted, &trust, start, certificate.as_deref());
            report.lines(&lines)?;
        }
        Parts::Decrypted(_) => {}
        Parts::Signed { literal, signatures } => {
            if received.decision.is_ok() {
                report.lines(&status::plaintext(literal))?;
            }
            for (signature, trust) in signatures.iter().zip(&trust) {
                report.lines(&status::signature(signature, *trust))?;
            }
            cx.status(format_args!("The message is signed and not encrypted."));
        }
    }
    report.lines(&signatures::found(&signers, received.signatures()))?;
    signatures::report(received.signatures(), &beliefs, &received.decision, cx);
    signatures::report_apart(received.apart, cx);
    cx.report(args.output.content(), &json(&received, &beliefs))?;
    if received.decision.is_err() {
        return Ok(ExitCode::from(1));
    }
    target.keep(false)?;
    Ok(ExitCode::SUCCESS)
}

/// The certificate of the key that decrypted a message, if it is in the store or with the keys.
fn certificate(by: &OpenedBy, keys: &KeyArgs, cx: &Context) -> Option<String> {
    let OpenedBy::Key(key) = by else { return None };
    let query = format!("0x{key}").parse().ok()?;
    let known = cx.stores(Access::Read).and_then(|stores| Ok(stores.parsed(&query, cx.now)?));
    let own = || keys.certs(cx);
    known
        .or_else(|_| own())
        .ok()?
        .iter()
        .find(|cert| cert.keys().any(|other| other.key().fingerprint().to_hex() == *key))
        .map(|cert| cert.fingerprint().to_hex())
}

fn json(received: &Received, beliefs: &[Option<Belief>]) -> serde_json::Value {
    let reports = received.signatures().iter().zip(beliefs);
    let reports: Vec<_> =
        reports.map(|(report, belief)| signatures::json(report, *belief)).collect();
    let mut json = match &received.parts {
        Parts::Decrypted(decrypted) => serde_json::json!({
            "opened_by": match &decrypted.by {
                OpenedBy::Key(key) => serde_json::json!({ "key": key }),
                OpenedBy::Password(place) => serde_json::json!({ "passphrase": place }),
                OpenedBy::SessionKey => serde_json::json!({ "session_key": true }),
            },
            "cipher": decrypted.cipher.to_string(),
            "aead": decrypted.aead.map(|aead| aead.to_string()),
        }),
        Parts::Signed { .. } => serde_json::json!({ "opened_by": null }),
    };
    json["signatures"] = reports.into();
    let decision = signatures::json_decision(&received.decision);
    json["accepted"] = decision["accepted"].clone();
    json["refused"] = decision["refused"].clone();
    json
}
