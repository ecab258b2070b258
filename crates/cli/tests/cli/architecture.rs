//! `ARCHITECTURE.md` and the drawings of the server must agree with the manifests and the files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

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

/// The file that the map calls `store/open.rs`, which stands for `crates/store/src/open.rs`, or by
/// its path.
fn file_of(name: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let in_crate = name.split_once('/').map(|(first, rest)| format!("crates/{first}/src/{rest}"));
    let mut paths = in_crate.into_iter().chain([name.to_owned()]).map(|path| root.join(path));
    paths.find(|path| path.exists())
}

#[test]
fn all_files_and_items_of_the_map_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (mut files, mut items) = (0, 0);
    for prose in text.split("```").step_by(2) {
        // What stands between backticks is at the odd places.
        let parts: Vec<&str> = prose.split('`').collect();
        for at in (1..parts.len()).step_by(2) {
            let name = parts[at];
            if !name.contains('/') || name.contains([' ', '\n']) || name.contains("NAME") {
                continue;
            }
            let path = file_of(name).unwrap_or_else(|| panic!("{name} is not there"));
            files += 1;
            // An item stands before its file: `Store` (`store/store.rs`).
            if at > 2 && parts[at - 1].trim() == "(" && path.is_file() {
                let item = parts[at - 2].rsplit("::").next().unwrap();
                let text = fs::read_to_string(&path).unwrap();
                let kinds = ["const", "enum", "fn", "static", "struct", "trait"];
                let mut kinds = kinds.iter().map(|kind| format!("{kind} {item}"));
                assert!(kinds.any(|definition| text.contains(&definition)), "{item}: {name}");
                items += 1;
            }
        }
    }
    assert!(files > 150 && items > 100, "{files} files, {items} items");
}

/// Modules and the modules that each one names: `gossip::peers` names `config`.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_files_of_a_crate_use_each_other_in_a_circle() {
    let (files, uses) = server();
    assert!(files.len() > 60 && files.contains_key("gossip::peers"), "{:?}", files.keys());
    assert!(uses["router"].contains("hkp::lookup") && uses["page"].contains("page::frame"));
    let crates = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
    let mut count = 0;
    for entry in crates {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let (_, uses) = modules_of(&name);
        assert_eq!(circles(&uses), Vec::<BTreeSet<String>>::new(), "{name}");
        count += 1;
    }
    assert!(count > 20, "only {count} crates");
}

#[test]
fn a_circle_between_files_is_found() {
    let files = [
        ("a", "use crate::{b::{self, X}, d};\nfn f() {}"),
        ("b", "mod c;\nfn f() { c::g() }"),
        ("b::c", "fn g() { super::super::a::f() }"),
        ("d", "/// See crate::a.\nfn g() {}\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n"),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    let circle = ["a", "b", "b::c"].map(str::to_owned).into();
    assert_eq!(circles(&uses(&files)), [circle]);
}

/// The text of each module, by its path in the crate.
fn read_modules(folder: &Path, parent: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let inner = if parent.is_empty() { name.to_owned() } else { format!("{parent}::{name}") };
        if path.is_dir() {
            read_modules(&path, &inner, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let module = match name {
                "mod" => parent.to_owned(),
                "lib" => String::new(),
                _ => inner,
            };
            files.insert(module, fs::read_to_string(&path).unwrap());
        }
    }
}

/// The modules that each module names, in imports and elsewhere, outside of tests and comments.
fn uses(files: &BTreeMap<String, String>) -> Uses {
    let mut all = Uses::new();
    for (module, text) in files {
        let tests = ["#[cfg(test)]\nmod tests", "#[cfg(test)]\npub(crate) mod tests"];
        let end = tests.iter().filter_map(|start| text.find(start)).min().unwrap_or(text.len());
        let text = &text[..end];
        let paths = paths(&without_comments(text));
        let named = paths.into_iter().filter_map(|path| named(files, module, &path));
        let named = named.filter(|named| named != module).collect();
        all.insert(module.clone(), named);
    }
    all
}

fn without_comments(text: &str) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// All paths in a text. Those in braces are added to the path before the braces.
fn paths(code: &str) -> Vec<Vec<String>> {
    let (mut all, mut path) = (Vec::new(), Vec::new());
    // The path before each open brace, empty where the brace is none of a path.
    let mut outer: Vec<Vec<String>> = Vec::new();
    let mut rest = code;
    let mut is_after_colons = false;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if word > 0 {
            if !is_after_colons {
                all.push(std::mem::replace(&mut path, outer.last().cloned().unwrap_or_default()));
            }
            path.push(rest[..word].to_owned());
            (rest, is_after_colons) = (&rest[word..], false);
        } else if let Some(behind) = rest.strip_prefix("::") {
            (rest, is_after_colons) = (behind, true);
        } else {
            match first {
                '{' if is_after_colons => outer.push(path.clone()),
                '{' => outer.push(Vec::new()),
                '}' => drop(outer.pop()),
                _ => {}
            }
            (rest, is_after_colons) = (&rest[first.len_utf8()..], false);
        }
    }
    all.push(path);
    all
}

