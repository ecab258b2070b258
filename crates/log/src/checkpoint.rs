//! Checkpoints and cosignatures as the values of entries (`docs/formats/log.md`, Checkpoint).

use crate::bytes::{Fields, Malformed, count_u8};
use crate::genesis::WITNESSES_MAX;
use crate::merkle::Edge;
use crate::name::EntryId;
use crate::note::{Note, NoteLine, TreeHead};

/// A checkpoint: the tree over the entries in the past of its own entry, signed by the
/// checkpointer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Checkpoint {
    /// The checkpoint before; [`EntryId::NONE`] for the first one.
    pub before: EntryId,
    /// The right edge of the tree.
    pub edge: Edge,
    /// The signed note: by the checkpointer, by the checkpointer with a time, and by witnesses.
    pub note: Note,
}

/// Cosignatures that came after the checkpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cosignatures {
    /// The entry of the checkpoint.
    pub checkpoint: EntryId,
    /// The lines by witnesses.
    pub lines: Vec<NoteLine>,
}

/// The reason why a checkpoint, or a cosignature, is not admissible.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCheckpoint {
    /// Genesis names no checkpointer.
    #[error("the log has no checkpointer")]
    NoCheckpointer,
    /// The note is about another log.
    #[error("the note is about {0}")]
    Origin(String),
    /// The checkpointer did not sign the note, or not in the form of the format.
    #[error("the checkpointer did not sign the note")]
    Signature,
    /// A cosignature does not hold for this checkpoint, or is not by a witness of the log, or not
    /// in its place.
    #[error("the cosignature of {0} does not hold")]
    Cosignature(String),
    /// The time is before that of the checkpoint before.
    #[error("the time of the checkpoint is before that of the checkpoint before")]
    Time,
    /// The checkpoint before is not the last one of its line in the past.
    #[error("another checkpoint is the last one before it")]
    Before,
    /// The tree has another number of leaves than the past has entries.
    #[error("the tree has {size} leaves, but {found} entries are before it")]
    Size {
        /// The size in the note.
        size: u64,
        /// The number of entries in the past.
        found: u64,
    },
    /// The root or the edge is not that of the entries in the past.
    #[error("the root is not that of the entries before it")]
    Root,
}

impl Checkpoint {
    /// The tree.
    #[must_use]
    pub fn head(&self) -> &TreeHead {
        &self.note.head
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.before.0);
        out.push(count_u8(self.edge.roots().len()));
        self.edge.roots().iter().for_each(|root| out.extend(root));
        out.extend(self.note.to_string().into_bytes());
    }

    /// Reads the value of an entry.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        let before = fields.id()?;
        let roots = usize::from(fields.u8()?);
        let roots = (0..roots).map(|_| fields.array()).collect::<Result<Vec<_>, _>>()?;
        let text = std::str::from_utf8(fields.0).map_err(|_| Malformed::Field("note"))?;
        let note = Note::read(text)?;
        // Genesis is in the past of every entry.
        let edge = Edge::new(note.head.size, roots).filter(|edge| edge.size() > 0);
        Ok(Self { before, edge: edge.ok_or(Malformed::Field("edge"))?, note })
    }
}

impl Cosignatures {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.checkpoint.0);
        self.lines.iter().for_each(|line| out.extend(line.to_string().into_bytes()));
    }

    /// Reads the value of an entry.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        const WRONG: Malformed = Malformed::Field("cosignatures");
        let mut fields = Fields(bytes);
        let checkpoint = fields.id()?;
        let text = std::str::from_utf8(fields.0).map_err(|_| WRONG)?;
        let lines = NoteLine::read_all(text)?;
        if !(1..=WITNESSES_MAX).contains(&lines.len()) {
            return Err(WRONG);
        }
        Ok(Self { checkpoint, lines })
    }
}
