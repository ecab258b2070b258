//! The dependencies of crates in `ARCHITECTURE.md` must agree with the manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

#[test]
fn the_table_of_crates_agrees_with_the_manifests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let named = |cell: &str| -> BTreeSet<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let documented: BTreeMap<String, BTreeSet<String>> = text
        .lines()
        .filter(|line| line.starts_with("| `") && line.matches('|').count() == 5)
        .map(|line| {
            let cells: Vec<&str> = line.split('|').collect();
            (named(cells[1]).pop_first().unwrap(), named(cells[4]))
        })
        .collect();
    let mut actual = BTreeMap::new();
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let dependencies = manifest.split("\n[dependencies]\n").nth(1).unwrap();
        let dependencies = dependencies.split("\n[").next().unwrap();
        let uses = dependencies.lines().filter_map(|line| {
            let name = line.split(['.', ' ', '=']).next()?;
            name.strip_prefix("talaria-").or(Some(name).filter(|name| *name == "talaria"))
        });
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        actual.insert(name, uses.map(str::to_owned).collect::<BTreeSet<_>>());
    }
    assert_eq!(documented, actual);
}
