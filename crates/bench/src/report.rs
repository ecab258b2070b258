//! One page with all tables and pictures of what has been measured.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::BenchError;
use crate::page::page;
use crate::plot::escaped;
use crate::table::{Cell, Table};
use crate::{pictures, results};

/// The measurements in the order of the page, each with the command that makes them.
const ORDER: [(&str, &str); 22] = [
    ("keydb", "talaria bench keydb"),
    ("scale", "talaria bench scale"),
    ("storage", "talaria bench storage"),
    ("keyserver-build", "talaria bench keyserver"),
    ("keyserver-tree", "talaria bench keyserver"),
    ("keyserver-lookups", "talaria bench keyserver"),
    ("keyserver-uploads", "talaria bench keyserver"),
    ("keyserver-gossip", "talaria bench keyserver"),
    ("messages-bulk", "talaria bench messages"),
    ("messages-small", "talaria bench messages"),
    ("messages-signatures", "talaria bench messages"),
    ("log-updates", "talaria bench log"),
    ("log-apart", "talaria bench log"),
    ("log-growth", "talaria bench log"),
    ("backup-many", "talaria bench backup"),
    ("backup-one", "talaria bench backup"),
    ("backup-tree", "talaria bench backup --tree FOLDER"),
    ("backup-profiles", "talaria bench backup"),
    ("backup-memory", "talaria bench backup --chunks 10000,100000,1000000"),
    ("trust-listing", "talaria bench trust"),
    ("trust-check", "talaria bench trust"),
    ("trust-growth", "talaria bench trust"),
];

/// What stands before the name of a table in a page of text, and behind it.
const MARK: (&str, &str) = ("<!-- table ", " -->");

/// The result.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Report {
    /// The page.
    pub page: PathBuf,
    /// The number of tables.
    pub tables: usize,
    /// The number of pictures.
    pub pictures: usize,
}

/// Draws all pictures of the results in `folder` again, and writes `report.html` and `summary.svg`
/// into it.
///
/// # Errors
///
/// [`BenchError::NoResults`] if there are none, else when a file cannot be read or written.
pub fn write(folder: &Path) -> Result<Report, BenchError> {
    let names = names(folder)?;
    let tables: Result<Vec<(String, Table)>, BenchError> = names
        .into_iter()
        .map(|name| results::load(folder, &name).map(|table| (name, table)))
        .collect();
    let tables = tables?;
    let of = |wanted: &str| tables.iter().find(|(name, _)| name == wanted).map(|(_, table)| table);
    let mut count = 0;
    let summary = pictures::summary(of);
    let summary = summary.map(|picture| picture.svg());
    if let Some(svg) = &summary {
        let path = folder.join("summary.svg");
        fs::write(&path, svg).map_err(BenchError::io("write", &path))?;
        count += 1;
    }
    let mut contents = String::new();
    let mut sections = String::new();
    for (name, table) in &tables {
        let drawn = results::draw(folder, name, table)?;
        count += drawn.len();
        let _ = writeln!(contents, "<a href=\"#{name}\">{}</a>", escaped(&table.title));
        section(&mut sections, name, table, &drawn);
    }
    let summary = summary.map_or(String::new(), |svg| format!("<figure>{svg}</figure>\n"));
    let content = format!(
        "<h1>talaria: benchmarks</h1>\n\
         <p>Every table is one run of <code>talaria bench</code> on one machine, all programs of it \
         in the same run. Compare ratios and CPU time rather than wall time.</p>\n\
         {summary}<nav>\n{contents}</nav>\n{sections}"
    );
    let page = page("talaria: benchmarks", &content);
    let path = folder.join("report.html");
    fs::write(&path, page).map_err(BenchError::io("write", &path))?;
    Ok(Report { page: path, tables: tables.len(), pictures: count })
}

/// Writes the tables of the results in `folder` into `page`, each after its mark.
///
/// A mark is a line `<!-- table NAME -->`. What stands in the block of text after it is replaced by
/// the table `NAME`, as the measurement prints it. Returns the number of tables.
///
/// # Errors
///
/// [`BenchError::Page`] if a mark has no block after it, or a result of the folder has no mark;
/// else when a file cannot be read or written.
pub fn fill(folder: &Path, page: &Path) -> Result<usize, BenchError> {
    let wrong = |what: String| BenchError::Page { page: page.to_owned(), what };
    let text = fs::read_to_string(page).map_err(BenchError::io("read", page))?;
    let mut missing = names(folder)?;
    let mut tables = 0;
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(out, "{line}");
        let name = line.strip_prefix(MARK.0).and_then(|rest| rest.strip_suffix(MARK.1));
        let Some(name) = name else { continue };
        if lines.next() != Some("```text") || !lines.any(|line| line == "```") {
            return Err(wrong(format!("has no block of text after the mark of {name}")));
        }
        let mut printed = Vec::new();
        let table = results::load(folder, name)?;
        table.print(&mut printed).map_err(BenchError::Output)?;
        let printed = String::from_utf8_lossy(&printed);
        let _ = writeln!(out, "```text\n{}\n```", printed.trim_end());
        missing.retain(|other| other != name);
        tables += 1;
    }
    if let Some(name) = missing.first() {
        let (before, behind) = MARK;
        return Err(wrong(format!("has no line `{before}{name}{behind}`")));
    }
    fs::write(page, out).map_err(BenchError::io("write", page))?;
    Ok(tables)
}

