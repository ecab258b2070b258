//! `talaria stats`

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use talaria::store::Access;
use talaria::{Statistics, statistics};
use talaria_bench::Plot;

use crate::context::Context;
use crate::error::CliError;

/// Count what the store holds
///
/// Certificates by validity, algorithm, version, year and size; with --svg as a picture.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Draw the counts into an SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let counts = statistics(&stores, cx.now)?;
    if let Some(path) = &args.svg {
        std::fs::write(path, svg(&counts)).map_err(|source| talaria::Error::Io {
            action: "write",
            name: path.display().to_string(),
            source,
        })?;
        cx.status(format_args!("Drew {}.", path.display()));
    }
    let mut out = std::io::stdout().lock();
    if cx.json {
        serde_json::to_writer(&mut out, &counts).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(text(&counts).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(counts: &Statistics) -> String {
    let mut out = format!(
        "certificates {:>12}\nuser IDs     {:>12}\nattributes   {:>12}\nsubkeys      {:>12}\n\
         signatures   {:>12}\nbytes        {:>12}\non disk      {:>12}\n",
        counts.certificates,
        counts.user_ids,
        counts.attributes,
        counts.subkeys,
        counts.signatures,
        counts.bytes,
        counts.bytes_on_disk,
    );
    section(&mut out, "validity", &counts.by_validity);
    section(&mut out, "primary key", &counts.by_algorithm);
    section(&mut out, "subkey", &counts.by_subkey_algorithm);
    section(&mut out, "version", &counts.by_version);
    section(&mut out, "year", &counts.by_year);
    section(&mut out, "bytes below", &counts.by_bytes);
    out
}

fn section<K: Display>(out: &mut String, title: &str, counts: &BTreeMap<K, u64>) {
    let most = counts.values().copied().max().unwrap_or(1).max(1);
    out.push_str(&format!("\n{title}\n"));
    for (name, count) in counts {
        let bar = "#".repeat(usize::try_from(count * 40 / most).unwrap_or(0));
        let line = format!("  {name:<18} {count:>8}  {bar}");
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// All counts as one picture, a plot below the other.
fn svg(counts: &Statistics) -> String {
    fn plot<K: Display>(title: &str, x: &str, counts: &BTreeMap<K, u64>) -> Plot {
        #[expect(clippy::cast_precision_loss, reason = "a picture")]
        let values = counts.values().map(|&count| Some(count as f64)).collect();
        Plot {
            title: title.to_owned(),
            x: x.to_owned(),
            y: "certificates".to_owned(),
            places: counts.keys().map(ToString::to_string).collect(),
            series: vec![("certificates".to_owned(), values)],
            ..Plot::default()
        }
    }
    let plots = [
        plot("Validity", "", &counts.by_validity),
        plot("Algorithm of the primary key", "", &counts.by_algorithm),
        plot("Year of the primary key", "year", &counts.by_year),
        plot("Size", "bytes below", &counts.by_bytes),
    ];
    let mut out = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 2000\" width=\"900\" \
         height=\"2000\">\n",
    );
    for (number, plot) in plots.iter().enumerate() {
        let y = number * 500;
        let drawn = plot.svg();
        let drawn = drawn.trim_start_matches(|c| c != '<');
        out.push_str(&drawn.replacen(
            "<svg ",
            &format!("<svg y=\"{y}\" width=\"900\" height=\"500\" "),
            1,
        ));
    }
    out.push_str("</svg>\n");
    out
}
