//! A GnuPG home directory: which of its files count, and writing certificates into it.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use talaria_cert::{BATCH_BYTES, Cert, Fingerprint, Item, Splitter};
use talaria_disk::{NewFile, Readers, beside, folder_of, sync_folder};

use crate::dotlock::Dotlock;
use crate::error::{GnupgError, LeftOut};
use crate::keybox::{self, Blob, Keybox, is_openpgp_keybox};
use crate::ownertrust::write_ownertrust;

/// The name of the file for ownertrust, see [`Home::write`].
const OWNERTRUST: &str = "otrust.txt";

/// More is not read of a configuration file.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The parts of a GnuPG home directory that talaria reads.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Home {
    /// `pubring.kbx`.
    pub keybox: Option<PathBuf>,
    /// `pubring.gpg`, the keyring of old.
    pub ring: Option<PathBuf>,
    /// keyboxd's `public-keys.d/pubring.db`.
    pub database: Option<PathBuf>,
    /// `trustdb.gpg`, with the ownertrust.
    pub trustdb: Option<PathBuf>,
    /// Whether `common.conf` has the line `use-keyboxd`.
    pub uses_keyboxd: bool,
}

/// Where GnuPG keeps the certificates of a home directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source<'a> {
    /// keyboxd's database.
    Keyboxd(&'a Path),
    /// A keybox.
    Keybox(&'a Path),
    /// A stream of packets.
    Ring(&'a Path),
}

impl Home {
    /// Looks at the folder at `path`; `None` if it has none of GnuPG's files.
    ///
    /// # Errors
    ///
    /// [`GnupgError::Io`] if the folder cannot be looked at.
    pub fn open(path: &Path) -> Result<Option<Self>, GnupgError> {
        let file = |name: &str| {
            let file = path.join(name);
            match fs::metadata(&file) {
                Ok(meta) => Ok(meta.is_file().then_some(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                // A component of the path is a file: there is nothing below it.
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
                Err(source) => Err(GnupgError::Io { action: "look at", path: file, source }),
            }
        };
        let uses_keyboxd = match file("common.conf")? {
            Some(config) => {
                let mut text = Vec::new();
                File::open(&config)
                    .and_then(|file| file.take(CONFIG_BYTES_MAX).read_to_end(&mut text))
                    .map_err(GnupgError::io("read", &config))?;
                text.split(|&b| b == b'\n').any(|line| {
                    let word = line.trim_ascii().split(u8::is_ascii_whitespace).next();
                    matches!(word, Some(b"use-keyboxd" | b"--use-keyboxd"))
                })
            }
            None => false,
        };
        let home = Self {
            keybox: file("pubring.kbx")?,
            ring: file("pubring.gpg")?,
            database: file("public-keys.d/pubring.db")?,
            trustdb: file("trustdb.gpg")?,
            uses_keyboxd,
        };
        let Self { keybox, ring, database, trustdb, .. } = &home;
        let any = [keybox, ring, database, trustdb].into_iter().any(Option::is_some);
        Ok(any.then_some(home))
    }

    /// The file in which GnuPG looks for certificates; it looks in no other.
    ///
    /// keyboxd's database if the configuration says so (or there is nothing else); else the keybox,
    /// unless it is used for X.509 alone and there is a ring; else the ring.
    #[must_use]
    pub fn source(&self) -> Option<Source<'_>> {
        let database = self.database.as_deref().map(Source::Keyboxd);
        let keybox = self.keybox.as_deref().map(Source::Keybox);
        let ring = self.ring.as_deref().map(Source::Ring);
        let x509_only = || self.keybox.as_deref().is_some_and(|path| !is_used_for_openpgp(path));
        if self.uses_keyboxd && database.is_some() {
            database
        } else if ring.is_some() && (keybox.is_none() || x509_only()) {
            ring
        } else {
            keybox.or(database)
        }
    }

    /// The files to read, in this order: that of the certificates, then the trust database.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let certs = self.source().map(|source| match source {
            Source::Keyboxd(path) | Source::Keybox(path) | Source::Ring(path) => path.to_owned(),
        });
        certs.into_iter().chain(self.trustdb.clone())
    }

    /// Writes certificates into the home directory at `path`, which is made if it does not exist,
    /// and returns what found no room.
    ///
    /// They go to `pubring.kbx`, under GnuPG's lock, by way of a new file that replaces the old one
    /// once it is on disk; the old one is kept as `pubring.kbx~`. What was there stays:
    /// certificates are joined with those of the same fingerprint, others and the X.509
    /// certificates of gpgsm are copied. Where GnuPG still used a `pubring.gpg`, its certificates
    /// go to the keybox as well, for GnuPG does not look at it any more from then on.
    ///
    /// Ownertrust is not written to the trust database, which is GnuPG's own. If there is any, it
    /// goes to the file `otrust.txt` in the directory, for `gpg --import-ownertrust`.
    ///
    /// # Errors
    ///
    /// [`GnupgError::UsesKeyboxd`] if GnuPG would not look at what is written,
    /// [`GnupgError::Damaged`] if what is there cannot be read as a whole, [`GnupgError::Locked`]
    /// or [`GnupgError::Io`]. The keys are as they were before.
    pub fn write(
        path: &Path,
        certs: impl IntoIterator<Item = Cert>,
        ownertrusts: &[(Fingerprint, u8)],
        now: u32,
    ) -> Result<Vec<LeftOut>, GnupgError> {
        if !path.is_dir() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(GnupgError::io("make", path))?;
        }
        let keybox = path.join("pubring.kbx");
        let lock = Dotlock::take(&keybox)?;
        // Only the content under the lock counts.
        let home = Self::open(path)?;
        if home.as_ref().is_some_and(|home| home.uses_keyboxd) {
            return Err(GnupgError::UsesKeyboxd { path: path.to_owned() });
        }
        let mut present = Present::default();
        if let Some(home) = &home {
            if let Some(keybox) = &home.keybox {
                present.read_keybox(keybox)?;
            }
            if let Some(Source::Ring(ring)) = home.source() {
                present.read_ring(ring)?;
            }
        }
        let mut left_out = Vec::new();
        replace(&keybox, |out| {
            left_out = present.write(out, certs, now)?;
            Ok(())
        })?;
        drop(lock);
        if ownertrusts.iter().any(|(_, value)| *value != 0) {
            let file = path.join(OWNERTRUST);
            let text = write_ownertrust(ownertrusts);
            replace(&file, |out| out.write_all(text.as_bytes()))?;
        }
        Ok(left_out)
    }
}