/// The names of all results in a folder, known ones first.
fn names(folder: &Path) -> Result<Vec<String>, BenchError> {
    let entries = fs::read_dir(folder).map_err(BenchError::io("read", folder))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".csv")?.to_owned()))
        .collect();
    if names.is_empty() {
        return Err(BenchError::NoResults { folder: folder.to_owned() });
    }
    let place = |name: &str| ORDER.iter().position(|(known, _)| *known == name);
    names.sort_by_key(|name| (place(name).unwrap_or(ORDER.len()), name.clone()));
    Ok(names)
}

fn section(out: &mut String, name: &str, table: &Table, drawn: &[(String, String)]) {
    let title = escaped(&table.title);
    let _ = writeln!(out, "<section id=\"{name}\">\n<h2>{title}</h2>");
    for (_, svg) in drawn {
        let _ = writeln!(out, "<figure>{svg}</figure>");
    }
    for note in &table.notes {
        let _ = writeln!(out, "<p class=\"soft\">{}</p>", escaped(note));
    }
    out.push_str("<div class=\"table\"><table>\n<tr>");
    for column in &table.columns {
        let _ = write!(out, "<th>{}</th>", escaped(column));
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for cell in row {
            let class = match cell {
                Cell::Text(_) => " class=\"text\"",
                Cell::Ratio(_) => " class=\"times\"",
                _ => "",
            };
            let _ = write!(out, "<td{class}>{}</td>", escaped(&cell.to_string()));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
    let made = ORDER.iter().find(|(known, _)| *known == name);
    let made =
        made.map_or(String::new(), |(_, command)| format!("Made by <code>{command}</code>. "));
    let _ = writeln!(
        out,
        "<p class=\"soft\">{made}<a href=\"{name}.csv\">All figures as CSV</a></p>\n</section>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_table_and_picture() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("keydb.csv"),
            "work,talaria CPU s,gpg CPU s,gpg / talaria CPU\r\n\
             import into an empty store,0.5,64,128\r\n\"<b>, odd\",1,,\r\n",
        )
        .unwrap();
        fs::write(folder.path().join("keydb.txt"), "A keyring & more\n905 certificates.\n")
            .unwrap();
        fs::write(folder.path().join("other.csv"), "work,CPU s\r\nx,1.5\r\n").unwrap();
        let report = write(folder.path()).unwrap();
        assert_eq!((report.tables, report.pictures), (2, 2));
        let page = fs::read_to_string(&report.page).unwrap();
        for text in [
            "A keyring &amp; more",
            "905 certificates.",
            "<td class=\"times\">128x</td>",
            "&lt;b&gt;, odd",
            ">128×<",
            "<section id=\"other\">",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert!(
            folder.path().join("summary.svg").exists() && folder.path().join("keydb.svg").exists()
        );
    }

    #[test]
    fn a_page_of_text_gets_each_table_after_its_mark() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        fs::write(folder.path().join("keydb.csv"), "work,talaria CPU s\r\nimport,0.5\r\n").unwrap();
        fs::write(folder.path().join("keydb.txt"), "Keys\nOn a keyring.\n").unwrap();
        let block = |text: &str| format!("A\n<!-- table keydb -->\n```text\n{text}```\nB\n");
        let table = "Keys\n\nOn a keyring.\n\n        talaria\nwork      CPU s\n------  -------\n\
                     import    0.500\n";
        for before in ["", "old\n\nlines\n", table] {
            fs::write(&page, block(before)).unwrap();
            assert_eq!(fill(folder.path(), &page).unwrap(), 1);
            assert_eq!(fs::read_to_string(&page).unwrap(), block(table));
        }
        for wrong in [
            "A\n",
            "<!-- table keydb -->\nB\n",
            "<!-- table keydb -->\n```text\n",
            "<!-- table x -->",
        ] {
            fs::write(&page, wrong).unwrap();
            let error = fill(folder.path(), &page).unwrap_err();
            assert!(matches!(error, BenchError::Page { .. }), "{wrong}: {error}");
            assert_eq!(fs::read_to_string(&page).unwrap(), wrong);
        }
    }

    #[test]
    fn a_folder_without_results_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(write(folder.path()), Err(BenchError::NoResults { .. })));
        assert!(!folder.path().join("report.html").exists());
    }
}
