//! Statistics of a store as an SVG picture.

use std::collections::BTreeMap;
use std::fmt::Display;

use talaria::{Statistics, day};
use talaria_bench::plot::{Bars, Body, Colour, Columns, Panel, Picture, Series, Unit};

/// The maximum number of bars; the rest is "other".
const BARS_MAX: usize = 8;

/// Draws the statistics of the stores `names` at `now` (seconds since 1970) as SVG.
pub(super) fn draw(names: &[String], counts: &Statistics, now: u32) -> String {
    let total = |count: u64, one: &str, many: &str| {
        format!("{} {}", grouped(count), if count == 1 { one } else { many })
    };
    let picture = Picture {
        title: format!(
            "{}: {}",
            names.join(", "),
            total(counts.certificates, "certificate", "certificates")
        ),
        subtitle: vec![format!(
            "{} · {} · {} · {} · {}",
            total(counts.user_ids, "user ID", "user IDs"),
            total(counts.subkeys, "subkey", "subkeys"),
            total(counts.signatures, "signature", "signatures"),
            bytes(counts.bytes),
            day(now),
        )],
        panels: sections(counts).into_iter().map(|section| section.panel).collect(),
        columns: 2,
        foot: "talaria stats --svg".into(),
    };
    picture.svg()
}

/// One distribution: a drawing, and all numbers behind it.
pub(super) struct Section {
    /// The drawing, with a title.
    pub(super) panel: Panel,
    /// The heading of the first column.
    pub(super) of: &'static str,
    /// All values with their counts. Rare ones are not added up, unlike in the drawing.
    pub(super) rows: Vec<(String, u64)>,
}

/// The distributions that have a value.
pub(super) fn sections(counts: &Statistics) -> Vec<Section> {
    let section = |panel: Option<Panel>, of, rows| Some(Section { panel: panel?, of, rows });
    let plain = |_: &str| Colour::Series(0);
    let sections = [
        section(
            bars("Validity", ranked(&counts.by_validity), &validity_colour),
            "validity",
            sorted(&counts.by_validity),
        ),
        section(
            bars("Version of the primary key", ranked(&counts.by_version), &plain),
            "version",
            sorted(&counts.by_version),
        ),
        section(
            bars("Algorithm of the primary key", ranked(&counts.by_algorithm), &plain),
            "algorithm",
            sorted(&counts.by_algorithm),
        ),
        section(
            bars("Algorithms of subkeys", ranked(&counts.by_subkey_algorithm), &plain),
            "algorithm",
            sorted(&counts.by_subkey_algorithm),
        ),
        section(
            columns("Created in", years(&counts.by_year), true),
            "year",
            in_order(&counts.by_year, &i32::to_string),
        ),
        section(
            columns("Expires or expired in", years(&counts.by_expiry_year), true),
            "year",
            in_order(&counts.by_expiry_year, &i32::to_string),
        ),
        section(
            columns("Size", powers(&counts.by_bytes, &bytes), false),
            "size",
            in_order(&counts.by_bytes, &|size| format!("< {}", bytes(*size))),
        ),
        section(
            columns("Signatures per certificate", powers(&counts.by_signatures, &grouped), false),
            "signatures",
            in_order(&counts.by_signatures, &|count| format!("< {}", grouped(*count))),
        ),
    ];
    sections.into_iter().flatten().collect()
}

/// Names with their counts, in descending order.
fn sorted<K: Display>(counts: &BTreeMap<K, u64>) -> Vec<(String, u64)> {
    let mut all = in_order(counts, &K::to_string);
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}

/// Values with their counts, in the order of the values.
fn in_order<K>(counts: &BTreeMap<K, u64>, name: &dyn Fn(&K) -> String) -> Vec<(String, u64)> {
    counts.iter().map(|(value, &count)| (name(value), count)).collect()
}

/// Names with their counts, in descending order; those after the first few are added up.
fn ranked<K: Display>(counts: &BTreeMap<K, u64>) -> Vec<(String, u64)> {
    let mut all = sorted(counts);
    if all.len() > BARS_MAX {
        let rest = all.split_off(BARS_MAX - 1);
        let sum = rest.iter().map(|(_, count)| count).sum();
        all.push((format!("other ({})", rest.len()), sum));
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "a picture")]
fn bars(title: &str, counts: Vec<(String, u64)>, colour: &dyn Fn(&str) -> Colour) -> Option<Panel> {
    if counts.is_empty() {
        return None;
    }
    let colour = |name: &str| if name.starts_with("other (") { Colour::Rest } else { colour(name) };
    let body = Body::Bars(Bars {
        colours: counts.iter().map(|(name, _)| colour(name)).collect(),
        series: vec![Series {
            name: String::new(),
            figures: counts.iter().map(|(_, count)| Some(*count as f64)).collect(),
        }],
        places: counts.into_iter().map(|(name, _)| name).collect(),
        unit: Unit::Share,
        ..Bars::default()
    });
    Some(Panel::new(body).titled(title, "").narrow())
}

