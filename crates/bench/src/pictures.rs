//! The pictures of each table.
//!
//! A picture is made of a table alone, so that results of before are drawn again without measuring.

use crate::plot::{
    Axis, Bars, Body, Colour, Factor, Lines, Panel, Picture, Scale, Series, Unit, number,
};
use crate::table::Table;

/// The note on pictures in which bars of two rows cannot be compared.
const EACH: &str = "Each row has a scale of its own.";

/// The pictures of the table that is kept as `name`, each with what its file name has behind that.
pub(crate) fn of(name: &str, table: &Table) -> Vec<(&'static str, Picture)> {
    let pictures = match name {
        "keydb" => vec![("", keydb(table))],
        "storage" => vec![("", storage(table))],
        "scale" => vec![("builds", scale_builds(table)), ("lookups", scale_lookups(table))],
        "keyserver-build" => vec![("", server_build(table)), ("growth", server_growth(table))],
        "keyserver-tree" => vec![("", server_tree(table))],
        "keyserver-lookups" => {
            vec![("", server_lookups(table)), ("latency", server_latency(table))]
        }
        "keyserver-uploads" => vec![("", server_uploads(table))],
        "keyserver-gossip" => vec![("", server_gossip(table))],
        "messages-bulk" => vec![("", messages(table))],
        "messages-small" | "messages-signatures" => vec![("", rates(name, table))],
        "log-updates" => vec![("", log_updates(table))],
        "log-apart" => vec![("", log_apart(table))],
        "log-growth" => vec![("", log_growth(table))],
        "trust-listing" => {
            vec![("", trust(table, "Listing 500 certificates with trust on first use"))]
        }
        "trust-check" => vec![("", trust(table, "Checking the web of trust"))],
        "backup-many" => vec![("", trust(table, "Backup of many tiny files"))],
        "backup-one" => vec![("", trust(table, "Backup of one large file"))],
        "backup-tree" => vec![("", trust(table, "Backup of a source tree"))],
        "backup-profiles" => vec![("", backup_profiles(table))],
        "backup-memory" => vec![("", backup_memory(table))],
        "trust-growth" => vec![("", trust_growth(table))],
        _ => Vec::new(),
    };
    pictures.into_iter().filter_map(|(suffix, picture)| Some((suffix, picture?))).collect()
}

/// The picture of the project: what people wait for, with gpg and programs for backup beside
/// talaria.
///
/// `of` has the tables by their names, as far as they were measured.
pub(crate) fn summary<'a>(of: impl Fn(&str) -> Option<&'a Table>) -> Option<Picture> {
    let wanted = [
        ("keydb", "import into an empty store", "Import a keyring"),
        ("keydb", "import the same again", "Import a keyring again"),
        ("keydb", "list all with signatures", "List with signatures"),
        ("keydb", "list all", "List with validity"),
        ("keydb", "find: fingerprint", "Find one certificate"),
        ("trust-check", "check from nothing", "Check the web of trust"),
        ("trust-listing", "list, tofu, the first time", "First listing with TOFU *"),
        ("backup-one", "first run", "Back up one large file"),
        ("backup-many", "first run", "Back up 102,400 tiny files"),
        ("backup-tree", "first run", "Back up a source tree"),
    ];
    let name = |name: &str| Series { name: name.into(), ..Series::default() };
    let mut bars = Bars {
        series: vec![name("talaria"), name(""), name("best of restic, borg, duplicity")],
        unit: Unit::Seconds,
        scale: Scale::Each,
        factor: Some(Factor { of: 1, to: 0, name: "less CPU time".into() }),
        ..Bars::default()
    };
    let (mut has_tofu, mut has_backup) = (false, false);
    for (table, row, place) in wanted {
        let Some(data) = of(table) else { continue };
        let sides = sides(data);
        let Some(at) = data.rows.iter().position(|cells| cells[0].to_string() == row) else {
            continue;
        };
        let is_backup = table.starts_with("backup");
        let theirs = if is_backup {
            // rsync neither encrypts nor keeps versions.
            let others = sides.iter().filter(|side| {
                ["restic", "borg", "duplicity"].iter().any(|name| side.name.starts_with(name))
            });
            (None, others.filter_map(|side| side.figures[at]).reduce(f64::min))
        } else {
            if let Some(gpg) = sides.get(1).filter(|gpg| gpg.name.len() > bars.series[1].name.len())
            {
                bars.series[1].name.clone_from(&gpg.name);
            }
            (sides.get(1).and_then(|gpg| gpg.figures[at]), None)
        };
        let ours = sides.first().and_then(|ours| ours.figures[at]);
        if ours.is_none() || (theirs.0.is_none() && theirs.1.is_none()) {
            continue;
        }
        has_tofu |= row.contains("tofu");
        has_backup |= is_backup;
        bars.places.push(place.to_owned());
        for (series, figure) in bars.series.iter_mut().zip([ours, theirs.0, theirs.1]) {
            series.figures.push(figure);
        }
    }
    if bars.places.is_empty() {
        return None;
    }
    if !has_backup {
        bars.series.pop();
    }
    // The first sentence of the notes, without the folder of the keyring.
    let data = of("keydb").and_then(|table| table.notes.first()).map(|note| {
        let sentence = note.split(". ").next().unwrap_or(note);
        sentence.rsplit('/').next().unwrap_or(sentence).trim_end_matches('.').to_owned()
    });
    let foot = if has_tofu { "* 500 certificates.  " } else { "" };
    Some(Picture {
        title: "The same work, with talaria and with others".into(),
        subtitle: vec![
            data.unwrap_or_else(|| "One keyring".into()),
            format!("CPU time, those of a row in the same run; less is better. {EACH}"),
        ],
        panels: vec![Panel::new(Body::Bars(bars.sorted_by_factor()))],
        columns: 1,
        foot: format!("{foot}All tables: docs/benchmarks.md. Measured with `talaria bench`."),
    })
}

