//! Exports, imports and full verification.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::Path;

use talaria_disk::WrittenFile;

use super::error::LogError;
use super::folder::LogFolder;
use crate::bytes::{Malformed, write_part};
use crate::log::memory::Log;
use crate::log::outcome::Outcome;
use crate::log::snapshot_rules::SnapshotInfo;
use crate::merkle::paths;
use crate::name::EntryId;
use crate::record::{Evidence, RECORD_BYTES_MAX, Signed, read_record, to_records};
use crate::refusal::Refusal;
use crate::snapshot::BadSnapshot;
use crate::witness::ProofText;

/// The start of an export.
pub const EXPORT_MAGIC: [u8; 5] = *b"TLGX\x01";
/// The number of entries that are offered or written together, and of their bytes.
const CHUNK: usize = 4096;
const CHUNK_BYTES: usize = 8 << 20;
/// Most snapshots that a verification computes again, the last ones. Each costs as much as all
/// entries before it.
pub const SNAPSHOTS_CHECKED_MAX: usize = 16;
/// Most refused or failed entries that a report names. Further ones are counted.
pub const REFUSED_KEPT_MAX: usize = 1000;

/// The result of an export.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Exported {
    /// The number of entries.
    pub entries: u64,
}

/// The result of an import.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Imported {
    /// Entries that are new here.
    pub added: u64,
    /// Entries that were here.
    pub known: u64,
    /// Deletable values that came to entries that were here without them.
    pub values: u64,
    /// Entries whose past is not here. They are not kept.
    pub waiting: u64,
    /// Entries whose clock is ahead of that of this node. They are not kept.
    pub ahead: u64,
    /// Entries that are not admissible: the first [`REFUSED_KEPT_MAX`].
    pub refused: Vec<(EntryId, Refusal)>,
    /// The number of further ones.
    pub more_refused: u64,
}

impl Imported {
    /// Whether all entries of the file are in the log now.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.waiting == 0 && self.ahead == 0 && self.refused.is_empty()
    }

    fn refuse(&mut self, id: EntryId, refusal: Refusal) {
        if self.refused.len() < REFUSED_KEPT_MAX {
            self.refused.push((id, refusal));
        } else {
            self.more_refused += 1;
        }
    }
}

/// The result of verifying a log again from its bytes on disk.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verified {
    /// The number of entries whose signature holds and that are admissible.
    pub entries: u64,
    /// Entries that fail: the first [`REFUSED_KEPT_MAX`].
    pub failed: Vec<(EntryId, String)>,
    /// The number of further ones.
    pub more_failed: u64,
    /// The hash of the state that the good entries give.
    pub state_hash: [u8; 32],
    /// Entries with a deletable value that is neither here nor deleted.
    pub missing: u64,
    /// The number of checkpoints whose trees and signatures hold, and of those that are valid.
    pub checkpoints: (usize, usize),
    /// The snapshots.
    pub snapshots: VerifiedSnapshots,
}

/// The result of computing the last snapshots of a log again.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VerifiedSnapshots {
    /// The number of snapshots that state what the log was.
    pub right: usize,
    /// Those that do not: statements by their authors that are false.
    pub wrong: Vec<(EntryId, BadSnapshot)>,
    /// The number of earlier snapshots, which were left out.
    pub left_out: usize,
}

/// The files of [`LogFolder::export_pgp`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ProofFiles {
    /// Signed files, each with its signature beside it.
    pub signatures: u64,
    /// Entries that are proved by the signature of a batch and an audit path.
    pub proven: u64,
    /// Signatures that GnuPG cannot read: version 6.
    pub not_for_gnupg: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Entries with a proof that the last valid checkpoint covers them.
    pub covered: u64,
}

