//! One side of an exchange, as a state machine.

use std::collections::{HashSet, VecDeque};

use super::frame::{
    ENTRIES_BYTES_MAX, Farewell, Frame, HEADER_BYTES, Took, check_length, kind, write_id_frames,
};
use super::limits::{
    ALIVE_MS, ANNOUNCE_MS, ANSWER_MS, FRAME_MS, FRAMES_MAX, FRUITLESS_MAX, HEADS_KEPT_MAX,
    HELLO_MS, IDLE_MS, LACKING_MAX, LEASE_MS, OUTPUT_LOW, REPEAT_MS, SEND_MS, VALUES_MAX,
    VALUES_MS, VALUES_MS_MAX, WANT_MAX,
};
use super::replica::{Fetching, Replica};
use super::report::{SessionReport, SyncError};
use crate::log::lacking::Known;
use crate::name::EntryId;
use crate::record::{Signed, read_record, to_records};

/// When a session ends by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// When each side has what the other one had at the beginning, or cannot get it now.
    Once,
    /// Never: new entries are exchanged as they come.
    Stay,
}

/// How far a session is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// The peer has not said hello. Holds the beginning of the session.
    Greeting { began_ms: u64 },
    /// Both sides announce, want and answer.
    Open,
    /// The session has ended. Output may remain.
    Over,
}

/// One side of one connection between two nodes.
#[derive(Debug)]
pub struct Session {
    log: EntryId,
    number: u64,
    mode: Mode,
    stage: Stage,
    input: Vec<u8>,
    /// The time at which the frame in `input` began.
    frame_ms: u64,
    output: Vec<u8>,
    /// The time at which the peer last took output, or at which there was none.
    drained_ms: u64,
    received_ms: u64,
    queued_ms: u64,
    /// The frames of the current second.
    second: (u64, u32),
    theirs: Theirs,
    question: Question,
    wants: Wants,
    values: Values,
    ours: Ours,
    serving: Serving,
    report: SessionReport,
}

/// What the peer has.
#[derive(Debug, Default)]
struct Theirs {
    /// The number of the last whole announcement, and whether another one has begun.
    number: u64,
    begun: bool,
    /// Its heads, and entries of its wants, that are here.
    have: HashSet<EntryId>,
    /// The length of `have` after it was last made short.
    kept: usize,
    /// Its heads that are not here.
    unknown: HashSet<EntryId>,
    /// The heads among them that do not wait for the clock.
    lacking: Vec<EntryId>,
    /// Whether `lacking` must be found again.
    stale: bool,
    /// The end of the own copy at the last look.
    seen: u64,
    /// What to report, and the number of the announcement that was last reported.
    took: Took,
}

/// The question of this side that the peer has not answered. `last_ms` is the time of the last
/// frame of the answer, or of the question.
#[derive(Debug, Default)]
enum Question {
    /// None.
    #[default]
    None,
    /// A want of entries.
    Entries { last_ms: u64, got: Got },
    /// A question for values.
    Values { last_ms: u64 },
}

/// What came of the answer to a want.
#[derive(Debug, Default)]
struct Got {
    added: u64,
    not_kept: u64,
    /// The bytes since the claims were renewed.
    bytes: usize,
}

impl Question {
    fn is_open(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// The time of the last frame of the answer, or of the question.
    fn last_ms(&self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Entries { last_ms, .. } | Self::Values { last_ms } => Some(*last_ms),
        }
    }
}

/// The wants of this side: when the next one may be.
#[derive(Debug, Default)]
struct Wants {
    /// The next want is not before this time.
    retry_ms: u64,
    fruitless: u32,
}

impl Wants {
    /// The peer has answered a want. `more` says that it has more.
    fn answered(&mut self, got: &Got, more: bool, now_ms: u64) {
        if got.added > 0 || (more && got.not_kept > 0) {
            self.fruitless = 0;
            self.retry_ms = now_ms;
        } else {
            self.fruitless += u32::from(got.not_kept == 0);
            let doubled = 1000 << self.fruitless.min(8);
            self.retry_ms = now_ms + if got.not_kept > 0 { 30_000 } else { doubled };
        }
    }
}

/// The deletable values that this side asks for, in rounds through all that it lacks.
#[derive(Debug, Default)]
struct Values {
    /// The entry behind which the round goes on, if one is under way.
    behind: Option<EntryId>,
    /// Whether a round has ended.
    was_asked: bool,
    /// Values that came in this round, and rounds without any.
    added: u64,
    fruitless: u32,
    /// The next question is not before this time.
    due_ms: u64,
}

