//! `talaria decrypt`

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use talaria::message::{
    DecryptOptions, Decrypted, Input, Limits, MessageError, OpenedBy, Release, Secrets, Verifier,
    decrypt,
};
use talaria::status;
use talaria::store::Access;

use crate::context::Context;
use crate::error::CliError;
use crate::files::{Noted, Source, Target, watched};
use crate::keys::KeyArgs;
use crate::passphrase::{self, PassphraseArgs};
use crate::signatures::{self, StatusArgs};
use crate::trust::{Belief, TrustArgs};

/// Decrypt a message
///
/// Keys are looked for in the key store and in the files named with --key-file. Signatures are checked
/// against the certificates in the store and reported; a bad one makes the exit status 1. Nothing is
/// written that is not known to be unchanged, and nothing is left of a message that turns out to be cut
/// off or changed, if --output is used.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The message [default: standard input]
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    status: StatusArgs,
    #[command(flatten)]
    trust: TrustArgs,
    /// Let content of messages without AEAD (RFC 4880) leave before its integrity is known; the exit
    /// status says at the end whether it was
    #[arg(long)]
    stream_unverified: bool,
    /// How many times larger than the message its content may be
    #[arg(long, value_name = "N", default_value_t = Limits::default().expansion)]
    max_expansion: u64,
    /// Write to a file, which is complete or not there [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut report = args.status.open()?;
    let source = Source::open(args.input.as_deref())?;
    let size = source.size;
    let mut secrets = Secrets {
        keys: args.keys.decryption(args.passphrase.given()?, cx)?,
        passwords: args.passphrase.given()?,
        ask: Some(Box::new(|tried| {
            let again = if tried > 0 { " (that was not it)" } else { "" };
            passphrase::ask(&format!("Passphrase of the message{again}"))
        })),
        ..Secrets::default()
    };
    let lookup = match cx.stores(Access::Read) {
        Ok(stores) => stores.into_lookup(cx.now),
        // Decrypting needs no store; signatures are then without a key.
        Err(_) => Box::new(|_: &_| Vec::new()),
    };
    let verifier = Verifier::new(lookup, cx.policy(), cx.now);
    let mut target = Target::open(args.output.as_deref(), false)?;
    let held = target.is_held();
    let limits = Limits { expansion: args.max_expansion, ..Limits::default() };
    let unfinished = target.unfinished();
    let (result, start) = watched(cx, size, unfinished.as_deref(), |watch| {
        let input = match Input::new(source.buffered(watch)) {
            Err(error @ MessageError::Malformed(_)) => return Ok((Err(error), None)),
            input => input?,
        };
        let mut start = Vec::new();
        let mut input = Noted::new(input, &mut start);
        let mut spool = || tempfile::tempfile().map(|file| Box::new(file) as _);
        // A file that disappears after an error needs no second pass.
        let release = if held || args.stream_unverified {
            Release::Streamed
        } else {
            Release::Checked(&mut spool)
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let options = DecryptOptions { release, limits, threads };
        let result = decrypt(&mut input, &mut target, &mut secrets, &verifier, options);
        Ok((result, Some(start)))
    })?;
    let start = start.as_deref();
    let decrypted = match result {
        Ok(decrypted) => decrypted,
        Err(error) => {
            report.lines(&status::failed(&error, start))?;
            return Err(CliError::unfit(error, start));
        }
    };
    let beliefs = args.trust.of_signers(&decrypted.signatures, cx)?;
    if report.is_open() {
        let certificate = certificate(&decrypted.by, &args.keys, cx);
        let trust = beliefs.iter().map(|belief| belief.map(|belief| (belief.level, belief.model)));
        let lines = status::decrypted(
            &decrypted,
            &trust.collect::<Vec<_>>(),
            start.unwrap_or_default(),
            certificate.as_deref(),
        );
        report.lines(&lines)?;
    }
    let good = signatures::report(&decrypted.signatures, &beliefs, cx);
    if cx.json {
        writeln!(std::io::stderr(), "{}", json(&decrypted, &beliefs))?;
    }
    target.keep(false)?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The certificate of the key that has opened a message, if it is in the store or with the keys.
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

fn json(decrypted: &Decrypted, beliefs: &[Option<Belief>]) -> serde_json::Value {
    let reports = decrypted.signatures.iter().zip(beliefs);
    let reports: Vec<_> =
        reports.map(|(report, belief)| signatures::json(report, *belief)).collect();
    let by = match &decrypted.by {
        OpenedBy::Key(key) => serde_json::json!({ "key": key }),
        OpenedBy::Password(place) => serde_json::json!({ "passphrase": place }),
        OpenedBy::SessionKey => serde_json::json!({ "session_key": true }),
    };
    serde_json::json!({
        "opened_by": by,
        "cipher": decrypted.cipher.to_string(),
        "aead": decrypted.aead.map(|aead| aead.to_string()),
        "signatures": reports,
    })
}
