//! Certificates in one line each, for quick reading.

use std::io::Write as _;

use talaria::cert::{Fault, Summary, UserIdContent, Validity};
use talaria::store::Row;
use talaria::{Confirmation, Opened, algorithm, day};

use super::lines::Lines;
use super::validity::painted_level;
use super::{counted, letters, printable};
use crate::progress::grouped;
use crate::terminal::{Paint, Painted, cut};

/// The minimum width of a terminal for creation dates and algorithms; narrower ones need the columns
/// for the name.
const MORE_FROM: usize = 110;
/// The widths of columns: what a certificate can do, until when, and its algorithm.
const CAN: usize = 3;
const UNTIL: usize = 10;
const ALGORITHM: usize = 10;

/// The state of a certificate in one word and one sign. Each sign is a different character, so that
/// colour is not needed to tell them apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mark {
    /// It is confirmed that the user ID in the line belongs to its owner.
    Confirmed,
    /// The certificate can be used; nothing is confirmed.
    Usable,
    /// The user has called it bad.
    Bad,
    Expired,
    Revoked,
    Invalid,
    /// Its signatures were not verified.
    Unchecked,
}

impl Mark {
    const ALL: [Self; 7] = [
        Self::Confirmed,
        Self::Usable,
        Self::Bad,
        Self::Expired,
        Self::Revoked,
        Self::Invalid,
        Self::Unchecked,
    ];

    fn new(summary: &Summary, confirmation: Confirmation, now: u32) -> Self {
        match summary.validity(now) {
            _ if !summary.checked => Self::Unchecked,
            Validity::Valid if summary.fault(now).is_some() => Self::Invalid,
            Validity::Valid => match confirmation {
                Confirmation::Certified => Self::Confirmed,
                Confirmation::Bad => Self::Bad,
                Confirmation::Missing | Confirmation::Good => Self::Usable,
            },
            Validity::Expired => Self::Expired,
            Validity::Revoked => Self::Revoked,
            Validity::Invalid => Self::Invalid,
        }
    }

    fn sign(self, paint: Paint) -> Painted<&'static str> {
        match self {
            Self::Confirmed => paint.good("✓"),
            Self::Usable => paint.faint("○"),
            Self::Bad => paint.bad("⊘"),
            Self::Expired => paint.doubtful("-"),
            Self::Revoked => paint.bad("✗"),
            Self::Invalid => paint.bad("!"),
            Self::Unchecked => paint.doubtful("?"),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Usable => "usable",
            Self::Bad => "bad",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Invalid => "invalid",
            Self::Unchecked => "unchecked",
        }
    }
}

/// The numbers of certificates in a listing, by state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts([u64; Mark::ALL.len()]);

impl Counts {
    /// The summary line with the meaning of the marks.
    pub(crate) fn text(self, paint: Paint) -> String {
        let parts = Mark::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0);
        let parts: Vec<String> = parts
            .map(|(mark, count)| format!("{} {} {}", mark.sign(paint), grouped(count), mark.word()))
            .collect();
        let all = counted(self.0.iter().sum::<u64>(), "certificate");
        if parts.is_empty() { all } else { format!("{all}: {}", parts.join(", ")) }
    }
}

impl Lines<'_> {
    /// The state of a certificate, for the user ID that its line shows.
    fn mark(&self, opened: &Opened, row: &Row) -> Result<Mark, talaria::Error> {
        let summary = &row.summary;
        let shown = summary.primary_user_id();
        let is_shown = |content: &UserIdContent| matches!(content, UserIdContent::Text(text) if Some(&text[..]) == shown);
        let at = summary.user_ids.iter().position(|user_id| is_shown(&user_id.content));
        let confirmations = self.confirmations(opened, row)?;
        let known = at.and_then(|at| confirmations.get(at).copied());
        Ok(Mark::new(summary, known.unwrap_or(Confirmation::Missing), self.now))
    }

    /// Counts a certificate.
    pub(crate) fn count(
        &self,
        counts: &mut Counts,
        opened: &Opened,
        row: &Row,
    ) -> Result<(), talaria::Error> {
        counts.0[self.mark(opened, row)? as usize] += 1;
        Ok(())
    }

    /// The names of the columns of [`Self::short`].
    pub(crate) fn short_heading(&self, out: &mut Vec<u8>, columns: usize) {
        let more = if columns >= MORE_FROM { "  CREATED     ALGORITHM " } else { "" };
        let trust = if self.judge.is_some() { "  VALIDITY " } else { "" };
        let heading = format!("  KEY ID            CAN  UNTIL     {more}{trust}  USER ID");
        let _ = writeln!(out, "{}", self.paint.faint(cut(&heading, columns)));
    }

    /// A certificate in one line of at most `columns` columns: whether it is confirmed or what is
    /// wrong with it, its key ID, what it can do now, and until when.
    pub(crate) fn short(
        &mut self,
        out: &mut Vec<u8>,
        opened: &Opened,
        row: &Row,
        columns: usize,
    ) -> Result<(), talaria::Error> {
        let (summary, paint) = (&row.summary, self.paint);
        let mark = self.mark(opened, row)?.sign(paint);
        let id = summary.fingerprint().key_id().to_string();
        let fault = summary.fault(self.now);
        // Every certificate that can do anything can certify.
        let can = letters(summary.able(self.now)).replace('C', "");
        let until = match (fault, summary.able_until(self.now)) {
            (Some(Fault::Expired(end)), _) => day(end),
            (Some(fault), _) => fault.word().to_owned(),
            (None, 0) => String::new(),
            (None, end) => day(end),
        };
        let mut used = 2 + id.len() + 2 + CAN + 2 + UNTIL + 2;
        let _ = write!(out, "{mark} {}  {can:CAN$}  {until:UNTIL$}  ", paint.handle(id));
        if columns >= MORE_FROM {
            let created = day(summary.primary.created);
            let kind = cut(&algorithm(&summary.primary), ALGORITHM);
            used += created.len() + 2 + ALGORITHM + 2;
            let _ = write!(out, "{created}  {kind:ALGORITHM$}  ");
        }
        if let Some(judged) = self.judge(opened, row)? {
            used += 11;
            let level = match fault {
                None => format!("{:9}", painted_level(judged.level, paint)),
                Some(_) => " ".repeat(9),
            };
            let _ = write!(out, "{level}  ");
        }
        let more = summary.user_ids.len().saturating_sub(1);
        let more = if more == 0 { String::new() } else { format!(" +{more}") };
        let room = columns.saturating_sub(used + more.len());
        let name = cut(&name(summary), room);
        let name = match fault {
            None if summary.checked => paint.strong(name),
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