/// The module that a path in `module` names, if it names one of the crate.
fn named(files: &BTreeMap<String, String>, module: &str, path: &[String]) -> Option<String> {
    if path.len() < 2 {
        return None;
    }
    let mut at: Vec<&str> = module.split("::").filter(|name| !name.is_empty()).collect();
    let mut names = path.iter().map(String::as_str).peekable();
    let is_relative = |name: &&str| matches!(*name, "crate" | "super" | "self");
    if names.peek().is_some_and(is_relative) {
        while let Some(name) = names.next_if(is_relative) {
            match name {
                "crate" => at.clear(),
                "super" => drop(at.pop()),
                _ => {}
            }
        }
    } else {
        // A module inside of this one.
        let child = [&at[..], &[*names.peek()?]].concat().join("::");
        if !files.contains_key(&child) {
            return None;
        }
    }
    for name in names {
        let inner = [&at[..], &[name]].concat().join("::");
        if !files.contains_key(&inner) {
            break;
        }
        at.push(name);
    }
    Some(at.join("::")).filter(|found| files.contains_key(found))
}

/// The sets of modules that reach each other.
fn circles(uses: &Uses) -> Vec<BTreeSet<String>> {
    let reached = |from: &String| {
        let mut all = BTreeSet::new();
        let mut waiting: Vec<&String> = uses[from].iter().collect();
        while let Some(next) = waiting.pop() {
            if all.insert(next) {
                waiting.extend(&uses[next]);
            }
        }
        all
    };
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        uses.keys().map(|module| (module, reached(module))).collect();
    let mut circles: Vec<BTreeSet<String>> = Vec::new();
    for (&module, reached) in &reach {
        if !reached.contains(module) || circles.iter().any(|circle| circle.contains(module)) {
            continue;
        }
        let back = reached.iter().filter(|other| reach[**other].contains(module));
        circles.push(back.map(|&other| other.clone()).collect());
    }
    circles
}

/// The modules of the server, and what each of them uses.
fn server() -> (BTreeMap<String, String>, Uses) {
    modules_of("server")
}

/// The modules of a crate, by the name of its folder, and what each of them uses.
fn modules_of(name: &str) -> (BTreeMap<String, String>, Uses) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let mut files = BTreeMap::new();
    read_modules(&source, "", &mut files);
    let uses = uses(&files);
    (files, uses)
}

/// The modules in whose text a path has one of these names.
fn naming(files: &BTreeMap<String, String>, names: &[&str]) -> BTreeSet<String> {
    let is_named =
        |text: &str| paths(text).iter().flatten().any(|name| names.contains(&name.as_str()));
    files.iter().filter(|(_, text)| is_named(text)).map(|(module, _)| module.clone()).collect()
}

#[test]
fn only_the_part_of_sqlite_knows_the_store() {
    let (files, _) = server();
    let files: BTreeMap<String, String> =
        files.into_iter().map(|(module, text)| (module, without_comments(&text))).collect();
    let is_sqlite = |module: &&String| module.starts_with("engine::sqlite");
    let knowing = naming(&files, &["talaria_store", "rusqlite"]);
    assert!(knowing.contains("engine::sqlite::reader"));
    assert_eq!(knowing.iter().filter(|module| !is_sqlite(module)).count(), 0, "{knowing:?}");
    // Nor does it get around that by names of the library's.
    let by_detour = |text: &str| {
        let mut all = paths(text).into_iter();
        all.any(|path| path.windows(2).any(|two| two[0] == "talaria" && two[1] == "store"))
    };
    let others: Vec<&String> =
        files.iter().filter(|(_, text)| by_detour(text)).map(|(module, _)| module).collect();
    assert_eq!(others, Vec::<&String>::new());
    // The interface gives none of its types away.
    let (_, interface): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(module, _)| is_sqlite(&module));
    let taken = interface.iter().flat_map(|(module, text)| {
        let all = paths(text).into_iter().filter(|path| path.iter().any(|name| name == "sqlite"));
        all.map(move |path| (module.clone(), path.last().cloned().unwrap_or_default()))
    });
    let taken: BTreeSet<String> = taken
        .inspect(|(module, name)| assert!(module.starts_with("engine"), "{module} {name}"))
        .map(|(_, name)| name)
        .collect();
    let opaque = ["opaque", "sqlite", "Ended", "Reader", "Sqlite"].map(str::to_owned);
    let others: Vec<&String> = taken.iter().filter(|name| !opaque.contains(name)).collect();
    assert_eq!(others, Vec::<&String>::new());
}

