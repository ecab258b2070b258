//! The tables in front of each blob of a keybox: GnuPG finds certificates by them, without looking
//! at the certificates themselves.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use crate::keybox::{
    FIXED_BYTES, GNUPG_BLOB_BYTES_MAX, frame, is_ephemeral, is_keybox, keyblock_place, kind, names,
    short,
};

/// Bytes of a blob that are read at first: the tables of most certificates.
const HEAD_BYTES: usize = 4096;

/// Bytes of an entry in the table of user IDs, at least.
const USER_ID_ENTRY_BYTES_MIN: usize = 12;

/// Reads the tables of the certificates in a keybox, and of a certificate only what is asked for.
///
/// The certificates of gpgsm are passed over. Unlike [`Keybox`](crate::Keybox), this reader goes on
/// behind no damage, and not behind a blob that GnuPG would not read.
#[derive(Debug)]
pub struct KeyboxTables<'f> {
    file: &'f File,
    file_bytes: u64,
    offset: u64,
}

/// The tables of a certificate.
#[derive(Debug)]
pub struct KeyboxEntry<'f> {
    file: &'f File,
    offset: u64,
    /// The start of the blob, up to the end of its tables or further.
    head: Vec<u8>,
    keyblock: Range<usize>,
    /// Where the user IDs lie in the blob.
    user_ids: Vec<Range<usize>>,
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the keybox is damaged")
}

impl<'f> KeyboxTables<'f> {
    /// A reader from the start of a keybox.
    ///
    /// # Errors
    ///
    /// Those of the file; [`io::ErrorKind::InvalidData`] if it is no keybox.
    pub fn new(file: &'f File) -> io::Result<Self> {
        let mut head = [0; 12];
        file.read_exact_at(&mut head, 0)?;
        if !is_keybox(&head) {
            return Err(damaged());
        }
        Ok(Self { file, file_bytes: file.metadata()?.len(), offset: 0 })
    }

    /// The tables of the next certificate; `None` at the end.
    ///
    /// # Errors
    ///
    /// Those of the file; [`io::ErrorKind::InvalidData`] at damage.
    pub fn next_entry(&mut self) -> io::Result<Option<KeyboxEntry<'f>>> {
        while self.offset < self.file_bytes {
            let (offset, left) = (self.offset, self.file_bytes - self.offset);
            let mut head = Vec::new();
            grow(self.file, offset, &mut head, HEAD_BYTES, left)?;
            let (bytes, kind) = frame(&head).ok_or_else(damaged)?;
            if bytes as u64 > left {
                return Err(damaged());
            }
            self.offset += bytes as u64;
            head.truncate(bytes);
            if kind != kind::OPENPGP || is_ephemeral(&head) {
                continue;
            }
            if bytes > GNUPG_BLOB_BYTES_MAX {
                return Err(damaged());
            }
            let user_ids = tables(self.file, offset, &mut head, bytes)?;
            let keyblock =
                keyblock_place(&head).filter(|at| at.end <= bytes).ok_or_else(damaged)?;
            return Ok(Some(KeyboxEntry { file: self.file, offset, head, keyblock, user_ids }));
        }
        Ok(None)
    }
}

impl KeyboxEntry<'_> {
    /// The first 20 bytes of the fingerprints, that of the primary key first.
    pub fn fingerprints(&self) -> impl Iterator<Item = &[u8; 20]> {
        names(&self.head)
    }

    /// The number of user IDs.
    #[must_use]
    pub fn user_ids(&self) -> usize {
        self.user_ids.len()
    }

    /// A user ID by its number from 0.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn user_id(&self, number: usize) -> io::Result<Vec<u8>> {
        let place = self.user_ids.get(number).cloned().unwrap_or_default();
        match self.head.get(place.clone()) {
            Some(text) => Ok(text.to_vec()),
            None => self.read(&place),
        }
    }

    /// Where the raw keyblock lies in the file.
    #[must_use]
    pub fn place(&self) -> Range<u64> {
        let Range { start, end } = self.keyblock;
        self.offset + start as u64..self.offset + end as u64
    }

    fn read(&self, place: &Range<usize>) -> io::Result<Vec<u8>> {
        let mut out = vec![0; place.len()];
        self.file.read_exact_at(&mut out, self.offset + place.start as u64)?;
        Ok(out)
    }
}

