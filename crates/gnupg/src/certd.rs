//! Certificate directories (draft-nwalfield-openpgp-cert-d): a file per certificate.
//!
//! The file of a certificate is its fingerprint in lower-case hex, the first two digits as the name
//! of a folder. Files of other names (the trust root, `_` and what follows, the lock) are not
//! looked at. Writers take the lock on the file `writelock`; readers take none, since a file is
//! replaced as a whole.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use talaria_cert::{CERT_BYTES_MAX, Cert, Fingerprint, Reason};
use talaria_disk::{NewFile, Readers, create_folder, folder_of, sync_folder};

use crate::error::{GnupgError, LeftOut, LeftOutReason};

/// The file that a writer locks.
const LOCK: &str = "writelock";

/// Files that are put on disk together.
const BATCH: usize = 500;

/// Whether the folder at `path` is a certificate directory: it has a lock file, or a folder of two
/// hex digits with a certificate's file in it.
#[must_use]
pub fn is_certd(path: &Path) -> bool {
    path.join(LOCK).is_file()
        || folders(path).is_ok_and(|folders| {
            folders.iter().any(|folder| files(folder).is_ok_and(|files| !files.is_empty()))
        })
}

/// Reads a certificate directory, in the order of fingerprints.
///
/// # Errors
///
/// [`GnupgError::Io`] if the folder cannot be listed.
pub fn read_certd(path: &Path) -> Result<CertdReader, GnupgError> {
    let folders = folders(path).map_err(GnupgError::io("list", path))?;
    Ok(CertdReader { folders: folders.into_iter(), files: Vec::new().into_iter() })
}

/// Yields the files of a certificate directory with their content, which is still to be parsed. A
/// file that is too large to be a certificate is cut off at one byte more than the limit.
#[derive(Debug)]
pub struct CertdReader {
    folders: std::vec::IntoIter<PathBuf>,
    files: std::vec::IntoIter<PathBuf>,
}

impl Iterator for CertdReader {
    type Item = Result<(PathBuf, Vec<u8>), GnupgError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(file) = self.files.next() {
                match read(&file) {
                    // Deleted since the folder was listed.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(source) => {
                        return Some(Err(GnupgError::Io { action: "read", path: file, source }));
                    }
                    Ok(bytes) => return Some(Ok((file, bytes))),
                }
            }
            let folder = self.folders.next()?;
            match files(&folder) {
                Ok(files) => self.files = files.into_iter(),
                Err(source) => {
                    return Some(Err(GnupgError::Io { action: "list", path: folder, source }));
                }
            }
        }
    }
}

/// Merges certificates into the certificate directory at `base`, which is made if it does not
/// exist, and returns the omitted certificates.
///
/// Files that have all that is given are not touched. The others are replaced, each as a whole;
/// files are on disk before they get their names.
///
/// # Errors
///
/// [`GnupgError::Io`]; some of the certificates may have been written.
pub fn write_certd(base: &Path, certs: &[Cert]) -> Result<Vec<LeftOut>, GnupgError> {
    fs::create_dir_all(base).map_err(GnupgError::io("make", base))?;
    let lock_path = base.join(LOCK);
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path)
        .map_err(GnupgError::io("open", &lock_path))?;
    lock.lock().map_err(GnupgError::io("lock", &lock_path))?;
    let mut left_out = Vec::new();
    // A certificate that is given twice goes to the next batch, to be joined with its file.
    let mut pending: Vec<(NewFile, PathBuf)> = Vec::new();
    // The base has the names of new folders.
    let mut folders = BTreeSet::from([base.to_owned()]);
    for cert in certs {
        let fingerprint = cert.fingerprint();
        let Some(name) = name(fingerprint) else {
            let reason = LeftOutReason::Version { version: fingerprint.version() };
            left_out.push(LeftOut { fingerprint, reason });
            continue;
        };
        let path = base.join(name);
        if pending.len() >= BATCH || pending.iter().any(|(_, other)| *other == path) {
            put_in_place(&mut pending, &mut folders)?;
        }
        let joined = match read(&path) {
            Ok(bytes) => match parse(&bytes, fingerprint) {
                Ok(present) => {
                    let joined = present.union(cert);
                    if joined == present {
                        continue;
                    }
                    Some(joined)
                }
                Err(reason) => {
                    let reason = LeftOutReason::Damaged { path, reason };
                    left_out.push(LeftOut { fingerprint, reason });
                    continue;
                }
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(GnupgError::Io { action: "read", path, source }),
        };
        let bytes = joined.as_ref().unwrap_or(cert).as_bytes();
        let file = stage(&path, bytes).map_err(GnupgError::io("write", &path))?;
        pending.push((file, path));
    }
    put_in_place(&mut pending, &mut folders)?;
    for folder in folders {
        sync_folder(&folder).map_err(GnupgError::io("write", &folder))?;
    }
    Ok(left_out)
}

/// Where the file of a certificate lies; version 3 fingerprints have no place.
fn name(fingerprint: Fingerprint) -> Option<PathBuf> {
    if fingerprint.version() == 3 {
        return None;
    }
    let hex = fingerprint.to_string().to_ascii_lowercase();
    Some(Path::new(&hex[..2]).join(&hex[2..]))
}

