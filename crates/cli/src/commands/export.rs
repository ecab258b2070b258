//! `talaria export`

use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::store::{Access, ChangeNumber, Query};
use talaria::{ExportOptions, Format, Monitor, OnDamage, Signatures, Skipped, Token, export};

use crate::context::{Content, Context};
use crate::error::CliError;
use crate::output::OutputArgs;
use crate::progress::grouped;
use crate::query::parse_query;
use crate::render::counted;

/// Export certificates from the store
///
/// Writes to standard output, a file, a GnuPG home directory or a certificate directory.
/// Certificates of several stores are merged. `talaria dump` writes keyserver dumps; `talaria key
/// export` exports secret keys.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Certificates to export [default: all]
    #[arg(value_name = "CERT", value_parser = parse_query)]
    queries: Vec<Query>,
    /// Write ASCII armor
    #[arg(long, short)]
    armor: bool,
    #[command(flatten)]
    output: OutputArgs,
    /// Signatures to include
    #[arg(long, value_enum, default_value_t = Include::Exportable)]
    signatures: Include,
    #[command(flatten)]
    damage: DamageArgs,
    /// Export only what was added or changed since TOKEN (see `talaria changes`)
    #[arg(long, value_name = "TOKEN", conflicts_with = "queries")]
    changed_since: Option<Token>,
    /// Merge into pubring.kbx of the GnuPG home directory DIR, and write the owner trust to
    /// DIR/otrust.txt
    #[arg(long, value_name = "DIR", group = "target", conflicts_with_all = ["output", "armor"])]
    to_gnupg: Option<PathBuf>,
    /// Merge into the certificate directory (pgp.cert.d) DIR
    #[arg(long, value_name = "DIR", group = "target", conflicts_with_all = ["output", "armor"])]
    to_certd: Option<PathBuf>,
}

/// What happens with damaged certificates, for export and dump.
#[derive(Debug, clap::Args)]
pub(crate) struct DamageArgs {
    /// Leave out damaged certificates, name each of them, and end with status 4
    #[arg(long)]
    skip_damaged: bool,
}

impl DamageArgs {
    pub(crate) fn choice(&self) -> OnDamage {
        if self.skip_damaged { OnDamage::Skip } else { OnDamage::Stop }
    }

    /// Names the certificates that were left out, and returns the exit status.
    pub(crate) fn report(skipped: &[Skipped]) -> ExitCode {
        if skipped.is_empty() {
            return ExitCode::SUCCESS;
        }
        for one in skipped {
            crate::stderr::say(format_args!("talaria: left out: {}", one.why));
        }
        crate::stderr::say(format_args!(
            "Repair them with copies: talaria check --repair-from FILE"
        ));
        ExitCode::from(4)
    }

    /// The same for JSON.
    pub(crate) fn json(skipped: &[Skipped]) -> Vec<serde_json::Value> {
        let json = |one: &Skipped| {
            serde_json::json!({
                "store": one.store.display().to_string(), "why": one.why,
                "fingerprint": one.fingerprint.map(|fingerprint| fingerprint.to_string()),
            })
        };
        skipped.iter().map(json).collect()
    }
}

/// Which signatures go along.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Include {
    /// All, including local signatures
    All,
    /// All except local signatures
    Exportable,
    /// Only the newest self-signatures and revocations
    Minimal,
}

impl From<Include> for Signatures {
    fn from(include: Include) -> Self {
        match include {
            Include::All => Self::All,
            Include::Exportable => Self::Exportable,
            Include::Minimal => Self::Minimal,
        }
    }
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let changed_since = match &args.changed_since {
        Some(token) => {
            let first = stores.iter().next().map(|opened| &opened.store);
            Some(first.map_or(Ok(ChangeNumber::START), |store| token.number_in(store))?)
        }
        None => None,
    };
    let format = match (&args.to_gnupg, &args.to_certd) {
        (Some(path), _) => Format::GnupgHome(path.clone()),
        (_, Some(path)) => Format::CertDirectory(path.clone()),
        _ if args.armor => Format::Armor,
        _ => Format::Binary,
    };
    let is_stream = matches!(format, Format::Armor | Format::Binary);
    let content = if is_stream { args.output.content() } else { Content::Elsewhere };
    args.output.check(None)?;
    let mut options = ExportOptions::new(format, cx.now);
    options.queries.clone_from(&args.queries);
    options.changed_since = changed_since;
    options.signatures = args.signatures.into();
    options.on_damage = args.damage.choice();
    let next = stores.iter().next().map(|opened| Token::now(&opened.store)).transpose()?;
    let work = |monitor: &mut Monitor<'_>| -> Result<_, CliError> {
        if !is_stream {
            return Ok(export(&stores, &options, &mut io::sink(), monitor)?);
        }
        let target = args.output.open(!args.armor)?;
        let mut out = BufWriter::with_capacity(1 << 16, target);
        let exported = export(&stores, &options, &mut out, monitor)?;
        let target = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        target.keep(false)?;
        Ok(exported)
    };
    let exported = match content {
        Content::OnStdout => cx.long_writing(work),
        Content::Elsewhere => cx.long(work),
    }?;
    for left_out in &exported.left_out {
        crate::stderr::say(format_args!("talaria: left out: {left_out}"));
    }
    let status = DamageArgs::report(&exported.skipped);
    let next = next.map(|token| token.to_string()).unwrap_or_default();
    if cx.json {
        let deleted: Vec<String> = exported.deleted.iter().map(ToString::to_string).collect();
        let json = serde_json::json!({
            "certificates": exported.certs, "bytes": exported.bytes,
            "left_out": exported.left_out, "skipped": DamageArgs::json(&exported.skipped),
            "deleted": deleted, "token": next,
        });
        cx.report(content, &json)?;
    } else {
        cx.status(format_args!(
            "Exported {} ({} bytes).",
            counted(exported.certs, "certificate"),
            grouped(exported.bytes)
        ));
        if args.changed_since.is_some() {
            for fingerprint in &exported.deleted {
                cx.status(format_args!("Deleted since the token: {fingerprint}"));
            }
            cx.status(format_args!("Next token: {next}"));
        }
    }
    Ok(status)
}
