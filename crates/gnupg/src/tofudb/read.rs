//! Reading, from the file and from the folder.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use parking_lot::{Mutex, MutexGuard};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use talaria_cert::hex;
use talaria_cert::{Fingerprint, KeyId};

use super::database::{
    TOFU_ROWS_MAX, TOFU_TEXT_BYTES_MAX, TofuBinding, TofuDatabase, TofuPolicy, TofuSignature,
};
use crate::error::GnupgError;
use crate::sqlite;

/// The most files that are looked at in a folder: a million.
const FILES_MAX: usize = 1_000_000;

/// The statements that made the tables are in here; all else is small beside them.
const HEAD_BYTES: u64 = 64 << 10;

/// The folder in `tofu.d` with a database for each address.
const BY_EMAIL: &str = "email";

/// Held while a database is open, see [`sqlite::open`].
static READING: Mutex<()> = Mutex::new(());

/// Whether `path` looks like GnuPG's TOFU database: SQLite with its tables, or a folder of such
/// files. One that is damaged is recognised too, unless its first page is.
#[must_use]
pub fn is_tofudb(path: &Path) -> bool {
    let first =
        if path.is_dir() { files(path).unwrap_or_default().into_iter().next() } else { None };
    let _one = one_at_a_time();
    let mut head = Vec::new();
    let read = fs::File::open(first.as_deref().unwrap_or(path))
        .and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    let has = |word: &[u8]| head.windows(word.len()).any(|window| window == word);
    read.is_ok() && head.starts_with(sqlite::MAGIC) && has(b"bindings") && has(b"sig_digest")
}

/// Reads GnuPG's TOFU database, the file `tofu.db` or the folder `tofu.d`, which may be in use.
///
/// In a folder, the databases below `email` hold all there is; those below `key` say only which
/// addresses a key has, and are not looked at. A home directory can have both: GnuPG before 2.1.15
/// looks at the folder then, later versions know the file alone.
///
/// # Errors
///
/// [`GnupgError::NotTofudb`], [`GnupgError::TofudbVersion`], [`GnupgError::Damaged`] with the row
/// and the offset of the page that holds it, [`GnupgError::TooMany`], [`GnupgError::Unfinished`] if
/// a process that wrote was broken off, [`GnupgError::Database`] or [`GnupgError::Io`]. Nothing is
/// taken then: whom to trust is not to be guessed.
pub fn read_tofudb(path: &Path) -> Result<TofuDatabase, GnupgError> {
    let _one = one_at_a_time();
    read(path, TOFU_ROWS_MAX)
}

pub(super) fn read(path: &Path, rows_max: usize) -> Result<TofuDatabase, GnupgError> {
    let mut reader = Reader::new(path, rows_max);
    if path.is_dir() {
        for file in files(path)? {
            reader.read_file(&File::open(&file)?)?;
        }
    } else {
        reader.read_file(&File::open(path)?)?;
    }
    Ok(reader.database)
}

fn one_at_a_time() -> MutexGuard<'static, ()> {
    READING.lock()
}

/// The databases `email/XX/NAME.db` of a folder, in the order of their names. Files without bytes
/// are left out: GnuPG was broken off before it wrote anything to them.
fn files(folder: &Path) -> Result<Vec<PathBuf>, GnupgError> {
    let by_email = folder.join(BY_EMAIL);
    if !by_email.is_dir() {
        return Err(GnupgError::NotTofudb { path: folder.to_owned() });
    }
    let list = |folder: &Path, into: &mut Vec<PathBuf>| {
        let entries = fs::read_dir(folder).and_then(|entries| {
            entries.take(FILES_MAX + 1).map(|e| Ok(e?.path())).collect::<io::Result<Vec<_>>>()
        });
        into.extend(entries.map_err(GnupgError::io("list", folder))?);
        let too_many =
            || GnupgError::TooMany { path: folder.to_owned(), what: "files", max: FILES_MAX };
        if into.len() > FILES_MAX { Err(too_many()) } else { Ok(()) }
    };
    let mut folders = Vec::new();
    list(&by_email, &mut folders)?;
    let mut files = Vec::new();
    for folder in folders.iter().filter(|path| path.is_dir()) {
        list(folder, &mut files)?;
    }
    files.retain(|file| {
        file.extension().is_some_and(|extension| extension == "db")
            && file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0)
    });
    files.sort();
    Ok(files)
}

