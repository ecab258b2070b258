//! `talaria key`

mod delete;
mod expire;
mod export;
mod generate;
mod import;
mod list;
mod passphrase;
mod revoke;

use std::process::ExitCode;
use std::str::FromStr;

use clap::Subcommand;
use serde::Serialize;
use talaria::Stores;
use talaria::keys::{Protection, is_unprotected, summary};
use talaria::message::openpgp::Cert;
use talaria::store::{Access, Outcome};

use crate::context::Context;
use crate::error::CliError;
use crate::passphrase::{PassphraseArgs, ask_new};
use crate::render::{CertJson, cert_json, write_cert};

/// Keep secret keys
///
/// They are in a folder of their own, one file each, locked with a passphrase. Their public parts go to
/// the store, so that --to finds them. A key is named as a certificate is.
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
        Command::Expire(args) => expire::run(args, cx),
        Command::Revoke(args) => revoke::run(args, cx),
        Command::Delete(args) => delete::run(args, cx),
    }
}

/// When something ends, as a user says it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Expiry {
    Never,
    /// Seconds from now.
    In(u32),
    /// Seconds since 1970.
    At(u32),
}

impl Expiry {
    /// Seconds since 1970.
    fn at(self, now: u32) -> Option<u32> {
        match self {
            Self::Never => None,
            Self::In(seconds) => Some(now.saturating_add(seconds)),
            Self::At(time) => Some(time),
        }
    }
}

impl FromStr for Expiry {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const SHAPE: &str =
            "it is never, now, a date (2030-12-31) or a time from now: 90d, 8w, 6m, 2y";
        const DAY: u32 = 86400;
        match text {
            "never" => return Ok(Self::Never),
            "now" => return Ok(Self::In(0)),
            _ => {}
        }
        if let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] {
            let number = |digits: &str| digits.parse::<u32>().map_err(|_| SHAPE);
            let days = days(number(year)?, number(month)?, number(day)?).ok_or(SHAPE)?;
            return days.checked_mul(DAY).map(Self::At).ok_or("a date is before 2106");
        }
        let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or(SHAPE)?;
        let days = match unit {
            "d" => 1,
            "w" => 7,
            "m" => 30,
            "y" => 365,
            _ => return Err(SHAPE),
        };
        let count: u32 = digits.parse().map_err(|_| SHAPE)?;
        count.checked_mul(days * DAY).map(Self::In).ok_or("that is too long; say never")
    }
}

/// Days from 1970 to a date, `None` if there is no such day.
fn days(year: u32, month: u32, day: u32) -> Option<u32> {
    let leap = |year: u32| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let lengths = [31, 28 + u32::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let before = (month - 1) as usize;
    if !(1..=lengths[before]).contains(&day) {
        return None;
    }
    let years: u32 = (1970..year).map(|year| 365 + u32::from(leap(year))).sum();
    Some(years + lengths[..before].iter().sum::<u32>() + day - 1)
}

/// The passphrase for a new key: the one that is given, or what the user says.
fn new_protection(
    given: &PassphraseArgs,
    no_passphrase: bool,
    prompt: &str,
) -> Result<Protection, CliError> {
    if no_passphrase {
        return Ok(Protection::Unprotected);
    }
    let password = match &given.given()?[..] {
        [] => ask_new(prompt)?,
        [password] => password.clone(),
        _ => return Err(CliError::Usage("a key has one passphrase, and several are given".into())),
    };
    if password.map(|octets| octets.is_empty()) {
        return Err(CliError::Usage(
            "an empty passphrase protects nothing; if none is wanted, say --no-passphrase".into(),
        ));
    }
    Ok(Protection::Passphrase(password))
}

/// The stores, of which the first can be written to.
fn writable(cx: &Context) -> Result<Stores, CliError> {
    let mut stores = cx.stores(Access::Create)?;
    stores.writable()?;
    Ok(stores)
}

/// Puts the public part of a key into the store.
fn publish(cert: &Cert, stores: &mut Stores, cx: &Context) -> Result<(), CliError> {
    if let Outcome::Refused(why) = stores.add_public(cert, cx.now)? {
        cx.status(format_args!("The store does not take the certificate: {why}."));
    }
    Ok(())
}

/// Puts the public part of a changed key into the store, and waits until the change holds: what changes
/// something of the same second is dated a second ahead.
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
    /// Fingerprints of the keys of which the secret is here.
    secrets: Vec<String>,
    protected: bool,
    path: String,
}

/// Writes a key as lists show it.
fn write_key(out: &mut impl std::io::Write, cert: &Cert, cx: &Context) -> Result<(), CliError> {
    let summary = summary(cert, cx.now)?;
    let path = cx.keys()?.path(&cert.fingerprint());
    let secrets: Vec<String> =
        cert.keys().secret().map(|key| key.key().fingerprint().to_hex()).collect();
    let protected = !is_unprotected(cert);
    if cx.json {
        let path = path.display().to_string();
        let json = KeyJson { cert: cert_json(&summary, cx.now), secrets, protected, path };
        let text = serde_json::to_string(&json).map_err(std::io::Error::from)?;
        writeln!(out, "{text}")?;
        return Ok(());
    }
    let mut text = Vec::new();
    write_cert(&mut text, &summary, None, &[], cx.now);
    // The blank line belongs behind what is said here.
    text.pop();
    out.write_all(&text)?;
    if secrets.len() < cert.keys().count() {
        writeln!(out, "has the secrets of {}", secrets.join(", "))?;
    }
    if !protected {
        writeln!(out, "NOT PROTECTED by a passphrase")?;
    }
    writeln!(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_as_people_write_them() {
        let cases = [
            ("never", None),
            ("now", Some(1000)),
            ("1d", Some(87400)),
            ("2w", Some(1000 + 14 * 86400)),
            ("6m", Some(1000 + 180 * 86400)),
            ("2y", Some(1000 + 730 * 86400)),
            ("1970-01-02", Some(86400)),
            ("2000-03-01", Some(951_868_800)),
            ("2030-12-31", Some(1_924_905_600)),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Expiry>().unwrap().at(1000), expected, "{text}");
        }
        for bad in [
            "",
            "y",
            "1",
            "-1d",
            "1.5y",
            "2001-02-29",
            "2001-13-01",
            "2001-00-01",
            "1969-12-31",
            "9999-01-01",
            "999y",
            "2001-01",
            "ü",
            "1ü",
        ] {
            assert!(bad.parse::<Expiry>().is_err(), "{bad}");
        }
    }
}