impl LogFolder {
    /// Writes all entries on disk, with what proves them.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::each`], and [`LogError::Io`] of writing to the file `name`.
    pub fn export(&self, out: &mut impl Write, name: &Path) -> Result<Exported, LogError> {
        let failed = |source| LogError::Io { action: "write", path: name.to_owned(), source };
        out.write_all(&EXPORT_MAGIC).map_err(failed)?;
        let mut exported = Exported::default();
        let mut chunk: Vec<Signed> = Vec::new();
        let mut bytes = 0;
        let mut flush = |chunk: &mut Vec<Signed>| {
            let mut records = Vec::new();
            to_records(chunk, &mut records);
            chunk.clear();
            let mut bytes = Vec::new();
            records.iter().for_each(|record| write_part(&mut bytes, 4, record));
            out.write_all(&bytes).map_err(failed)
        };
        self.each(|signed| {
            exported.entries += 1;
            // A batch stays in one chunk if it can.
            let begins = match (&chunk.last().map(|last| &last.evidence), &signed.evidence) {
                (Some(Evidence::InBatch(last, _)), Evidence::InBatch(next, _)) => last != next,
                _ => true,
            };
            if (chunk.len() >= CHUNK || bytes >= CHUNK_BYTES) && begins {
                flush(&mut chunk)?;
                bytes = 0;
            }
            bytes += signed.size();
            chunk.push(signed);
            Ok(())
        })?;
        flush(&mut chunk)?;
        Ok(exported)
    }

    /// Takes entries from an export of the same log, called `name`, at `now_ms` in milliseconds
    /// since 1970.
    ///
    /// # Errors
    ///
    /// [`LogError::NotAnExport`], [`LogError::DamagedExport`], [`LogError::OtherLog`], or
    /// [`LogError::Io`]. The entries before the error are taken.
    pub fn import(
        &self,
        input: &mut impl Read,
        name: &str,
        now_ms: u64,
    ) -> Result<Imported, LogError> {
        let mut taker =
            Taker { now_ms, chunk: Vec::new(), bytes: 0, imported: Imported::default() };
        let read = read_export(input, name, |entries| taker.add(self, name, entries));
        let imported = taker.finish(self);
        read.and(imported)
    }

    /// Makes a log in `folder`, which is empty or does not exist, from an export of another node,
    /// called `name`. With `expected`, only a log with this identity is made. Who does not know the
    /// identity trusts the sender of the file: it can be the export of any log.
    ///
    /// # Errors
    ///
    /// As [`Self::import`], and [`LogError::Occupied`], [`LogError::Unexpected`] and
    /// [`LogError::Genesis`], after which nothing was made.
    pub fn receive(
        folder: &Path,
        input: &mut impl Read,
        name: &str,
        expected: Option<EntryId>,
        now_ms: u64,
    ) -> Result<(Self, Imported), LogError> {
        let mut taker =
            Taker { now_ms, chunk: Vec::new(), bytes: 0, imported: Imported::default() };
        let mut made: Option<Self> = None;
        let read = read_export(input, name, |mut entries| {
            if made.is_none() {
                if entries.is_empty() {
                    return Ok(());
                }
                let genesis = entries.remove(0);
                let found = genesis.log();
                if let Some(wanted) = expected.filter(|wanted| *wanted != found) {
                    return Err(LogError::Unexpected { name: name.to_owned(), found, wanted });
                }
                made = Some(Self::create(folder, &genesis)?);
                taker.imported.added += 1;
            }
            match &made {
                Some(log) => taker.add(log, name, entries),
                None => Ok(()),
            }
        });
        let Some(made) = made else {
            let source = Malformed::Short;
            return Err(read.err().unwrap_or(LogError::NotAnExport { name: name.into(), source }));
        };
        let imported = taker.finish(&made);
        let imported = read.and(imported)?;
        Ok((made, imported))
    }