/// One SQLite file with the tables of a TOFU database of version 1.
struct File<'a> {
    path: &'a Path,
    connection: Connection,
}

impl<'a> File<'a> {
    fn open(path: &'a Path) -> Result<Self, GnupgError> {
        let foreign = || GnupgError::NotTofudb { path: path.to_owned() };
        let connection = sqlite::open(path)?.ok_or_else(foreign)?;
        let file = Self { path, connection };
        // All reads see the same moment.
        file.connection.execute_batch("BEGIN").map_err(|e| file.failed(e))?;
        sqlite::check_length(path, &file.connection)?;
        if !(file.has_table("version")? && file.has_table("bindings")?) {
            return Err(foreign());
        }
        match file.version()? {
            None => Err(foreign()),
            Some(version) if version != "1" => {
                Err(GnupgError::TofudbVersion { path: path.to_owned(), found: version })
            }
            // The databases by key have no signatures, and no policies.
            Some(_) if !file.has_table("signatures")? => Err(foreign()),
            Some(_) if !file.has_column("bindings", "policy")? => Err(foreign()),
            Some(_) => Ok(file),
        }
    }

    fn version(&self) -> Result<Option<String>, GnupgError> {
        if !self.has_column("version", "version")? {
            return Ok(None);
        }
        let mut statement = self
            .connection
            .prepare("SELECT substr(CAST(version AS TEXT), 1, 20) FROM version")
            .map_err(|e| self.failed(e))?;
        let mut rows = statement.query([]).map_err(|e| self.failed(e))?;
        let Some(row) = rows.next().map_err(|e| self.failed(e))? else { return Ok(None) };
        Ok(match row.get_ref(0).map_err(|e| self.failed(e))? {
            ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        })
    }

    /// Whether there is a table of that name that lies in the file.
    fn has_table(&self, name: &str) -> Result<bool, GnupgError> {
        let sql = "SELECT count(*) > 0 FROM sqlite_schema \
            WHERE type = 'table' AND name = ?1 AND rootpage > 0";
        self.connection.query_row(sql, [name], |row| row.get(0)).map_err(|e| self.failed(e))
    }

    fn has_column(&self, table: &str, column: &str) -> Result<bool, GnupgError> {
        let sql = "SELECT count(*) > 0 FROM pragma_table_info(?1) WHERE name = ?2";
        let found = self.connection.query_row(sql, [table, column], |row| row.get(0));
        found.map_err(|e| self.failed(e))
    }

    /// The offset of the page that holds row `number` of a table, counted from 0 in the order of
    /// row IDs; 0 if SQLite cannot tell.
    fn offset(&self, table: &str, number: i64) -> u64 {
        let find = || -> rusqlite::Result<Option<i64>> {
            let mut left = number;
            let mut leaves = self.connection.prepare(
                "SELECT pgoffset, ncell FROM dbstat WHERE name = ?1 AND pagetype = 'leaf'",
            )?;
            let mut leaves = leaves.query([table])?;
            while let Some(leaf) = leaves.next()? {
                let cells: i64 = leaf.get(1)?;
                if left < cells {
                    return leaf.get(0).map(Some);
                }
                left -= cells;
            }
            Ok(None)
        };
        find().ok().flatten().map_or(0, i64::cast_unsigned)
    }

    fn failed(&self, source: rusqlite::Error) -> GnupgError {
        sqlite::failed(self.path, Some(&self.connection), source)
    }
}

/// The content read so far, of one file or several.
struct Reader<'a> {
    /// The file or folder that was asked for.
    path: &'a Path,
    database: TofuDatabase,
    seen: HashSet<(Fingerprint, Vec<u8>)>,
    rows_max: usize,
    rows: usize,
}

impl<'a> Reader<'a> {
    fn new(path: &'a Path, rows_max: usize) -> Self {
        Self { path, database: TofuDatabase::default(), seen: HashSet::new(), rows_max, rows: 0 }
    }