fn is_used_for_openpgp(keybox: &Path) -> bool {
    let mut head = [0; 32];
    let read = File::open(keybox).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && is_openpgp_keybox(&head)
}

/// Writes a file, and puts it on disk and in the place of `path`. The old one becomes `path~`, as
/// with GnuPG. Of a symbolic link, both are the file to which it leads.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<NewFile>) -> io::Result<()>,
) -> Result<(), GnupgError> {
    let attempt = || -> io::Result<()> {
        let found = path.canonicalize();
        let is_there = found.is_ok();
        let path = found.unwrap_or_else(|_| path.to_owned());
        let mut out = BufWriter::with_capacity(1 << 20, NewFile::replacing(&path)?);
        write(&mut out)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        // A full disk must not cost the older one.
        file.sync()?;
        let backup = beside(&path, "~");
        match fs::hard_link(&path, &backup) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&backup)?;
                fs::hard_link(&path, &backup)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            linked => linked?,
        }
        file.name(if is_there { Readers::Usual } else { Readers::Owner })?;
        sync_folder(folder_of(&path))
    };
    attempt().map_err(GnupgError::io("write", path))
}

/// How many secret keys the agent of the home directory at `path` has in files of its own.
#[must_use]
pub fn secret_keys(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path.join("private-keys-v1.d")) else { return 0 };
    let is_key = |entry: &fs::DirEntry| {
        let path = entry.path();
        path.extension().is_some_and(|extension| extension == "key")
    };
    entries.flatten().filter(is_key).count() as u64
}

