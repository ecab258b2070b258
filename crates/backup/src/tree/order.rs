//! The order of paths, and the rules for each path and for paths that follow each other.

use std::cmp::Ordering;

use super::rules::{COMPONENT_BYTES_MAX, PATH_BYTES_MAX, Rule};

/// Compares two paths component by component, as bytes. This is the order of a tree.
#[must_use]
pub fn path_order(a: &[u8], b: &[u8]) -> Ordering {
    // A separator sorts before all bytes of a component. None of those is 0.
    let rank = |byte: u8| if byte == b'/' { 0 } else { byte };
    match a.iter().zip(b).position(|(a, b)| a != b) {
        Some(at) => rank(a[at]).cmp(&rank(b[at])),
        None => a.len().cmp(&b.len()),
    }
}

/// Whether `path` is beneath `folder`, at any depth. Every path is beneath the empty one; none is
/// beneath itself.
#[must_use]
pub fn is_beneath(path: &[u8], folder: &[u8]) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.first() == Some(&b'/'))
}

/// The path without its last component; empty if it has only one.
pub(crate) fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |at| &path[..at])
}

/// Checks the rules for one path.
pub(crate) fn check_path(path: &[u8]) -> Result<(), Rule> {
    if path.len() > PATH_BYTES_MAX {
        return Err("the path has more than 16,384 bytes");
    }
    for component in path.split(|byte| *byte == b'/') {
        match component {
            b"" => return Err("a component of the path is empty"),
            b"." | b".." => return Err("a component of the path is \".\" or \"..\""),
            _ if component.len() > COMPONENT_BYTES_MAX => {
                return Err("a component of the path has more than 255 bytes");
            }
            _ if component.contains(&0) => return Err("the path contains NUL"),
            _ => {}
        }
    }
    Ok(())
}

/// Checks that entries ascend and that the parent of each is an earlier directory.
#[derive(Default)]
pub(crate) struct Order {
    last: Vec<u8>,
    /// The lengths of the prefixes of `last` that are directories, `last` included.
    folders: Vec<usize>,
}

impl Order {
    /// Takes the next path.
    pub(crate) fn push(&mut self, path: &[u8], is_folder: bool) -> Result<(), Rule> {
        self.check_ascent(path)?;
        // If one of them has the path beneath it, so have all above.
        let depth = self.folders.iter().rposition(|at| is_beneath(path, &self.last[..*at]));
        let depth = depth.map_or(0, |at| at + 1);
        let nearest = depth.checked_sub(1).map_or(0, |at| self.folders[at]);
        if nearest != parent(path).len() {
            return Err("the parent of the path is not an earlier directory");
        }
        self.folders.truncate(depth);
        self.take(path, is_folder);
        Ok(())
    }

    /// Takes the next path where entries before it were not read: its parents count as directories.
    pub(crate) fn push_after_gap(&mut self, path: &[u8], is_folder: bool) -> Result<(), Rule> {
        self.check_ascent(path)?;
        self.folders = parents(path).map(<[u8]>::len).collect();
        self.take(path, is_folder);
        Ok(())
    }

    fn check_ascent(&self, path: &[u8]) -> Result<(), Rule> {
        match path_order(&self.last, path) {
            Ordering::Less => Ok(()),
            Ordering::Equal => Err("the path is there twice"),
            Ordering::Greater => Err("the path is not in ascending order"),
        }
    }

    fn take(&mut self, path: &[u8], is_folder: bool) {
        self.last.clear();
        self.last.extend_from_slice(path);
        if is_folder {
            self.folders.push(path.len());
        }
    }
}

/// The proper parents of a path, outermost first.
pub(crate) fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let separators = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    separators.map(|(at, _)| &path[..at])
}
