//! Snapshots: the documents that name a tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use talaria_cert::{parse_timestamp, timestamp};
use talaria_message::openpgp::Fingerprint;

use crate::config::fingerprint;
use crate::error::Result;
use crate::id::{Id, RepositoryId};
use crate::text::{Lines, Place, escaped, unescaped};
use crate::tree::rules::LEVEL_MAX;

/// The folder of snapshots.
pub(crate) const SNAPSHOTS: &str = "snapshots";
/// The folder of snapshots that their runs have not published yet.
pub(crate) const PREPARED: &str = "prepared";

const DOMAIN: &str = "talaria backup snapshot";

/// A tree of a snapshot.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Root {
    /// 0 if the chunk has entries, else how far the entries are below it.
    pub level: u8,
    /// The chunk.
    pub id: Id,
}

/// The newest snapshot of a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Head {
    /// The number of the snapshot.
    pub number: u64,
    /// The identifier of the snapshot.
    pub id: Id,
}

/// The newest known snapshot of each client; `None` is the client of unsigned snapshots.
pub type Heads = BTreeMap<Option<Fingerprint>, Head>;

/// The snapshot of another repository that a snapshot is a copy of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Original {
    /// The other repository.
    pub repository: RepositoryId,
    /// The identifier of the snapshot there.
    pub id: Id,
    /// Its client there.
    pub client: Option<Fingerprint>,
    /// Its number there.
    pub number: u64,
    /// The time when its run began, in seconds since 1970.
    pub time: u32,
}

/// Snapshots that follow each other in time: those of a client, or the copies that it made of those
/// of a client elsewhere, with the other repository.
pub type Lineage = (Option<Fingerprint>, Option<(RepositoryId, Option<Fingerprint>)>);

/// A snapshot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Snapshot {
    /// The certificate of the client; `None` in a repository with unsigned snapshots.
    pub client: Option<Fingerprint>,
    /// 1 more than the snapshot before of the same client.
    pub number: u64,
    /// The snapshot before of the same client.
    pub previous: Option<Id>,
    /// The time when the run began, in seconds since 1970.
    pub time: u32,
    /// The epoch of the packs that the run wrote.
    pub epoch: u32,
    /// The name of the machine.
    pub host: Vec<u8>,
    /// The tree.
    pub root: Root,
    /// The number of entries.
    pub entries: u64,
    /// The sum of the lengths of all files.
    pub bytes: u64,
    /// The number of paths that could not be read and are missing.
    pub unread: u64,
    /// The arguments, as absolute paths.
    pub paths: BTreeSet<Vec<u8>>,
    /// Labels.
    pub tags: BTreeSet<Vec<u8>>,
    /// The names of owners by number.
    pub users: BTreeMap<u32, Vec<u8>>,
    /// The names of groups by number.
    pub groups: BTreeMap<u32, Vec<u8>>,
    /// The newest known snapshots of other clients.
    pub heads: BTreeMap<Fingerprint, Head>,
    /// The snapshot that this one is a copy of.
    pub original: Option<Original>,
}

impl Snapshot {
    /// The line of snapshots that it belongs to: those of one client, or copies of them.
    #[must_use]
    pub fn lineage(&self) -> Lineage {
        let original = self.original.as_ref();
        (
            self.client.clone(),
            original.map(|original| (original.repository, original.client.clone())),
        )
    }

    /// The time when its files were read: for a copy, the time of the original. Seconds since 1970.
    #[must_use]
    pub fn made(&self) -> u32 {
        self.original.as_ref().map_or(self.time, |original| original.time)
    }

    /// The name of the object with the snapshot `id`.
    pub(crate) fn name(id: &Id) -> String {
        format!("{SNAPSHOTS}/{id}")
    }

    /// The name of the object with the snapshot `id` before its run has published it.
    pub(crate) fn prepared_name(id: &Id) -> String {
        format!("{PREPARED}/{id}")
    }

