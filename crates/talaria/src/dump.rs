//! Dumps: folders of keyring files in the layout of SKS, with the whole store or its changes since
//! an earlier dump.
//!
//! All files of a dump are written under temporary names first and then renamed, so a folder holds
//! complete files only. `talaria-dump.txt` records the position in the change log where the dump
//! ends; it is written last.

use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use md5::{Digest as _, Md5};
use talaria_cert::hex::Lower;
use talaria_cert::timestamp;
use talaria_cert::{Cert, Fingerprint};
use talaria_disk::{
    FolderLock, WrittenFile, make_folder, remove, remove_if_there, rename, sync_folder,
};

use crate::error::{Error, failed};
use crate::export::{Chosen, Exported, OnDamage, Signatures, Skipped, each};
use crate::progress::Monitor;
use crate::stores::Stores;
use crate::token::Token;

/// The file with the position in the change log where a dump ends.
const STATE: &str = "talaria-dump.txt";

/// The file with the certificates that are in the dump but were deleted since.
const DELETED: &str = "deleted.txt";

/// The description that SKS puts next to its dumps.
const METADATA: &str = "metadata-sks-dump.txt";

/// The extent of a dump.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Extent {
    /// All certificates; the new dump replaces the earlier content of the folder.
    Whole,
    /// Certificates that were added or changed since a token, in additional files.
    Since(Token),
    /// Certificates that were added or changed since the dump in the folder, in additional files.
    Increment,
}

/// Number of certificates per file of a dump, as SKS has it.
const PER_FILE: usize = 15_000;

/// Options for a dump. Programs set the fields of [`Self::new`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DumpOptions {
    /// The target folder; it is created if it does not exist.
    pub folder: PathBuf,
    /// The extent of the dump.
    pub extent: Extent,
    /// The number of certificates per file.
    pub per_file: usize,
    /// The signatures to include.
    pub signatures: Signatures,
    /// The end of the dump if a certificate is damaged. The next increment has a skipped one if it
    /// was repaired by then.
    pub on_damage: OnDamage,
    /// The host name in the metadata.
    pub hostname: String,
    /// The current time, in seconds since 1970.
    pub now: u32,
}

impl DumpOptions {
    /// A whole dump to `folder` with all exportable signatures, of the host `localhost`. `now` is
    /// the current time, in seconds since 1970.
    #[must_use]
    pub fn new(folder: PathBuf, now: u32) -> Self {
        Self {
            folder,
            extent: Extent::Whole,
            per_file: PER_FILE,
            signatures: Signatures::default(),
            on_damage: OnDamage::default(),
            hostname: "localhost".to_owned(),
            now,
        }
    }
}

/// The report on a dump.
#[derive(Clone, Debug)]
pub struct Dumped {
    /// The number of certificates written.
    pub certs: u64,
    /// The number of bytes of their packets.
    pub bytes: u64,
    /// The keyring files that were written.
    pub files: Vec<PathBuf>,
    /// Certificates that are, or may be, in files of the folder, but no longer in the store.
    pub deleted: Vec<Fingerprint>,
    /// Damaged certificates, with [`OnDamage::Skip`]. The dump lacks them.
    pub skipped: Vec<Skipped>,
    /// The token where the next increment starts.
    pub token: Token,
}

/// Writes a dump. It does not block writers to the store. Changes made after the start may be in
/// the dump, and are in the next increment in any case.
///
/// # Errors
///
/// [`Error::Dump`] if there is no earlier dump to continue, or another dump is being written;
/// [`Error::Token`]; errors of reading and writing. On an error the folder is unchanged, except for
/// errors of the very last step, renaming: then no [`Extent::Increment`] can continue it.
pub fn dump(
    stores: &Stores,
    options: &DumpOptions,
    monitor: &mut Monitor<'_>,
) -> Result<Dumped, Error> {
    let started = Instant::now();
    let folder = Folder::open(&options.folder)?;
    let Some(first) = stores.iter().next() else {
        return Err(folder.refuse("no store to dump"));
    };
    if stores.iter().count() > 1 && options.extent != Extent::Whole {
        return Err(folder.refuse("several stores can only be dumped completely"));
    }
    let token = Token::now(&first.store)?;
    let since = match &options.extent {
        Extent::Whole => None,
        Extent::Since(token) => Some(token.number_in(&first.store)?),
        Extent::Increment => Some(folder.state()?.number_in(&first.store)?),
    };
    let before = if since.is_some() { folder.metadata()? } else { Metadata::default() };
    let mut writer = DumpWriter {
        folder: &folder,
        per_file: options.per_file.max(1),
        next: if since.is_some() { folder.next_number()? } else { 0 },
        open: None,
        done: Vec::new(),
    };
    let mut exported = Exported::default();
    let chosen = Chosen {
        queries: &[],
        changed_since: since,
        signatures: options.signatures,
        on_damage: options.on_damage,
    };
    each(stores, &chosen, &mut exported, monitor, &mut |cert| writer.write(&cert))?;
    writer.close()?;

    let mut gone = Vec::new();
    for fingerprint in &exported.deleted {
        gone.push(fingerprint.to_string());
    }
    if since.is_some() {
        for line in folder.deleted()? {
            if !gone.contains(&line) && !is_here(stores, &line)? {
                gone.push(line);
            }
        }
    }
    let mut metadata = before;
    metadata.certs += exported.certs;
    metadata
        .files
        .extend(writer.done.iter().map(|written| (written.md5.clone(), name_of(written.number))));
    let seconds = u32::try_from(started.elapsed().as_secs()).unwrap_or(0);
    let times = (options.now, options.now.saturating_add(seconds));
    let files = folder.publish(std::mem::take(&mut writer.done), since.is_none())?;
    // After a power cut, a list of files must not name one that is missing, and the position must
    // not be beyond the files.
    folder.sync()?;
    folder.put(DELETED, (!gone.is_empty()).then(|| gone.join("\n") + "\n"))?;
    folder.put(METADATA, Some(metadata.text(&options.hostname, times)))?;
    let state = format!(
        "# The dump in this folder ends here; `talaria dump --incremental` goes on from it.\n\
         token {token}\n"
    );
    folder.sync()?;
    folder.put(STATE, (stores.iter().count() == 1).then_some(state))?;
    folder.sync()?;
    let Exported { certs, bytes, deleted, skipped, .. } = exported;
    Ok(Dumped { certs, bytes, files, deleted, skipped, token })
}