/// The columns `NAME CPU s`, as series.
fn sides(table: &Table) -> Vec<Series> {
    table
        .columns
        .iter()
        .filter_map(|column| {
            let name = column.strip_suffix(" CPU s")?;
            Some(Series { name: name.to_owned(), figures: table.column(column)? })
        })
        .collect()
}

fn places(table: &Table) -> Vec<String> {
    table.rows.iter().map(|row| row[0].to_string()).collect()
}

/// A picture of one panel.
fn single(title: &str, subtitle: &str, body: Body) -> Picture {
    Picture {
        title: title.to_owned(),
        subtitle: vec![subtitle.to_owned()],
        panels: vec![Panel::new(body)],
        columns: 1,
        foot: String::new(),
    }
}

/// All work that at least two sides did, by the factor between the first two.
fn against(table: &Table) -> Option<Bars> {
    let series = sides(table);
    let both: Vec<usize> = (0..table.rows.len())
        .filter(|&at| series.iter().filter(|side| side.figures[at].is_some()).count() > 1)
        .collect();
    if both.is_empty() {
        return None;
    }
    let all = places(table);
    let bars = Bars {
        places: both.iter().map(|&at| all[at].clone()).collect(),
        series: series
            .into_iter()
            .map(|side| Series {
                figures: both.iter().map(|&at| side.figures[at]).collect(),
                name: side.name,
            })
            .collect(),
        unit: Unit::Seconds,
        scale: Scale::Each,
        factor: Some(Factor { of: 1, to: 0, name: "less CPU time".into() }),
        ..Bars::default()
    };
    Some(bars.sorted_by_factor())
}

fn keydb(table: &Table) -> Option<Picture> {
    let mut bars = against(table)?;
    for place in &mut bars.places {
        if let Some(form) = place.strip_prefix("find: ") {
            *place = format!("find by {form}");
        }
    }
    let subtitle = format!("CPU time of whole processes; less is better. {EACH}");
    Some(single("A keyring: import, listing, look-ups", &subtitle, Body::Bars(bars)))
}

fn trust(table: &Table, title: &str) -> Option<Picture> {
    let subtitle = format!("CPU time of whole processes; less is better. {EACH}");
    Some(single(title, &subtitle, Body::Bars(against(table)?)))
}

fn backup_profiles(table: &Table) -> Option<Picture> {
    let mut bars = against(table)?;
    let place = |name: &str| bars.series.iter().position(|side| side.name == name);
    let (of, to) = (place("rfc9580")?, place("none")?);
    bars.factor = Some(Factor { of, to, name: "rfc9580 / none".into() });
    let subtitle = format!("CPU time by the format of messages; less is better. {EACH}");
    let body = Body::Bars(bars.sorted_by_factor());
    Some(single("Backup with and without encryption", &subtitle, body))
}

