//! Writing the file `tofu.db`.

use std::io;
use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, params};
use talaria_cert::Fingerprint;
use talaria_disk::{folder_of, rename, rename_to_free, sync_file, sync_folder};
use tempfile::NamedTempFile;

use super::database::{TOFU_ROWS_MAX, TOFU_TEXT_BYTES_MAX, TofuBinding, TofuDatabase, TofuPolicy};
use crate::error::{GnupgError, LeftOut, LeftOutReason};
use crate::sqlite;

/// The statements of GnuPG 2.2 and 2.4 (`initdb` in `g10/tofu.c`), which SQLite keeps as they are
/// typed.
const SCHEMA: &str = "\
create table version (version INTEGER);
insert into version values (1);
create table bindings
 (oid INTEGER PRIMARY KEY AUTOINCREMENT,
  fingerprint TEXT, email TEXT, user_id TEXT, time INTEGER,
  policy INTEGER CHECK (policy in (1, 2, 3, 4, 5)),
  conflict STRING,
  unique (fingerprint, email));
create index bindings_fingerprint_email
 on bindings (fingerprint, email);
create index bindings_email on bindings (email);
create table signatures  (binding INTEGER NOT NULL, sig_digest TEXT,  origin TEXT, \
sig_time INTEGER, time INTEGER,  primary key (binding, sig_digest, origin));
create table if not exists encryptions (binding INTEGER NOT NULL,  time INTEGER);
create index if not exists encryptions_binding on encryptions (binding);
alter table bindings add column effective_policy INTEGER DEFAULT 0 \
CHECK (effective_policy in (0, 1, 2, 3, 4, 5));
create table if not exists ultimately_trusted_keys (keyid);
";

/// The reaction to an existing file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum IfExists {
    /// Leave it, and fail.
    Refuse,
    /// Put the new one in its place.
    Replace,
}

/// Writes a database that GnuPG 2.1.17 and later use, the file `tofu.db`; returns what has no place
/// in it. It is there as a whole or not at all.
///
/// Bindings are numbered from 1 in their order. Those of keys that GnuPG does not know (version 3
/// and 6) or with longer texts than are read are left out; if it is the conflict that names such a
/// key, only that. No gpg may be running if a file is replaced: what it then writes is lost.
///
/// # Errors
///
/// [`GnupgError::TooMany`]; [`GnupgError::Unfinished`] if a transaction lies beside the file, which
/// would be brought into the new one; [`GnupgError::Io`], also if the file exists and is not to be
/// replaced or if there are two bindings of one key and address.
pub fn write_tofudb(
    path: &Path,
    database: &TofuDatabase,
    if_exists: IfExists,
) -> Result<Vec<LeftOut>, GnupgError> {
    let failed = |source| GnupgError::Io { action: "write", path: path.to_owned(), source };
    let bindings = &database.bindings;
    let rows = bindings.iter().map(|b| 1 + b.signatures.len() + b.encryptions.len()).sum::<usize>();
    if rows + database.ultimately_trusted.len() > TOFU_ROWS_MAX {
        let path = path.to_owned();
        return Err(GnupgError::TooMany { path, what: "rows", max: TOFU_ROWS_MAX });
    }
    if if_exists == IfExists::Refuse && path.try_exists().map_err(failed)? {
        return Err(failed(io::ErrorKind::AlreadyExists.into()));
    }
    if sqlite::is_unfinished(path) {
        return Err(GnupgError::Unfinished { path: path.to_owned() });
    }
    let file = NamedTempFile::with_prefix_in(".#talaria-", folder_of(path)).map_err(failed)?;
    let left_out = fill(file.path(), database).map_err(|e| failed(io::Error::other(e)))?;
    let put_in_place = || -> io::Result<()> {
        // SQLite writes to a name.
        sync_file(file.path())?;
        match if_exists {
            IfExists::Refuse => rename_to_free(file.path(), path)?,
            IfExists::Replace => rename(file.path(), path)?,
        }
        // Another file can have that name by now.
        file.into_temp_path().keep().map_err(|error| error.error)?;
        sync_folder(folder_of(path))
    };
    put_in_place().map_err(failed)?;
    Ok(left_out)
}

