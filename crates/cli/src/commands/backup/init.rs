//! `talaria backup init`

use std::path::Path;
use std::process::ExitCode;

use talaria::backup::{BackupError, Client, EpochProfile, InitOptions};
use talaria::store::Query;

use super::access::AccessArgs;
use super::people::entitled;
use super::place::{open_place, place_name};
use super::tools::{cannot_read, readers_of};
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::keys::certificate;
use crate::query::parse_query;

/// Make a backup repository
///
/// The key that signs becomes the owner. Snapshots can be read with the keys named with --to, by
/// default with the owner's key.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Certificate that can read the snapshots: a fingerprint, or the address of a confirmed
    /// certificate (can be repeated) [default: the owner's]
    #[arg(long, short, value_name = "CERT", value_parser = parse_query)]
    to: Vec<Query>,
    /// Key of the owner [default: your only key]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Option<String>,
    /// Message format: rfc9580, librepgp (gpg from 2.2.21 reads it), rfc4880 (every program reads
    /// it), or none
    #[arg(long, default_value = "rfc9580", value_name = "PROFILE")]
    profile: EpochProfile,
    /// Accept snapshots without a signature
    #[arg(long)]
    unsigned: bool,
    #[command(flatten)]
    access: AccessArgs,
}

/// An error with the place of the repository, where the error does not name it.
fn error_in(place: &Path, error: BackupError) -> CliError {
    match error {
        BackupError::Occupied => {
            CliError::In { name: Some(place.display().to_string()), error: Box::new(error.into()) }
        }
        error => error.into(),
    }
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let Args { to, sign_with, profile, unsigned, access } = args;
    let given = access.passphrase.given()?;
    let mut signer = match sign_with {
        Some(name) => access.keys.signers(std::slice::from_ref(name), &given, cx)?.remove(0),
        None => access.keys.only_signer(given, cx)?,
    };
    let owner = certificate(&signer, &access.keys.certs(cx)?, cx)?;
    let mut readers = Vec::new();
    if to.is_empty() {
        readers.push(owner.clone());
    } else {
        for query in to {
            readers.push(entitled(query, cx)?);
        }
    }
    let options =
        InitOptions { owner: &owner, readers: &readers, profile: *profile, signed: !unsigned };
    let (backend, folder) = (open_place(place)?, access.state_folder()?);
    let known = (&*folder, || place_name(place));
    let repository = Client::init(backend, known, &options, &mut signer, cx.now)
        .map_err(|error| error_in(place, error))?;
    if *profile == EpochProfile::None {
        cx.status(format_args!(
            "WARNING: this repository is NOT ENCRYPTED. Everybody who can read {} can read your files.",
            place.display()
        ));
    }
    let cannot_read = cannot_read(*profile);
    let names: Vec<String> = readers.iter().map(|cert| cert.fingerprint().to_hex()).collect();
    if cx.json {
        let json = serde_json::json!({
            "action": "backup init", "repository": repository.id().to_string(),
            "owner": owner.fingerprint().to_hex(), "readers": names, "profile": profile.name(),
            "cannot_read": cannot_read,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!(
            "Made the repository {} in {}.\n  Owner:   {}\n  Readers: {}\n  Format:  {profile} ({})",
            repository.id(),
            place.display(),
            owner.fingerprint().to_hex(),
            names.join("\n           "),
            readers_of(*profile),
        ));
        if !cannot_read.is_empty() {
            cx.status(format_args!(
                "Installed here, and cannot read this format: {}. To recover files with every OpenPGP program, \
                 start again with --profile rfc4880.",
                cannot_read.join(", ")
            ));
        }
        cx.status(format_args!(
            "Keep a copy of each reader's secret key in another place: without one, nobody can restore."
        ));
    }
    Ok(ExitCode::SUCCESS)
}
