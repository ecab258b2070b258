//! Table `trust`: the standing of a certificate, with the verdicts from which it follows.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::Span;
use talaria_trust::{Introducer, Level, Scope, Standing};

use crate::sums;

/// The stored data of a certificate in the web of trust.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Node {
    pub(super) standing: Option<Standing>,
    /// Sorted verdicts: the first 15 bytes of a digest over issuer, component and signature, then
    /// 1 for a good signature.
    pub(super) verdicts: Vec<[u8; 16]>,
}

impl Node {
    pub(super) fn load(connection: &Connection, id: i64) -> rusqlite::Result<Self> {
        let node = connection
            .prepare_cached("SELECT start, until, standing FROM trust WHERE cert = ?1")?
            .query_row([id], |row| {
                Ok(Self::read(id, (row.get(0)?, row.get(1)?), row.get_ref(2)?.as_bytes()?))
            })
            .optional()?;
        // An unreadable row counts as no standing at all.
        Ok(node.flatten().unwrap_or_default())
    }

    /// Reads a row. `None` if the row is damaged.
    pub(super) fn read(id: i64, (start, until): (i64, i64), stored: &[u8]) -> Option<Self> {
        let holds = Span { from: start.try_into().ok()?, until: until.try_into().ok()? };
        let (stored, sum) = stored.split_last_chunk::<4>()?;
        if *sum != Self::sum(id, holds, stored) {
            return None;
        }
        let (&[FORMAT, count @ ..], mut rest) = stored.split_first_chunk::<3>()? else {
            return None;
        };
        let mut take = |count: usize| {
            let (taken, behind) = rest.split_at_checked(count)?;
            rest = behind;
            Some(taken)
        };
        let levels = take(usize::from(u16::from_be_bytes(count)))?;
        let levels = levels.iter().map(|&number| Level::from_number(number));
        let levels = levels.collect::<Option<Vec<_>>>()?;
        let introducer = match take(1)? {
            [0] => None,
            [scoped @ 1..=2] => {
                let fields = take(3)?;
                let (depth, reach) = (fields[0], fields[2]);
                let level = Level::from_number(fields[1])?;
                let scope = if *scoped == 2 {
                    let len = u16::from_be_bytes(take(2)?.try_into().ok()?);
                    Some(Scope::new(take(usize::from(len))?))
                } else {
                    None
                };
                Some(Introducer { depth, level, reach, scope })
            }
            _ => return None,
        };
        let (verdicts, []) = rest.as_chunks::<16>() else { return None };
        let standing = Some(Standing { levels, introducer, holds });
        Some(Self { standing, verdicts: verdicts.to_vec() })
    }

    /// Whether the stored form may have a fully valid user ID. Its checksum is not compared.
    pub(super) fn may_be_full(stored: &[u8]) -> bool {
        let Some((&[_, count @ ..], rest)) = stored.split_first_chunk::<3>() else { return true };
        let levels = rest.get(..usize::from(u16::from_be_bytes(count)));
        levels.is_none_or(|levels| levels.iter().any(|level| *level >= Level::Full as u8))
    }

    pub(super) fn write(&self, id: i64, standing: &Standing) -> Vec<u8> {
        // A certificate has no room for more components or longer scopes.
        let short = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).to_be_bytes();
        let mut out = vec![FORMAT];
        out.extend(short(standing.levels.len()));
        out.extend(standing.levels.iter().map(|&level| level as u8));
        match &standing.introducer {
            None => out.push(0),
            Some(Introducer { depth, level, reach, scope }) => {
                out.extend([1 + u8::from(scope.is_some()), *depth, *level as u8, *reach]);
                if let Some(scope) = scope {
                    out.extend(short(scope.as_bytes().len()));
                    out.extend_from_slice(scope.as_bytes());
                }
            }
        }
        out.extend_from_slice(self.verdicts.as_flattened());
        out.extend(Self::sum(id, standing.holds, &out));
        out
    }

    /// The checksum of a row. Without it, a damaged verdict would look like a computed one.
    fn sum(id: i64, holds: Span, stored: &[u8]) -> [u8; 4] {
        let Span { from, until } = holds;
        let sum = sums::of(&[&id.to_be_bytes(), &from.to_be_bytes(), &until.to_be_bytes(), stored]);
        *sum.to_be_bytes().last_chunk().expect("8 bytes")
    }

    pub(super) fn introducer(&self) -> Option<&Introducer> {
        self.standing.as_ref()?.introducer.as_ref()
    }

    pub(super) fn verdict(&self, name: &[u8; 15]) -> Option<bool> {
        let at = self
            .verdicts
            .binary_search_by_key(name, |entry| *entry.first_chunk().expect("16 bytes"))
            .ok()?;
        Some(self.verdicts[at][15] == 1)
    }
}

/// First byte of the stored form of a standing.
const FORMAT: u8 = 1;

/// The certificates whose standing is not true at `now`.
pub(super) fn due(connection: &Connection, now: u32) -> rusqlite::Result<BTreeSet<i64>> {
    // Clocks hardly ever go back, but each of the two searches is one step in an index.
    connection
        .prepare_cached(
            "SELECT cert FROM trust WHERE until <= ?1 UNION ALL SELECT cert FROM trust WHERE start > ?1",
        )?
        .query_map([now], |row| row.get(0))?
        .collect()
}