/// The existing content of a home directory.
#[derive(Default)]
struct Present {
    certs: HashMap<Fingerprint, Cert>,
    /// Their fingerprints in the order of the file.
    order: Vec<Fingerprint>,
    /// Blobs that are copied as they are: X.509, and what GnuPG took and we do not.
    others: Vec<Vec<u8>>,
}

impl Present {
    fn add(&mut self, cert: Cert) {
        match self.certs.entry(cert.fingerprint()) {
            std::collections::hash_map::Entry::Occupied(mut entry) => {
                let joined = entry.get().union(&cert);
                entry.insert(joined);
            }
            std::collections::hash_map::Entry::Vacant(entry) => {
                self.order.push(cert.fingerprint());
                entry.insert(cert);
            }
        }
    }

    fn read_keybox(&mut self, path: &Path) -> Result<(), GnupgError> {
        let failed = || GnupgError::io("read", path);
        let mut file = File::open(path).map_err(failed())?;
        if file.metadata().is_ok_and(|meta| meta.len() == 0) {
            return Ok(());
        }
        let mut reader = Keybox::new(BufReader::new(&mut file));
        while let Some((offset, blob)) = reader.next_blob().map_err(failed())? {
            match blob {
                Blob::Keyblock(blob, at) => match Cert::parse(&blob[at]) {
                    // A certificate without room in our blobs stays in its present one.
                    Ok(cert) if keybox::blob(&cert, 0).is_ok() => self.add(cert),
                    _ => self.others.push(blob),
                },
                Blob::Other(blob) => self.others.push(blob),
                Blob::Rejected(reason) => {
                    let what = format!("{}: {reason}", path.display());
                    return Err(GnupgError::Damaged { what, offset });
                }
            }
        }
        Ok(())
    }

    fn read_ring(&mut self, path: &Path) -> Result<(), GnupgError> {
        let failed = || GnupgError::io("read", path);
        let damaged = |offset, reason| GnupgError::Damaged {
            what: format!("{}: {reason}", path.display()),
            offset,
        };
        let mut splitter = Splitter::new(File::open(path).map_err(failed())?, BATCH_BYTES);
        while let Some(batch) = splitter.next_batch().map_err(failed())? {
            for item in &batch.items {
                match item {
                    Item::Cert(at) => {
                        let offset = batch.offset + at.start as u64;
                        let cert = Cert::parse(&batch.bytes[at.clone()]);
                        self.add(cert.map_err(|reason| damaged(offset, reason))?);
                    }
                    Item::Rejected(reject) => {
                        return Err(damaged(reject.offset, reject.reason.clone()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the keybox: what is given, joined with what is there, then the rest of that.
    fn write(
        mut self,
        out: &mut impl io::Write,
        certs: impl IntoIterator<Item = Cert>,
        now: u32,
    ) -> io::Result<Vec<LeftOut>> {
        let mut left_out = Vec::new();
        out.write_all(&keybox::header(now))?;
        for cert in certs {
            let present = self.certs.remove(&cert.fingerprint());
            let joined = present.as_ref().map(|present| present.union(&cert));
            match keybox::blob(joined.as_ref().unwrap_or(&cert), now) {
                Ok(blob) => out.write_all(&blob)?,
                Err(left) => {
                    left_out.push(left);
                    if let Some(present) = present {
                        self.certs.insert(cert.fingerprint(), present);
                    }
                }
            }
        }
        for fingerprint in &self.order {
            let Some(cert) = self.certs.remove(fingerprint) else { continue };
            match keybox::blob(&cert, now) {
                Ok(blob) => out.write_all(&blob)?,
                Err(left) => left_out.push(left),
            }
        }
        self.others.iter().try_for_each(|blob| out.write_all(blob))?;
        Ok(left_out)
    }
}