    fn read_file(&mut self, file: &File) -> Result<(), GnupgError> {
        let effective = file.has_column("bindings", "effective_policy")?;
        let places = self.read_bindings(file, effective)?;
        self.read_signatures(file, &places)?;
        if file.has_table("encryptions")? {
            self.read_encryptions(file, &places)?;
        }
        if file.has_table("ultimately_trusted_keys")? {
            self.read_ultimately_trusted(file)?;
        }
        Ok(())
    }

    /// Returns where the bindings are in the database, by their numbers in the file.
    fn read_bindings(
        &mut self,
        file: &File,
        effective: bool,
    ) -> Result<HashMap<i64, usize>, GnupgError> {
        // Versions before 2.1.17 work it out every time.
        let effective = if effective { "effective_policy" } else { "0" };
        let columns = format!(
            "{}, {}, {}, time, policy, {}, {effective}",
            bounded("fingerprint"),
            bounded("email"),
            bounded("user_id"),
            bounded_or_null("conflict")
        );
        let mut places = HashMap::new();
        self.read_table(file, "bindings", &columns, |reader, row| {
            let binding = TofuBinding {
                fingerprint: fingerprint(text(row, 1, "fingerprint")?)
                    .ok_or("fingerprint is not 40 or 64 hexadecimal digits")?,
                email: text(row, 2, "email")?.to_vec(),
                user_id: text(row, 3, "user_id")?.to_vec(),
                time: number(row, 4, "time")?,
                policy: policy(row, 5, "policy")?
                    .ok_or_else(|| Problem::from("policy is not 1 to 5"))?,
                conflict: conflict(row, 6)?,
                effective: policy(row, 7, "effective_policy")?,
                signatures: Vec::new(),
                encryptions: Vec::new(),
            };
            if !reader.seen.insert((binding.fingerprint, binding.email.clone())) {
                return Err("an earlier row has the same fingerprint and email".into());
            }
            places.insert(number(row, 0, "oid")?, reader.database.bindings.len());
            reader.database.bindings.push(binding);
            Ok(())
        })?;
        Ok(places)
    }

    fn read_signatures(
        &mut self,
        file: &File,
        places: &HashMap<i64, usize>,
    ) -> Result<(), GnupgError> {
        let columns =
            format!("binding, {}, {}, sig_time, time", bounded("sig_digest"), bounded("origin"));
        self.read_table(file, "signatures", &columns, |reader, row| {
            let place = place(row, 1, places)?;
            let signature = TofuSignature {
                digest: string(row, 2, "sig_digest")?,
                origin: string(row, 3, "origin")?,
                sig_time: number(row, 4, "sig_time")?,
                time: number(row, 5, "time")?,
            };
            reader.database.bindings[place].signatures.push(signature);
            Ok(())
        })
    }

    fn read_encryptions(
        &mut self,
        file: &File,
        places: &HashMap<i64, usize>,
    ) -> Result<(), GnupgError> {
        self.read_table(file, "encryptions", "binding, time", |reader, row| {
            let place = place(row, 1, places)?;
            let time = number(row, 2, "time")?;
            reader.database.bindings[place].encryptions.push(time);
            Ok(())
        })
    }

    fn read_ultimately_trusted(&mut self, file: &File) -> Result<(), GnupgError> {
        let column = bounded("keyid");
        self.read_table(file, "ultimately_trusted_keys", &column, |reader, row| {
            let text = text(row, 1, "keyid")?;
            let bytes = std::str::from_utf8(text).ok().and_then(hex::array).map(u64::from_be_bytes);
            let id = bytes.map(KeyId).filter(|id| id.to_string().as_bytes() == text);
            let id = id.ok_or_else(|| Problem::from("keyid is not 16 hexadecimal digits"))?;
            reader.database.ultimately_trusted.push(id);
            Ok(())
        })
    }