    /// The text of the snapshot.
    pub(crate) fn text(&self, repository: RepositoryId) -> String {
        let mut out = format!("{DOMAIN} 1\nrepository {repository}\n");
        let mut line = |keyword: &str, fields: &str| {
            let _ = writeln!(out, "{keyword} {fields}");
        };
        let none = || "none".to_owned();
        line("client", &self.client.as_ref().map_or_else(none, Fingerprint::to_hex));
        line("number", &self.number.to_string());
        line("previous", &self.previous.map_or_else(none, |id| id.to_string()));
        line("time", &timestamp(self.time));
        line("epoch", &self.epoch.to_string());
        line("host", &escaped(&self.host, Place::Last));
        line("root", &format!("{} {}", self.root.level, self.root.id));
        line("entries", &self.entries.to_string());
        line("bytes", &self.bytes.to_string());
        line("unread", &self.unread.to_string());
        self.paths.iter().for_each(|path| line("path", &escaped(path, Place::Last)));
        self.tags.iter().for_each(|tag| line("tag", &escaped(tag, Place::Last)));
        for (keyword, names) in [("user", &self.users), ("group", &self.groups)] {
            for (number, name) in names {
                line(keyword, &format!("{number} {}", escaped(name, Place::Last)));
            }
        }
        for (client, Head { number, id }) in &self.heads {
            line("head", &format!("{} {number} {id}", client.to_hex()));
        }
        if let Some(Original { repository, id, client, number, time }) = &self.original {
            let client = client.as_ref().map_or_else(none, Fingerprint::to_hex);
            line("original", &format!("{repository} {id} {client} {number} {}", timestamp(*time)));
        }
        out
    }

    /// Reads the text of the object `name`.
    pub(crate) fn parse(name: &str, text: &[u8], repository: RepositoryId) -> Result<Self> {
        let id = repository.to_string();
        let mut lines = Lines::open(name, text, DOMAIN, Some(&id))?;
        let snapshot = Self::read(&mut lines)?;
        lines.end()?;
        if snapshot.text(repository).as_bytes() != text {
            return Err(crate::error::BackupError::damaged(
                name,
                "its lines are not in the form of the format",
            ));
        }
        Ok(snapshot)
    }

