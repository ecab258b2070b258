//! `talaria key import`

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria::Error;
use talaria::keys::{Imported, Protection, is_unprotected, read_keys};

use super::protection::new_protection;
use super::publish::{publish, writable};
use crate::context::Context;
use crate::error::CliError;
use crate::passphrase::PassphraseArgs;
use crate::render::printable;

/// Import secret keys
///
/// Reads the output of `gpg --export-secret-keys` and other OpenPGP programs. Keys keep their
/// passphrases; for keys without one, talaria asks for a new passphrase. The certificates are added
/// to the store.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files with secret keys, binary or armored; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    passphrase: PassphraseArgs,
    /// Do not ask for a passphrase for keys that have none; only file permissions protect them
    #[arg(long)]
    no_passphrase: bool,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let keys = cx.keys()?;
    let mut found = Vec::new();
    for path in &args.files {
        let name = path.display().to_string();
        let certs = if path == Path::new("-") {
            read_keys(std::io::stdin(), "standard input")?
        } else {
            let file = File::open(path);
            let file =
                file.map_err(|source| Error::Io { action: "read", name: name.clone(), source })?;
            read_keys(file, &name)?
        };
        if certs.is_empty() {
            return Err(CliError::NoSecretKey { name });
        }
        found.extend(certs);
    }
    let protection = if found.iter().any(is_unprotected) {
        new_protection(&args.passphrase, args.no_passphrase, "New passphrase of the keys")?
    } else {
        Protection::Unprotected
    };
    let mut stores = writable(cx)?;
    let mut out = cx.stdout();
    for cert in found {
        let fingerprint = cert.fingerprint();
        let imported = keys.import(cert, &protection)?;
        let cert = keys.get(&fingerprint)?;
        let cert = cert.ok_or_else(|| Error::NoKey { query: fingerprint.to_hex() })?;
        publish(&cert, &mut stores, cx)?;
        let word = match imported {
            Imported::New => "new",
            Imported::Updated => "updated",
            Imported::Unchanged => "unchanged",
        };
        if cx.json {
            let json = serde_json::json!({ "fingerprint": fingerprint.to_hex(), "outcome": word });
            writeln!(out, "{json}")?;
        } else {
            let user_id = cert.userids().next().map(|id| printable(id.userid().value()));
            writeln!(out, "{word}: {fingerprint:X} {}", user_id.unwrap_or_default())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
