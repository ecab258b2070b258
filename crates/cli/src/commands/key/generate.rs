//! `talaria key generate`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::keys::{GenerateOptions, KeyAlgorithm, KeyProfile};
use talaria::trust_models::Level;

use super::super::one_certificate;
use super::revoke::write_revocation;
use super::{new_protection, publish, writable, write_key};
use crate::context::Context;
use crate::error::CliError;
use crate::expiry::Expiry;
use crate::passphrase::PassphraseArgs;

/// Make a key
///
/// A primary key that certifies, a subkey that signs and one that encrypts. The public part goes to the
/// store, where it is trusted as your own. A passphrase is asked for, unless one is given.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name and address: "Alice <alice@example.org>"; the first one is the primary one
    #[arg(value_name = "USER-ID", required = true)]
    user_ids: Vec<String>,
    /// Who is to read it
    #[arg(long, value_enum, default_value_t = ProfileArg::Rfc4880)]
    profile: ProfileArg,
    /// The algorithms
    #[arg(long, value_enum, default_value_t = AlgorithmArg::Curve25519)]
    algorithm: AlgorithmArg,
    /// Until when it is valid: never, a date (2030-12-31), or a time from now (90d, 8w, 6m, 2y)
    #[arg(long, value_name = "WHEN", default_value = "3y")]
    expires: Expiry,
    #[command(flatten)]
    passphrase: PassphraseArgs,
    /// Protect it with nothing but the permissions of its file
    #[arg(long)]
    no_passphrase: bool,
    /// Write a revocation to a file, for the day on which key or passphrase is lost; whoever has the file
    /// can end the key
    #[arg(long, value_name = "FILE")]
    revocation: Option<PathBuf>,
}

/// Specifications that keys can follow.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ProfileArg {
    /// Version 4, which everybody reads
    Rfc4880,
    /// Version 6, which GnuPG does not read
    Rfc9580,
}

/// Algorithms of keys.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum AlgorithmArg {
    /// Ed25519 and X25519
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
    let keys = cx.keys()?;
    let mut stores = writable(cx)?;
    let validity_seconds = args.expires.seconds(cx.now)?;
    let options = GenerateOptions {
        user_ids: args.user_ids.clone(),
        profile: match args.profile {
            ProfileArg::Rfc4880 => KeyProfile::Rfc4880,
            ProfileArg::Rfc9580 => KeyProfile::Rfc9580,
        },
        algorithm: args.algorithm.into(),
        validity_seconds,
        ..GenerateOptions::default()
    };
    let protection =
        new_protection(&args.passphrase, args.no_passphrase, "New passphrase of the key")?;
    let made = keys.generate(&options, &protection, cx.now)?;
    publish(&made.cert, &mut stores, cx)?;
    // What one has made is one's own. A store that does not take it knows no trust in it either.
    let name = made.cert.fingerprint().to_hex().parse().map_err(talaria::Error::from)?;
    if let Ok(row) = one_certificate(&stores, &name, cx.now) {
        let own = (row.summary.fingerprint(), Level::Ultimate as u8);
        stores.writable()?.set_ownertrust(&[own], cx.now).map_err(talaria::Error::from)?;
    }
    if let Some(path) = &args.revocation {
        write_revocation(&[made.revocation.into()], Some(path))?;
    }
    write_key(&mut std::io::stdout().lock(), &made.cert, cx)?;
    Ok(ExitCode::SUCCESS)
}