impl Values {
    /// The peer has sent the values that it has of one question.
    fn answered(&mut self, now_ms: u64) {
        if self.behind.is_some() {
            // The round goes on.
            self.due_ms = now_ms;
            return;
        }
        self.was_asked = true;
        self.fruitless = if self.added > 0 { 0 } else { self.fruitless + 1 };
        self.added = 0;
        self.due_ms = now_ms + self.pause_ms();
    }

    /// The time before the next round.
    fn pause_ms(&self) -> u64 {
        (VALUES_MS << self.fruitless.saturating_sub(1).min(6)).min(VALUES_MS_MAX)
    }
}

/// The announcements of this side.
#[derive(Debug, Default)]
struct Ours {
    number: u64,
    /// The place up to which heads are announced.
    announced: u64,
    announced_ms: u64,
    /// Whether there are heads to announce.
    waits: bool,
    /// The place up to which the peer took everything.
    acknowledged: u64,
    /// The places of announcements that the peer has not reported.
    open: VecDeque<(u64, u64)>,
}

/// The most announcements that are remembered until the peer reports them.
const OPEN_ANNOUNCEMENTS_MAX: usize = 64;

/// The answers of this side.
#[derive(Debug)]
struct Serving {
    stage: Serve,
    /// The end of the own copy at the last answer to a want of entries, whether there was more, and
    /// its time.
    end: u64,
    more: bool,
    answered_ms: u64,
    /// The time of the last answer to a want of values.
    values_ms: Option<u64>,
}

/// What the peer wants, one thing at a time.
#[derive(Debug)]
enum Serve {
    /// No whole want. Holds the number of the identities of one that has begun.
    Listen(usize),
    /// A whole want of entries is not answered yet.
    Wanted,
    /// A want of the values of these entries is not answered yet.
    ValuesWanted(Vec<EntryId>),
    /// An answer is under way.
    Answer(Answer),
}

/// The places that an answer still has to send.
#[derive(Debug)]
struct Answer {
    places: Vec<u64>,
    at: usize,
    more: bool,
    is_values: bool,
}

impl Serving {
    fn new(now_ms: u64) -> Self {
        let stage = Serve::Listen(0);
        Self { stage, end: 0, more: false, answered_ms: now_ms, values_ms: None }
    }

    /// Whether a want is not answered yet.
    fn is_busy(&self) -> bool {
        !matches!(self.stage, Serve::Listen(_))
    }

    /// The identities and places that are held, in bytes, about.
    fn bytes(&self) -> usize {
        match &self.stage {
            Serve::Listen(_) | Serve::Wanted => 0,
            Serve::ValuesWanted(ids) => ids.capacity() * 40,
            Serve::Answer(answer) => answer.places.capacity() * 8,
        }
    }

    /// The time at which a want is answered, also if there is nothing new.
    fn due_ms(&self) -> Option<u64> {
        match &self.stage {
            Serve::Listen(_) | Serve::Answer(_) => None,
            Serve::Wanted => Some(self.answered_ms + REPEAT_MS),
            Serve::ValuesWanted(_) => Some(self.values_ms.map_or(0, |last| last + REPEAT_MS)),
        }
    }

    /// Begins the answer to a want if it is due.
    fn begin<R: Replica>(
        &mut self,
        end: u64,
        have: &HashSet<EntryId>,
        replica: &mut R,
        now_ms: u64,
    ) {
        let is_due = self.due_ms().is_some_and(|due_ms| now_ms >= due_ms);
        let is_new = end > self.end || self.more || self.end == 0;
        let (mut places, more, is_values) = match &self.stage {
            Serve::Wanted if is_due || is_new => {
                let places = replica.lacking(have);
                let more = places.len() == LACKING_MAX;
                (self.end, self.more) = (end, more);
                (places, more, false)
            }
            Serve::ValuesWanted(ids) if is_due => {
                self.values_ms = Some(now_ms);
                (replica.places_of_values(ids), false, true)
            }
            _ => return,
        };
        // Those behind are not on disk.
        places.truncate(places.partition_point(|&place| place < end));
        self.stage = Serve::Answer(Answer { places, at: 0, more, is_values });
    }
}

