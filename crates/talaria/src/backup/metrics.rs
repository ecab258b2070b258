//! A file of metrics for Prometheus, as the textfile collector of `node_exporter` reads it.

use std::fmt::{self, Write as _};
use std::path::Path;

use talaria_backup::RepositoryId;
use talaria_disk::{Readers, replace};
use talaria_message::openpgp::Fingerprint;

use crate::backup::health::{ClientHealth, Health};
use crate::error::Error;

/// The content of the metrics file, which is its text.
#[derive(Clone, Copy, Debug)]
pub struct Metrics<'a> {
    /// The repository.
    pub repository: RepositoryId,
    /// The clients, when the repository was listed.
    pub health: &'a Health,
    /// The number of irregularities in the listing.
    pub irregularities: usize,
    /// Packs in the storage.
    pub packs: u64,
    /// Their bytes.
    pub pack_bytes: u64,
}

impl fmt::Display for Metrics<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repository = format!("repository=\"{}\"", self.repository);
        let mut family =
            |name: &str, help: &str, values: &mut dyn Iterator<Item = (String, u64)>| {
                let mut values = values.peekable();
                if values.peek().is_none() {
                    return Ok(());
                }
                let name = format!("talaria_backup_{name}");
                writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge")?;
                values.try_for_each(|(labels, value)| {
                    writeln!(out, "{name}{{{repository}{labels}}} {value}")
                })
            };
        let each = |value: fn(&ClientHealth) -> Option<u64>| {
            self.health.clients.iter().filter_map(move |one| {
                let client = one.client.as_ref().map_or("none".into(), Fingerprint::to_hex);
                let mut labels = format!(",client=\"{client}\",host=\"{}\"", label(&one.host));
                if let Some((from, client)) = &one.original {
                    let client = client.as_ref().map_or("none".into(), Fingerprint::to_hex);
                    let _ = write!(labels, ",from=\"{from}\",original=\"{client}\"");
                }
                Some((labels, value(one)?))
            })
        };
        let one = |value: u64| std::iter::once((String::new(), value));
        family(
            "newest_snapshot_timestamp_seconds",
            "Time of the newest snapshot of a client. Times in the future do not count.",
            &mut each(|one| one.time.map(u64::from)),
        )?;
        family(
            "snapshots",
            "Snapshots of a client that count.",
            &mut each(|one| Some(one.snapshots as u64)),
        )?;
        family(
            "future_snapshots",
            "Snapshots of a client with a time in the future.",
            &mut each(|one| Some(one.ahead as u64)),
        )?;
        family(
            "newest_snapshot_bytes",
            "Bytes of the files of the newest snapshot of a client.",
            &mut each(|one| Some(one.bytes)),
        )?;
        family(
            "newest_snapshot_unread_paths",
            "Paths that could not be read for the newest snapshot of a client.",
            &mut each(|one| Some(one.unread)),
        )?;
        family(
            "last_drill_timestamp_seconds",
            "Time of the last restore drill of a snapshot of a client.",
            &mut each(|one| one.drill.as_ref().map(|drill| u64::from(drill.time))),
        )?;
        family(
            "last_drill_failed_paths",
            "Paths that could not be read in the last restore drill.",
            &mut each(|one| one.drill.as_ref().map(|drill| drill.read.failed)),
        )?;
        family(
            "irregularities",
            "Missing snapshots and other things that the listing warns of.",
            &mut one(self.irregularities as u64),
        )?;
        family("packs", "Packs in the storage.", &mut one(self.packs))?;
        family("pack_bytes", "Bytes of the packs in the storage.", &mut one(self.pack_bytes))?;
        family(
            "listed_timestamp_seconds",
            "Time at which the repository was listed for this file.",
            &mut one(u64::from(self.health.now)),
        )
    }
}

impl Metrics<'_> {
    /// Replaces the file in one step. Everybody can read it: the collector is another user.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        replace(path, self.to_string().as_bytes(), Readers::Everybody).map_err(|source| Error::Io {
            action: "write",
            name: path.display().to_string(),
            source,
        })
    }
}

/// A text between the quotation marks of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