fn backup_memory(table: &Table) -> Option<Picture> {
    let series = ["first run", "restore", "check"].map(|task| {
        let figures = table.column(&format!("{task} peak MB"))?;
        Some(Series { name: task.to_owned(), figures })
    });
    let lines = Lines {
        places: table.column("chunks")?.into_iter().flatten().collect(),
        across: "chunks in the repository".into(),
        series: series.into_iter().flatten().collect(),
        axis: Axis::Linear,
    };
    if lines.series.is_empty() {
        return None;
    }
    let subtitle = "Peak of anonymous memory in MB; less is better.";
    Some(single("Backup: memory has a limit", subtitle, Body::Lines(lines)))
}

fn trust_growth(table: &Table) -> Option<Picture> {
    let (counts, cpu_s) = (table.column("certificates")?, table.column("CPU s")?);
    let bars = grown(&places(table), &counts, &cpu_s)?;
    Some(single(
        "The web of trust as it grows",
        &format!("CPU time of whole processes, talaria alone; less is better. {EACH}"),
        Body::Bars(bars),
    ))
}

/// Each work with the fewest and with the most certificates.
fn grown(works: &[String], counts: &[Option<f64>], figures: &[Option<f64>]) -> Option<Bars> {
    let known = || counts.iter().flatten().copied();
    let (least, most) = (known().fold(f64::MAX, f64::min), known().fold(0.0, f64::max));
    let mut places: Vec<String> = Vec::new();
    for work in works {
        if !places.contains(work) {
            places.push(work.clone());
        }
    }
    let of = |place: &String, wanted: f64| {
        let is = |at: &usize| {
            works[*at] == *place && counts[*at].is_some_and(|count| (count - wanted).abs() < 0.5)
        };
        figures[(0..works.len()).find(is)?]
    };
    let several = most > least;
    let series = [least, most].into_iter().take(1 + usize::from(several)).map(|count| Series {
        name: format!("{} certificates", number(count)),
        figures: places.iter().map(|place| of(place, count)).collect(),
    });
    let series: Vec<Series> = series.collect();
    (!places.is_empty()).then(|| Bars {
        places,
        series,
        unit: Unit::Seconds,
        scale: if several { Scale::Each } else { Scale::Linear },
        factor: several.then(|| Factor { of: 1, to: 0, name: "as much CPU time".into() }),
        ..Bars::default()
    })
}

fn storage(table: &Table) -> Option<Picture> {
    let pages: Vec<String> =
        table.column("page KiB")?.iter().flatten().map(|kib| format!("{kib} KiB")).collect();
    let wanted = [
        ("build CPU s", "Build of all", "CPU time", Unit::Seconds),
        ("commit of 1 CPU us", "Durable commit of one", "CPU time, µs", Unit::None),
        ("size ratio", "Size", "store / certificates", Unit::None),
        ("get by fingerprint CPU us", "Get by fingerprint", "CPU time, µs", Unit::None),
        ("substring CPU us", "Find by a part of a name", "CPU time, µs", Unit::None),
        ("walk CPU us per cert", "Walk over all", "CPU time per certificate, µs", Unit::None),
    ];
    let panels: Vec<Panel> = wanted
        .into_iter()
        .filter_map(|(column, title, note, unit)| {
            let series = vec![Series { name: String::new(), figures: table.column(column)? }];
            let bars = Bars { places: pages.clone(), series, unit, ..Bars::default() };
            Some(Panel::new(Body::Bars(bars)).titled(title, note).narrow())
        })
        .collect();
    (!panels.is_empty()).then(|| Picture {
        title: "Page sizes of the store".into(),
        subtitle: vec!["Less is better. From 8 KiB up, pages hardly differ.".into()],
        panels,
        columns: 3,
        foot: String::new(),
    })
}

/// The numbers of certificates that are the columns of the table of growth.
fn sizes(table: &Table) -> Vec<(f64, String)> {
    let number = |name: &String| Some((name.replace(',', "").parse().ok()?, name.clone()));
    table.columns.iter().filter_map(number).collect()
}

/// A row of the table of growth.
fn grows(table: &Table, name: &str) -> Option<Vec<Option<f64>>> {
    let row = table.rows.iter().find(|row| row[0].to_string() == name)?;
    let columns = sizes(table);
    let at = |(_, name): &(f64, String)| {
        row[table.columns.iter().position(|column| column == name)?].number()
    };
    Some(columns.iter().map(at).collect())
}

