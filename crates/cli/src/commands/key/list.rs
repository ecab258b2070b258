//! `talaria key list`

use std::process::ExitCode;

use serde::Serialize;
use talaria::Error;
use talaria::agent::{self, Agent, AgentCert, AgentError, Start};
use talaria::cert::Fingerprint;
use talaria::keys::names;
use talaria::store::{Access, Query, StoreError};

use super::report::write_key;
use crate::context::Context;
use crate::error::CliError;
use crate::query::parse_query;
use crate::render::counted;
use crate::render::json::{CertJson, cert_json};
use crate::render::text::write_cert;
use crate::terminal::Paint;

/// List your secret keys
///
/// Lists the keys in the key folder, then those of a running gpg-agent whose certificates are in
/// the store. Commands use the keys of the agent with --gpg-agent.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keys to list [default: all]
    #[arg(value_name = "KEY", value_parser = parse_query)]
    queries: Vec<Query>,
    /// Start gpg-agent to list its keys, if it is not running
    #[arg(long)]
    gpg_agent: bool,
}

/// A certificate whose secret keys are in gpg-agent, as JSON.
#[derive(Serialize)]
struct HeldJson {
    #[serde(flatten)]
    cert: CertJson,
    /// Fingerprints of the keys whose secrets the agent has.
    secrets: Vec<String>,
    /// The key is in gpg-agent, not in the key store.
    agent: bool,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let keys = cx.keys()?.list()?;
    let mut out = cx.stdout();
    for cert in &keys {
        if args.queries.is_empty() || args.queries.iter().any(|query| names(query, cert)) {
            write_key(&mut out, cert, cx)?;
        }
    }
    let (mut held, unknown) = in_agent(args, cx)?;
    held.retain(|held| {
        let fingerprint = held.summary.fingerprint().to_string();
        keys.iter().all(|cert| cert.fingerprint().to_hex() != fingerprint)
    });
    let is_named = |query: &Query, held: &AgentCert| {
        held.summary.texts().any(|text| query.names_text(text))
            || held.summary.keys().any(|key| names_fingerprint(query, key.fingerprint))
    };
    let wanted = |held: &&AgentCert| {
        args.queries.is_empty() || args.queries.iter().any(|query| is_named(query, held))
    };
    write_held(&mut out, held.iter().filter(wanted), cx)?;
    if unknown > 0 && args.queries.is_empty() {
        cx.status(format_args!(
            "gpg-agent has {} whose certificate is not in the store. To import the certificates: \
             talaria import ~/.gnupg",
            counted(unknown, "more secret key")
        ));
    }
    if keys.is_empty() && held.is_empty() && unknown == 0 && args.queries.is_empty() {
        cx.status(format_args!(
            "There are no secret keys. To make one: talaria key generate \"NAME <ADDRESS>\""
        ));
    }
    let missing = args.queries.iter().find(|query| {
        !keys.iter().any(|cert| names(query, cert))
            && !held.iter().any(|held| is_named(query, held))
    });
    match missing {
        Some(query) => Err(Error::NoKey { query: query.to_string() }.into()),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// The keys in gpg-agent, if an agent and a certificate store exist.
fn in_agent(args: &Args, cx: &Context) -> Result<(Vec<AgentCert>, usize), CliError> {
    let start = if args.gpg_agent { Start::IfAbsent } else { Start::Never };
    let agent = match Agent::find(start, Vec::new()) {
        Ok(agent) => agent,
        Err(error @ AgentError::NoHome { .. }) if args.gpg_agent => {
            cx.status(format_args!("{error}."));
            return Ok((Vec::new(), 0));
        }
        Err(error) if args.gpg_agent => return Err(Error::from(error).into()),
        // The user did not ask for the agent, so its errors are ignored.
        Err(_) => return Ok((Vec::new(), 0)),
    };
    match cx.stores(Access::Read) {
        Ok(stores) => match agent::held(&agent, &stores, cx.now) {
            Err(Error::Agent(_)) if !args.gpg_agent => Ok((Vec::new(), 0)),
            held => Ok(held?),
        },
        Err(CliError::Operation(Error::Store(StoreError::Missing { .. }))) => {
            Ok((Vec::new(), agent.keygrips().map_or(0, |keygrips| keygrips.len())))
        }
        Err(error) => Err(error),
    }
}

fn write_held<'h>(
    out: &mut impl std::io::Write,
    held: impl Iterator<Item = &'h AgentCert>,
    cx: &Context,
) -> Result<(), CliError> {
    let paint = Paint::stdout();
    let mut is_first = true;
    for AgentCert { summary, secrets } in held {
        let secrets: Vec<String> = secrets.iter().map(ToString::to_string).collect();
        if cx.json {
            let json = HeldJson { cert: cert_json(summary, cx.now), secrets, agent: true };
            writeln!(out, "{}", serde_json::to_string(&json).map_err(std::io::Error::from)?)?;
            continue;
        }
        if std::mem::take(&mut is_first) {
            writeln!(out, "{}", paint.strong("In gpg-agent (used with --gpg-agent):"))?;
        }
        let mut text = Vec::new();
        write_cert(&mut text, summary, None, &[], &[], cx.now, paint);
        text.pop();
        out.write_all(&text)?;
        if secrets.len() < summary.subkeys.len() + 1 {
            writeln!(out, "secret parts: {}", secrets.join(", "))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Whether a query is a fingerprint or key ID of a key.
fn names_fingerprint(query: &Query, fingerprint: Fingerprint) -> bool {
    match query {
        Query::Fingerprint(bytes) => fingerprint.as_bytes() == bytes.as_slice(),
        Query::KeyId(id) => fingerprint.key_id() == *id,
        Query::ShortKeyId(id) => fingerprint.key_id().short() == *id,
        _ => false,
    }
}