/// Whether a deleted certificate is in the store again.
fn is_here(stores: &Stores, fingerprint: &str) -> Result<bool, Error> {
    let Ok(query) = fingerprint.parse() else { return Ok(false) };
    for opened in stores.iter() {
        let found = opened.store.select(&query, 10)?;
        if found.rows.iter().any(|row| row.summary.fingerprint().to_string() == fingerprint) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn name_of(number: u32) -> String {
    format!("sks-dump-{number:04}.pgp")
}

fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix("sks-dump-")?.strip_suffix(".pgp")?.parse().ok()
}

/// A locked folder with a dump.
struct Folder {
    path: PathBuf,
    _lock: FolderLock,
}

impl Folder {
    fn open(path: &Path) -> Result<Self, Error> {
        make_folder(path, 0o777).map_err(|error| failed("make", path, error))?;
        let lock = FolderLock::try_take(path).map_err(|error| failed("lock", path, error))?;
        let lock =
            lock.ok_or_else(|| refuse(path, "another process is writing a dump to the folder"))?;
        let folder = Self { path: path.to_owned(), _lock: lock };
        // Remove the temporary files of a dump that was killed.
        for name in folder.names()? {
            let is_ours = |name: &str| {
                number_of(name).is_some() || [STATE, DELETED, METADATA].contains(&name)
            };
            if name.strip_suffix(".tmp").is_some_and(is_ours) {
                let path = folder.path.join(name);
                remove(&path).map_err(|error| failed("remove", &path, error))?;
            }
        }
        Ok(folder)
    }

    fn refuse(&self, what: &'static str) -> Error {
        refuse(&self.path, what)
    }

    fn names(&self) -> Result<Vec<String>, Error> {
        let read = || -> io::Result<Vec<String>> {
            let entries = fs::read_dir(&self.path)?;
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
        };
        read().map_err(|error| failed("read", &self.path, error))
    }

    fn numbers(&self) -> Result<Vec<u32>, Error> {
        Ok(self.names()?.iter().filter_map(|name| number_of(name)).collect())
    }

    fn next_number(&self) -> Result<u32, Error> {
        Ok(self.numbers()?.into_iter().max().map_or(0, |last| last + 1))
    }

    /// The content of a text file of the folder; empty if the file does not exist.
    fn text(&self, name: &str) -> Result<String, Error> {
        let path = self.path.join(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(failed("read", &path, error)),
        }
    }

    /// The position where the dump in the folder ends.
    fn state(&self) -> Result<Token, Error> {
        let text = self.text(STATE)?;
        let token = text.lines().find_map(|line| line.strip_prefix("token ")?.trim().parse().ok());
        token.ok_or_else(|| self.refuse("the folder has no dump to continue"))
    }

    fn deleted(&self) -> Result<Vec<String>, Error> {
        Ok(self.text(DELETED)?.lines().map(|line| line.trim().to_owned()).collect())
    }

    fn metadata(&self) -> Result<Metadata, Error> {
        Ok(Metadata::parse(&self.text(METADATA)?))
    }

    /// Renames the written files to their final names. With `replace`, removes the other files of
    /// dumps.
    fn publish(&self, written: Vec<Written>, replace: bool) -> Result<Vec<PathBuf>, Error> {
        if replace {
            // A mix of two dumps must not look like a dump.
            self.put(STATE, None)?;
            self.sync()?;
        }
        let mut files = Vec::with_capacity(written.len());
        for Written { number, mut temporary, .. } in written {
            let path = self.path.join(name_of(number));
            rename(&temporary.0, &path).map_err(|error| failed("write", &path, error))?;
            temporary.0.clear();
            files.push(path);
        }
        if replace {
            for number in self.numbers()? {
                let path = self.path.join(name_of(number));
                if !files.contains(&path) {
                    remove(&path).map_err(|error| failed("remove", &path, error))?;
                }
            }
        }
        Ok(files)
    }

    /// Writes a text file of the folder, or removes it for `None`.
    fn put(&self, name: &str, text: Option<String>) -> Result<(), Error> {
        let path = self.path.join(name);
        let Some(text) = text else {
            return remove_if_there(&path).map_err(|error| failed("remove", &path, error));
        };
        let temporary = self.path.join(format!("{name}.tmp"));
        let write = || -> io::Result<()> {
            let mut file = WrittenFile::create(&temporary)?;
            file.write_all(text.as_bytes())?;
            file.sync()?;
            rename(&temporary, &path)
        };
        write().map_err(|error| failed("write", &path, error))
    }

    fn sync(&self) -> Result<(), Error> {
        sync_folder(&self.path).map_err(|error| failed("write", &self.path, error))
    }
}

/// A file that is deleted on drop, unless its name was cleared.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            let _ = remove(&self.0);
        }
    }
}

