//! Certificates in one line each, for quick reading.

use std::io::Write as _;

use talaria::cert::{Summary, UserIdContent, Validity};
use talaria::store::Row;
use talaria::{Opened, algorithm};

use super::text::painted_level;
use super::{Lines, day, printable, word};
use crate::progress::grouped;
use crate::terminal::{Paint, Painted, cut};

/// The minimum width of a terminal for key IDs; narrower ones need the columns for the name.
const KEY_ID_FROM: usize = 100;
/// The width of the algorithm in columns.
const ALGORITHM: usize = 10;

/// The numbers of certificates in a listing, by validity.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    all: u64,
    valid: u64,
    expired: u64,
    revoked: u64,
    invalid: u64,
    unchecked: u64,
}

impl Counts {
    /// Counts a certificate.
    pub(crate) fn add(&mut self, summary: &Summary, now: u32) {
        self.all += 1;
        *match summary.validity(now) {
            _ if !summary.checked => &mut self.unchecked,
            Validity::Valid => &mut self.valid,
            Validity::Expired => &mut self.expired,
            Validity::Revoked => &mut self.revoked,
            Validity::Invalid => &mut self.invalid,
        } += 1;
    }

    /// The summary line with the meaning of the marks.
    pub(crate) fn text(self, paint: Paint) -> String {
        let parts = [
            (self.valid, Some(Validity::Valid)),
            (self.expired, Some(Validity::Expired)),
            (self.revoked, Some(Validity::Revoked)),
            (self.invalid, Some(Validity::Invalid)),
            (self.unchecked, None),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, validity)| {
                let what = validity.map_or("unchecked", word);
                format!("{} {} {what}", mark(validity, paint), grouped(count))
            })
            .collect();
        let noun = if self.all == 1 { "certificate" } else { "certificates" };
        let all = format!("{} {noun}", grouped(self.all));
        if parts.is_empty() { all } else { format!("{all}: {}", parts.join(", ")) }
    }
}

/// The mark of a validity; `None` if the certificate was not verified. Each mark is a different character, so
/// that colour is not needed to tell them apart.
fn mark(validity: Option<Validity>, paint: Paint) -> Painted<&'static str> {
    match validity {
        Some(Validity::Valid) => paint.good("✓"),
        Some(Validity::Expired) => paint.doubtful("-"),
        Some(Validity::Revoked) => paint.bad("✗"),
        Some(Validity::Invalid) => paint.bad("!"),
        None => paint.doubtful("?"),
    }
}

impl Lines<'_> {
    /// A certificate in one line of at most `columns` columns.
    pub(crate) fn short(
        &mut self,
        out: &mut Vec<u8>,
        opened: &Opened,
        row: &Row,
        columns: usize,
    ) -> Result<(), talaria::Error> {
        let (summary, paint) = (&row.summary, self.paint);
        let validity = summary.validity(self.now);
        let mark = mark(summary.checked.then_some(validity), paint);
        let created = day(summary.primary.created);
        let kind = cut(&algorithm(&summary.primary), ALGORITHM);
        let mut used = 2 + created.len() + 2 + ALGORITHM + 2;
        let _ = write!(out, "{mark} {created}  {kind:ALGORITHM$}  ");
        if columns >= KEY_ID_FROM {
            let id = summary.fingerprint().key_id().to_string();
            used += id.len() + 2;
            let _ = write!(out, "{}  ", paint.handle(id));
        }
        if let Some(judged) = self.judge(opened, row)? {
            used += 11;
            let level = match validity {
                Validity::Valid => format!("{:9}", painted_level(judged.level, paint)),
                _ => " ".repeat(9),
            };
            let _ = write!(out, "{level}  ");
        }
        let more = summary.user_ids.len().saturating_sub(1);
        let more = if more == 0 { String::new() } else { format!(" +{more}") };
        let room = columns.saturating_sub(used + more.len());
        let name = cut(&name(summary), room);
        let name = match validity {
            Validity::Valid if summary.checked => paint.strong(name),
            _ => paint.faint(name),
        };
        let _ = writeln!(out, "{name}{}", paint.faint(more));
        Ok(())
    }
}

/// The user ID that is shown for a certificate.
fn name(summary: &Summary) -> String {
    let name = summary.primary_user_id().map(printable);
    let is_attribute = |content: &UserIdContent| matches!(content, UserIdContent::Attribute { .. });
    name.unwrap_or_else(|| {
        let attribute = summary.user_ids.iter().any(|user_id| is_attribute(&user_id.content));
        if attribute { "(user attribute)" } else { "(no user ID)" }.to_owned()
    })
}
