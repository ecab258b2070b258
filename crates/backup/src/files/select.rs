//! Selection of paths by patterns, for creating and restoring.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::error::{BackupError, Result};

/// The selected paths.
///
/// A pattern is a glob: `*` and `?` do not match `/`, `**` does, and `[a-z]` and `{a,b}` are there
/// too. With a leading `/` it matches the whole path, else the end of a path: `*.o` and
/// `target/debug` match anywhere. With a trailing `/` it matches folders only. A folder that
/// matches counts with everything beneath it.
#[derive(Clone, Debug, Default)]
pub struct PathSelection {
    include: Option<Patterns>,
    exclude: Option<Patterns>,
}

#[derive(Clone, Debug)]
struct Patterns {
    all: GlobSet,
    folders: GlobSet,
}

/// The verdict of a selection on a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// The path is wanted; if it is a folder, so is everything beneath that is not excluded.
    Wanted,
    /// The folder is wanted if something beneath it is.
    Parent,
    /// Neither the path nor anything beneath it is wanted.
    Unwanted,
}

impl Patterns {
    fn new(patterns: &[String]) -> Result<Option<Self>> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let (mut all, mut folders) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in patterns {
            refuse_useless(pattern)?;
            let (body, set) = match pattern.strip_suffix('/') {
                Some(body) => (body, &mut folders),
                None => (pattern.as_str(), &mut all),
            };
            let glob = match body.strip_prefix('/') {
                Some(anchored) => anchored.to_owned(),
                None => format!("**/{body}"),
            };
            let refused = |error| {
                BackupError::Refused(format!("the pattern {pattern} is not valid: {error}"))
            };
            let mut builder = GlobBuilder::new(&glob);
            set.add(
                builder.literal_separator(true).backslash_escape(true).build().map_err(refused)?,
            );
        }
        let refused =
            |error| BackupError::Refused(format!("the patterns cannot be used together: {error}"));
        let (all, folders) = (all.build().map_err(refused)?, folders.build().map_err(refused)?);
        Ok(Some(Self { all, folders }))
    }

    fn is_match(&self, path: &[u8], is_folder: bool) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        self.all.is_match(path) || is_folder && self.folders.is_match(path)
    }
}

/// Refuses a pattern that no path can match, which is a mistake of whoever knows other programs.
fn refuse_useless(pattern: &str) -> Result<()> {
    let why = if pattern.starts_with('!') {
        "no pattern takes another one back; for a name that begins with !, write \\!"
    } else if pattern.trim_matches('/').split('/').any(|part| matches!(part, "." | ".." | "")) {
        "it matches nothing, since no path in a snapshot has the part . or .. or an empty one"
    } else {
        return Ok(());
    };
    Err(BackupError::Refused(format!("the pattern {pattern} is not valid: {why}")))
}

impl PathSelection {
    /// The paths that a pattern of `include` matches, or all if it is empty, without those that a
    /// pattern of `exclude` matches.
    ///
    /// # Errors
    ///
    /// [`Refused`](BackupError::Refused) names a pattern that is not valid.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self> {
        Ok(Self { include: Patterns::new(include)?, exclude: Patterns::new(exclude)? })
    }

    /// The pattern that matches an absolute path with everything beneath it, and nothing else.
    /// `None` if no pattern can, because the path is not UTF-8.
    #[must_use]
    pub fn literal(path: &Path) -> Option<String> {
        let special = |c: char| matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | '!' | ',');
        let escaped = |c: char| special(c).then_some('\\').into_iter().chain([c]);
        Some(path.to_str()?.chars().flat_map(escaped).collect())
    }

    /// The patterns of a file: one on each line. Empty lines and lines that start with `#` do not
    /// count.
    #[must_use]
    pub fn patterns(text: &str) -> Vec<String> {
        let lines = text.lines().map(str::trim_end);
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
    }

    /// Whether a path is wanted.
    #[must_use]
    pub fn wants(&self, path: &[u8], is_folder: bool) -> bool {
        let mut wanted = false;
        for parent in crate::tree::parents(path) {
            match self.judge(parent, true, wanted) {
                Verdict::Wanted => wanted = true,
                Verdict::Parent => {}
                Verdict::Unwanted => return false,
            }
        }
        self.judge(path, is_folder, wanted) == Verdict::Wanted
    }

    /// The verdict for a path in a folder that is not unwanted itself. `wanted`: that folder or one
    /// above it is included.
    pub(super) fn judge(&self, path: &[u8], is_folder: bool, wanted: bool) -> Verdict {
        if self.exclude.as_ref().is_some_and(|exclude| exclude.is_match(path, is_folder)) {
            return Verdict::Unwanted;
        }
        self.judge_included(path, is_folder, wanted)
    }

    /// As [`Self::judge`], for a path that is not excluded, whatever the patterns say.
    pub(super) fn judge_included(&self, path: &[u8], is_folder: bool, wanted: bool) -> Verdict {
        match &self.include {
            Some(include) if !wanted && !include.is_match(path, is_folder) => {
                if is_folder {
                    Verdict::Parent
                } else {
                    Verdict::Unwanted
                }
            }
            _ => Verdict::Wanted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_select_by_name_by_whole_path_and_by_folder() {
        let selection = |include: &[&str], exclude: &[&str]| {
            let owned = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
            PathSelection::new(&owned(include), &owned(exclude)).unwrap()
        };
        let all = selection(&[], &["*.o", "/home/*/tmp", "cache/", "a/b"]);
        for (path, is_folder, wanted) in [
            ("x.o", false, false),
            ("src/deep/x.o", false, false),
            ("src/x.o.txt", false, true),
            ("home/alice/tmp", true, false),
            ("home/alice/tmp/file", false, false),
            ("home/alice/x/tmp", true, true),
            ("srv/home/alice/tmp", true, true),
            ("x/cache", false, true),
            ("x/cache", true, false),
            ("x/cache/file", false, false),
            ("x/a/b/c", false, false),
            ("x/ab", false, true),
        ] {
            assert_eq!(all.wants(path.as_bytes(), is_folder), wanted, "{path}");
        }
        let some = selection(&["/home/alice", "*.txt"], &["secret.txt"]);
        for (path, wanted) in [
            ("home/alice/photo", true),
            ("home/alice/secret.txt", false),
            ("home/bob/photo", false),
            ("home/bob/note.txt", true),
        ] {
            assert_eq!(some.wants(path.as_bytes(), false), wanted, "{path}");
        }
        let literal = PathSelection::literal(Path::new("/srv/a[1]*")).unwrap();
        let others = selection(&[], &[&literal]);
        for (path, wanted) in [("srv/a[1]*/file", false), ("srv/a1b", true), ("x/srv/a[1]*", true)]
        {
            assert_eq!(others.wants(path.as_bytes(), false), wanted, "{path}");
        }
        assert_eq!(some.judge(b"home", true, false), Verdict::Parent);
        assert!(some.wants(b"\xff/\xfe.txt", false));
        assert!(!selection(&[], &["\\!x"]).wants(b"a/!x", false));
        for useless in ["[", "!x", "./a", "a/../b", "..", "a//b", "", "/"] {
            let refused = PathSelection::new(&[], &[useless.to_owned()]);
            assert!(matches!(refused, Err(BackupError::Refused(_))), "{useless}");
        }
        assert_eq!(PathSelection::patterns("# note\n\n*.o \n/a b\n"), ["*.o", "/a b"]);
    }
}
