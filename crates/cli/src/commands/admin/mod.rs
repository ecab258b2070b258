//! `talaria admin`

mod backup;
mod block;
mod delete;
mod list;
mod redact;
mod reindex;
mod restore;
mod set_aside;
mod unblock;
mod unredact;

use std::process::ExitCode;
use std::str::FromStr;

use clap::Subcommand;
use talaria::cert::Fingerprint;
use talaria::operator;
use talaria::store::{Query, Store, StoreError};

use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;

/// Administer a keyserver: delete, block, redact, back up
///
/// The server can keep running; it sees changes at once. Certificates are given by the full fingerprint of their
/// primary key.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Delete(delete::Args),
    Block(block::Args),
    Unblock(unblock::Args),
    Redact(redact::Args),
    Unredact(unredact::Args),
    List(list::Args),
    Reindex(reindex::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    SetAside(set_aside::Args),
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    match &args.command {
        Command::Delete(args) => delete::run(args, cx),
        Command::Block(args) => block::run(args, cx),
        Command::Unblock(args) => unblock::run(args, cx),
        Command::Redact(args) => redact::run(args, cx),
        Command::Unredact(args) => unredact::run(args, cx),
        Command::List(args) => list::run(args, cx),
        Command::Reindex(args) => reindex::run(args, cx),
        Command::Backup(args) => backup::run(args, cx),
        Command::Restore(args) => restore::run(args, cx),
        Command::SetAside(args) => set_aside::run(args, cx),
    }
}

/// The bytes of a fingerprint: 16, 20 or 32.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Digits(pub(crate) Vec<u8>);

impl FromStr for Digits {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text.parse() {
            Ok(Query::Fingerprint(bytes)) => Ok(Self(bytes)),
            _ => Err("a fingerprint has 40 or 64 hexadecimal digits, 32 in version 3"),
        }
    }
}

impl Digits {
    /// The fingerprint with these bytes: that of a certificate that is or was in the store, otherwise that of
    /// the version with this length. `None` for a version 3 fingerprint that was never in the store, because
    /// the bytes do not give its key ID.
    pub(crate) fn resolve(&self, store: &Store) -> Result<Option<Fingerprint>, CliError> {
        let bytes = self.0.as_slice();
        let likely = match bytes.len() {
            20 => return Ok(bytes.try_into().ok().map(Fingerprint::V4)),
            32 => bytes.try_into().ok().map(Fingerprint::V6),
            _ => None,
        };
        let found = store.select(&Query::Fingerprint(bytes.to_vec()), 100)?;
        let here = found.rows.iter().map(|row| row.summary.fingerprint());
        let gone = store.log().all_tombstones()?.into_iter().map(|tombstone| tombstone.fingerprint);
        let known = here.chain(gone).find(|fingerprint| fingerprint.as_bytes() == bytes);
        Ok(known.or(likely))
    }

    /// The fingerprint with these bytes, or an error if it is unknown.
    fn known(&self, store: &Store) -> Result<Fingerprint, CliError> {
        self.resolve(store)?.ok_or_else(|| CliError::Missing(format!("no certificate {self}")))
    }
}

impl std::fmt::Display for Digits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

/// An announcement of the action, with the names of the certificates.
fn announced(store: &Store, all: &[Fingerprint], verb: &str) -> Result<String, CliError> {
    let mut text = format!("This {verb}:");
    for fingerprint in all {
        let row = store.row(*fingerprint)?;
        let name = row.as_ref().and_then(|row| row.summary.primary_user_id());
        let name = name.map_or_else(|| "(not in the store)".to_owned(), printable);
        text.push_str(&format!("\n  {fingerprint} {name}"));
    }
    Ok(text)
}

/// The fingerprints of the named certificates.
fn known(all: &[Digits], store: &Store) -> Result<Vec<Fingerprint>, CliError> {
    all.iter().map(|digits| digits.known(store)).collect()
}

/// Carries out a command about all of the certificates, or none, and prints the results. The exit status is 1 if there was
/// nothing to do for one of them.
fn carry_out(
    store: &mut Store,
    cx: &Context,
    action: &'static str,
    fingerprints: &[Fingerprint],
    command: &operator::Command,
) -> Result<ExitCode, CliError> {
    use std::io::Write as _;
    let outcomes = store.atomically(|store| -> Result<Vec<operator::Outcome>, StoreError> {
        let all = fingerprints.iter();
        all.map(|&fingerprint| command.carry_out(store, fingerprint, cx.now.into())).collect()
    })?;
    let mut out = cx.report_stdout();
    for (fingerprint, outcome) in fingerprints.iter().zip(&outcomes) {
        let (fingerprint, outcome) = (fingerprint.to_string(), outcome.words());
        if cx.json {
            let json = serde_json::json!({
                "action": action, "fingerprint": fingerprint, "outcome": outcome,
            });
            writeln!(out, "{json}")?;
        } else {
            writeln!(out, "{fingerprint} {outcome}")?;
        }
    }
    let all = outcomes.iter().all(|outcome| outcome.did_something());
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admin_commands_require_whole_fingerprints() {
        let whole = "0123456789ABCDEF0123456789ABCDEF01234567";
        assert_eq!(whole.parse::<Digits>().unwrap().to_string(), whole);
        assert_eq!(format!("0x{}", whole.to_lowercase()).parse(), whole.parse::<Digits>());
        for bad in ["0123456789ABCDEF", "alice", "<alice@example.org>", ""] {
            assert!(bad.parse::<Digits>().is_err(), "{bad}");
        }
    }
}