impl Session {
    /// A session about the log `log`. `number` is different for each session of a node.
    #[must_use]
    pub fn new(log: EntryId, number: u64, mode: Mode, now_ms: u64) -> Self {
        let mut output = Vec::new();
        Frame::Hello(log).write(&mut output);
        Self {
            log,
            number,
            mode,
            stage: Stage::Greeting { began_ms: now_ms },
            input: Vec::new(),
            frame_ms: now_ms,
            output,
            drained_ms: now_ms,
            received_ms: now_ms,
            queued_ms: now_ms,
            second: (0, 0),
            theirs: Theirs::default(),
            question: Question::None,
            wants: Wants::default(),
            values: Values::default(),
            ours: Ours { announced_ms: now_ms, ..Ours::default() },
            serving: Serving::new(now_ms),
            report: SessionReport::default(),
        }
    }

    /// The bytes to send now.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Says that the first `bytes` of the output were sent.
    pub fn sent(&mut self, bytes: usize, now_ms: u64) {
        self.output.drain(..bytes.min(self.output.len()));
        if bytes > 0 {
            self.drained_ms = now_ms;
        }
        if self.output.is_empty() {
            // A large piece is not kept as empty room.
            self.output = Vec::new();
        }
    }

    /// Whether the session has ended. Output may remain.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether the peer has said hello, and the session has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// What was done so far.
    #[must_use]
    pub fn report(&self) -> &SessionReport {
        &self.report
    }

