//! The documentation as a whole: links have targets, and every page can be reached from the README.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// All Markdown files in a folder and below.
fn pages(folder: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.insert(path);
        }
    }
}

/// The files to which links and pictures of a page lead, with the part after `#`.
fn links(text: &str) -> Vec<(String, Option<String>)> {
    let mut code = false;
    let mut found = Vec::new();
    for line in text.lines() {
        code ^= line.trim_start().starts_with("```");
        if code || line.starts_with("    ") {
            continue;
        }
        for rest in line.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            if target.contains("://") {
                continue;
            }
            let (path, anchor) = match target.split_once('#') {
                Some((path, anchor)) => (path, Some(anchor.to_owned())),
                None => (target, None),
            };
            found.push((path.to_owned(), anchor));
        }
    }
    found
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(text: &str) -> Vec<String> {
    let heading = |line: &str| {
        let title = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        Some(kept.collect::<String>().to_lowercase().replace(' ', "-"))
    };
    text.lines().filter_map(heading).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut all = BTreeSet::new();
    pages(&root().join("docs"), &mut all);
    for name in ["README.md", "SECURITY.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"] {
        all.insert(root().join(name));
    }
    let mut links_seen = 0;
    for page in &all {
        let text = fs::read_to_string(page).unwrap();
        for (path, anchor) in links(&text) {
            let target =
                if path.is_empty() { page.clone() } else { page.parent().unwrap().join(&path) };
            assert!(target.exists(), "{}: {path}", page.display());
            if let (Some(anchor), true) = (&anchor, target.extension().is_some_and(|e| e == "md")) {
                let headings = anchors(&fs::read_to_string(&target).unwrap());
                assert!(headings.contains(anchor), "{}: {path}#{anchor}", page.display());
            }
            links_seen += 1;
        }
    }
    assert!(links_seen > 60, "{links_seen}");
}

#[test]
fn every_page_is_reached_from_the_readme() {
    let mut reached = BTreeSet::new();
    let mut next = vec![root().join("README.md")];
    while let Some(page) = next.pop() {
        if !reached.insert(page.clone()) {
            continue;
        }
        let text = fs::read_to_string(&page).unwrap();
        for (path, _) in links(&text) {
            let target = page.parent().unwrap().join(path);
            if target.extension().is_some_and(|extension| extension == "md") {
                next.push(fs::canonicalize(&target).unwrap());
            }
        }
    }
    let mut all = BTreeSet::new();
    pages(&root().join("docs"), &mut all);
    let missing: Vec<_> = all.difference(&reached).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
