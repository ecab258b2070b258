//! `talaria key generate`

use std::cell::Cell;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::described;
use talaria::keys::{GenerateOptions, KeyAlgorithm, KeyProfile};
use talaria::message::openpgp::Cert;

use super::add_user_id::parse_user_id;
use super::protection::new_protection;
use super::publish::writable;
use super::report::{Extra, write_key_with};
use super::revoke::written_revocation;
use crate::confirm::{Unasked, confirm};
use crate::context::Context;
use crate::error::CliError;
use crate::expiry::Expiry;
use crate::output::{Existing, Target};
use crate::passphrase::PassphraseArgs;
use crate::render::printable;

/// Generate a new key
///
/// Generates a primary key for certification, a signing subkey and an encryption subkey. The
/// certificate is added to the store and trusted as your own. talaria asks for a passphrase, unless
/// one is given.
///
/// A revocation certificate is written beside the keys, for the day you lose the key or its
/// passphrase. If the command fails, or is killed, no part of the new key stays.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name and address: "Alice <alice@example.org>" (can be repeated; the first is the primary
    /// user ID)
    #[arg(value_name = "USER-ID", required = true, value_parser = parse_user_id)]
    user_ids: Vec<String>,
    /// Key format
    #[arg(long, value_enum, default_value_t = ProfileArg::Rfc4880)]
    profile: ProfileArg,
    /// Algorithm
    #[arg(long, value_enum, default_value_t = AlgorithmArg::Curve25519)]
    algorithm: AlgorithmArg,
    /// Expiry: never, a date (2030-12-31), or a time from now (90d, 8w, 6m, 2y)
    #[arg(long, value_name = "WHEN", default_value = "3y")]
    expires: Expiry,
    #[command(flatten)]
    passphrase: PassphraseArgs,
    /// Do not protect the key with a passphrase; only file permissions protect it
    // A given passphrase must not be ignored silently.
    #[arg(long, conflicts_with_all = ["passphrase_file", "passphrase_fd", "passphrase_env"])]
    no_passphrase: bool,
    /// Write the revocation certificate to FILE instead of the `revocations` folder beside the keys
    #[arg(long, value_name = "FILE")]
    revocation: Option<PathBuf>,
    /// Replace the file of --revocation if it exists
    #[arg(long, requires = "revocation")]
    overwrite: bool,
    /// Generate the key even if you have one for the same address
    #[arg(long, short)]
    yes: bool,
}

/// Specifications that keys can follow.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileArg {
    /// Version 4, which every OpenPGP program reads
    Rfc4880,
    /// Version 6, which GnuPG does not read
    Rfc9580,
}

/// Algorithms of keys.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum AlgorithmArg {
    /// Ed25519 and X25519 (Curve25519)
    Curve25519,
    /// RSA with 3072 bits
    Rsa3072,
    /// RSA with 4096 bits
    Rsa4096,
}

impl From<AlgorithmArg> for KeyAlgorithm {
    fn from(algorithm: AlgorithmArg) -> Self {
        match algorithm {
            AlgorithmArg::Curve25519 => Self::Curve25519,
            AlgorithmArg::Rsa3072 => Self::Rsa3072,
            AlgorithmArg::Rsa4096 => Self::Rsa4096,
        }
    }
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let existing = Existing::with_overwrite(args.overwrite);
    if let Some(path) = &args.revocation {
        existing.check(path)?;
    }
    let keys = cx.keys()?;
    for user_id in &args.user_ids {
        check_first(&keys.with_address_of(user_id, cx.now)?, user_id, args.yes, cx)?;
    }
    let mut stores = writable(cx)?;
    let validity_seconds = args.expires.seconds(cx.now)?;
    let mut options = GenerateOptions::default();
    options.user_ids.clone_from(&args.user_ids);
    options.profile = match args.profile {
        ProfileArg::Rfc4880 => KeyProfile::Rfc4880,
        ProfileArg::Rfc9580 => KeyProfile::Rfc9580,
    };
    options.algorithm = args.algorithm.into();
    options.validity_seconds = validity_seconds;
    let protection =
        new_protection(&args.passphrase, args.no_passphrase, "New passphrase of the key")?;
    let new = keys.generate(&options, &protection, &mut stores, cx.now)?;
    let revocation = args.revocation.as_deref().unwrap_or(new.revocation_path()).to_owned();
    let signature = new.generated().revocation.clone();
    let target = written_revocation(&[signature.into()], Target::file(&revocation, existing)?)?;
    let is_file = target.is_held() && existing == Existing::Refused;
    let named = Cell::new(false);
    let published = new.publish(&mut stores, cx.now, || {
        target.keep(true)?;
        named.set(is_file);
        Ok::<_, CliError>(())
    });
    if published.is_err() && named.get() {
        let _ = std::fs::remove_file(&revocation);
    }
    let made = published?;
    let files = [Extra::Revocation(revocation.display().to_string())];
    write_key_with(&mut cx.stdout(), &made.cert, &files, cx)?;
    if cx.json {
        return Ok(ExitCode::SUCCESS);
    }
    let path = keys.path(&made.cert.fingerprint());
    cx.status(format_args!("Secret key: {}", path.display()));
    cx.status(format_args!("Revocation certificate: {}", revocation.display()));
    cx.status(format_args!(
        "Keep copies of both in a safe place: whoever has the revocation certificate can revoke the key, and without \
         the secret key you cannot read your mail."
    ));
    let name = made.cert.fingerprint().to_hex();
    cx.status(format_args!(
        "Next: give others your certificate:\n  talaria export --armor {name} --output FILE"
    ));
    Ok(ExitCode::SUCCESS)
}

/// Asks before a second key for the same address is generated: others could not tell which of them
/// to use.
fn check_first(found: &[Cert], user_id: &str, yes: bool, cx: &Context) -> Result<(), CliError> {
    if found.is_empty() || yes {
        return Ok(());
    }
    let candidates: Vec<String> = found.iter().map(described).collect();
    if !std::io::stdin().is_terminal() {
        return Err(CliError::SecondKey { user_id: printable(user_id.as_bytes()), candidates });
    }
    let what = format!(
        "You already have a key for {}:\n  {}",
        printable(user_id.as_bytes()),
        candidates.join("\n  ")
    );
    confirm(cx, false, &what, "Generate a second key for the same address?", Unasked::Refuse)
}
