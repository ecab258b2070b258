//! `talaria dump`

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use talaria::store::Access;
use talaria::{DumpOptions, Extent, Token, dump};

use super::export::{DamageArgs, Include};
use crate::context::Context;
use crate::error::CliError;
use crate::progress::grouped;
use crate::render::counted;

/// Write a keyserver dump
///
/// Writes sks-dump-NNNN.pgp and metadata-sks-dump.txt, which `talaria build`, SKS and Hockeypuck
/// load. With --incremental, changes since the dump in the folder go to further files, and
/// deleted.txt lists certificates of older files that were deleted since.
///
/// A server keeps running meanwhile. The folder always holds complete files, even after an
/// interruption; run the command again to finish the dump. Replacing a dump needs space for both.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to write to
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Certificates per file
    #[arg(long, value_name = "N", default_value_t = 15_000)]
    certs_per_file: usize,
    /// Dump only what was added or changed since the dump in the folder
    #[arg(long, conflicts_with = "since")]
    incremental: bool,
    /// Dump only what was added or changed since TOKEN (see `talaria changes`)
    #[arg(long, value_name = "TOKEN")]
    since: Option<Token>,
    /// Signatures to include
    #[arg(long, value_enum, default_value_t = Include::Exportable)]
    signatures: Include,
    #[command(flatten)]
    damage: DamageArgs,
    /// Server name in the metadata
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    hostname: String,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let extent = match &args.since {
        Some(token) => Extent::Since(token.clone()),
        None if args.incremental => Extent::Increment,
        None => Extent::Whole,
    };
    let mut options = DumpOptions::new(args.folder.clone(), cx.now);
    options.extent = extent;
    options.per_file = args.certs_per_file;
    options.signatures = args.signatures.into();
    options.on_damage = args.damage.choice();
    options.hostname.clone_from(&args.hostname);
    let dumped = cx.long(|monitor| dump(&stores, &options, monitor))?;
    let status = DamageArgs::report(&dumped.skipped);
    let mut out = cx.stdout();
    if cx.json {
        let files: Vec<String> =
            dumped.files.iter().map(|path| path.display().to_string()).collect();
        let deleted: Vec<String> = dumped.deleted.iter().map(ToString::to_string).collect();
        let json = serde_json::json!({
            "folder": args.folder.display().to_string(), "certificates": dumped.certs,
            "bytes": dumped.bytes, "files": files, "deleted": deleted,
            "skipped": DamageArgs::json(&dumped.skipped), "token": dumped.token.to_string(),
        });
        writeln!(out, "{json}")?;
        return Ok(status);
    }
    writeln!(
        out,
        "{}: {} ({} bytes) in {}",
        args.folder.display(),
        counted(dumped.certs, "certificate"),
        grouped(dumped.bytes),
        counted(dumped.files.len() as u64, "file")
    )?;
    for fingerprint in &dumped.deleted {
        cx.status(format_args!("Deleted since the last dump: {fingerprint}"));
    }
    cx.status(format_args!("Next token: {}", dumped.token));
    Ok(status)
}
