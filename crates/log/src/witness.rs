//! Witnesses: requests for a cosignature, the rule by which a witness gives one, and proofs for
//! readers (C2SP tlog-witness, tlog-proof).

use std::fmt::{self, Write as _};

use crate::bytes::Malformed;
use crate::merkle::is_consistent;
use crate::note::{
    NOTE_BYTES_MAX, Note, NoteKey, NoteKind, NoteLine, NoteSecret, TreeHead, hash, hash_line,
    number,
};

/// Most hashes of a proof. A tree has fewer than 2^63 leaves.
const PROOF_MAX: usize = 63;

/// A request to a witness: a checkpoint, and the proof that it follows the tree that the witness
/// cosigned last.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WitnessRequest {
    /// The size of the tree that the witness cosigned last; 0 if there is none.
    pub old: u64,
    /// The proof of consistency.
    pub proof: Vec<[u8; 32]>,
    /// The checkpoint.
    pub note: Note,
}

impl WitnessRequest {
    /// Reads a request.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for every text that writing a request does not give.
    pub fn read(text: &str) -> Result<Self, Malformed> {
        const WRONG: Malformed = Malformed::Field("request to a witness");
        if text.len() > NOTE_BYTES_MAX {
            let (found, limit) = (text.len() as u64, NOTE_BYTES_MAX as u64);
            return Err(Malformed::Limit { what: "request to a witness", found, limit });
        }
        let (head, note) = text.split_once("\n\n").ok_or(WRONG)?;
        let mut lines = head.split('\n');
        let old = lines.next().and_then(|line| number(line.strip_prefix("old ")?)).ok_or(WRONG)?;
        let proof = lines.map(hash).collect::<Option<Vec<_>>>().ok_or(WRONG)?;
        if proof.len() > PROOF_MAX {
            let (found, limit) = (proof.len() as u64, PROOF_MAX as u64);
            return Err(Malformed::Limit { what: "proof of consistency", found, limit });
        }
        Ok(Self { old, proof, note: Note::read(note)? })
    }
}

impl fmt::Display for WitnessRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old)?;
        self.proof.iter().try_for_each(|hash| f.write_str(&hash_line(hash)))?;
        write!(f, "\n{}", self.note)
    }
}

/// A log as a witness knows it: the key of its checkpointer, and the tree that the witness cosigned
/// last.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Witnessed {
    /// The key of the checkpointer. Its name is the origin of the log.
    pub key: NoteKey,
    /// The last tree.
    pub last: Option<TreeHead>,
}

/// The reason why a witness does not cosign.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Objection {
    /// The checkpoint is of another log, or the key that is known for it did not sign it.
    #[error("the checkpointer of {origin} did not sign it")]
    Signature {
        /// The origin in the checkpoint.
        origin: String,
    },
    /// The request is for another tree than the witness cosigned last.
    #[error("the request begins at size {old}, and this witness cosigned size {known} last")]
    Old {
        /// The size in the request.
        old: u64,
        /// The size that the witness knows.
        known: u64,
    },
    /// The checkpoint does not follow the one that the witness cosigned last: the checkpointer
    /// shows different trees. Both notes are evidence.
    #[error(
        "the tree of size {size} does not follow the tree of size {known} that this witness cosigned last"
    )]
    Inconsistent {
        /// The size of the tree.
        size: u64,
        /// The size that the witness knows.
        known: u64,
    },
}

impl Witnessed {
    /// Checks a request, and gives the cosignature at `time`, in seconds since 1970. The caller
    /// must keep the new state on disk before the cosignature leaves.
    ///
    /// # Errors
    ///
    /// [`Objection`]; the state is as it was.
    pub fn cosign(
        &mut self,
        request: &WitnessRequest,
        key: &NoteSecret,
        time: u64,
    ) -> Result<NoteLine, Objection> {
        let head = &request.note.head;
        let text = head.to_string();
        let is_signed = self.key.kind == NoteKind::Plain
            && self.key.name == head.origin
            && request.note.lines.iter().any(|line| self.key.verify(&text, line).is_some());
        if !is_signed {
            return Err(Objection::Signature { origin: head.origin.clone() });
        }
        let empty = talaria_cert::sha256(&[]);
        let (known, root) = self.last.as_ref().map_or((0, &empty), |last| (last.size, &last.root));
        if request.old != known {
            return Err(Objection::Old { old: request.old, known });
        }
        if !is_consistent((known, root), (head.size, &head.root), &request.proof) {
            return Err(Objection::Inconsistent { size: head.size, known });
        }
        self.last = Some(head.clone());
        Ok(key.cosign(&text, time))
    }
}

/// A proof that a log has an entry, for readers without the log (C2SP tlog-proof). The data of the
/// leaf are the 32 bytes of the identity of the entry.
pub struct ProofText<'a> {
    /// The place of the leaf, from 0.
    pub place: usize,
    /// The audit path, from the leaf to the root.
    pub path: &'a [[u8; 32]],
    /// The checkpoint.
    pub note: &'a Note,
}

impl fmt::Display for ProofText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path = String::new();
        self.path.iter().try_for_each(|hash| path.write_str(&hash_line(hash)))?;
        write!(f, "c2sp.org/tlog-proof@v1\nindex {}\n{path}\n{}", self.place, self.note)
    }
}
