//! `talaria stats`

mod page;
mod picture;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use talaria::store::Access;
use talaria::{Opened, Statistics, statistics};

use crate::context::Context;
use crate::error::CliError;
use crate::output::{Existing, Target};
use crate::progress::{grouped, size};
use crate::terminal::Paint;

/// Show statistics of the store
///
/// Counts certificates by validity, algorithm, version, year and size. --svg draws them as one
/// picture; --html makes a page with the drawings and all numbers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also draw the statistics as an SVG picture in FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also write a page with the drawings and all numbers to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace the files of --svg and --html if they exist
    #[arg(long)]
    overwrite: bool,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let existing = Existing::with_overwrite(args.overwrite);
    for path in [&args.svg, &args.html].into_iter().flatten() {
        existing.check(path)?;
    }
    let stores = cx.stores(Access::Read)?;
    let counts = statistics(&stores, cx.now)?;
    let name = |opened: &Opened| {
        opened.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    };
    let names: Vec<String> = stores.iter().map(name).collect();
    let drawn = [
        args.svg.as_ref().map(|path| (path, picture::draw(&names, &counts, cx.now))),
        args.html.as_ref().map(|path| (path, page::draw(&names, &counts, cx.now))),
    ];
    for (path, text) in drawn.into_iter().flatten() {
        let mut target = Target::file(path, existing)?;
        target.write_all(text.as_bytes())?;
        target.keep(false)?;
        cx.status(format_args!("Wrote {}.", path.display()));
    }
    let mut out = cx.stdout();
    if cx.json {
        serde_json::to_writer(&mut out, &counts).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(text(&counts, Paint::stdout()).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(counts: &Statistics, paint: Paint) -> String {
    let totals = [
        ("certificates", grouped(counts.certificates)),
        ("user IDs", grouped(counts.user_ids)),
        ("attributes", grouped(counts.attributes)),
        ("subkeys", grouped(counts.subkeys)),
        ("signatures", grouped(counts.signatures)),
        ("size", size(counts.bytes)),
        ("on disk", size(counts.bytes_on_disk)),
    ];
    let mut out = String::new();
    for (name, total) in totals {
        out.push_str(&format!("{name:<13}{total:>13}\n"));
    }
    let named = |counts: &BTreeMap<String, u64>| by_count(counts.clone());
    let validity = counts.by_validity.iter().map(|(name, count)| ((*name).to_owned(), *count));
    section(&mut out, "validity", &by_count(validity.collect()), paint);
    section(&mut out, "primary keys by algorithm", &named(&counts.by_algorithm), paint);
    section(&mut out, "subkeys by algorithm", &named(&counts.by_subkey_algorithm), paint);
    let texts = |name: String, count: &u64| (name, *count);
    let version = counts.by_version.iter().map(|(name, count)| texts(name.to_string(), count));
    section(&mut out, "primary keys by version", &version.collect::<Vec<_>>(), paint);
    let year = counts.by_year.iter().map(|(name, count)| texts(name.to_string(), count));
    section(&mut out, "primary keys by year", &year.collect::<Vec<_>>(), paint);
    let bytes =
        counts.by_bytes.iter().map(|(name, count)| texts(format!("< {}", size(*name)), count));
    section(&mut out, "certificates by size", &bytes.collect::<Vec<_>>(), paint);
    out
}

/// The counts in descending order.
fn by_count(counts: BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

fn section(out: &mut String, title: &str, counts: &[(String, u64)], paint: Paint) {
    const BAR: u64 = 40;
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    let all = counts.iter().map(|(_, count)| *count).sum::<u64>().max(1);
    out.push_str(&format!("\n{}\n", paint.strong(title)));
    for (name, count) in counts {
        let bar = "▇".repeat(usize::try_from(count * BAR / most).unwrap_or(0));
        let percent = format!("{} %", (count * 100 + all / 2) / all);
        let line =
            format!("  {name:<18} {:>11} {percent:>5}  {}", grouped(*count), paint.handle(bar));
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