fn scale_builds(table: &Table) -> Option<Picture> {
    let series = ["verified", "unverified"].map(|kind| {
        let figures = grows(table, &format!("build, {kind}: CPU us per certificate"))?;
        let name = match kind {
            "verified" => "every self-signature verified",
            _ => "no signature verified",
        };
        Some(Series { name: name.to_owned(), figures })
    });
    let lines = Lines {
        places: sizes(table).into_iter().map(|(count, _)| count).collect(),
        across: "certificates in the store".into(),
        series: series.into_iter().flatten().collect(),
        axis: Axis::Linear,
    };
    if lines.series.is_empty() {
        return None;
    }
    let subtitle = "CPU time per certificate in µs; less is better.";
    Some(single("Building a store: the cost of a certificate stays", subtitle, Body::Lines(lines)))
}

fn scale_lookups(table: &Table) -> Option<Picture> {
    let suffix = ": library, CPU us";
    let sizes = sizes(table);
    let (least, most) = (sizes.first()?, sizes.last()?);
    let mut bars = Bars {
        series: [least, most]
            .map(|(_, name)| Series { name: format!("{name} certificates"), figures: Vec::new() })
            .to_vec(),
        unit: Unit::Seconds,
        scale: Scale::Each,
        factor: Some(Factor { of: 1, to: 0, name: "as much CPU time".into() }),
        ..Bars::default()
    };
    for row in places(table) {
        let Some(form) = row.strip_suffix(suffix) else { continue };
        let Some(figures) = grows(table, &row) else { continue };
        bars.places.push(form.to_owned());
        for (series, figure) in bars.series.iter_mut().zip([figures.first(), figures.last()]) {
            series.figures.push(figure.copied().flatten().map(|us| us / 1e6));
        }
    }
    if bars.places.is_empty() {
        return None;
    }
    let subtitle = format!("CPU time of one look-up in the library, at most ten results. {EACH}");
    Some(single("One look-up, in a small and in a large store", &subtitle, Body::Bars(bars)))
}

/// One bar for each place, ours in the first colour.
fn ranked(bars: Vec<(String, f64, bool)>, unit: Unit) -> Body {
    let colour = |ours: bool| if ours { Colour::Series(0) } else { Colour::Rest };
    Body::Bars(Bars {
        colours: bars.iter().map(|(_, _, ours)| colour(*ours)).collect(),
        series: vec![Series {
            name: String::new(),
            figures: bars.iter().map(|(_, figure, _)| Some(*figure)).collect(),
        }],
        places: bars.into_iter().map(|(place, ..)| place).collect(),
        unit,
        ..Bars::default()
    })
}

fn server_build(table: &Table) -> Option<Picture> {
    let (counts, cpu_us) = (table.column("certificates")?, table.column("CPU us per key")?);
    let works = places(table);
    let compared = |work: &str| {
        let at = works.iter().position(|name| name == work)?;
        counts[at]
    };
    let count = compared("sks build").or_else(|| counts.first().copied().flatten())?;
    // The best page size of each.
    let best = |work: &str| {
        let of = |at: &usize| {
            works[*at] == work && counts[*at].is_some_and(|other| (other - count).abs() < 0.5)
        };
        (0..works.len()).filter(of).filter_map(|at| cpu_us[at]).min_by(f64::total_cmp)
    };
    let mut bars: Vec<(String, f64, bool)> = Vec::new();
    let ours = [
        (
            "talaria build --no-verify --no-trigrams",
            "talaria, the indexes of SKS, nothing verified",
        ),
        ("talaria build --no-verify", "talaria, all indexes, nothing verified"),
        ("talaria build", "talaria, every self-signature verified"),
    ];
    for (work, name) in ours {
        bars.extend(best(work).map(|figure| (name.to_owned(), figure, true)));
    }
    if let Some(build) = best("sks build") {
        bars.push(("sks build, nothing verified".into(), build, false));
        let both = best("sks pbuild").map(|tree| build + tree);
        bars.extend(both.map(|both| ("sks build, and sks pbuild for gossip".into(), both, false)));
    }
    if bars.is_empty() {
        return None;
    }
    bars.sort_by(|a, b| a.1.total_cmp(&b.1));
    Some(single(
        &format!("A keyserver from a dump of {} certificates", number(count)),
        "CPU time per certificate in µs, the best page size of each; less is better.",
        ranked(bars, Unit::Named("µs")),
    ))
}