#[test]
fn pages_are_rendered_without_the_engine() {
    let (files, _) = server();
    let reading = naming(&files, &["Reading", "Engine"]);
    let pages: Vec<_> = reading.iter().filter(|module| module.starts_with("page")).collect();
    assert_eq!(pages, ["page", "page::gather"]);
}

/// The lines of a drawing, each with the modules that stand in it.
type Drawing = Vec<BTreeSet<String>>;

/// The drawings in the documentation of the server. The first is of files and folders, the others
/// of the files in each of the folders. A line that begins with a space explains the one above it.
fn drawings(source: &str) -> Vec<Drawing> {
    let doc = source.lines().filter_map(|line| line.strip_prefix("//! "));
    let doc: String = doc.map(|line| format!("{line}\n")).collect();
    let module = |name: &str| name.trim_end_matches("/*").replace("/mod", "").replace('/', "::");
    let line = |line: &str| line.split(", ").map(module).collect();
    let lines = |block: &str| -> Drawing {
        let drawn = block.split("```").next().unwrap().lines();
        drawn.filter(|text| !text.starts_with(' ')).map(line).collect()
    };
    doc.split("```text\n").skip(1).map(lines).collect()
}

/// What is wrong with a drawing of `uses`.
fn faults(drawing: &Drawing, uses: &Uses) -> Vec<String> {
    let mut faults = Vec::new();
    let drawn: BTreeSet<&String> = drawing.iter().flatten().collect();
    let all: BTreeSet<&String> = uses.keys().collect();
    faults.extend(
        all.symmetric_difference(&drawn)
            .map(|name| format!("{name} is missing in the drawing or in the files")),
    );
    let line = |name: &String| drawing.iter().position(|line| line.contains(name));
    for (from, to) in uses.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
        if line(from) >= line(to) {
            faults.push(format!("{from} uses {to}, which is not below"));
        }
    }
    faults
}

/// The same with each module replaced by what `unit` makes of it. `None` leaves it out.
fn by_unit(uses: &Uses, unit: impl Fn(&String) -> Option<String>) -> Uses {
    let mut all = Uses::new();
    for (module, named) in uses {
        let Some(from) = unit(module) else { continue };
        let named = named.iter().filter_map(&unit).filter(|to| *to != from).collect::<Vec<_>>();
        all.entry(from).or_default().extend(named);
    }
    all
}

#[test]
fn the_drawings_of_the_server_are_exact() {
    let (files, uses) = server();
    let folder = |module: &String| module.split("::").next().unwrap_or_default().to_owned();
    let mut drawings = drawings(&files[""]).into_iter();
    let whole = by_unit(&uses, |module| Some(folder(module)).filter(|name| !name.is_empty()));
    assert_eq!(faults(&drawings.next().unwrap(), &whole), Vec::<String>::new());
    let nested: BTreeSet<String> =
        uses.keys().filter(|module| module.contains("::")).map(folder).collect();
    let mut drawn = BTreeSet::new();
    for drawing in drawings {
        let name = folder(drawing[0].first().unwrap());
        let inner = by_unit(&uses, |module| Some(module.clone()).filter(|m| folder(m) == name));
        assert_eq!(faults(&drawing, &inner), Vec::<String>::new());
        drawn.insert(name);
    }
    assert_eq!(drawn, nested);
}

#[test]
fn a_wrong_drawing_is_found() {
    let text = "//! Files\n//! ```text\n//! a, b/*\n//!     high\n//! c\n//! ```\nmod a;\n";
    let drawing = &drawings(text)[0];
    let used = |all: &[(&str, &[&str])]| -> Uses {
        let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        all.iter().map(|&(name, used)| (name.to_owned(), set(used))).collect()
    };
    let count = |all| faults(drawing, &used(all)).len();
    assert_eq!(count(&[("a", &["c"]), ("b", &["c"]), ("c", &[])]), 0);
    assert_eq!(count(&[("a", &["b"]), ("b", &["c"]), ("c", &[])]), 1);
    assert_eq!(count(&[("a", &[]), ("b", &[]), ("c", &["a"])]), 1);
    assert_eq!(count(&[("a", &[]), ("b", &[]), ("c", &[]), ("d", &["c"])]), 1);
    assert_eq!(count(&[("a", &[]), ("c", &[])]), 1);
}
