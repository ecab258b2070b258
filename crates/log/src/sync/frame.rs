//! The frames of the exchange between nodes (`docs/formats/log-sync.md`).

use crate::bytes::{Fields, Malformed, text, write_ids, write_part};
use crate::name::EntryId;
use crate::record::RECORD_BYTES_MAX;

/// Longest content of a frame with records, in bytes.
pub const ENTRIES_BYTES_MAX: usize = 4 << 20;
/// Most identities in one frame.
pub(crate) const FRAME_IDS_MAX: usize = 8192;
/// The bytes before the content of a frame.
pub(crate) const HEADER_BYTES: usize = 5;

const MAGIC: [u8; 5] = *b"TLGN\x01";
const BYE_TEXT_MAX: usize = 256;

/// The reason why a node ends a session.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Farewell {
    /// Both sides have everything.
    Done,
    /// The key of the peer is not published in the log, or was ended.
    NotPublished,
    /// The peer has another log.
    OtherLog,
    /// The node has too many connections.
    Busy,
    /// The peer sent an entry that the log refuses.
    Refused,
    /// The peer sent a frame that is not allowed.
    Protocol,
    /// The peer is too slow.
    Slow,
    /// The peer sends too much that is of no use.
    Flood,
    /// The node stops.
    Stopping,
    /// The peer announces entries and does not send them.
    Promise,
    /// The node cannot read or write its log.
    Failed,
}

impl Farewell {
    const ALL: [Self; 11] = [
        Self::Done,
        Self::NotPublished,
        Self::OtherLog,
        Self::Busy,
        Self::Refused,
        Self::Protocol,
        Self::Slow,
        Self::Flood,
        Self::Stopping,
        Self::Promise,
        Self::Failed,
    ];

    fn number(self) -> u8 {
        Self::ALL.iter().position(|one| *one == self).map_or(5, |at| u8::try_from(at).unwrap_or(5))
    }

    /// The kind, one word.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NotPublished => "not-published",
            Self::OtherLog => "other-log",
            Self::Busy => "busy",
            Self::Refused => "refused",
            Self::Protocol => "protocol",
            Self::Slow => "slow",
            Self::Flood => "flood",
            Self::Stopping => "stopping",
            Self::Promise => "promise",
            Self::Failed => "failed",
        }
    }
}

/// What a peer did with the entries of an announcement.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Took {
    /// The number of the announcement.
    pub number: u64,
    /// Heads that the peer still lacks.
    pub lacking: u32,
    /// Entries that were new to it since the last report.
    pub added: u32,
    /// Entries that it had.
    pub known: u32,
    /// Entries that wait for others.
    pub waiting: u32,
    /// Entries that wait for its clock.
    pub ahead: u32,
}

impl Took {
    /// This report, with the entries of an earlier one.
    pub(super) fn after(self, earlier: &Self) -> Self {
        Self {
            added: self.added.saturating_add(earlier.added),
            known: self.known.saturating_add(earlier.known),
            waiting: self.waiting.saturating_add(earlier.waiting),
            ahead: self.ahead.saturating_add(earlier.ahead),
            ..self
        }
    }
}

/// A frame that was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Frame<'a> {
    /// The first frame: the log.
    Hello(EntryId),
    /// Heads of the sender.
    Heads {
        /// The number of the announcement.
        number: u64,
        /// Whether it is the last frame of the announcement.
        is_last: bool,
        /// The heads.
        ids: Vec<EntryId>,
    },
    /// Asks for entries.
    Want {
        /// Whether it is the last frame of the want.
        is_last: bool,
        /// Entries that the sender has.
        ids: Vec<EntryId>,
    },
    /// Asks for the deletable values of entries that the sender has.
    Values(Vec<EntryId>),
    /// Records.
    Entries(Vec<&'a [u8]>),
    /// The end of an answer.
    End {
        /// Whether there is more to be wanted.
        more: bool,
    },
    /// An announcement needs nothing more.
    Took(Took),
    /// The sender is alive.
    Alive,
    /// The sender ends the session.
    Bye(Farewell, String),
}

/// The kinds of frames.
pub(crate) mod kind {
    pub(crate) const HELLO: u8 = 1;
    pub(crate) const HEADS: u8 = 2;
    pub(crate) const WANT: u8 = 3;
    pub(crate) const ENTRIES: u8 = 4;
    pub(crate) const END: u8 = 5;
    pub(crate) const TOOK: u8 = 6;
    pub(crate) const ALIVE: u8 = 7;
    pub(crate) const BYE: u8 = 8;
    pub(crate) const VALUES: u8 = 9;
}