fn server_growth(table: &Table) -> Option<Picture> {
    let (counts, cpu_us) = (table.column("certificates")?, table.column("CPU us per key")?);
    let pages = table.column("page KiB")?;
    let works = places(table);
    let is_16 = |at: usize| pages[at].is_some_and(|kib| (kib - 16.0).abs() < 0.5);
    let mut sizes: Vec<f64> =
        (0..works.len()).filter(|&at| is_16(at)).filter_map(|at| counts[at]).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let line = |work: &str, name: &str| {
        let at = |size: &f64| {
            let is = |at: &usize| {
                works[*at] == work
                    && is_16(*at)
                    && counts[*at].is_some_and(|count| (count - size).abs() < 0.5)
            };
            cpu_us[(0..works.len()).find(is)?]
        };
        Series { name: name.to_owned(), figures: sizes.iter().map(at).collect() }
    };
    let series = vec![
        line("talaria build", "every self-signature verified"),
        line("talaria build --no-verify", "no signature verified"),
    ];
    if sizes.len() < 2 {
        return None;
    }
    let lines = Lines {
        places: sizes,
        across: "certificates in the dump".into(),
        series,
        axis: Axis::Linear,
    };
    let subtitle = "talaria, CPU time per certificate in µs; less is better.";
    Some(single("A keyserver from a growing dump", subtitle, Body::Lines(lines)))
}

fn server_tree(table: &Table) -> Option<Picture> {
    let (counts, cpu_us) = (table.column("digests")?, table.column("CPU us per digest")?);
    let mut bars: Vec<(String, f64, bool)> = places(table)
        .into_iter()
        .enumerate()
        .filter_map(|(at, work)| {
            let ours = work.starts_with("talaria");
            let name = if ours { "talaria" } else { &work };
            let place = format!("{name}, {} digests", number(counts[at]?));
            Some((place, cpu_us[at]?, ours))
        })
        .collect();
    if bars.is_empty() {
        return None;
    }
    bars.sort_by(|a, b| a.1.total_cmp(&b.1));
    Some(single(
        "The prefix tree for gossip",
        "CPU time per digest in µs; less is better. talaria's is in memory, that of SKS on disk.",
        ranked(bars, Unit::Named("µs")),
    ))
}

/// A column of the table of look-ups, for one server and one number of certificates.
fn load(
    table: &Table,
    server: &str,
    count: f64,
    adding: bool,
    column: &str,
) -> Option<Vec<Option<f64>>> {
    let (counts, added) = (table.column("certificates")?, table.column("added per s")?);
    let figures = table.column(column)?;
    let at = |form: &String| {
        let is = |at: &usize| {
            let row = &table.rows[*at];
            row[0].to_string() == server
                && row[2].to_string() == *form
                && counts[*at].is_some_and(|other| (other - count).abs() < 0.5)
                && added[*at].is_some_and(|added| (added > 0.0) == adding)
        };
        figures[(0..table.rows.len()).find(is)?]
    };
    let found: Vec<Option<f64>> = lookup_forms(table).iter().map(at).collect();
    found.iter().any(Option::is_some).then_some(found)
}

