//! The prefix tree for gossip: built in memory by talaria, in Berkeley DB by SKS.

use std::hint::black_box;

use talaria_recon::{Digest, PrefixTree};

use super::bench::{Bench, Results};
use super::figures::float;
use crate::error::BenchError;
use crate::measure::{Cost, in_process, median, memory};
use crate::table::{Cell, Table};

/// A digest that is as good as any, by number.
pub(super) fn digest(number: u64) -> Digest {
    let mix = |number: u64| {
        let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let high = mix(number.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15));
    let low = mix(number.wrapping_mul(2).wrapping_add(1));
    Digest((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Results, BenchError> {
    let mut table = Table::new(
        "The prefix tree for gossip",
        &[
            "work",
            "digests",
            "wall s",
            "CPU s",
            "CPU us per digest",
            "memory MB",
            "bytes per digest",
            "file MB",
        ],
    );
    table.note(
        "talaria: the tree in memory, of digests in no order, as when a server starts (there they \
         come from the store, in order); the memory is what the \
         largest adds to the process. \
         sks pbuild -cache 20 -ptree_cache 70: the tree in Berkeley DB, which also reads every \
         certificate and computes its digest; the memory is its peak.",
    );
    let mut counts = bench.options.digests.clone();
    // The largest first: later ones take memory that was given back.
    counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
    let mut ours = Vec::new();
    for (at, &count) in counts.iter().enumerate() {
        let digests: Vec<Digest> = (0..count).map(digest).collect();
        let (mut costs, mut bytes) = (Vec::new(), None);
        for run in 0..bench.runs() {
            let before = anonymous_bytes();
            let (tree, cost) = in_process(|| PrefixTree::build(digests.iter().copied()));
            costs.push(cost);
            black_box(&tree);
            if (at, run) == (0, 0) {
                bytes = Some(anonymous_bytes() - before);
            }
        }
        ours.push((count, median(&costs), bytes));
    }
    ours.reverse();
    for (count, cost, bytes) in &ours {
        let work = "talaria, PrefixTree::build";
        table.push(row(work, *count, cost, *bytes, None));
    }
    if let (Some(sks), Some(&count)) = (bench.sks("t")?, bench.options.digests.first()) {
        // Whole files, of the same length each.
        let certs = bench.options.certs;
        let mut files = bench.dump.files(certs);
        let all = files.len() as u64;
        let some = (count.min(certs) * all).div_ceil(certs);
        files.truncate(usize::try_from(some).unwrap_or(usize::MAX));
        let built = certs * some / all;
        let mut costs = Vec::new();
        for _ in 0..bench.runs() {
            sks.measure_build(&files, 16)?;
            costs.push(sks.measure_tree()?);
        }
        let cost = median(&costs);
        let file = sks.bytes()?.1;
        table.push(row("sks pbuild", built, &cost, Some(float(cost.peak_bytes)), Some(file)));
    }
    Ok(Results { name: "keyserver-tree", table })
}

fn row(work: &str, count: u64, cost: &Cost, bytes: Option<f64>, file: Option<f64>) -> Vec<Cell> {
    vec![
        work.into(),
        count.into(),
        cost.wall_s.into(),
        cost.cpu_s().into(),
        (1e6 * cost.cpu_s() / float(count)).into(),
        bytes.map(|bytes| bytes / 1e6).into(),
        bytes.map(|bytes| bytes / float(count)).into(),
        file.map(|bytes| bytes / 1e6).into(),
    ]
}

/// Memory of this process that is in no file.
fn anonymous_bytes() -> f64 {
    float(memory(std::process::id(), "RssAnon:").unwrap_or(0))
}
