//! The certificates of the keyrings by their places: of a keybox only the tables are read, and of
//! any keyring only the certificates that are asked for stay in memory.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use talaria_cert::{BATCH_BYTES, CERT_BYTES_MAX, Fingerprint, Item, KeyId, Splitter};
use talaria_gnupg::{KeyboxEntry, KeyboxTables};

use crate::gpg::names::Name;
use crate::keyblock::keys_of;

/// Where a certificate lies.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Place {
    ring: usize,
    offset: u64,
    bytes: usize,
}

/// What a keyring is made of.
#[derive(Debug)]
enum Ring {
    Packets(File),
    Keybox(File),
}

/// What is known of a certificate without parsing it.
enum Entry<'a> {
    Packets(&'a [u8]),
    Tables(&'a KeyboxEntry<'a>),
}

/// The certificates of keyrings, in their order.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    rings: Vec<Ring>,
}

impl Catalog {
    /// Adds a keyring of packets.
    pub(crate) fn add_packets(&mut self, file: File) {
        self.rings.push(Ring::Packets(file));
    }

    /// Adds a keybox.
    pub(crate) fn add_keybox(&mut self, file: File) {
        self.rings.push(Ring::Keybox(file));
    }

    /// The places of all certificates that names stand for, and the key that is meant in each; all
    /// certificates without a name. `None` if a keyring is damaged.
    ///
    /// As in GnuPG, the tables of a keybox say who is in it.
    pub(crate) fn find(&self, names: &[Name]) -> Option<Vec<(Place, Option<Fingerprint>)>> {
        let mut found = Vec::new();
        self.visit(&mut |place, entry| {
            let is_meant = names.is_empty()
                || match entry {
                    Entry::Packets(raw) => names.iter().any(|name| name.find(raw).is_some()),
                    Entry::Tables(entry) => is_named(entry, names)?,
                };
            if is_meant {
                found.push((place, None));
            }
            Some(())
        })?;
        if !names.is_empty() {
            for (place, key) in &mut found {
                let raw = self.read(*place)?;
                *key = Some(names.iter().find_map(|name| name.find(&raw))?);
            }
        }
        Some(found)
    }

    /// The packets of a certificate; `None` if they can no longer be read.
    pub(crate) fn read(&self, place: Place) -> Option<Vec<u8>> {
        let (Ring::Packets(file) | Ring::Keybox(file)) = self.rings.get(place.ring)?;
        if place.bytes > CERT_BYTES_MAX {
            return None;
        }
        let mut raw = vec![0; place.bytes];
        file.read_exact_at(&mut raw, place.offset).ok()?;
        Some(raw)
    }

    /// The first certificate with each key.
    pub(crate) fn by_key_id(&self) -> HashMap<KeyId, Place> {
        let mut places = HashMap::new();
        // What lies before damage is known.
        let _ = self.visit(&mut |place, entry| {
            let mut add = |key: Fingerprint| {
                places.entry(key.key_id()).or_insert(place);
            };
            match entry {
                Entry::Packets(raw) => keys_of(raw).for_each(|key| add(key.fingerprint())),
                Entry::Tables(entry) => {
                    entry.fingerprints().for_each(|name| add(Fingerprint::V4(*name)));
                }
            }
            Some(())
        });
        places
    }

    /// Visits all certificates; `None` at damage, and where `visit` has none.
    fn visit(&self, visit: &mut dyn FnMut(Place, Entry<'_>) -> Option<()>) -> Option<()> {
        for (ring, file) in self.rings.iter().enumerate() {
            match file {
                Ring::Keybox(file) => {
                    let mut tables = KeyboxTables::new(file).ok()?;
                    while let Some(entry) = tables.next_entry().ok()? {
                        let at = entry.place();
                        let bytes = usize::try_from(at.end - at.start).ok()?;
                        visit(Place { ring, offset: at.start, bytes }, Entry::Tables(&entry))?;
                    }
                }
                Ring::Packets(file) => {
                    let mut splitter = Splitter::new(FromStart { file, at: 0 }, BATCH_BYTES);
                    while let Some(batch) = splitter.next_batch().ok()? {
                        for item in &batch.items {
                            let Item::Cert(at) = item else { return None };
                            let offset = batch.offset + at.start as u64;
                            let place = Place { ring, offset, bytes: at.len() };
                            visit(place, Entry::Packets(&batch.bytes[at.clone()]))?;
                        }
                    }
                }
            }
        }
        Some(())
    }
}

/// Whether the tables of a certificate have one of the names; `None` if they cannot be read.
fn is_named(entry: &KeyboxEntry<'_>, names: &[Name]) -> Option<bool> {
    let is_key = |name: &Name| entry.fingerprints().any(|key| name.is_key(&Fingerprint::V4(*key)));
    if names.iter().any(is_key) {
        return Some(true);
    }
    if names.iter().any(Name::is_of_user_id) {
        for number in 0..entry.user_ids() {
            let user_id = entry.user_id(number).ok()?;
            if names.iter().any(|name| name.is_user_id(&user_id)) {
                return Some(true);
            }
        }
    }
    Some(false)
}

/// Reads an open file from its start, whoever else reads it.
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl std::io::Read for FromStart<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(out, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