    fn take(
        &self,
        entries: Vec<Signed>,
        now_ms: u64,
        imported: &mut Imported,
    ) -> Result<(), LogError> {
        let ids: Vec<EntryId> = entries.iter().map(|signed| signed.id).collect();
        let (offered, added) = self.offer(entries, now_ms)?;
        imported.added += added;
        imported.values += offered.revealed.len() as u64;
        offered.refused.into_iter().for_each(|(id, refusal)| imported.refuse(id, refusal));
        for (id, outcome) in ids.into_iter().zip(offered.outcomes) {
            match outcome {
                Outcome::Refused(refusal) => imported.refuse(id, refusal),
                Outcome::NotKept => imported.waiting += 1,
                // Genesis comes with every export.
                Outcome::Known => imported.known += 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Verifies the log again from its bytes on disk: signatures, batches, deletable values, and
    /// every rule.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::each`].
    pub fn verify(&self) -> Result<Verified, LogError> {
        let mut log: Option<Log> = None;
        let mut verified = Verified {
            entries: 0,
            failed: Vec::new(),
            more_failed: 0,
            state_hash: [0; 32],
            missing: 0,
            checkpoints: (0, 0),
            snapshots: VerifiedSnapshots::default(),
        };
        let mut bytes = 0;
        let mut chunk: Vec<Signed> = Vec::new();
        // All clocks were near enough once.
        let now_ms = u64::MAX;
        let mut offer = |log: &mut Option<Log>, chunk: &mut Vec<Signed>| {
            let Some(log) = log else { return };
            let ids: Vec<EntryId> = chunk.iter().map(|signed| signed.id).collect();
            let offered = log.offer(std::mem::take(chunk), now_ms);
            for (id, outcome) in ids.into_iter().zip(offered.outcomes) {
                let why = match outcome {
                    Outcome::Added => {
                        verified.entries += 1;
                        continue;
                    }
                    Outcome::Refused(refusal) => refusal.to_string(),
                    Outcome::Known => "the entry is there twice".to_owned(),
                    _ => "an entry before it is not there".to_owned(),
                };
                if verified.failed.len() < REFUSED_KEPT_MAX {
                    verified.failed.push((id, why));
                } else {
                    verified.more_failed += 1;
                }
            }
        };
        let mut genesis = None;
        self.each(|signed| {
            if log.is_none() {
                match Log::begin(&signed) {
                    Ok(begun) => log = Some(begun),
                    Err(error) => genesis = Some((signed.id, error.to_string())),
                }
                return Ok(());
            }
            bytes += signed.size();
            chunk.push(signed);
            if chunk.len() >= CHUNK || bytes >= CHUNK_BYTES {
                offer(&mut log, &mut chunk);
                bytes = 0;
            }
            Ok(())
        })?;
        offer(&mut log, &mut chunk);
        verified.failed.extend(genesis);
        if let Some(log) = log {
            verified.entries += 1;
            verified.state_hash = log.state_hash();
            verified.missing = log.missing_values();
            let checkpoints = log.checkpoints();
            let valid = checkpoints.iter().filter(|checkpoint| checkpoint.is_valid).count();
            verified.checkpoints = (checkpoints.len(), valid);
            verified.snapshots = verify_snapshots(&log);
        }
        Ok(verified)
    }

    /// Writes signed files and signatures that other OpenPGP programs verify, into a folder that
    /// exists and is empty.
    ///
    /// `NUMBER.entry` and `NUMBER.statement` are signed, `NUMBER.entry.sig` and
    /// `NUMBER.statement.sig` are the signatures. An entry of a batch has `NUMBER.proof`, with the
    /// number of its statement, its place and its audit path. `certs.pgp` has the certificates.
    ///
    /// `SIZE.checkpoint` is a signed note with its cosignatures, and `SIZE.consistency` the proof
    /// that it follows the one before. An entry that the last valid checkpoint covers has
    /// `NUMBER.tlog-proof`. `log.vkey` and `witnesses.vkey` have the keys.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`], and the errors of [`Self::each`].
    pub fn export_pgp(&self, folder: &Path) -> Result<ProofFiles, LogError> {
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            // Signatures show damage, and the log has all of it: no sync.
            let written = WrittenFile::create_new(&path).and_then(|mut file| file.write_all(bytes));
            written.map_err(|source| LogError::Io { action: "write", path, source })
        };
        let mut files = ProofFiles::default();
        let mut covered = self.read(covered)?;
        for (name, text) in self.read(checkpoint_texts)? {
            write(&name, text.as_bytes())?;
            files.checkpoints += u64::from(name.ends_with(".checkpoint"));
        }
        let mut number = 0_u64;
        let mut last = None;
        self.each(|signed| {
            let subkey = signed.entry.chain.subkey;
            let entry = format!("{number:08}.entry");
            write(&entry, &signed.bytes)?;
            let signature = match &signed.evidence {
                Evidence::Alone(signature) => {
                    let packet = signature.to_packet(&signed.bytes, subkey, signed.log());
                    write(&format!("{entry}.sig"), &packet)?;
                    Some(signature.version())
                }
                Evidence::InBatch(batch, path) => {
                    let (statement, is_new) = match &last {
                        Some((at, known)) if known == batch => (*at, false),
                        _ => (number, true),
                    };
                    let name = format!("{statement:08}.statement");
                    if is_new {
                        let bytes = batch.statement.to_bytes();
                        let packet = batch.signature.to_packet(&bytes, subkey, signed.log());
                        write(&name, &bytes)?;
                        write(&format!("{name}.sig"), &packet)?;
                        last = Some((number, batch.clone()));
                    }
                    let hashes = path.hashes();
                    let hashes = hashes.iter().map(|hash| format!("{}\n", EntryId(*hash)));
                    let proof = format!(
                        "statement {name}\nleaf {}\nplace {} of {}\n{}",
                        signed.id,
                        signed.entry.sequence - batch.statement.first,
                        batch.statement.count,
                        hashes.collect::<String>()
                    );
                    write(&format!("{number:08}.proof"), proof.as_bytes())?;
                    files.proven += 1;
                    is_new.then(|| batch.signature.version())
                }
            };
            if let Some(proof) = covered.remove(&signed.id) {
                write(&format!("{number:08}.tlog-proof"), proof.as_bytes())?;
                files.covered += 1;
            }
            files.signatures += u64::from(signature.is_some());
            files.not_for_gnupg += u64::from(signature == Some(6));
            number += 1;
            Ok(())
        })?;
        let mut names = Vec::new();
        let mut certs = Vec::new();
        self.read(|log| {
            for certificate in log.certificates() {
                if !names.contains(&certificate.as_bytes().to_vec()) {
                    names.push(certificate.as_bytes().to_vec());
                    certs.extend_from_slice(certificate.as_bytes());
                }
            }
        })?;
        write("certs.pgp", &certs)?;
        Ok(files)
    }
}

/// Computes the last snapshots of a log again.
fn verify_snapshots(log: &Log) -> VerifiedSnapshots {
    let mut verified = VerifiedSnapshots::default();
    let snapshots = log.snapshots();
    verified.left_out = snapshots.len().saturating_sub(SNAPSHOTS_CHECKED_MAX);
    for SnapshotInfo { entry, .. } in &snapshots[verified.left_out..] {
        match log.check_snapshot(entry) {
            Some(Err(bad)) => verified.wrong.push((*entry, bad)),
            _ => verified.right += 1,
        }
    }
    verified
}

/// The proofs that the last valid checkpoint covers entries.
fn covered(log: &Log) -> HashMap<EntryId, String> {
    let Some(checkpoint) = log.last_valid_checkpoint() else { return HashMap::new() };
    let note = log.checkpoint_note(&checkpoint.entry);
    let leaves = log.checkpoint_leaves(&checkpoint.entry);
    let (Some(note), Some(leaves)) = (note, leaves) else { return HashMap::new() };
    let paths = paths(&leaves);
    let proofs = leaves
        .iter()
        .zip(&paths)
        .enumerate()
        .map(|(place, (id, path))| (*id, ProofText { place, path, note: &note }.to_string()));
    proofs.collect()
}

/// The checkpoints as files: notes, proofs of consistency, and the keys.
fn checkpoint_texts(log: &Log) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for checkpoint in log.checkpoints() {
        let Some(note) = log.checkpoint_note(&checkpoint.entry) else { continue };
        // Two trees of one size are a fork of the checkpointer.
        let size = checkpoint.head.size;
        let name = if texts.iter().any(|(name, _)| *name == format!("{size}.checkpoint")) {
            format!("{size}-{}", checkpoint.entry)
        } else {
            size.to_string()
        };
        texts.push((format!("{name}.checkpoint"), note.to_string()));
        if let Some(request) = log.witness_request(&checkpoint.entry, &checkpoint.before) {
            texts.push((format!("{name}.consistency"), request.to_string()));
        }
    }
    if let Some(key) = log.checkpointer() {
        texts.push(("log.vkey".to_owned(), format!("{key}\n")));
        let witnesses = log.genesis().witnesses.iter();
        let keys = witnesses.map(|witness| format!("{}\n", witness.note_key()));
        texts.push(("witnesses.vkey".to_owned(), keys.collect()));
    }
    texts
}

/// An import that is under way.
struct Taker {
    now_ms: u64,
    chunk: Vec<Signed>,
    bytes: usize,
    imported: Imported,
}

impl Taker {
    fn add(&mut self, to: &LogFolder, name: &str, entries: Vec<Signed>) -> Result<(), LogError> {
        if let Some(other) = entries.iter().find(|signed| signed.log() != to.id()) {
            return Err(LogError::OtherLog { name: name.to_owned(), found: other.log() });
        }
        self.bytes += entries.iter().map(Signed::size).sum::<usize>();
        self.chunk.extend(entries);
        if self.chunk.len() >= CHUNK || self.bytes >= CHUNK_BYTES {
            self.bytes = 0;
            to.take(std::mem::take(&mut self.chunk), self.now_ms, &mut self.imported)?;
        }
        Ok(())
    }

