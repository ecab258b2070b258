//! `talaria build`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::cert::{Verification, View};
use talaria::store::{BuildOptions, TextIndex};
use talaria::{Input, build};

use crate::context::Context;
use crate::error::CliError;
use crate::progress::grouped;
use crate::render::counted;
use crate::stderr::complain;

/// Build a new store from keyserver dumps
///
/// The fastest way to load many certificates. The store must not exist; it appears when it is
/// complete. An interrupted build resumes when it is started again with the same files. Compressed
/// files (gzip, zstd, xz, bzip2) are decompressed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Keyrings, SKS or Hockeypuck dump files, folders of these, or - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Memory for sorting in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..1_000_000))]
    memory: u32,
    /// Skip the verification of self-signatures; `talaria check --verify` does it later
    #[arg(long)]
    no_verify: bool,
    /// Also keep the digests of this view, for gossip with such peers (can be repeated)
    #[arg(long, value_name = "VIEW")]
    view: Vec<View>,
    /// Page size of the store in KiB
    #[arg(long, value_name = "KIB", default_value = "16", value_parser = ["4", "8", "16", "32", "64"])]
    page_size: String,
    /// Do not build the word index
    #[arg(long)]
    no_words: bool,
    /// Do not build the trigram index
    #[arg(long)]
    no_trigrams: bool,
    /// Do not build the index of keygrips: a keyserver is never asked for them
    #[arg(long)]
    no_keygrips: bool,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let inputs: Vec<Input> = args.files.iter().map(|file| Input::parse(file)).collect();
    let mut text = Vec::new();
    if !args.no_words {
        text.push(TextIndex::Words);
    }
    if !args.no_trigrams {
        text.push(TextIndex::Trigrams);
    }
    let kib: u32 = args.page_size.parse().unwrap_or(16);
    let mut options = BuildOptions::new(cx.now.into());
    options.layout.page_bytes = kib << 10;
    options.layout.text = text;
    options.layout.keygrips = !args.no_keygrips;
    options.memory_bytes = args.memory as usize * (1 << 20);
    options.verification = if args.no_verify { Verification::Deferred } else { Verification::Full };
    options.views.extend(&args.view);
    let target = cx.path()?.clone();
    let report = cx.long_in_steps(|monitor| build(&target, &inputs, &options, monitor))?;
    let rejected = report.rejected_count + report.built.refused_count;
    let mut out = cx.report_stdout();
    if cx.json {
        let rejects: Vec<_> = report
            .rejected
            .iter()
            .map(|(input, reject)| {
                serde_json::json!({
                    "file": input.to_string(), "place": reject.place, "reason": reject.reason,
                })
            })
            .collect();
        let refused: Vec<_> = report
            .built
            .refused
            .iter()
            .map(|(fingerprint, refusal)| {
                serde_json::json!({
                    "fingerprint": fingerprint.to_string(), "reason": refusal.to_string(),
                })
            })
            .collect();
        let json = serde_json::json!({
            "store": target.display().to_string(), "certificates": report.built.certs,
            "joined": report.built.joined, "resumed_at": report.resumed,
            "rejected": rejected, "rejects": rejects, "refused": refused,
        });
        writeln!(out, "{json}")?;
    } else {
        for (input, reject) in &report.rejected {
            complain(format_args!("{input}: {}: {}", reject.place, reject.reason));
        }
        for (fingerprint, refusal) in &report.built.refused {
            complain(format_args!(
                "a second copy of certificate {fingerprint} was not merged: {refusal}"
            ));
        }
        writeln!(
            out,
            "{}: {}, {} merged, {} rejected",
            target.display(),
            counted(report.built.certs, "certificate"),
            counted(report.built.joined, "duplicate"),
            grouped(rejected)
        )?;
    }
    Ok(if rejected > 0 { ExitCode::from(3) } else { ExitCode::SUCCESS })
}