fn lookup_forms(table: &Table) -> Vec<String> {
    let mut forms = Vec::new();
    for row in &table.rows {
        let form = row[2].to_string();
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

/// The least and the largest number of certificates that were served.
fn served(table: &Table) -> Option<(f64, f64)> {
    let counts: Vec<f64> = table.column("certificates")?.into_iter().flatten().collect();
    let least = counts.iter().copied().min_by(f64::total_cmp)?;
    let most = counts.iter().copied().max_by(f64::total_cmp)?;
    Some((least, most))
}

fn server_lookups(table: &Table) -> Option<Picture> {
    let (least, most) = served(table)?;
    let column = "requests per CPU second";
    let named = |server: &str, count: f64| {
        let name = format!("{server}, {} certificates", number(count));
        Some(Series { name, figures: load(table, server, count, false, column)? })
    };
    let mut series = vec![named("talaria", least)?];
    let theirs = named("SKS", least);
    let factor = theirs.is_some().then(|| Factor { of: 0, to: 1, name: "as many".into() });
    series.extend(theirs);
    if most > least {
        series.extend(named("talaria", most));
    }
    let bars =
        Bars { places: lookup_forms(table), series, scale: Scale::Each, factor, ..Bars::default() };
    let bars = if bars.factor.is_some() { bars.sorted_by_factor() } else { bars };
    let subtitle = format!(
        "Requests per CPU second of the server, over 8 connections; more is better. {EACH}"
    );
    Some(single("A keyserver answers look-ups", &subtitle, Body::Bars(bars)))
}

fn server_latency(table: &Table) -> Option<Picture> {
    let (least, _) = served(table)?;
    let column = "p99 ms";
    let wanted = [
        ("talaria", "talaria", false),
        ("SKS", "SKS", false),
        ("talaria", "talaria, 500 added per second", true),
        ("SKS", "SKS, 500 added per second", true),
    ];
    let series: Vec<Series> = wanted
        .into_iter()
        .filter_map(|(server, name, adding)| {
            let figures = load(table, server, least, adding, column)?;
            let figures = figures.into_iter().map(|ms| Some(ms? / 1e3)).collect();
            Some(Series { name: name.to_owned(), figures })
        })
        .collect();
    if series.is_empty() {
        return None;
    }
    let bars = Bars { places: lookup_forms(table), series, unit: Unit::Seconds, ..Bars::default() };
    Some(single(
        "How long 99 of 100 look-ups take at most",
        "At full load, in ms; less is better. Client and server share the machine.",
        Body::Bars(bars),
    ))
}

fn server_uploads(table: &Table) -> Option<Picture> {
    let (connections, rates) = (table.column("connections")?, table.column("added per s")?);
    let mut bars: Vec<(String, f64, bool)> = places(table)
        .into_iter()
        .enumerate()
        .filter_map(|(at, server)| {
            let ours = server == "talaria";
            let many = connections[at]?;
            let plural = if many > 1.0 { "connections" } else { "connection" };
            let what = if ours { "verified" } else { "not verified" };
            Some((format!("{server}, {many} {plural}: {what}"), rates[at]?, ours))
        })
        .collect();
    if bars.is_empty() {
        return None;
    }
    bars.sort_by(|a, b| b.1.total_cmp(&a.1));
    Some(single(
        "A keyserver takes uploads, one certificate each",
        "Certificates per second; more is better. talaria verifies and syncs before it answers, SKS \
         verifies nothing.",
        ranked(bars, Unit::Named("/s")),
    ))
}

fn server_gossip(table: &Table) -> Option<Picture> {
    let (counts, missing) = (table.column("certificates in common")?, table.column("not shared")?);
    let seconds = table.column("seconds")?;
    let bars: Vec<(String, f64, bool)> = places(table)
        .into_iter()
        .enumerate()
        .filter_map(|(at, servers)| {
            let ours = servers.starts_with("talaria");
            let name = if ours { "two talarias" } else { "two SKS" };
            let counts = [missing[at]?, counts[at]?].map(number);
            Some((format!("{name}, {} of {}", counts[0], counts[1]), seconds[at]?, ours))
        })
        .collect();
    if bars.is_empty() {
        return None;
    }
    Some(single(
        "Gossip until two servers are equal",
        "Wall time; less is better. SKS begins an exchange every six seconds.",
        ranked(bars, Unit::Seconds),
    ))
}

fn messages(table: &Table) -> Option<Picture> {
    let rates = table.column("MB/s at best")?;
    let rows: Vec<(String, f64, bool)> = places(table)
        .into_iter()
        .enumerate()
        .filter(|(_, name)| name != "cat" && !name.contains('|') && !name.contains("sink"))
        .filter_map(|(at, name)| {
            let ours = name.starts_with("talaria");
            Some((name, rates[at]?, ours))
        })
        .collect();
    let panel = |title: &str, decrypts: bool| {
        let mut rows: Vec<(String, f64, bool)> = rows
            .iter()
            .filter(|(name, ..)| name.contains("decrypt") == decrypts)
            .map(|(name, rate, ours)| (name.replace("decrypt ", ""), *rate, *ours))
            .collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        let panel = Panel::new(ranked(rows.clone(), Unit::Named("MB/s"))).titled(title, "");
        (!rows.is_empty()).then_some(panel)
    };
    let panels: Vec<Panel> =
        [panel("Encrypting", false), panel("Decrypting", true)].into_iter().flatten().collect();
    (!panels.is_empty()).then(|| Picture {
        title: "One large file".into(),
        subtitle: vec![
            "MB per second at best, whole processes, from and to files in memory; more is better."
                .into(),
        ],
        panels,
        columns: 1,
        foot: String::new(),
    })
}

fn rates(name: &str, table: &Table) -> Option<Picture> {
    let rates = table.column("per CPU s")?;
    let mut rows: Vec<(String, f64, bool)> = places(table)
        .into_iter()
        .enumerate()
        .filter(|(_, name)| !name.contains("making"))
        .filter_map(|(at, name)| {
            let ours = name.starts_with("talaria");
            Some((name, rates[at]?, ours))
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    let title = match name {
        "messages-small" => "Messages of 4 KiB",
        _ => "Detached Ed25519 signatures of 100 bytes",
    };
    let subtitle =
        "Per CPU second; more is better. talaria in this process, gpg a process for each.";
    Some(single(title, subtitle, ranked(rows, Unit::Named("/s"))))
}

fn log_updates(table: &Table) -> Option<Picture> {
    milliseconds(
        table,
        "CPU ms both",
        "Signed updates: made, stored, verified and read back",
        "CPU time of both nodes together; less is better.",
    )
}

fn log_apart(table: &Table) -> Option<Picture> {
    milliseconds(table, "CPU ms", "Before the first update", "CPU time; less is better.")
}

fn log_growth(table: &Table) -> Option<Picture> {
    let series = ["open ms", "open without index, ms"].map(|column| {
        let name = column.trim_end_matches(" ms").trim_end_matches(',').to_owned();
        Some(Series { name, figures: table.column(column)? })
    });
    let lines = Lines {
        places: table.column("updates")?.into_iter().flatten().collect(),
        across: "updates in the log".into(),
        series: series.into_iter().flatten().collect(),
        axis: Axis::Linear,
    };
    if lines.series.is_empty() {
        return None;
    }
    let subtitle = "Milliseconds until a log of this size is open; less is better.";
    Some(single("The log: opening it again", subtitle, Body::Lines(lines)))
}

/// Bars of a column in milliseconds, the shortest first.
fn milliseconds(table: &Table, column: &str, title: &str, subtitle: &str) -> Option<Picture> {
    let times = table.column(column)?;
    let mut rows: Vec<(String, f64, bool)> = places(table)
        .into_iter()
        .enumerate()
        .filter_map(|(at, name)| {
            let ours = name.starts_with("talaria");
            Some((name, times[at]? / 1000.0, ours))
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    rows.sort_by(|a, b| a.1.total_cmp(&b.1));
    Some(single(title, subtitle, ranked(rows, Unit::Seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results;

    /// The results that are in the repository.
    fn folder() -> std::path::PathBuf {
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks")
    }

    #[test]
    fn every_table_in_the_repository_has_a_picture() {
        let mut seen = 0;
        for entry in std::fs::read_dir(folder()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "csv") {
                continue;
            }
            let name = path.file_stem().unwrap().to_str().unwrap();
            let table = results::load(&folder(), name).unwrap();
            let pictures = of(name, &table);
            assert!(!pictures.is_empty(), "{name}");
            for (suffix, picture) in pictures {
                let svg = picture.svg();
                assert!(svg.matches("p-bar").count() > 2, "{name} {suffix}");
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{name} {suffix}");
            }
            seen += 1;
        }
        assert!(seen > 10, "{seen}");
    }

    #[test]
    fn the_summary_has_the_factors_of_the_tables() {
        let table = results::load(&folder(), "keydb").unwrap();
        let ratio = table.column("gpg / talaria CPU").unwrap()[0].unwrap();
        let svg = summary(|name| (name == "keydb").then_some(&table)).unwrap().svg();
        assert!(svg.contains(&format!(">{ratio:.0}×<")), "{ratio}");
        assert!(svg.contains("Import a keyring") && !svg.contains("TOFU") && !svg.contains("borg"));
        assert!(summary(|_| None).is_none());
    }

    #[test]
    fn the_summary_compares_a_backup_with_the_best_other_program() {
        let table = results::load(&folder(), "backup-tree").unwrap();
        let first = |name: &str| {
            let column = table
                .columns
                .iter()
                .find(|column| column.starts_with(name) && column.ends_with("CPU s"));
            table.column(column.unwrap()).unwrap()[0].unwrap()
        };
        let best = first("restic").min(first("borg")).min(first("duplicity"));
        let svg = summary(|name| (name == "backup-tree").then_some(&table)).unwrap().svg();
        assert!(svg.contains(&format!(">{:.1}×<", best / first("talaria"))), "{best}");
        assert!(svg.contains("Back up a source tree"));
    }
}