/// Makes `head` at least `wanted` bytes long, if there are so many `left` in the file.
fn grow(file: &File, offset: u64, head: &mut Vec<u8>, wanted: usize, left: u64) -> io::Result<()> {
    let wanted = wanted.min(usize::try_from(left).unwrap_or(usize::MAX));
    let has = head.len();
    if wanted > has {
        head.resize(wanted, 0);
        file.read_exact_at(&mut head[has..], offset + has as u64)?;
    }
    Ok(())
}

/// Reads the tables of a blob, and gives the places of the user IDs.
fn tables(
    file: &File,
    offset: u64,
    head: &mut Vec<u8>,
    bytes: usize,
) -> io::Result<Vec<Range<usize>>> {
    let up_to = |head: &mut Vec<u8>, wanted: usize| {
        if wanted > bytes {
            return Err(damaged());
        }
        grow(file, offset, head, wanted, bytes as u64)
    };
    let number = |head: &[u8], at| short(head, at).ok_or_else(damaged);
    let keys_end = FIXED_BYTES + number(head, 16)? * number(head, 18)?;
    up_to(head, keys_end + 2)?;
    let start = keys_end + 2 + number(head, keys_end)?;
    up_to(head, start + 4)?;
    let (count, entry_bytes) = (number(head, start)?, number(head, start + 2)?);
    if entry_bytes < USER_ID_ENTRY_BYTES_MIN {
        return Err(damaged());
    }
    up_to(head, start + 4 + count * entry_bytes)?;
    let entries = head[start + 4..start + 4 + count * entry_bytes].chunks_exact(entry_bytes);
    let place = |entry: &[u8]| {
        let number = |at: usize| {
            entry.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize)
        };
        let (start, length) = (number(0)?, number(4)?);
        Some(start..start.checked_add(length).filter(|&end| end <= bytes)?)
    };
    entries.map(place).collect::<Option<_>>().ok_or_else(damaged)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use talaria_corpus::{Generate, certs};

    use super::*;
    use crate::keybox::{Keybox, write_keybox};

    fn written(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn tables_name_what_the_certificates_have() {
        let certs = certs(&Generate { count: 20, ..Generate::default() });
        let mut bytes = Vec::new();
        assert!(write_keybox(&mut bytes, &certs, 7).unwrap().is_empty());
        let file = written(&bytes);
        let mut tables = KeyboxTables::new(&file).unwrap();
        let raw: Vec<Vec<u8>> =
            Keybox::new(&bytes[..]).map(|item| item.unwrap().1.unwrap()).collect();
        let mut count = 0;
        while let Some(entry) = tables.next_entry().unwrap() {
            let cert = &certs[count];
            let names: Vec<_> = entry.fingerprints().map(|name| name.to_vec()).collect();
            let wanted: Vec<_> =
                cert.keys().map(|key| key.fingerprint().as_bytes()[..20].to_vec()).collect();
            assert_eq!(names, wanted);
            let user_ids: Vec<_> =
                (0..entry.user_ids()).map(|number| entry.user_id(number).unwrap()).collect();
            let is_user_id =
                |packet: &talaria_cert::PacketRef<'_>| packet.tag == talaria_cert::Tag::USER_ID;
            let wanted: Vec<_> =
                cert.packets().filter(is_user_id).map(|packet| packet.body.to_vec()).collect();
            assert_eq!(user_ids, wanted);
            let place = entry.place();
            let place = usize::try_from(place.start).unwrap()..usize::try_from(place.end).unwrap();
            assert_eq!(bytes[place], raw[count][..]);
            count += 1;
        }
        assert_eq!(count, certs.len());
    }

    /// Any flipped bit in the tables gives other tables or an error, and reading ends.
    #[test]
    fn reading_ends_at_damage() {
        let certs = certs(&Generate { count: 2, ..Generate::default() });
        let mut bytes = Vec::new();
        write_keybox(&mut bytes, &certs, 7).unwrap();
        for at in 0..bytes.len().min(400) {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                let file = written(&bytes);
                let Ok(mut tables) = KeyboxTables::new(&file) else { continue };
                let mut count = 0;
                while let Ok(Some(entry)) = tables.next_entry() {
                    for number in 0..entry.user_ids() {
                        let _ = entry.user_id(number);
                    }
                    assert!(entry.place().end <= bytes.len() as u64);
                    count += 1;
                }
                assert!(count <= certs.len());
            }
        }
        for end in 0..bytes.len().min(400) {
            let file = written(&bytes[..end]);
            let read = KeyboxTables::new(&file).map(|mut tables| tables.next_entry());
            assert!(matches!(read, Err(_) | Ok(Err(_) | Ok(None))), "{end} bytes");
        }
    }
}
