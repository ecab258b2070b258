//! `talaria key check`

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use talaria::Error;
use talaria::cert::{Fault, Purpose};
use talaria::keys::{Finding, Problem, findings, names};
use talaria::store::{Access, Query, StoreError};

use crate::context::Context;
use crate::error::CliError;
use crate::query::parse_query;
use crate::render::{counted, printable};

/// Say what is old, weak or missing in your keys
///
/// Names self-signatures with broken hash functions (SHA-1), short keys, parts that have expired or
/// will within 90 days, and what a key cannot be used for. The exit status is 1 if there is
/// something to mend.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Keys to check [default: all]
    #[arg(value_name = "KEY", value_parser = parse_query)]
    queries: Vec<Query>,
}

/// A finding as JSON.
#[derive(Serialize)]
struct FindingJson {
    fingerprint: String,
    part: String,
    problem: String,
    renewable: bool,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let keys = cx.keys()?.list()?;
    let is_wanted = |query: &Query| keys.iter().any(|cert| names(query, cert));
    if let Some(query) = args.queries.iter().find(|query| !is_wanted(query)) {
        return Err(Error::NoKey { query: query.to_string() }.into());
    }
    let stores = match cx.stores(Access::Read) {
        Ok(stores) => Some(stores),
        Err(CliError::Operation(Error::Store(StoreError::Missing { .. }))) => None,
        Err(error) => return Err(error),
    };
    let mut out = cx.stdout();
    let (mut checked, mut bad) = (0, 0);
    for key in &keys {
        if !(args.queries.is_empty() || args.queries.iter().any(|query| names(query, key))) {
            continue;
        }
        checked += 1;
        let refreshed = stores.as_ref().map(|stores| stores.refreshed(key.clone(), cx.now));
        let cert = refreshed.transpose()?.unwrap_or_else(|| key.clone());
        let mut revoker = |by| stores.as_ref().and_then(|stores| stores.cert(by).ok()?);
        let found = findings(&cert, &mut revoker, cx.now)?;
        bad += usize::from(!found.is_empty());
        let fingerprint = cert.fingerprint().to_hex();
        if cx.json {
            for finding in &found {
                let json = FindingJson {
                    fingerprint: fingerprint.clone(),
                    part: finding.part.to_string(),
                    problem: finding.problem.to_string(),
                    renewable: finding.is_renewable(),
                };
                let text = serde_json::to_string(&json).map_err(io::Error::from)?;
                writeln!(out, "{text}")?;
            }
        } else if !found.is_empty() {
            write(&mut out, &fingerprint, &found)?;
        }
    }
    if checked == 0 {
        cx.status(format_args!("There are no secret keys in the key folder."));
    } else if bad == 0 {
        cx.status(format_args!("Nothing to mend in {}.", counted(checked, "key")));
    }
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn write(out: &mut impl Write, fingerprint: &str, found: &[Finding]) -> io::Result<()> {
    writeln!(out, "{fingerprint}")?;
    for Finding { part, problem } in found {
        writeln!(out, "  {}: {problem}", printable(part.to_string().as_bytes()))?;
    }
    let has = |is: fn(&Finding) -> bool| found.iter().any(is);
    if has(Finding::is_renewable) {
        writeln!(out, "To mend it: talaria key renew {fingerprint}")?;
    }
    if has(|one| matches!(one.problem, Problem::Ends(_))) {
        writeln!(out, "To use it longer: talaria key expire {fingerprint} 2y")?;
    }
    if has(|one| matches!(one.problem, Problem::Unable(why) if why.purpose == Purpose::Encrypt)) {
        writeln!(out, "To mend it: talaria key add-subkey --encrypt {fingerprint}")?;
    }
    if has(|one| matches!(one.problem, Problem::Fault(Fault::Short(_)))) {
        writeln!(
            out,
            "To replace it: talaria key generate, and certify the new key with this one"
        )?;
    }
    writeln!(out)
}
