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

/// Modules and the modules that each one names: `gossip::peers` names `config`.
type Uses = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_files_of_the_server_use_each_other_in_a_circle() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src");
    let mut files = BTreeMap::new();
    read_modules(&source, "", &mut files);
    assert!(files.len() > 60 && files.contains_key("gossip::peers"), "{:?}", files.keys());
    let uses = uses(&files);
    assert!(uses["router"].contains("hkp::lookup") && uses["page"].contains("page::frame"));
    assert_eq!(circles(&uses), Vec::<BTreeSet<String>>::new());
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
        let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
        let code: Vec<&str> =
            text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        let code = code.join("\n");
        let named = paths(&code).into_iter().filter_map(|path| named(files, module, &path));
        let named = named.filter(|named| named != module).collect();
        all.insert(module.clone(), named);
    }
    all
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

#[test]
fn only_the_engine_of_the_server_knows_the_store() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src");
    let mut files = BTreeMap::new();
    read_modules(&source, "", &mut files);
    let knows =
        |text: &str| paths(text).iter().any(|path| path[..].contains(&"talaria_store".into()));
    let knowing: Vec<&String> =
        files.iter().filter(|(_, text)| knows(text)).map(|(module, _)| module).collect();
    assert!(!knowing.is_empty());
    let others: Vec<_> = knowing.iter().filter(|module| !module.starts_with("engine")).collect();
    assert!(others.is_empty(), "{others:?}");
}