/// Writes into an empty file that nobody else knows: there is no need of a journal or of syncing.
fn fill(path: &Path, database: &TofuDatabase) -> rusqlite::Result<Vec<LeftOut>> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(sqlite::uri(path, "mode=rw"), flags)?;
    connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(SCHEMA)?;
    let mut left_out = Vec::new();
    {
        let mut binding =
            transaction.prepare("INSERT INTO bindings VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
        let mut signature =
            transaction.prepare("INSERT INTO signatures VALUES (?1, ?2, ?3, ?4, ?5)")?;
        let mut encryption = transaction.prepare("INSERT INTO encryptions VALUES (?1, ?2)")?;
        let mut oid = 0;
        for row in &database.bindings {
            if let Err(reason) = has_place(row) {
                left_out.push(LeftOut { fingerprint: row.fingerprint, reason });
                continue;
            }
            oid += 1;
            let conflict = row.conflict.filter(|&fingerprint| match is_known(fingerprint) {
                Ok(()) => true,
                Err(reason) => {
                    left_out.push(LeftOut { fingerprint, reason });
                    false
                }
            });
            let conflict = conflict.map(|fingerprint| fingerprint.to_string()).unwrap_or_default();
            binding.execute(params![
                oid,
                row.fingerprint.to_string(),
                text(&row.email),
                text(&row.user_id),
                row.time,
                row.policy.number(),
                for_numeric_column(&conflict),
                row.effective.map_or(0, TofuPolicy::number),
            ])?;
            for row in &row.signatures {
                signature.execute(params![oid, row.digest, row.origin, row.sig_time, row.time])?;
            }
            for time in &row.encryptions {
                encryption.execute(params![oid, time])?;
            }
        }
        let mut trusted = transaction.prepare("INSERT INTO ultimately_trusted_keys VALUES (?1)")?;
        for id in &database.ultimately_trusted {
            trusted.execute([id.to_string()])?;
        }
    }
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(left_out)
}

fn has_place(binding: &TofuBinding) -> Result<(), LeftOutReason> {
    is_known(binding.fingerprint)?;
    let texts = binding.signatures.iter().flat_map(|s| [s.digest.len(), s.origin.len()]);
    let bytes = texts.chain([binding.email.len(), binding.user_id.len()]).max().unwrap_or(0);
    if bytes > TOFU_TEXT_BYTES_MAX {
        return Err(LeftOutReason::TooLarge { bytes, max: TOFU_TEXT_BYTES_MAX });
    }
    Ok(())
}

/// Whether GnuPG knows keys of that version. Fingerprints of 64 digits are of version 5 to it.
fn is_known(fingerprint: Fingerprint) -> Result<(), LeftOutReason> {
    match fingerprint {
        Fingerprint::V4(_) | Fingerprint::V5(_) => Ok(()),
        Fingerprint::V3(..) | Fingerprint::V6(_) => {
            Err(LeftOutReason::Version { version: fingerprint.version() })
        }
    }
}

/// Text, whatever bytes it is of, as GnuPG binds it.
fn text(bytes: &[u8]) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(ValueRef::Text(bytes))
}

/// To SQLite, a column of type STRING is one of numbers, and a text that looks like one loses its
/// digits in it. As a blob it stays what it is; GnuPG reads that as a text.
fn for_numeric_column(hex: &str) -> ToSqlOutput<'_> {
    let may_be_number = !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_digit() || b == b'E');
    ToSqlOutput::Borrowed(if may_be_number {
        ValueRef::Blob(hex.as_bytes())
    } else {
        ValueRef::Text(hex.as_bytes())
    })
}