fn parse(bytes: &[u8], expected: Fingerprint) -> Result<Cert, Reason> {
    let cert = Cert::parse(bytes)?;
    if cert.fingerprint() == expected {
        return Ok(cert);
    }
    Err(Reason::Container(format!("the file contains the certificate {}", cert.fingerprint())))
}

/// Writes a file that will be `path`, with the usual permissions like its neighbours.
fn stage(path: &Path, bytes: &[u8]) -> io::Result<NewFile> {
    match create_folder(folder_of(path), 0o777) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mut file = NewFile::replacing(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Puts staged files on disk and in their places, and notes the folders that have their names.
fn put_in_place(
    pending: &mut Vec<(NewFile, PathBuf)>,
    folders: &mut BTreeSet<PathBuf>,
) -> Result<(), GnupgError> {
    for (file, path) in pending.drain(..) {
        folders.insert(folder_of(&path).to_owned());
        file.name(Readers::Usual).map_err(GnupgError::io("write", &path))?;
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    file.take(CERT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The folders of certificates, sorted.
fn folders(base: &Path) -> io::Result<Vec<PathBuf>> {
    list(base, |name| name.len() == 2, fs::Metadata::is_dir)
}

/// The files of certificates in a folder, sorted: 20 or 32 bytes of fingerprint less the first.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    list(folder, |name| matches!(name.len(), 38 | 62), fs::Metadata::is_file)
}

fn list(
    folder: &Path,
    fits: impl Fn(&str) -> bool,
    is: impl Fn(&fs::Metadata) -> bool,
) -> io::Result<Vec<PathBuf>> {
    let hex = |name: &str| name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| fits(name) && hex(name))
            && fs::metadata(entry.path()).is_ok_and(|meta| is(&meta))
        {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use talaria_cert::Tag;

    /// A certificate with an invented key and user IDs.
    fn cert(number: u8, user_ids: &[&str]) -> Cert {
        let mut raw = vec![0x80 | 0x40 | Tag::PUBLIC_KEY.0, 12];
        raw.extend_from_slice(&[4, 0, 0, 0, number, 1, 0, 8, 0xff, 0, 2, 3]);
        for user_id in user_ids {
            raw.push(0xc0 | Tag::USER_ID.0);
            raw.push(u8::try_from(user_id.len()).unwrap());
            raw.extend_from_slice(user_id.as_bytes());
        }
        Cert::parse(&raw).unwrap()
    }

    fn read_all(base: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        read_certd(base).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn the_path_of_a_certificate_equals_that_in_the_draft() {
        let base = tempfile::tempdir().unwrap();
        let cert = cert(1, &["Alice"]);
        assert!(!is_certd(base.path()));
        assert_eq!(write_certd(base.path(), std::slice::from_ref(&cert)).unwrap(), []);
        assert!(is_certd(base.path()));
        let hex = cert.fingerprint().to_string().to_lowercase();
        let path = base.path().join(&hex[..2]).join(&hex[2..]);
        assert_eq!(fs::read(&path).unwrap(), cert.as_bytes());
        assert_eq!(read_all(base.path()), [(path, cert.into_bytes())]);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 2, "the lock and a folder");
    }

    #[test]
    fn copies_of_a_certificate_are_merged() {
        let base = tempfile::tempdir().unwrap();
        write_certd(base.path(), &[cert(1, &["a"]), cert(2, &[]), cert(1, &["b"])]).unwrap();
        write_certd(base.path(), &[cert(1, &["c"])]).unwrap();
        let found = read_all(base.path());
        let joined = cert(1, &["a", "b", "c"]);
        assert_eq!(found.len(), 2);
        assert!(found.iter().any(|(_, bytes)| bytes == joined.as_bytes()));
    }

    #[test]
    fn other_files_are_left_alone() {
        let base = tempfile::tempdir().unwrap();
        write_certd(base.path(), &[cert(1, &["a"])]).unwrap();
        let path = read_all(base.path()).remove(0).0;
        fs::write(base.path().join("trust-root"), b"x").unwrap();
        fs::write(base.path().join("_data"), b"x").unwrap();
        fs::write(path.with_file_name("_tmp"), b"x").unwrap();
        fs::create_dir(base.path().join("_x")).unwrap();
        assert_eq!(read_all(base.path()).len(), 1);
        // A damaged file is reported and not replaced.
        fs::write(&path, b"damage").unwrap();
        let left_out = write_certd(base.path(), &[cert(1, &["b"]), cert(2, &[])]).unwrap();
        assert!(matches!(&left_out[..], [LeftOut { reason: LeftOutReason::Damaged { .. }, .. }]));
        assert_eq!(fs::read(&path).unwrap(), b"damage");
        assert_eq!(read_all(base.path()).len(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Any content in the file of a certificate causes no panic in reading and writing.
        #[test]
        fn any_bytes_are_read(bytes: Vec<u8>) {
            let base = tempfile::tempdir().unwrap();
            let cert = cert(1, &["a"]);
            let path = base.path().join(name(cert.fingerprint()).unwrap());
            fs::create_dir(path.parent().unwrap()).unwrap();
            fs::write(&path, &bytes).unwrap();
            prop_assert_eq!(read_all(base.path()), [(path, bytes)]);
            write_certd(base.path(), &[cert]).unwrap();
        }
    }
}