/// Checks the length of the content of a kind of frame in bytes.
pub(super) fn check_length(of: u8, length: usize) -> Result<(), Malformed> {
    let limit = match of {
        kind::HELLO => 37,
        kind::HEADS => 9 + FRAME_IDS_MAX * 32,
        kind::WANT => 1 + FRAME_IDS_MAX * 32,
        kind::ENTRIES => ENTRIES_BYTES_MAX,
        kind::END => 1,
        kind::TOOK => 28,
        kind::ALIVE => 0,
        kind::BYE => 1 + BYE_TEXT_MAX,
        kind::VALUES => FRAME_IDS_MAX * 32,
        _ => return Err(Malformed::Field("kind of a frame")),
    };
    if length > limit {
        let (found, limit) = (length as u64, limit as u64);
        return Err(Malformed::Limit { what: "frame", found, limit });
    }
    Ok(())
}

fn flag(fields: &mut Fields<'_>) -> Result<bool, Malformed> {
    match fields.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed::Field("flag")),
    }
}

/// The identities that take the rest.
fn rest(fields: &mut Fields<'_>) -> Result<Vec<EntryId>, Malformed> {
    let mut ids = Vec::with_capacity(fields.0.len() / 32);
    while !fields.0.is_empty() {
        ids.push(fields.id()?);
    }
    Ok(ids)
}

impl<'a> Frame<'a> {
    /// The kind of [`Self::Entries`].
    pub const ENTRIES: u8 = kind::ENTRIES;

    /// Reads the content of a frame of a kind.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn read(of: u8, content: &'a [u8]) -> Result<Self, Malformed> {
        check_length(of, content.len())?;
        let mut fields = Fields(content);
        let frame = match of {
            kind::HELLO => {
                if fields.array()? != MAGIC {
                    return Err(Malformed::Field("start of an exchange"));
                }
                Self::Hello(fields.id()?)
            }
            kind::HEADS => {
                let (number, is_last) = (fields.u64()?, flag(&mut fields)?);
                Self::Heads { number, is_last, ids: rest(&mut fields)? }
            }
            kind::WANT => Self::Want { is_last: flag(&mut fields)?, ids: rest(&mut fields)? },
            kind::VALUES => Self::Values(rest(&mut fields)?),
            kind::ENTRIES => {
                let mut records = Vec::new();
                while !fields.0.is_empty() {
                    records.push(fields.part(4, RECORD_BYTES_MAX, "record")?);
                }
                Self::Entries(records)
            }
            kind::END => Self::End { more: flag(&mut fields)? },
            kind::TOOK => Self::Took(Took {
                number: fields.u64()?,
                lacking: fields.u32()?,
                added: fields.u32()?,
                known: fields.u32()?,
                waiting: fields.u32()?,
                ahead: fields.u32()?,
            }),
            kind::ALIVE => Self::Alive,
            _ => {
                let number = usize::from(fields.u8()?);
                let reason = Farewell::ALL.get(number).ok_or(Malformed::Field("reason"))?;
                let told = text(fields.0).ok_or(Malformed::Field("text"))?;
                return Ok(Self::Bye(*reason, told.to_owned()));
            }
        };
        fields.end()?;
        Ok(frame)
    }

    /// Appends the frame to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut content = Vec::new();
        let of = match self {
            Self::Hello(log) => {
                content.extend(MAGIC);
                content.extend(log.0);
                kind::HELLO
            }
            Self::Heads { number, is_last, ids } => {
                content.extend(number.to_be_bytes());
                content.push(u8::from(*is_last));
                write_ids(&mut content, ids);
                kind::HEADS
            }
            Self::Want { is_last, ids } => {
                content.push(u8::from(*is_last));
                write_ids(&mut content, ids);
                kind::WANT
            }
            Self::Values(ids) => {
                write_ids(&mut content, ids);
                kind::VALUES
            }
            Self::Entries(records) => {
                records.iter().for_each(|record| write_part(&mut content, 4, record));
                kind::ENTRIES
            }
            Self::End { more } => {
                content.push(u8::from(*more));
                kind::END
            }
            Self::Took(took) => {
                content.extend(took.number.to_be_bytes());
                for count in [took.lacking, took.added, took.known, took.waiting, took.ahead] {
                    content.extend(count.to_be_bytes());
                }
                kind::TOOK
            }
            Self::Alive => kind::ALIVE,
            Self::Bye(reason, told) => {
                content.push(reason.number());
                let told: String = told.chars().filter(|one| !one.is_control()).collect();
                let mut end = told.len().min(BYE_TEXT_MAX);
                while !told.is_char_boundary(end) {
                    end -= 1;
                }
                content.extend_from_slice(&told.as_bytes()[..end]);
                kind::BYE
            }
        };
        out.push(of);
        write_part(out, 4, &content);
    }
}

/// Identities as frames: at least one, and the last one says so.
pub(crate) fn write_id_frames<'a>(
    ids: &[EntryId],
    out: &mut Vec<u8>,
    make: impl Fn(bool, Vec<EntryId>) -> Frame<'a>,
) {
    let mut rest = ids;
    loop {
        let (now, later) = rest.split_at(rest.len().min(FRAME_IDS_MAX));
        make(later.is_empty(), now.to_vec()).write(out);
        if later.is_empty() {
            return;
        }
        rest = later;
    }
}