    /// Hands the rows of a table to `each`, in the order of their row IDs, which are in front of
    /// the columns that are asked for.
    fn read_table(
        &mut self,
        file: &File,
        table: &'static str,
        columns: &str,
        mut each: impl FnMut(&mut Self, &Row) -> Result<(), Problem>,
    ) -> Result<(), GnupgError> {
        let sql = format!("SELECT rowid, {columns} FROM {table} ORDER BY rowid");
        let mut statement = file.connection.prepare(&sql).map_err(|source| match source {
            // It is a column that is missing.
            rusqlite::Error::SqlInputError { .. } => {
                GnupgError::NotTofudb { path: file.path.to_owned() }
            }
            source => file.failed(source),
        })?;
        let mut rows = statement.query([]).map_err(|e| file.failed(e))?;
        for count in 0.. {
            let Some(row) = rows.next().map_err(|e| file.failed(e))? else { break };
            if self.rows == self.rows_max {
                let path = self.path.to_owned();
                return Err(GnupgError::TooMany { path, what: "rows", max: self.rows_max });
            }
            self.rows += 1;
            each(self, row).map_err(|problem| {
                let rowid: i64 = row.get(0).unwrap_or_default();
                let what = format!(
                    "row {rowid} of table {table} of {}: {}",
                    file.path.display(),
                    problem.0
                );
                GnupgError::Damaged { what, offset: file.offset(table, count) }
            })?;
        }
        Ok(())
    }
}

/// The fault of a row.
struct Problem(String);

impl From<&str> for Problem {
    fn from(what: &str) -> Self {
        Self(what.to_owned())
    }
}

/// Longer texts are not loaded; a blob stands in for them.
fn bounded(column: &str) -> String {
    format!("iif(octet_length({column}) <= {TOFU_TEXT_BYTES_MAX}, {column}, x'')")
}

fn bounded_or_null(column: &str) -> String {
    format!("iif(octet_length({column}) > {TOFU_TEXT_BYTES_MAX}, 0, {column})")
}

fn value<'r>(row: &'r Row, column: usize, name: &str) -> Result<ValueRef<'r>, Problem> {
    row.get_ref(column).map_err(|error| Problem(format!("{name} cannot be read: {error}")))
}

fn text<'r>(row: &'r Row, column: usize, name: &str) -> Result<&'r [u8], Problem> {
    match value(row, column, name)? {
        ValueRef::Text(text) => Ok(text),
        _ => Err(Problem(format!("{name} is not text of up to {TOFU_TEXT_BYTES_MAX} bytes"))),
    }
}

fn string(row: &Row, column: usize, name: &str) -> Result<String, Problem> {
    let text = std::str::from_utf8(text(row, column, name)?);
    text.map(str::to_owned).map_err(|_| Problem(format!("{name} is not UTF-8")))
}

fn number(row: &Row, column: usize, name: &str) -> Result<i64, Problem> {
    match value(row, column, name)? {
        ValueRef::Integer(number) => Ok(number),
        _ => Err(Problem(format!("{name} is not a whole number"))),
    }
}

/// `None` for 0.
fn policy(row: &Row, column: usize, name: &str) -> Result<Option<TofuPolicy>, Problem> {
    match number(row, column, name)? {
        0 => Ok(None),
        number => TofuPolicy::from_number(number)
            .map(Some)
            .ok_or_else(|| Problem(format!("{name} is {number}, not 1 to 5"))),
    }
}

/// No conflict is NULL or an empty text: GnuPG writes both. A fingerprint may be a blob, see
/// [`super::write`].
fn conflict(row: &Row, column: usize) -> Result<Option<Fingerprint>, Problem> {
    let found = match value(row, column, "conflict")? {
        ValueRef::Null | ValueRef::Text([]) => return Ok(None),
        ValueRef::Text(text) | ValueRef::Blob(text) => fingerprint(text),
        _ => None,
    };
    found.map(Some).ok_or_else(|| "conflict is not 40 or 64 hexadecimal digits".into())
}

/// The index of the binding that a row belongs to.
fn place(row: &Row, column: usize, places: &HashMap<i64, usize>) -> Result<usize, Problem> {
    let oid = number(row, column, "binding")?;
    let place = places.get(&oid).copied();
    place.ok_or_else(|| Problem(format!("there is no binding {oid}")))
}

/// Reads a fingerprint as GnuPG writes it, in upper case: in lower case it would not find it.
fn fingerprint(hex: &[u8]) -> Option<Fingerprint> {
    let text = std::str::from_utf8(hex).ok()?;
    let fingerprint = match hex.len() {
        40 => Fingerprint::V4(hex::array(text)?),
        64 => Fingerprint::V5(hex::array(text)?),
        _ => return None,
    };
    (fingerprint.to_string() == text).then_some(fingerprint)
}
