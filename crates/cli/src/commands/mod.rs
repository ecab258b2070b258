//! The subcommands, one file each, named as they are typed.

pub(crate) mod admin;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod build;
pub(crate) mod certify;
pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod decrypt;
pub(crate) mod delete;
pub(crate) mod dump;
pub(crate) mod encrypt;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod inspect;
pub(crate) mod key;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod pack;
pub(crate) mod peer;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod sign;
pub(crate) mod stats;
pub(crate) mod tofu;
pub(crate) mod trust;
pub(crate) mod tune;
pub(crate) mod unpack;
pub(crate) mod verify;

use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::Subcommand;

use talaria::Stores;
use talaria::store::{Order, Query, Row};

use crate::context::Context;
use crate::error::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Import(import::Args),
    Export(export::Args),
    List(list::Args),
    Show(show::Args),
    Delete(delete::Args),
    Stats(stats::Args),
    Encrypt(encrypt::Args),
    Decrypt(decrypt::Args),
    Sign(sign::Args),
    Verify(verify::Args),
    Pack(pack::Args),
    Unpack(unpack::Args),
    Inspect(inspect::Args),
    Key(key::Args),
    Certify(certify::Args),
    Trust(trust::Args),
    Tofu(tofu::Args),
    Changes(changes::Args),
    Check(check::Args),
    Compact(compact::Args),
    Index(index::Args),
    Tune(tune::Args),
    Build(build::Args),
    Dump(dump::Args),
    Serve(serve::Args),
    Peer(peer::Args),
    Backup(Box<backup::Args>),
    Log(log::Args),
    Admin(admin::Args),
    Bench(bench::Args),
    Completions(completions::Args),
    Man(man::Args),
}

pub(crate) fn run(command: &Command, cx: &mut Context) -> Result<ExitCode, CliError> {
    match command {
        Command::Import(args) => import::run(args, cx),
        Command::Export(args) => export::run(args, cx),
        Command::List(args) => list::run(args, cx),
        Command::Show(args) => show::run(args, cx),
        Command::Delete(args) => delete::run(args, cx),
        Command::Stats(args) => stats::run(args, cx),
        Command::Encrypt(args) => encrypt::run(args, cx),
        Command::Decrypt(args) => decrypt::run(args, cx),
        Command::Sign(args) => sign::run(args, cx),
        Command::Verify(args) => verify::run(args, cx),
        Command::Pack(args) => pack::run(args, cx),
        Command::Unpack(args) => unpack::run(args, cx),
        Command::Inspect(args) => inspect::run(args, cx),
        Command::Key(args) => key::run(args, cx),
        Command::Certify(args) => certify::run(args, cx),
        Command::Trust(args) => trust::run(args, cx),
        Command::Tofu(args) => tofu::run(args, cx),
        Command::Changes(args) => changes::run(args, cx),
        Command::Check(args) => check::run(args, cx),
        Command::Compact(args) => compact::run(args, cx),
        Command::Index(args) => index::run(args, cx),
        Command::Tune(args) => tune::run(args, cx),
        Command::Build(args) => build::run(args, cx),
        Command::Dump(args) => dump::run(args, cx),
        Command::Serve(args) => serve::run(args, cx),
        Command::Peer(args) => peer::run(args, cx),
        Command::Backup(args) => backup::run(args, cx),
        Command::Log(args) => log::run(args, cx),
        Command::Admin(args) => admin::run(args, cx),
        Command::Bench(args) => bench::run(args, cx),
        Command::Completions(args) => completions::run(args, cx),
        Command::Man(args) => man::run(args, cx),
    }
}

/// Parses a user's name for a certificate.
pub(crate) fn parse_query(text: &str) -> Result<talaria::store::Query, String> {
    text.parse().map_err(|error: talaria::store::QueryError| error.why.to_owned())
}

/// The maximum number of candidates listed for an ambiguous query.
const CANDIDATES_MAX: usize = 10;

/// The only certificate that matches a query exactly: by key, or by a whole address or user ID. A partial
/// match is never chosen: `alice` is in `malice@evil.example`, too.
pub(crate) fn one_certificate(stores: &Stores, query: &Query, now: u32) -> Result<Row, CliError> {
    let mut found = match query.exact().map(|exact| rows(stores, &exact, now)) {
        None | Some(Err(talaria::Error::NotFound { .. })) => Vec::new(),
        Some(found) => found?,
    };
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(talaria::Error::Inexact {
            query: query.to_string(),
            candidates: rows(stores, query, now)?.iter().map(named).collect(),
        })?,
        _ => Err(talaria::Error::Ambiguous {
            query: query.to_string(),
            candidates: found.iter().map(named).collect(),
        })?,
    }
}

/// The certificates that match a query, at most as many as are shown.
fn rows(stores: &Stores, query: &Query, now: u32) -> Result<Vec<Row>, talaria::Error> {
    let mut found = Vec::new();
    stores.visit(std::slice::from_ref(query), Order::Insertion, now, |_, row| {
        found.push(row);
        let enough = found.len() > CANDIDATES_MAX;
        Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

/// The description of a certificate in a list of candidates.
fn named(row: &Row) -> String {
    let name = row.summary.primary_user_id().map(crate::render::printable).unwrap_or_default();
    format!("{} {name}", row.summary.fingerprint())
}