/// A file of a dump before its renaming.
struct Written {
    number: u32,
    temporary: Temporary,
    md5: String,
}

/// A file of a dump that is being written.
struct Open {
    temporary: Temporary,
    out: BufWriter<WrittenFile>,
    md5: Md5,
    certs: usize,
}

struct DumpWriter<'a> {
    folder: &'a Folder,
    per_file: usize,
    next: u32,
    open: Option<Open>,
    done: Vec<Written>,
}

impl DumpWriter<'_> {
    fn write(&mut self, cert: &Cert) -> Result<(), Error> {
        let path = self.folder.path.join(name_of(self.next) + ".tmp");
        if self.open.is_none() {
            let file = WrittenFile::create(&path).map_err(|error| failed("write", &path, error))?;
            let out = BufWriter::with_capacity(1 << 16, file);
            let temporary = Temporary(path.clone());
            self.open = Some(Open { temporary, out, md5: Md5::new(), certs: 0 });
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        open.md5.update(cert.as_bytes());
        open.out.write_all(cert.as_bytes()).map_err(|error| failed("write", &path, error))?;
        open.certs += 1;
        if open.certs == self.per_file { self.close() } else { Ok(()) }
    }

    /// Finishes the open file.
    fn close(&mut self) -> Result<(), Error> {
        let Some(Open { temporary, out, md5, .. }) = self.open.take() else { return Ok(()) };
        let synced = || out.into_inner()?.sync();
        synced().map_err(|error: io::Error| failed("write", &temporary.0, error))?;
        let md5 = Lower(&md5.finalize()).to_string();
        self.done.push(Written { number: self.next, temporary, md5 });
        self.next += 1;
        Ok(())
    }
}

/// The SKS metadata of a dump.
#[derive(Debug, Default)]
struct Metadata {
    /// The number of certificates in all files; a certificate in several files counts several
    /// times.
    certs: u64,
    /// The MD5 digest and the name of each file.
    files: Vec<(String, String)>,
}

impl Metadata {
    fn parse(text: &str) -> Self {
        let mut metadata = Self::default();
        for line in text.lines() {
            if let Some(count) = line.strip_prefix("#Key-Count:") {
                metadata.certs = count.trim().parse().unwrap_or(0);
            } else if let Some((md5, name)) = line.split_once("  ")
                && number_of(name).is_some()
            {
                metadata.files.push((md5.to_owned(), name.to_owned()));
            }
        }
        metadata
    }

    fn text(&self, hostname: &str, (started, ended): (u32, u32)) -> String {
        let files: String =
            self.files.iter().map(|(md5, name)| format!("{md5}  {name}\n")).collect();
        format!(
            "#Metadata-for: {hostname}\n#Dump-started: {}\n#Files-Count: {}\n#Key-Count: {}\n\
             #Digest-algo: md5\n{files}#Dump-ended: {}\n",
            time(started),
            self.files.len(),
            self.certs,
            time(ended),
        )
    }
}

/// A time in the format of SKS, in UTC.
fn time(seconds: u32) -> String {
    timestamp(seconds).replace('T', " ").replace('Z', "")
}

fn refuse(folder: &Path, what: &'static str) -> Error {
    Error::Dump { folder: folder.to_owned(), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dump_metadata_equals_that_of_sks() {
        let text = "#Metadata-for: localhost\n#Dump-started: 2026-11-21 12:41:25\n#Files-Count: 2\n\
                    #Key-Count: 231\n#Digest-algo: md5\n\
                    f71893a6b8027ea999ac09fa8a468aef  sks-dump-0000.pgp\n\
                    cec5b4946f76f67a9d08ab74b04fe968  sks-dump-0001.pgp\n\
                    #Dump-ended: 2026-11-21 12:41:27\n";
        let times = (1_795_264_885, 1_795_264_887);
        assert_eq!(Metadata::parse(text).text("localhost", times), text);
    }
}
