//! Files in several snapshots, by their names.

use std::collections::HashMap;

use crate::catalog::Reader;
use crate::entry::{Entry, Node};
use crate::error::Result;
use crate::files::select::PathSelection;
use crate::id::Id;
use crate::listed::Listed;
use crate::tree::{Tree, is_beneath};

/// A version of a file that was found, with the snapshots that have it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// The entry, without the parts of its content.
    pub entry: Entry,
    /// The first snapshot that has it.
    pub first: Id,
    /// The time of that snapshot, in seconds since 1970.
    pub time: u32,
    /// The number of snapshots that have it.
    pub count: u64,
}

/// The versions of all selected paths in `snapshots`, which are oldest first. A folder that is
/// selected stands for its content.
///
/// # Errors
///
/// Errors of the trees.
pub fn find<'a>(
    reader: &Reader,
    snapshots: impl IntoIterator<Item = &'a Listed>,
    selection: &PathSelection,
) -> Result<Vec<Found>> {
    let mut found: Vec<Found> = Vec::new();
    // The newest version of each path that was found.
    let mut newest: HashMap<Vec<u8>, usize> = HashMap::new();
    for Listed { id, snapshot, .. } in snapshots {
        let mut folder: Option<Vec<u8>> = None;
        for entry in Tree::new(reader, snapshot.root).entries() {
            let mut entry = entry?;
            let is_folder = matches!(entry.node, Node::Directory(_));
            let inside = folder.as_ref().is_some_and(|folder| is_beneath(&entry.path, folder));
            if inside || !selection.wants(&entry.path, is_folder) {
                continue;
            }
            folder = is_folder.then(|| entry.path.clone());
            // Small files share chunks with their neighbours, so the same content can have other
            // parts. Size and time decide.
            if let Node::File { content, .. } = &mut entry.node {
                content.clear();
            }
            match newest.get(&entry.path).map(|at| &mut found[*at]) {
                Some(known) if known.entry == entry => known.count += 1,
                _ => {
                    newest.insert(entry.path.clone(), found.len());
                    found.push(Found { entry, first: *id, time: snapshot.time, count: 1 });
                }
            }
        }
    }
    Ok(found)
}