    fn finish(mut self, to: &LogFolder) -> Result<Imported, LogError> {
        to.take(self.chunk, self.now_ms, &mut self.imported)?;
        let (waiting, ahead) = to.read(|log| (log.waiting() as u64, log.ahead() as u64))?;
        self.imported.waiting += waiting - ahead;
        self.imported.ahead = ahead;
        Ok(self.imported)
    }
}

/// Calls a function with the entries of each record of an export called `name`.
///
/// # Errors
///
/// [`LogError::NotAnExport`]; [`LogError::DamagedExport`]; [`LogError::Io`]; the errors of `see`.
pub fn read_export(
    input: &mut impl Read,
    name: &str,
    mut see: impl FnMut(Vec<Signed>) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let failed = |source: io::Error| LogError::Io { action: "read", path: name.into(), source };
    let mut entries = 0;
    let wrong = |source, entries| match entries {
        0 => LogError::NotAnExport { name: name.to_owned(), source },
        _ => LogError::DamagedExport { name: name.to_owned(), entries, source },
    };
    // Bytes up to a length; fewer at the end of the input.
    let mut read = |length: usize| {
        let mut bytes = Vec::new();
        let done = input.by_ref().take(length as u64).read_to_end(&mut bytes);
        done.map_err(failed).map(|_| bytes)
    };
    if read(EXPORT_MAGIC.len())? != EXPORT_MAGIC {
        return Err(wrong(Malformed::Field("start of an export"), entries));
    }
    loop {
        let length = read(4)?;
        if length.is_empty() {
            return Ok(());
        }
        let length: [u8; 4] = length.try_into().map_err(|_| wrong(Malformed::Short, entries))?;
        let length = u32::from_be_bytes(length) as usize;
        if length > RECORD_BYTES_MAX {
            let (found, limit) = (length as u64, RECORD_BYTES_MAX as u64);
            return Err(wrong(Malformed::Limit { what: "record", found, limit }, entries));
        }
        let record = read(length)?;
        if record.len() < length {
            return Err(wrong(Malformed::Short, entries));
        }
        let found = read_record(&record).map_err(|source| wrong(source, entries))?;
        let count = found.len() as u64;
        see(found)?;
        entries += count;
    }
}