    fn read(lines: &mut Lines<'_>) -> Result<Self> {
        fn number<T: std::str::FromStr>(lines: &mut Lines<'_>, keyword: &str) -> Result<T> {
            let text = lines.one(keyword)?;
            text.parse().map_err(|_| lines.damaged(&format!("\"{keyword}\" has no number")))
        }
        fn texts(lines: &mut Lines<'_>, keyword: &str) -> Result<BTreeSet<Vec<u8>>> {
            let fields = lines.many(keyword).into_iter();
            let values = fields.map(|field| unescaped(field, Place::Last)).collect::<Option<_>>();
            values.ok_or_else(|| lines.damaged(&format!("\"{keyword}\" has a wrong escape")))
        }
        fn names(lines: &mut Lines<'_>, keyword: &str) -> Result<BTreeMap<u32, Vec<u8>>> {
            let fields = lines.many(keyword).into_iter();
            let pairs = fields.map(|fields| {
                let (number, name) = fields.split_once(' ')?;
                Some((number.parse().ok()?, unescaped(name, Place::Last)?))
            });
            let pairs = pairs.collect::<Option<_>>();
            pairs.ok_or_else(|| lines.damaged(&format!("\"{keyword}\" cannot be read")))
        }
        let client = match lines.one("client")? {
            "none" => None,
            text => Some(
                fingerprint(text).ok_or_else(|| lines.damaged("its client is no fingerprint"))?,
            ),
        };
        let own = number(lines, "number")?;
        let previous = match lines.one("previous")? {
            "none" => None,
            text => Some(text.parse().map_err(|_| lines.damaged("\"previous\" is no identifier"))?),
        };
        let time = lines.one("time")?;
        let time = parse_timestamp(time).ok_or_else(|| lines.damaged("its time is invalid"))?;
        let epoch = number(lines, "epoch")?;
        let host = lines.one("host")?;
        let host = unescaped(host, Place::Last)
            .ok_or_else(|| lines.damaged("its host has a wrong escape"))?;
        let root = lines.one("root")?.split_once(' ').and_then(|(level, id)| {
            let level = level.parse().ok().filter(|level| *level <= LEVEL_MAX)?;
            Some(Root { level, id: id.parse().ok()? })
        });
        let root = root.ok_or_else(|| lines.damaged("its root cannot be read"))?;
        let (entries, bytes, unread) =
            (number(lines, "entries")?, number(lines, "bytes")?, number(lines, "unread")?);
        let (paths, tags) = (texts(lines, "path")?, texts(lines, "tag")?);
        let (users, groups) = (names(lines, "user")?, names(lines, "group")?);
        let heads = lines.many("head").into_iter().map(|fields| {
            let mut fields = fields.splitn(3, ' ');
            let client = fingerprint(fields.next()?)?;
            let number = fields.next()?.parse().ok()?;
            Some((client, Head { number, id: fields.next()?.parse().ok()? }))
        });
        let heads = heads.collect::<Option<_>>();
        let heads = heads.ok_or_else(|| lines.damaged("a head cannot be read"))?;
        let mut originals = lines.many("original").into_iter().map(|fields| {
            let mut fields = fields.splitn(5, ' ');
            let (repository, id) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            let client = match fields.next()? {
                "none" => None,
                text => Some(fingerprint(text)?),
            };
            let number = fields.next()?.parse().ok()?;
            let time = parse_timestamp(fields.next()?)?;
            Some(Original { repository, id, client, number, time })
        });
        let original = match (originals.next(), originals.next()) {
            (None, _) => None,
            (Some(Some(original)), None) => Some(original),
            _ => return Err(lines.damaged("its original cannot be read")),
        };
        if (own == 1) != previous.is_none() || own == 0 {
            return Err(lines.damaged("its number does not fit the snapshot before it"));
        }
        Ok(Self {
            client,
            number: own,
            previous,
            time,
            epoch,
            host,
            root,
            entries,
            bytes,
            unread,
            paths,
            tags,
            users,
            groups,
            heads,
            original,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_comes_back_and_has_one_text() {
        let key = |byte| Fingerprint::from_bytes(4, &[byte; 20]).unwrap();
        let (id, repository) = (Id([9; 32]), RepositoryId([3; 16]));
        let snapshot = Snapshot {
            client: Some(key(1)),
            number: 2,
            previous: Some(id),
            time: 1_795_381_506,
            epoch: 1,
            host: b"al\npha".to_vec(),
            root: Root { level: 1, id },
            entries: 3,
            bytes: 4,
            unread: 0,
            paths: [b"/home/with space".to_vec(), b"/\xff".to_vec()].into(),
            tags: [b"weekly".to_vec()].into(),
            users: [(0, b"root".to_vec()), (1000, b"alice".to_vec())].into(),
            groups: BTreeMap::new(),
            heads: [(key(2), Head { number: 7, id })].into(),
            original: None,
        };
        let text = snapshot.text(repository);
        assert_eq!(Snapshot::parse("s", text.as_bytes(), repository).unwrap(), snapshot);
        for (from, to) in [
            ("number 2", "number 02"),
            ("number 2", "number 1"),
            ("number 2", "number 0"),
            ("root 1", "root 9"),
            ("tag weekly", "tag weekly\ntag weekly"),
            ("user 0 root\nuser 1000 alice", "user 1000 alice\nuser 0 root"),
            ("unread 0", "unread -1"),
            ("al\\x0apha", "al\\npha"),
            ("repository 03", "repository 04"),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from}");
            assert!(Snapshot::parse("s", changed.as_bytes(), repository).is_err(), "{to}");
        }
        let other = RepositoryId([4; 16]);
        for client in [None, Some(key(3))] {
            let original =
                Original { repository: other, id, client, number: 5, time: 1_795_000_000 };
            let copy = Snapshot { original: Some(original), ..snapshot.clone() };
            let text = copy.text(repository);
            assert_eq!(Snapshot::parse("s", text.as_bytes(), repository).unwrap(), copy);
            let line = text.lines().last().unwrap();
            for twice in
                [format!("{text}{line}\n"), text.replace("Z\n", "\n"), format!("{text}x\n")]
            {
                assert!(Snapshot::parse("s", twice.as_bytes(), repository).is_err(), "{twice}");
            }
        }
    }
}
