//! The differences between two snapshots.

use std::cmp::Ordering;

use crate::catalog::Reader;
use crate::entry::{Entry, Node};
use crate::error::{BackupError, Result};
use crate::snapshot::Snapshot;
use crate::tree::{Tree, path_order};

/// How a path differs between two snapshots.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Difference {
    /// Only the newer snapshot has it.
    Added,
    /// Only the older snapshot has it.
    Removed,
    /// Its content is another one, or it is of another kind.
    Content,
    /// Its permissions, owner, time or attributes are others, and its content is the same.
    Meta,
}

/// Calls `each` with every path that differs between two snapshots, in the order of trees.
///
/// # Errors
///
/// Errors of the trees, and those of `each`, which end it.
pub fn diff<E: From<BackupError>>(
    reader: &Reader,
    old: &Snapshot,
    new: &Snapshot,
    mut each: impl FnMut(Difference, &[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut olds = Tree::new(reader, old.root).entries();
    let mut news = Tree::new(reader, new.root).entries();
    let (mut before, mut after) = (olds.next().transpose()?, news.next().transpose()?);
    loop {
        let order = match (&before, &after) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(before), Some(after)) => path_order(&before.path, &after.path),
        };
        match (order, &before, &after) {
            (Ordering::Less, Some(before), _) => each(Difference::Removed, &before.path)?,
            (Ordering::Greater, _, Some(after)) => each(Difference::Added, &after.path)?,
            (_, Some(before), Some(after)) => {
                if let Some(difference) = between(before, after, reader)? {
                    each(difference, &after.path)?;
                }
            }
            _ => {}
        }
        if order != Ordering::Greater {
            before = olds.next().transpose()?;
        }
        if order != Ordering::Less {
            after = news.next().transpose()?;
        }
    }
}

/// How an entry has changed.
fn between(before: &Entry, after: &Entry, reader: &Reader) -> Result<Option<Difference>> {
    if before.node == after.node {
        return Ok(None);
    }
    if let (
        Node::File { meta, size, content },
        Node::File { meta: new_meta, size: new_size, content: new_content },
    ) = (&before.node, &after.node)
    {
        let is_same = size == new_size && reader.same_content(content, new_content)?;
        return Ok(if !is_same {
            Some(Difference::Content)
        } else if meta == new_meta {
            None
        } else {
            Some(Difference::Meta)
        });
    }
    let same_kind = std::mem::discriminant(&before.node) == std::mem::discriminant(&after.node);
    let leads_elsewhere = matches!(
        (&before.node, &after.node),
        (Node::Symlink { target: old, .. }, Node::Symlink { target: new, .. }) if old != new
    );
    let is_meta = same_kind && !leads_elsewhere;
    Ok(Some(if is_meta { Difference::Meta } else { Difference::Content }))
}
