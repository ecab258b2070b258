//! No type of SQLite's binding is part of the interface of `store` or `gnupg`: their users must not
//! need the binding, and another version of it must not break them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The words of a text: names as Rust has them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The file without its tests and comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The types that a file imports from the binding.
fn imported(code: &str) -> BTreeSet<&str> {
    let imports = code.split("use rusqlite::").skip(1);
    let names = imports.flat_map(|import| words(import.split(';').next().unwrap_or_default()));
    names.filter(|name| name.starts_with(char::is_uppercase)).collect()
}

/// The text up to the brace that closes the first one.
fn block(text: &str) -> &str {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return &text[..at],
            '}' => depth -= 1,
            _ => {}
        }
    }
    text
}

/// The declaration at the start of `text`, as far as users see it: a signature, all fields of an
/// enum, the public fields of a struct.
fn interface(text: &str) -> String {
    // A semicolon within a line is that of an array.
    let head = text.split('{').next().unwrap_or_default();
    let head = head.split(";\n").next().unwrap_or_default();
    match words(text).next() {
        Some("enum") => block(text).to_owned(),
        Some("struct") => {
            // Fields of a tuple are before the brace or semicolon. Public ones of both forms begin
            // a part with `pub`.
            let all = if text[head.len()..].starts_with('{') { block(text) } else { head };
            let parts = all.split(['{', '(', ',', '\n']).map(str::trim);
            parts.filter(|part| part.starts_with("pub ")).collect::<Vec<_>>().join("\n")
        }
        Some("fn" | "const" | "static" | "type" | "use" | "trait" | "async" | "unsafe") => {
            head.to_owned()
        }
        // A field, which belongs to its struct.
        _ => String::new(),
    }
}

/// The public declarations of a file that name a type of the binding.
fn leaks(text: &str) -> Vec<String> {
    let code = code(text);
    let names = imported(&code);
    let names_one = |text: &str| {
        text.contains("rusqlite")
            || text.contains("ffi::")
            || words(text).any(|word| names.contains(word))
    };
    let public: BTreeSet<&str> = ["pub struct ", "pub enum "]
        .into_iter()
        .flat_map(|start| code.split(start).skip(1))
        .filter_map(|rest| words(rest).next())
        .collect();
    let declared =
        code.match_indices("pub ").map(|(at, start)| interface(&code[at + start.len()..]));
    // An implementation is seen by everyone who sees the type and the trait.
    let implemented = code.split("\nimpl").skip(1).filter_map(|rest| {
        let head = rest.split('{').next()?;
        let (_, of) = head.split_once(" for ")?;
        words(of).any(|word| public.contains(word)).then(|| head.to_owned())
    });
    declared.chain(implemented).filter(|text| names_one(text)).collect()
}

#[test]
fn no_public_declaration_names_a_type_of_the_binding() {
    let mut count = 0;
    for folder in ["src", "../gnupg/src", "../gnupg/src/tofudb"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let found = leaks(&text);
                assert!(found.is_empty(), "{}: {found:?}", path.display());
                count += usize::from(text.contains("rusqlite"));
            }
        }
    }
    assert!(count > 20, "only {count} files use the binding: the test looks at the wrong ones");
}

#[test]
fn a_type_of_the_binding_is_found_in_every_kind_of_declaration() {
    let leaking = [
        "pub enum Failure {\n    Engine { source: rusqlite::Error },\n}",
        "use rusqlite::{Connection, Error as Fault};\npub enum Failure {\n    Engine(Fault),\n}",
        "pub struct Failure {\n    pub source: rusqlite::Error,\n}",
        "pub struct Failure(pub rusqlite::Error);",
        "use rusqlite::Connection;\nimpl Store {\n    pub fn connection(&self) -> &Connection {\n    }\n}",
        "pub type Fault = rusqlite::Error;",
        "pub use rusqlite::Error;",
        "pub struct Failure;\nimpl From<rusqlite::Error> for Failure {\n}",
    ];
    for text in leaking {
        assert_eq!(leaks(text).len(), 1, "{text}");
    }
    let tight = [
        "use rusqlite::Connection;\npub struct Store {\n    connection: Connection,\n    pub path: PathBuf,\n}",
        "use rusqlite::Error;\npub struct Failure(Error);",
        "use rusqlite::Error;\npub(crate) enum Failure {\n    Engine(Error),\n}",
        "use rusqlite::Error;\npub(crate) struct Failure;\nimpl From<Error> for Failure {\n}",
        "use rusqlite::Error;\nimpl Store {\n    pub fn check(&self) -> bool {\n        Error::is(self)\n    }\n}",
        "/// Not a rusqlite::Error.\npub struct Failure;",
    ];
    for text in tight {
        assert!(leaks(text).is_empty(), "{text}: {:?}", leaks(text));
    }
}
