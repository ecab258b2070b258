//! `talaria key`

mod add_subkey;
mod add_user_id;
mod delete;
mod expire;
mod export;
mod generate;
mod import;
mod list;
mod passphrase;
mod revoke;

use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;
use talaria::Stores;
use talaria::keys::{Protection, is_unprotected, summary};
use talaria::message::openpgp::{Cert, Fingerprint};
use talaria::store::{Access, IngestOutcome};

use crate::context::Context;
use crate::error::CliError;
use crate::passphrase::{PassphraseArgs, ask_new};
use crate::render::{CertJson, cert_json, write_cert};
use crate::terminal::Paint;

/// Manage your secret keys
///
/// Secret keys are kept in a folder of their own, one file per key, protected by a passphrase. Their
/// certificates (public keys) are in the store.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Generate(generate::Args),
    List(list::Args),
    Import(import::Args),
    Export(export::Args),
    Passphrase(passphrase::Args),
    AddSubkey(add_subkey::Args),
    AddUserId(add_user_id::Args),
    Expire(expire::Args),
    Revoke(revoke::Args),
    Delete(delete::Args),
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Generate(args) => generate::run(args, cx),
        Command::List(args) => list::run(args, cx),
        Command::Import(args) => import::run(args, cx),
        Command::Export(args) => export::run(args, cx),
        Command::Passphrase(args) => passphrase::run(args, cx),
        Command::AddSubkey(args) => add_subkey::run(args, cx),
        Command::AddUserId(args) => add_user_id::run(args, cx),
        Command::Expire(args) => expire::run(args, cx),
        Command::Revoke(args) => revoke::run(args, cx),
        Command::Delete(args) => delete::run(args, cx),
    }
}

/// The passphrase for a new key: from the options, or from the user.
fn new_protection(
    given: &PassphraseArgs,
    no_passphrase: bool,
    prompt: &str,
) -> Result<Protection, CliError> {
    if no_passphrase {
        return Ok(Protection::Unprotected);
    }
    let given = given.given().map_err(|error| match error {
        CliError::Usage(why) if why.ends_with("is empty") => {
            CliError::Usage(format!("{why}; for a key without a passphrase, use --no-passphrase"))
        }
        error => error,
    })?;
    let password = match &given[..] {
        [] => ask_new(prompt)?,
        [password] => password.clone(),
        _ => {
            return Err(CliError::Usage("a key has one passphrase, but several were given".into()));
        }
    };
    Ok(Protection::Passphrase(password))
}

/// Opens the stores, the first for writing.
fn writable(cx: &Context) -> Result<Stores, CliError> {
    let mut stores = cx.stores(Access::Create)?;
    stores.writable()?;
    Ok(stores)
}

/// Writes the public part of a key to the store.
fn publish(cert: &Cert, stores: &mut Stores, cx: &Context) -> Result<(), CliError> {
    if let IngestOutcome::Refused(why) = stores.add_public(cert, cx.now)? {
        cx.status(format_args!("The store refuses the public certificate: {why}."));
    }
    Ok(())
}

/// Writes the public part of a changed key to the store, and waits until the change is in force: a second
/// change in the same second is dated one second ahead.
fn publish_change(cert: &Cert, stores: &mut Stores, cx: &Context) -> Result<(), CliError> {
    publish(cert, stores, cx)?;
    let user_ids = cert.userids().flat_map(|id| id.self_signatures().chain(id.self_revocations()));
    let keys = cert.keys().flat_map(|key| key.self_signatures().chain(key.self_revocations()));
    for signature in user_ids.chain(keys) {
        if let Some(created) = signature.signature_creation_time() {
            cx.wait_until(created);
        }
    }
    Ok(())
}

/// A secret key in JSON.
#[derive(Serialize)]
struct KeyJson {
    #[serde(flatten)]
    cert: CertJson,
    /// Fingerprints of the keys whose secrets are in the key store.
    secrets: Vec<String>,
    protected: bool,
    path: String,
    /// The fingerprint of a new subkey.
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<String>,
    /// The file of the revocation certificate; for a new key only.
    #[serde(skip_serializing_if = "Option::is_none")]
    revocation: Option<String>,
}

/// Additional facts for the report on a key.
enum Extra {
    /// The fingerprint of the added subkey.
    Added(Fingerprint),
    /// The file of the revocation certificate.
    Revocation(String),
}

/// Parses a user ID for a new key.
fn parse_user_id(text: &str) -> Result<String, &'static str> {
    // A bracket that stands alone is a slip, and programs would not find the address.
    let has_address = match text.split_once('<') {
        None => !text.contains('>'),
        Some((_, rest)) => rest.strip_suffix('>').is_some_and(|inner| !inner.contains(['<', '>'])),
    };
    if text.trim().is_empty() || text.contains(char::is_control) || !has_address {
        return Err("a user ID is a name and an address, such as \"Alice <alice@example.org>\"");
    }
    Ok(text.to_owned())
}

/// Writes a key in the form of lists.
fn write_key(out: &mut impl std::io::Write, cert: &Cert, cx: &Context) -> Result<(), CliError> {
    write_key_with(out, cert, &[], cx)
}

/// Writes a key in the form of lists, with additional facts in JSON.
fn write_key_with(
    out: &mut impl std::io::Write,
    cert: &Cert,
    extras: &[Extra],
    cx: &Context,
) -> Result<(), CliError> {
    let summary = summary(cert, cx.now)?;
    let path = cx.keys()?.path(&cert.fingerprint());
    let secrets: Vec<String> =
        cert.keys().secret().map(|key| key.key().fingerprint().to_hex()).collect();
    let protected = !is_unprotected(cert);
    if cx.json {
        let path = path.display().to_string();
        let (mut added, mut revocation) = (None, None);
        for extra in extras {
            match extra {
                Extra::Added(subkey) => added = Some(subkey.to_hex()),
                Extra::Revocation(path) => revocation = Some(path.clone()),
            }
        }
        let cert = cert_json(&summary, cx.now);
        let json = KeyJson { cert, secrets, protected, path, added, revocation };
        let text = serde_json::to_string(&json).map_err(std::io::Error::from)?;
        writeln!(out, "{text}")?;
        return Ok(());
    }
    let mut text = Vec::new();
    write_cert(&mut text, &summary, None, &[], &[], cx.now, Paint::stdout());
    // The blank line belongs after the text added here.
    text.pop();
    out.write_all(&text)?;
    if secrets.len() < cert.keys().count() {
        writeln!(out, "secret parts: {}", secrets.join(", "))?;
    }
    if !protected {
        let warning = Paint::stdout().bad("NOT PROTECTED");
        writeln!(out, "{warning} by a passphrase")?;
    }
    writeln!(out)?;
    Ok(())
}