fn validity_colour(name: &str) -> Colour {
    match name {
        "valid" => Colour::Good,
        "expired" => Colour::Warning,
        "revoked" => Colour::Bad,
        _ => Colour::Rest,
    }
}

fn columns(title: &str, counts: Vec<(String, f64)>, wide: bool) -> Option<Panel> {
    if counts.is_empty() {
        return None;
    }
    let panel = Panel::new(Body::Columns(Columns { counts })).titled(title, "");
    Some(if wide { panel } else { panel.narrow() })
}

/// The maximum number of years in a picture.
const YEARS_MAX: i32 = 40;

/// All years from the first to the last, including years without a certificate. Outliers, such as
/// keys that claim to be from 1970, become "earlier" and "later".
#[expect(clippy::cast_precision_loss, reason = "a picture")]
fn years(counts: &BTreeMap<i32, u64>) -> Vec<(String, f64)> {
    let mut counts = counts.clone();
    let (mut earlier, mut later) = (0, 0);
    while let (Some((&first, &few)), Some((&last, &many))) =
        (counts.first_key_value(), counts.last_key_value())
    {
        if last - first < YEARS_MAX {
            break;
        }
        if few <= many {
            earlier += few;
            counts.pop_first();
        } else {
            later += many;
            counts.pop_last();
        }
    }
    let (Some((&first, _)), Some((&last, _))) = (counts.first_key_value(), counts.last_key_value())
    else {
        return Vec::new();
    };
    let of = |year: i32| (year.to_string(), counts.get(&year).copied().unwrap_or(0) as f64);
    let outside = |name: &str, count: u64| (count > 0).then(|| (name.to_owned(), count as f64));
    outside("earlier", earlier)
        .into_iter()
        .chain((first..=last).map(of))
        .chain(outside("later", later))
        .collect()
}

/// All powers of two from the lowest to the highest.
#[expect(clippy::cast_precision_loss, reason = "a picture")]
fn powers(counts: &BTreeMap<u64, u64>, name: &dyn Fn(u64) -> String) -> Vec<(String, f64)> {
    let (Some((&first, _)), Some((&last, _))) = (counts.first_key_value(), counts.last_key_value())
    else {
        return Vec::new();
    };
    let all = std::iter::successors(Some(first.max(1)), |power| power.checked_mul(2));
    all.take_while(|&power| power <= last)
        .map(|power| {
            let count = counts.get(&power).copied().unwrap_or(0) as f64;
            (format!("< {}", name(power)), count)
        })
        .collect()
}

/// A number of bytes with its unit: 512 B, 2 KiB, 27.2 MiB.
#[expect(clippy::cast_precision_loss, reason = "three digits count")]
pub(super) fn bytes(count: u64) -> String {
    let units = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(size, _)| count >= *size) {
        Some((size, unit)) if count.is_multiple_of(size) => format!("{} {unit}", count / size),
        Some((size, unit)) => format!("{:.1} {unit}", count as f64 / size as f64),
        None => format!("{count} B"),
    }
}

/// A number with commas between groups of three digits.
pub(super) fn grouped(count: u64) -> String {
    talaria_bench::Cell::from(count).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_values_fold_into_one_bar() {
        let counts: BTreeMap<String, u64> =
            (1..=12u64).map(|n| (format!("rsa{n}"), if n == 3 { 900 } else { n })).collect();
        let ranked = ranked(&counts);
        assert_eq!(ranked.len(), BARS_MAX);
        assert_eq!(ranked[0], ("rsa3".to_owned(), 900));
        assert_eq!(ranked[BARS_MAX - 1].0, "other (5)");
        assert_eq!(
            ranked.iter().map(|(_, count)| count).sum::<u64>(),
            counts.values().sum::<u64>()
        );
    }

    #[test]
    fn years_have_no_gaps_unless_one_is_far_away() {
        let near = BTreeMap::from([(2001, 2), (2004, 1)]);
        assert_eq!(years(&near).len(), 4);
        let far = BTreeMap::from([(1970, 1), (2001, 9), (2004, 3), (2106, 1)]);
        let names: Vec<String> = years(&far).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["earlier", "2001", "2002", "2003", "2004", "later"]);
    }

    #[test]
    fn the_title_names_the_store_and_its_total() {
        let counts = Statistics {
            certificates: 1234,
            by_validity: BTreeMap::from([("valid", 1000), ("revoked", 234)]),
            ..Statistics::default()
        };
        let svg = draw(&["a<b.db".to_owned()], &counts, 1_795_223_179);
        assert!(
            svg.contains("a&lt;b.db: 1,234 certificates") && svg.contains("2026-11-21"),
            "{svg}"
        );
        assert!(svg.contains("p-good p-bar") && svg.contains("p-bad p-bar"));
        assert!(!svg.contains("Created in"));
    }
}