    /// The bytes that the session holds, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let ids = self.theirs.have.capacity() + self.theirs.unknown.capacity();
        self.input.capacity() + self.output.capacity() + ids * 40 + self.serving.bytes()
    }

    /// Whether each side has what the other one had at the beginning of the session, as far as it
    /// can get it now.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.stage == Stage::Open
            && self.theirs.took.number > 0
            && self.report.peer.number > 0
            && !self.question.is_open()
            && !self.serving.is_busy()
    }

    /// Ends the session with a reason, unless it has ended.
    pub fn end(&mut self, reason: Farewell, told: &str, fetching: &Fetching) {
        if self.stage == Stage::Over {
            return;
        }
        // The peer cannot read a farewell in the middle of a frame, so the rest of the output
        // stays.
        Frame::Bye(reason, told.to_owned()).write(&mut self.output);
        self.close(fetching);
    }

    fn close(&mut self, fetching: &Fetching) {
        self.stage = Stage::Over;
        self.input = Vec::new();
        self.serving.stage = Serve::Listen(0);
        fetching.release(self.number);
    }

    /// Takes bytes from the peer, and goes on. `wall_ms` is the time of day, by which the clocks of
    /// entries are judged.
    ///
    /// # Errors
    ///
    /// [`SyncError`], after which the session is over. Bytes that come later are ignored.
    pub fn receive<R: Replica>(
        &mut self,
        bytes: &[u8],
        replica: &mut R,
        fetching: &Fetching,
        now_ms: u64,
        wall_ms: u64,
    ) -> Result<(), SyncError<R::Error>> {
        let mut rest = bytes;
        while !rest.is_empty() && self.stage != Stage::Over {
            let taken = self.fill(&mut rest, now_ms).and_then(|is_whole| {
                if !is_whole {
                    return Ok(());
                }
                let frame = std::mem::take(&mut self.input);
                self.frame(frame[0], &frame[HEADER_BYTES..], replica, fetching, now_ms, wall_ms)
            });
            if let Err(error) = taken {
                return Err(self.fail(error, fetching));
            }
        }
        self.advance(replica, fetching, now_ms)
    }

    /// Moves bytes into the frame that comes in. Says whether it is whole.
    fn fill<E>(&mut self, rest: &mut &[u8], now_ms: u64) -> Result<bool, SyncError<E>> {
        if self.input.is_empty() {
            self.frame_ms = now_ms;
        }
        let mut move_to = |input: &mut Vec<u8>, length: usize| {
            let (now, later) = rest.split_at(length.saturating_sub(input.len()).min(rest.len()));
            input.extend_from_slice(now);
            *rest = later;
            input.len() == length
        };
        if self.input.len() < HEADER_BYTES && !move_to(&mut self.input, HEADER_BYTES) {
            return Ok(false);
        }
        let of = self.input[0];
        let length =
            self.input[1..HEADER_BYTES].iter().fold(0, |a, &byte| a << 8 | usize::from(byte));
        check_length(of, length)?;
        if matches!(self.stage, Stage::Greeting { .. }) && !matches!(of, kind::HELLO | kind::BYE) {
            return Err(SyncError::Unexpected("hello is due"));
        }
        Ok(move_to(&mut self.input, HEADER_BYTES + length))
    }

    fn fail<E>(&mut self, error: SyncError<E>, fetching: &Fetching) -> SyncError<E> {
        match &error {
            SyncError::Bye { .. } => self.close(fetching),
            SyncError::Refused { id, refusal } => {
                self.end(Farewell::Refused, &format!("{id}: {refusal}"), fetching);
            }
            other => self.end(other.farewell(), "", fetching),
        }
        error
    }

    /// Takes a whole frame.
    fn frame<R: Replica>(
        &mut self,
        of: u8,
        content: &[u8],
        replica: &mut R,
        fetching: &Fetching,
        now_ms: u64,
        wall_ms: u64,
    ) -> Result<(), SyncError<R::Error>> {
        self.received_ms = now_ms;
        if self.second.0 != now_ms / 1000 {
            self.second = (now_ms / 1000, 0);
        }
        self.second.1 += 1;
        if self.second.1 > FRAMES_MAX {
            return Err(SyncError::Flood);
        }
        match (self.stage, Frame::read(of, content)?) {
            (Stage::Greeting { .. }, Frame::Hello(log)) => {
                if log != self.log {
                    return Err(SyncError::OtherLog(log));
                }
                self.stage = Stage::Open;
                Ok(())
            }
            (_, Frame::Bye(Farewell::Done | Farewell::Stopping, _)) => {
                self.close(fetching);
                Ok(())
            }
            (_, Frame::Bye(reason, told)) => Err(SyncError::Bye { reason, told }),
            (Stage::Open, Frame::Heads { number, is_last, ids }) => {
                self.heads(number, is_last, &ids, replica)
            }
            (Stage::Open, Frame::Want { is_last, ids }) => self.wanted(is_last, &ids, replica),
            (Stage::Open, Frame::Values(ids)) => self.values_wanted(ids),
            (Stage::Open, Frame::Entries(records)) => {
                self.entries(&records, content.len(), replica, fetching, now_ms, wall_ms)
            }
            (Stage::Open, Frame::End { more }) => self.answered(more, fetching, now_ms),
            (Stage::Open, Frame::Took(took)) => self.took(took),
            (Stage::Open, Frame::Alive) => Ok(()),
            _ => Err(SyncError::Unexpected("a second hello")),
        }
    }

    fn heads<R: Replica>(
        &mut self,
        number: u64,
        is_last: bool,
        ids: &[EntryId],
        replica: &mut R,
    ) -> Result<(), SyncError<R::Error>> {
        let theirs = &mut self.theirs;
        if theirs.number.checked_add(1) != Some(number) {
            return Err(SyncError::Unexpected("number of an announcement"));
        }
        for id in ids {
            match replica.knows(id) {
                Known::Here => theirs.have.insert(*id),
                Known::Ahead | Known::Lacking => theirs.unknown.insert(*id),
            };
        }
        theirs.begun = !is_last;
        theirs.stale = true;
        if is_last {
            theirs.number = number;
        }
        self.bound_heads(replica)
    }

    /// Keeps few identities for the peer.
    fn bound_heads<R: Replica>(&mut self, replica: &mut R) -> Result<(), SyncError<R::Error>> {
        let theirs = &mut self.theirs;
        let is_long = theirs.have.len() + theirs.unknown.len() > HEADS_KEPT_MAX;
        if is_long || theirs.have.len() > 2 * theirs.kept + 64 {
            replica.keep_last(&mut theirs.have);
            theirs.kept = theirs.have.len();
        }
        if theirs.have.len() + theirs.unknown.len() > HEADS_KEPT_MAX {
            return Err(SyncError::Heads);
        }
        Ok(())
    }

    fn wanted<R: Replica>(
        &mut self,
        is_last: bool,
        ids: &[EntryId],
        replica: &mut R,
    ) -> Result<(), SyncError<R::Error>> {
        let (Serve::Listen(before), 1..) = (&self.serving.stage, self.theirs.number) else {
            return Err(SyncError::Unexpected("want"));
        };
        let count = before + ids.len();
        if count > WANT_MAX {
            return Err(SyncError::Heads);
        }
        let here = ids.iter().filter(|id| replica.knows(id) == Known::Here);
        self.theirs.have.extend(here);
        self.serving.stage = if is_last { Serve::Wanted } else { Serve::Listen(count) };
        self.bound_heads(replica)
    }

    fn values_wanted<E>(&mut self, ids: Vec<EntryId>) -> Result<(), SyncError<E>> {
        let (Serve::Listen(0), 1..) = (&self.serving.stage, self.theirs.number) else {
            return Err(SyncError::Unexpected("want of values"));
        };
        self.serving.stage = Serve::ValuesWanted(ids);
        Ok(())
    }

    fn entries<R: Replica>(
        &mut self,
        records: &[&[u8]],
        bytes: usize,
        replica: &mut R,
        fetching: &Fetching,
        now_ms: u64,
        wall_ms: u64,
    ) -> Result<(), SyncError<R::Error>> {
        match &mut self.question {
            Question::None => return Err(SyncError::Unexpected("entries that nobody wanted")),
            Question::Entries { last_ms, .. } | Question::Values { last_ms } => *last_ms = now_ms,
        }
        let mut entries: Vec<Signed> = Vec::new();
        for record in records {
            entries.extend(read_record(record)?);
        }
        let taken = replica.take(entries, wall_ms).map_err(SyncError::Replica)?;
        let report = &mut self.report;
        report.added += taken.added;
        report.known += taken.known;
        report.values += taken.values;
        self.values.added += taken.values;
        report.waiting += taken.waiting + taken.not_kept;
        report.ahead += taken.ahead;
        let took = &mut self.theirs.took;
        let add = |sum: &mut u32, more: u64| {
            *sum = sum.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        };
        add(&mut took.added, taken.added);
        add(&mut took.known, taken.known);
        add(&mut took.waiting, taken.waiting + taken.not_kept);
        add(&mut took.ahead, taken.ahead);
        self.theirs.stale = true;
        if let Question::Entries { got, .. } = &mut self.question {
            got.added += taken.added;
            got.not_kept += taken.not_kept;
            if taken.added > 0 {
                got.bytes += bytes;
            }
            if got.bytes >= 64 << 10 {
                got.bytes = 0;
                fetching.renew(self.number, now_ms + LEASE_MS);
            }
        }
        for (_, refusal) in &taken.refused {
            *report.refused.entry(refusal.kind()).or_default() += 1;
        }
        // A peer admits what it sends, and everybody admits the same.
        match taken.refused.into_iter().next() {
            Some((id, refusal)) => Err(SyncError::Refused { id, refusal: Box::new(refusal) }),
            None => Ok(()),
        }
    }

    /// The peer has answered a want.
    fn answered<E>(
        &mut self,
        more: bool,
        fetching: &Fetching,
        now_ms: u64,
    ) -> Result<(), SyncError<E>> {
        match std::mem::take(&mut self.question) {
            Question::None => return Err(SyncError::Unexpected("the end of no answer")),
            Question::Values { .. } => self.values.answered(now_ms),
            Question::Entries { got, .. } => {
                fetching.release(self.number);
                self.theirs.stale = true;
                self.wants.answered(&got, more, now_ms);
            }
        }
        Ok(())
    }

    fn took<E>(&mut self, took: Took) -> Result<(), SyncError<E>> {
        if took.number > self.ours.number || took.number <= self.report.peer.number {
            return Err(SyncError::Unexpected("a report about no announcement"));
        }
        let peer = &mut self.report.peer;
        *peer = Took {
            number: took.number,
            lacking: took.lacking,
            added: peer.added.saturating_add(took.added),
            known: peer.known.saturating_add(took.known),
            waiting: peer.waiting.saturating_add(took.waiting),
            ahead: peer.ahead.saturating_add(took.ahead),
        };
        while let Some(&(number, place)) = self.ours.open.front() {
            if number > took.number {
                break;
            }
            if number == took.number && took.lacking == 0 {
                self.ours.acknowledged = place;
            }
            self.ours.open.pop_front();
        }
        Ok(())
    }

    /// Does what is due: deadlines, announcements, wants, reports, and the next piece of an answer.
    ///
    /// # Errors
    ///
    /// [`SyncError`], after which the session is over.
    pub fn advance<R: Replica>(
        &mut self,
        replica: &mut R,
        fetching: &Fetching,
        now_ms: u64,
    ) -> Result<(), SyncError<R::Error>> {
        if self.stage == Stage::Over {
            return Ok(());
        }
        let before = self.output.len();
        let done = self.go_on(replica, fetching, now_ms);
        if self.output.len() > before {
            self.queued_ms = now_ms;
        }
        if before == 0 {
            self.drained_ms = now_ms;
        }
        done.map_err(|error| self.fail(error, fetching))?;
        if self.mode == Mode::Once && self.is_settled() {
            self.end(Farewell::Done, "", fetching);
        }
        Ok(())
    }

    fn go_on<R: Replica>(
        &mut self,
        replica: &mut R,
        fetching: &Fetching,
        now_ms: u64,
    ) -> Result<(), SyncError<R::Error>> {
        for (deadline, what) in self.deadlines() {
            if now_ms >= deadline {
                return Err(SyncError::Slow(what));
            }
        }
        if self.stage != Stage::Open {
            return Ok(());
        }
        let end = replica.end().map_err(SyncError::Replica)?;
        let theirs = &mut self.theirs;
        if end != theirs.seen {
            // New entries may have come without their values.
            let pause_ms = if self.values.fruitless == 0 { 0 } else { self.values.pause_ms() };
            self.values.due_ms = self.values.due_ms.min(now_ms + pause_ms);
        }
        if theirs.stale || end != theirs.seen {
            (theirs.stale, theirs.seen) = (false, end);
            theirs.lacking.clear();
            theirs.unknown.retain(|id| match replica.knows(id) {
                Known::Here => {
                    theirs.have.insert(*id);
                    false
                }
                Known::Ahead => true,
                Known::Lacking => {
                    theirs.lacking.push(*id);
                    true
                }
            });
            self.report.lacking = theirs.lacking.len() as u64;
            self.bound_heads(replica)?;
        }
        let is_first = self.ours.number == 0;
        self.ours.waits = is_first || end > self.ours.announced;
        if is_first || (self.ours.waits && now_ms >= self.ours.announced_ms + ANNOUNCE_MS) {
            self.announce(end, replica, now_ms);
        }
        self.ask(end, replica, fetching, now_ms)?;
        self.serve(end, replica, now_ms)?;
        if now_ms >= self.queued_ms + ALIVE_MS {
            Frame::Alive.write(&mut self.output);
        }
        Ok(())
    }

    fn announce<R: Replica>(&mut self, end: u64, replica: &mut R, now_ms: u64) {
        let ours = &mut self.ours;
        let heads = replica.heads(ours.announced, end);
        ours.number += 1;
        (ours.announced, ours.announced_ms, ours.waits) = (end, now_ms, false);
        if ours.open.len() == OPEN_ANNOUNCEMENTS_MAX {
            ours.open.pop_front();
        }
        ours.open.push_back((ours.number, end));
        let number = ours.number;
        write_id_frames(&heads, &mut self.output, |is_last, ids| Frame::Heads {
            number,
            is_last,
            ids,
        });
    }

    /// Wants what is lacking, or reports that nothing more is wanted.
    fn ask<R: Replica>(
        &mut self,
        end: u64,
        replica: &mut R,
        fetching: &Fetching,
        now_ms: u64,
    ) -> Result<(), SyncError<R::Error>> {
        let theirs = &mut self.theirs;
        if self.question.is_open() || theirs.number == 0 || theirs.begun {
            return Ok(());
        }
        let is_ready = now_ms >= self.wants.retry_ms;
        if !theirs.lacking.is_empty() && is_ready {
            if self.wants.fruitless >= FRUITLESS_MAX {
                return Err(SyncError::Promise);
            }
            let until_ms = now_ms + LEASE_MS;
            if fetching.claim(self.number, &theirs.lacking, until_ms, now_ms).is_empty() {
                return Ok(());
            }
            // The peer must know what is here now.
            if self.ours.waits {
                self.announce(end, replica, now_ms);
            }
            let places = replica.places((self.ours.acknowledged, end), &self.theirs.have);
            write_id_frames(&places, &mut self.output, |is_last, ids| Frame::Want { is_last, ids });
            self.question = Question::Entries { last_ms: now_ms, got: Got::default() };
            return Ok(());
        }
        if theirs.lacking.is_empty() && now_ms >= self.values.due_ms {
            let ids = replica.lacking_values(self.values.behind);
            if !ids.is_empty() {
                // Fewer than a question holds are the end of a round.
                self.values.behind = ids.last().copied().filter(|_| ids.len() == VALUES_MAX);
                Frame::Values(ids).write(&mut self.output);
                self.question = Question::Values { last_ms: now_ms };
                return Ok(());
            }
            if self.values.behind.take().is_some() {
                self.values.answered(now_ms);
            } else {
                // Until entries come.
                (self.values.was_asked, self.values.due_ms) = (true, u64::MAX);
            }
        }
        // A peer that leaves when it has all must have answered before.
        if theirs.took.number < theirs.number
            && (self.values.was_asked || !theirs.lacking.is_empty())
        {
            theirs.took.number = theirs.number;
            theirs.took.lacking = u32::try_from(theirs.lacking.len()).unwrap_or(u32::MAX);
            Frame::Took(theirs.took).write(&mut self.output);
            theirs.took = Took { number: theirs.number, ..Took::default() };
        }
        Ok(())
    }

    fn serve<R: Replica>(
        &mut self,
        end: u64,
        replica: &mut R,
        now_ms: u64,
    ) -> Result<(), SyncError<R::Error>> {
        self.serving.begin(end, &self.theirs.have, replica, now_ms);
        while self.output.len() < OUTPUT_LOW
            && let Serve::Answer(answer) = &mut self.serving.stage
        {
            let rest = &answer.places[answer.at..];
            if rest.is_empty() {
                Frame::End { more: answer.more }.write(&mut self.output);
                if !answer.is_values {
                    self.serving.answered_ms = now_ms;
                }
                self.serving.stage = Serve::Listen(0);
                break;
            }
            let entries = replica.read(rest).map_err(SyncError::Replica)?;
            answer.at += entries.len().max(1);
            self.report.sent += entries.len() as u64;
            let mut records = Vec::new();
            to_records(&entries, &mut records);
            write_records(&records, &mut self.output);
        }
        Ok(())
    }

    /// The deadlines, with the peer's failing if they pass.
    fn deadlines(&self) -> impl Iterator<Item = (u64, &'static str)> {
        let hello = match self.stage {
            Stage::Greeting { began_ms } => Some(began_ms + HELLO_MS),
            Stage::Open | Stage::Over => None,
        };
        let frame = (!self.input.is_empty()).then(|| {
            let length = self.input.get(1..HEADER_BYTES);
            let length =
                length.map_or(0, |length| length.iter().fold(0, |a, &o| a << 8 | u64::from(o)));
            self.frame_ms + FRAME_MS + length / 16
        });
        let send = (!self.output.is_empty()).then_some(self.drained_ms + SEND_MS);
        // A frame that comes in has a deadline of its own.
        let answer = self.question.last_ms().filter(|_| self.input.is_empty());
        let answer = answer.map(|last_ms| last_ms + ANSWER_MS);
        [
            (hello, "it does not say hello"),
            (frame, "a frame takes too long"),
            (send, "it does not read"),
            (answer, "it does not answer"),
            (Some(self.received_ms + IDLE_MS), "it says nothing"),
        ]
        .into_iter()
        .filter_map(|(at, what)| at.map(|at| (at, what)))
    }

    /// The time at which [`Self::advance`] must be called at the latest.
    #[must_use]
    pub fn next_ms(&self, fetching: &Fetching) -> u64 {
        let mut next = self.deadlines().map(|(at, _)| at).min().unwrap_or(u64::MAX);
        if self.stage == Stage::Open {
            next = next.min(self.queued_ms + ALIVE_MS);
            if self.ours.waits {
                next = next.min(self.ours.announced_ms + ANNOUNCE_MS);
            }
            next = next.min(self.serving.due_ms().unwrap_or(u64::MAX));
            let is_known = self.theirs.number > 0 && !self.theirs.begun;
            if !self.question.is_open() && is_known && self.theirs.lacking.is_empty() {
                next = next.min(self.values.due_ms);
            }
            if !self.question.is_open() && !self.theirs.lacking.is_empty() {
                let claims = self.theirs.lacking.iter();
                let free = claims.map(|id| fetching.until(id).unwrap_or(0)).min().unwrap_or(0);
                next = next.min(free.max(self.wants.retry_ms));
            }
        }
        next
    }
}

/// Records as frames.
fn write_records(records: &[Vec<u8>], out: &mut Vec<u8>) {
    let mut rest = records;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |record: &&Vec<u8>| {
            bytes += record.len() + 4;
            bytes <= ENTRIES_BYTES_MAX
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (now, later) = rest.split_at(count);
        Frame::Entries(now.iter().map(Vec::as_slice).collect()).write(out);
        rest = later;
    }
}
