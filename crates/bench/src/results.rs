//! Where results are kept: for each measurement one CSV file, its notes, and its pictures.
//!
//! `NAME.csv` has the figures, `NAME.txt` the title and then a note in each line, `NAME.svg` and
//! `NAME-SUFFIX.svg` are drawn from the first. So everything can be drawn again without measuring.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::BenchError;
use crate::pictures;
use crate::table::Table;

/// Writes a table and its pictures into `folder`, if there is one.
pub(crate) fn save(folder: Option<&Path>, name: &str, table: &Table) -> Result<(), BenchError> {
    let Some(folder) = folder else { return Ok(()) };
    fs::create_dir_all(folder).map_err(BenchError::io("make", folder))?;
    let path = folder.join(format!("{name}.csv"));
    let mut csv = Vec::new();
    table.csv(&mut csv).map_err(BenchError::io("write", &path))?;
    fs::write(&path, csv).map_err(BenchError::io("write", &path))?;
    let path = folder.join(format!("{name}.txt"));
    let notes = table.notes.join("\n");
    let text = format!("{}\n{notes}\n{}\n", table.title, machine(folder));
    fs::write(&path, text).map_err(BenchError::io("write", &path))?;
    draw(folder, name, table).map(drop)
}

/// Draws the pictures of a table into `folder`, and returns them with their file names.
pub(crate) fn draw(
    folder: &Path,
    name: &str,
    table: &Table,
) -> Result<Vec<(String, String)>, BenchError> {
    let mut drawn = Vec::new();
    for (suffix, picture) in pictures::of(name, table) {
        let dash = if suffix.is_empty() { "" } else { "-" };
        let file = format!("{name}{dash}{suffix}.svg");
        let path = folder.join(&file);
        let svg = picture.svg();
        fs::write(&path, &svg).map_err(BenchError::io("write", &path))?;
        drawn.push((file, svg));
    }
    Ok(drawn)
}

/// Reads a table that was saved, with its notes if they are there.
pub(crate) fn load(folder: &Path, name: &str) -> Result<Table, BenchError> {
    let path = folder.join(format!("{name}.csv"));
    let csv = fs::read_to_string(&path).map_err(BenchError::io("read", &path))?;
    let mut table = Table::from_csv(&csv).ok_or(BenchError::Csv { path })?;
    name.clone_into(&mut table.title);
    if let Ok(text) = fs::read_to_string(folder.join(format!("{name}.txt"))) {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        if let Some(title) = lines.next() {
            title.clone_into(&mut table.title);
        }
        table.notes = lines.map(str::to_owned).collect();
    }
    Ok(table)
}

/// When, on which machine and by which code something is measured.
fn machine(folder: &Path) -> String {
    let date = Command::new("date").args(["-u", "+%F"]).output().ok();
    let date = date.and_then(|output| String::from_utf8(output.stdout).ok());
    let date = date.as_deref().map_or("an unknown date", str::trim);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let of = |file: &str, field: &str| -> Option<String> {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(field))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let processor = of("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".into());
    let memory = of("/proc/meminfo", "MemTotal")
        .and_then(|text| text.split(' ').next()?.parse::<u64>().ok())
        .map_or(String::new(), |kib| format!(", {} GiB of memory", (kib + (1 << 19)) >> 20));
    let code = commit(folder).map_or(String::new(), |commit| format!(" Commit {commit}."));
    format!("Measured on {date}: {cores} cores ({processor}){memory}.{code}")
}

/// The commit of the checkout that has `folder`, with a `+` if files that git tracks have changed
/// since.
///
/// `scripts/table-ages` compares it with the code.
fn commit(folder: &Path) -> Option<String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(folder).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no", "--", ":/crates"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}+") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_results_load_and_draw_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let mut table = Table::new("Keys", &["work", "talaria CPU s", "gpg 2.2 CPU s"]);
        table.note("On a keyring.");
        table.push(vec!["import".into(), 0.25.into(), 25.5.into()]);
        save(Some(folder.path()), "keydb", &table).unwrap();
        let loaded = load(folder.path(), "keydb").unwrap();
        assert_eq!((loaded.title.as_str(), loaded.notes[0].as_str()), ("Keys", "On a keyring."));
        assert!(loaded.notes[1].starts_with("Measured on 2"), "{:?}", loaded.notes);
        assert!(!loaded.notes[1].contains("Commit"), "the folder is in no checkout");
        assert_eq!(loaded.rows, table.rows);
        let before = fs::read_to_string(folder.path().join("keydb.svg")).unwrap();
        assert!(before.contains(">102×<"), "{before}");
        let again = draw(folder.path(), "keydb", &loaded).unwrap();
        assert_eq!(again, [("keydb.svg".to_owned(), before)]);
    }

    #[test]
    fn a_table_in_a_checkout_names_its_commit() {
        let folder = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(folder.path()).args(["-c", "user.name=n", "-c", "user.email=e@e"]);
            assert!(git.args(args).output().unwrap().status.success(), "{args:?}");
        };
        git(&["init", "-q"]);
        fs::create_dir(folder.path().join("crates")).unwrap();
        fs::write(folder.path().join("crates/a"), "a").unwrap();
        git(&["add", "crates/a"]);
        git(&["commit", "-q", "-m", "first"]);
        let clean = commit(folder.path()).unwrap();
        assert_eq!(clean.len(), 12, "{clean}");
        fs::write(folder.path().join("crates/a"), "b").unwrap();
        assert_eq!(commit(folder.path()), Some(format!("{clean}+")));
    }
}
