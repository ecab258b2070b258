//! Reading the trees of snapshots, and the files that lack chunks.

use std::collections::HashSet;

use crate::backend::{Backend, is_of_one_object};
use crate::check::checked::Checked;
use crate::entry::{Extent, Node};
use crate::error::Result;
use crate::id::{Id, Kind};
use crate::listed::Listed;
use crate::located::Present;
use crate::progress::BackupProgress;
use crate::snapshot::Root;
use crate::source::Source;
use crate::text::{Place, escaped};
use crate::tree::{ContentParts, Tree};

/// The maximum number of files that are named as touched by damage.
const NAMED_MAX: usize = 1000;

/// Reads trees and names their missing chunks.
pub(super) struct Trees<'a> {
    pub(super) backend: &'a dyn Backend,
    pub(super) source: &'a Source,
    pub(super) lost: &'a Present,
    /// Lost chunks that a file needs.
    pub(super) hit: Present,
    pub(super) checked: &'a mut Checked,
    pub(super) progress: &'a BackupProgress,
}

/// The lost chunks that snapshots need.
pub(super) struct Needed {
    /// Chunks of files.
    hit: Present,
    /// A tree cannot be read to its end, or a file is touched.
    has_problems: bool,
}

impl Needed {
    /// Whether a snapshot may need a lost chunk.
    pub(super) fn has(&self, kind: Kind, id: &Id) -> Result<bool> {
        Ok(kind != Kind::Data && self.has_problems || self.hit.contains(id)?)
    }
}

impl Trees<'_> {
    /// Reads the trees of snapshots. A tree that several have is read once.
    pub(super) fn check_all(mut self, snapshots: &[Listed]) -> Result<Needed> {
        let (mut roots, before) = (HashSet::new(), self.checked.problems.len());
        for Listed { id, snapshot, .. } in snapshots {
            self.checked.snapshots += 1;
            if roots.insert(snapshot.root.id) {
                self.check(id, snapshot.root)?;
            }
        }
        let has_problems = self.checked.problems.len() > before;
        Ok(Needed { hit: self.hit, has_problems })
    }

    fn check(&mut self, id: &Id, root: Root) -> Result<()> {
        for entry in Tree::new(self.source, root).entries() {
            self.progress.go_on()?;
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) if error.is_of_storage() && !is_of_one_object(self.backend, &error) => {
                    return Err(error);
                }
                Err(error) => {
                    self.checked.add_error(&error);
                    self.checked
                        .add(format!("snapshots/{id}"), "its tree cannot be read to the end");
                    return Ok(());
                }
            };
            self.checked.entries += 1;
            BackupProgress::add(&self.progress.entries, 1);
            let Node::File { content, .. } = entry.node else { continue };
            // All parts are looked at, so that each pack that the file lacks is named.
            let mut why: Option<String> = None;
            for part in ContentParts::new(self.source, content) {
                let wrong = match part {
                    Err(error) => Some(error.to_string()),
                    Ok(Extent::Data { id, .. }) => self.wrong(&id)?,
                    Ok(_) => None,
                };
                why = why.or(wrong);
            }
            let Some(why) = why else { continue };
            if self.checked.problems.len() < NAMED_MAX {
                let path = escaped(&entry.path, Place::Last);
                self.checked.add(format!("snapshots/{id}: {path}"), why);
            } else {
                self.checked.more += 1;
            }
        }
        Ok(())
    }

    /// The problem of a chunk that a file needs.
    fn wrong(&mut self, id: &Id) -> Result<Option<String>> {
        if self.lost.contains(id)? {
            self.hit.insert(id)?;
            return Ok(Some(format!("its chunk {id} is lost")));
        }
        let is_named = self.source.contains(id)?;
        Ok((!is_named).then(|| format!("no index names its chunk {id}")))
    }
}
