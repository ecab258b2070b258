//! Two nodes of a log and their author.

use std::path::Path;

use talaria_log::{
    CatchUp, Certificate, Content, Edit, EntryId, Genesis, LogError, LogFolder, Maker, PIECE_BYTES,
    Signing, Update, Value, read_record, to_records,
};
use talaria_message::make::{GenerateOptions, KeyUses, Protection, generate};
use talaria_message::openpgp::Cert;
use talaria_message::{Rules, SigningKey, signing_key};

use super::updates::{FIELDS, OBJECTS, update, value};
use crate::error::BenchError;

/// An author with a key that is unlocked.
pub(super) struct Author {
    pub(super) cert: Cert,
    certificate: Certificate,
    key: SigningKey,
}

pub(super) fn log_error(error: impl Into<LogError>) -> BenchError {
    BenchError::Log(error.into())
}

pub(super) fn prepare(what: &str) -> impl Fn(&dyn std::fmt::Display) -> BenchError {
    let what = what.to_owned();
    move |why| BenchError::Prepare { what: what.clone(), why: why.to_string() }
}

impl Author {
    pub(super) fn new() -> Result<Self, BenchError> {
        let failed = prepare("a key");
        let mut options = GenerateOptions::default();
        options.user_ids = vec!["<bench@example.org>".into()];
        options.uses = KeyUses::Sign;
        let now = crate::now();
        let made = generate(&options, &Protection::Unprotected, now - 3600);
        let cert = made.map_err(|error| failed(&error))?.cert;
        let key = signing_key(&cert, Rules::default(), now, &mut |_, _| None);
        let key = key.map_err(|error| failed(&error))?;
        let certificate = Certificate::of_signer(&cert, now).map_err(log_error)?;
        Ok(Self { cert, certificate, key })
    }

    pub(super) fn maker(&mut self, instance: [u8; 16]) -> Result<Maker<'_>, BenchError> {
        Maker::new(&self.certificate, &mut self.key, instance)
            .ok_or_else(|| prepare("a chain")(&"the key is not in the certificate"))
    }

    /// A new log with the objects of the updates, and a second node that has it.
    pub(super) fn nodes(&mut self, folder: &Path) -> Result<(LogFolder, LogFolder), BenchError> {
        let genesis = Genesis::new(vec![self.certificate.clone()], 1);
        let begun = now_ms() - 1000;
        let mut maker = self.maker([0; 16])?;
        let genesis = maker.begin(genesis, begun).map_err(log_error)?;
        let first = LogFolder::create(&folder.join("first"), &genesis).map_err(BenchError::Log)?;
        let objects: Vec<Update> = (0..OBJECTS).map(update).collect();
        first
            .put(&mut maker, &objects, Signing::Each, begun)
            .map_err(|error| BenchError::Log(error.error))?;
        let sent = export(&first)?;
        let received =
            LogFolder::receive(&folder.join("second"), &mut &sent[..], "sent", None, now_ms());
        let (second, imported) = received.map_err(BenchError::Log)?;
        if !imported.is_complete() {
            return Err(prepare("a second node")(&"it did not take all entries"));
        }
        Ok((first, second))
    }
}

fn export(log: &LogFolder) -> Result<Vec<u8>, BenchError> {
    let mut sent = Vec::new();
    log.export(&mut sent, Path::new("memory")).map_err(BenchError::Log)?;
    Ok(sent)
}

pub(super) fn now_ms() -> u64 {
    u64::from(crate::now()) * 1000
}

/// The records of the entries that a node with these heads lacks, as nodes exchange them.
pub(super) fn send(from: &LogFolder, heads: &[EntryId]) -> Result<Vec<Vec<u8>>, BenchError> {
    let mut place = from.catch_up(heads).map_err(BenchError::Log)?;
    let mut records = Vec::new();
    loop {
        let more = piece(from, &mut place)?;
        if more.is_empty() {
            return Ok(records);
        }
        records.extend(more);
    }
}

/// The next records of these, as many as a node sends together. None at the end.
pub(super) fn piece(from: &LogFolder, place: &mut CatchUp) -> Result<Vec<Vec<u8>>, BenchError> {
    let entries = from.next_lacking(place, PIECE_BYTES).map_err(BenchError::Log)?;
    let mut records = Vec::new();
    to_records(&entries, &mut records);
    Ok(records)
}

/// Checks entries, stores them with one sync, and gives the number of new ones.
pub(super) fn take(to: &LogFolder, records: &[Vec<u8>]) -> Result<usize, BenchError> {
    let mut entries = Vec::new();
    for record in records {
        entries.extend(read_record(record).map_err(|error| prepare("a copy")(&error))?);
    }
    to.append(|log| {
        let offered = log.offer(entries, now_ms());
        let added = offered.added.len();
        Ok::<_, LogError>((offered.added, added))
    })
    .map_err(BenchError::Log)
}

/// Reads the value of each update, one look-up each. A later update of the same field counts.
pub(super) fn read_back(log: &LogFolder, count: usize) -> Result<(), BenchError> {
    for number in 0..count {
        let last = number + (count - 1 - number) / (OBJECTS * FIELDS) * (OBJECTS * FIELDS);
        let Edit::Put(field, _) = update(number).edit else { unreachable!("updates put") };
        let content = log.read(|log| {
            let object = log.find_object(&update(number).object)?;
            Ok::<_, LogError>(log.state().field(object, &field))
        });
        let wanted = Some(Content::LastWriter(Value::String(value(last))));
        if content.flatten().map_err(BenchError::Log)? != wanted {
            return Err(prepare("a copy")(&"a value came back changed"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A way whose second node has other values is noticed.
    #[test]
    fn a_changed_value_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let mut author = Author::new().unwrap();
        let (one, _two) = author.nodes(folder.path()).unwrap();
        assert!(read_back(&one, OBJECTS).is_ok());
        assert!(read_back(&one, OBJECTS + 1).is_err());
        let mut maker = author.maker(one.instance()).unwrap();
        let change = Edit::Put("field-0".into(), Value::String("x".into()));
        let change = Update { object: "object-3".into(), edit: change };
        one.put(&mut maker, &[change], Signing::Each, now_ms()).unwrap();
        assert!(read_back(&one, OBJECTS).is_err());
    }
}
