//! The chunks that a tree needs.

use super::line::{parse_child, parse_entry, parse_part};
use super::rules::{LEVEL_MAX, LIST_DEPTH_MAX};
use crate::chunks::ReadChunks;
use crate::entry::{Extent, Node};
use crate::error::{BackupError, Result};
use crate::id::{Id, Kind};
use crate::located::Present;
use crate::progress::BackupProgress;
use crate::snapshot::Root;

/// Adds all chunks of a tree to `used`. Chunks that are in it already are not read again, with
/// everything below them.
///
/// # Errors
///
/// Errors of reading a chunk of the tree or of a list, since the chunks below it are not known
/// then; [`Cancelled`](BackupError::Cancelled). `used` may then lack chunks below one that it has,
/// and is of no use.
pub(crate) fn mark(
    chunks: &dyn ReadChunks,
    root: Root,
    used: &mut Present,
    progress: &BackupProgress,
) -> Result<()> {
    let mut open = vec![(root.level.min(LEVEL_MAX), root.id)];
    while let Some((level, id)) = open.pop() {
        progress.go_on()?;
        if !used.insert(&id)? {
            continue;
        }
        let plain = chunks.read(Kind::Tree, &id)?;
        let damaged = |why: &str| BackupError::damaged(format!("tree {id}"), why);
        let text = std::str::from_utf8(&plain).map_err(|_| damaged("it is not UTF-8 text"))?;
        for line in text.split_terminator('\n') {
            if level > 0 {
                let (child, _) = parse_child(line).map_err(damaged)?;
                open.push((level - 1, child));
            } else if let Node::File { content, .. } = parse_entry(line).map_err(damaged)?.node {
                mark_parts(chunks, content, used)?;
            }
        }
    }
    Ok(())
}

fn mark_parts(chunks: &dyn ReadChunks, parts: Vec<Extent>, used: &mut Present) -> Result<()> {
    let mut open: Vec<(usize, Extent)> = parts.into_iter().map(|part| (0, part)).collect();
    while let Some((depth, part)) = open.pop() {
        match part {
            Extent::Data { id, .. } => {
                used.insert(&id)?;
            }
            Extent::List { id, .. } if used.insert(&id)? => {
                open.extend(list(chunks, &id, depth + 1)?);
            }
            Extent::List { .. } | Extent::Inline(_) | Extent::Hole(_) => {}
        }
    }
    Ok(())
}

fn list(chunks: &dyn ReadChunks, id: &Id, depth: usize) -> Result<Vec<(usize, Extent)>> {
    let damaged = |why: &str| BackupError::damaged(format!("list {id}"), why);
    if depth > LIST_DEPTH_MAX {
        return Err(damaged("lists are nested too deep"));
    }
    let plain = chunks.read(Kind::List, id)?;
    let text = std::str::from_utf8(&plain).map_err(|_| damaged("it is not UTF-8 text"))?;
    let parts = text.split_terminator('\n');
    parts.map(|line| Ok((depth, parse_part(line).map_err(damaged)?))).collect()
}
