//! A session in which both sides have said hello: announcements, wants and answers.

use std::collections::{HashSet, VecDeque};

use super::frame::{ENTRIES_BYTES_MAX, Frame, Took, write_id_frames};
use super::limits::{
    ALIVE_MS, ANNOUNCE_MS, FRUITLESS_MAX, HEADS_KEPT_MAX, LACKING_MAX, LEASE_MS, OUTPUT_LOW,
    REPEAT_MS, VALUES_MAX, VALUES_MS, VALUES_MS_MAX, WANT_MAX,
};
use super::replica::{Fetching, Replica};
use super::report::{SessionReport, SyncError};
use crate::log::lacking::Known;
use crate::name::EntryId;
use crate::record::{Signed, read_record, to_records};

/// The state of an open session. Each direction goes on independently of the other one.
#[derive(Debug, Default)]
pub(super) struct Open {
    theirs: Theirs,
    /// The question of this side that the peer has not answered.
    question: Option<Question>,
    wants: Wants,
    values: Values,
    ours: Ours,
    serving: Serving,
    /// The time at which this side last had something to say.
    queued_ms: u64,
}

/// What an open session uses and changes beside its state.
pub(super) struct Here<'h, R> {
    /// The number of the session.
    pub(super) number: u64,
    pub(super) replica: &'h mut R,
    pub(super) fetching: &'h Fetching,
    pub(super) now_ms: u64,
    pub(super) output: &'h mut Vec<u8>,
    pub(super) report: &'h mut SessionReport,
}

type Done<R> = Result<(), SyncError<<R as Replica>::Error>>;

impl Open {
    pub(super) fn new(now_ms: u64) -> Self {
        Self { queued_ms: now_ms, ..Self::default() }
    }

    /// The bytes that the session holds for the peer, about.
    pub(super) fn bytes(&self) -> usize {
        let ids = self.theirs.have.capacity() + self.theirs.unknown.capacity();
        ids * 40 + self.serving.bytes()
    }

    /// Whether each side has what the other one had at the beginning of the session, as far as it
    /// can get it now.
    pub(super) fn is_settled(&self, report: &SessionReport) -> bool {
        self.theirs.took.number > 0
            && report.peer.number > 0
            && self.question.is_none()
            && matches!(self.serving.want, Want::Listen(_))
    }

    /// The time of the last frame of an answer that is due, or of its question.
    pub(super) fn asked_ms(&self) -> Option<u64> {
        self.question.as_ref().map(|question| question.last_ms)
    }

    pub(super) fn heads<R: Replica>(
        &mut self,
        number: u64,
        is_last: bool,
        ids: &[EntryId],
        replica: &mut R,
    ) -> Done<R> {
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
        theirs.bound(replica)
    }

    pub(super) fn wanted<R: Replica>(
        &mut self,
        is_last: bool,
        ids: &[EntryId],
        replica: &mut R,
    ) -> Done<R> {
        let (Want::Listen(before), 1..) = (&self.serving.want, self.theirs.number) else {
            return Err(SyncError::Unexpected("want"));
        };
        let count = before + ids.len();
        if count > WANT_MAX {
            return Err(SyncError::Heads);
        }
        let here = ids.iter().filter(|id| replica.knows(id) == Known::Here);
        self.theirs.have.extend(here);
        self.serving.want = if is_last { Want::Entries } else { Want::Listen(count) };
        self.theirs.bound(replica)
    }

    pub(super) fn values_wanted<E>(&mut self, ids: Vec<EntryId>) -> Result<(), SyncError<E>> {
        let (Want::Listen(0), 1..) = (&self.serving.want, self.theirs.number) else {
            return Err(SyncError::Unexpected("want of values"));
        };
        self.serving.want = Want::Values(ids);
        Ok(())
    }

    /// `wall_ms` is the time of day, by which the clocks of entries are judged.
    pub(super) fn entries<R: Replica>(
        &mut self,
        records: &[&[u8]],
        here: &mut Here<'_, R>,
        wall_ms: u64,
    ) -> Done<R> {
        let Some(question) = &mut self.question else {
            return Err(SyncError::Unexpected("entries that nobody wanted"));
        };
        question.last_ms = here.now_ms;
        let mut entries: Vec<Signed> = Vec::new();
        for record in records {
            entries.extend(read_record(record)?);
        }
        let taken = here.replica.take(entries, wall_ms).map_err(SyncError::Replica)?;
        here.report.count(&taken);
        self.values.added += taken.values;
        let theirs = &mut self.theirs;
        theirs.took = Took {
            added: in_32_bits(taken.added),
            known: in_32_bits(taken.known),
            waiting: in_32_bits(taken.waiting + taken.not_kept),
            ahead: in_32_bits(taken.ahead),
            ..theirs.took
        }
        .after(&theirs.took);
        theirs.stale = true;
        if let Asked::Entries(got) = &mut question.asked {
            got.added += taken.added;
            got.not_kept += taken.not_kept;
            if taken.added > 0 {
                got.bytes += records.iter().map(|record| record.len() + 4).sum::<usize>();
            }
            if got.bytes >= 64 << 10 {
                got.bytes = 0;
                here.fetching.renew(here.number, here.now_ms + LEASE_MS);
            }
        }
        // A peer admits what it sends, and everybody admits the same.
        match taken.refused.into_iter().next() {
            Some((id, refusal)) => Err(SyncError::Refused { id, refusal: Box::new(refusal) }),
            None => Ok(()),
        }
    }

    /// The peer has answered a want.
    pub(super) fn answered<R: Replica>(&mut self, more: bool, here: &Here<'_, R>) -> Done<R> {
        match self.question.take().map(|question| question.asked) {
            None => return Err(SyncError::Unexpected("the end of no answer")),
            Some(Asked::Values) => self.values.answered(here.now_ms),
            Some(Asked::Entries(got)) => {
                here.fetching.release(here.number);
                self.theirs.stale = true;
                self.wants.answered(&got, more, here.now_ms);
            }
        }
        Ok(())
    }

    pub(super) fn took<R: Replica>(&mut self, took: Took, here: &mut Here<'_, R>) -> Done<R> {
        let (ours, peer) = (&mut self.ours, &mut here.report.peer);
        if took.number > ours.number || took.number <= peer.number {
            return Err(SyncError::Unexpected("a report about no announcement"));
        }
        *peer = took.after(peer);
        while let Some(&(number, place)) = ours.open.front()
            && number <= took.number
        {
            if number == took.number && took.lacking == 0 {
                ours.acknowledged = place;
            }
            ours.open.pop_front();
        }
        Ok(())
    }

    /// Does what is due: announcements, wants, reports, and the next piece of an answer.
    pub(super) fn advance<R: Replica>(&mut self, here: &mut Here<'_, R>) -> Done<R> {
        let (before, now_ms) = (here.output.len(), here.now_ms);
        let end = here.replica.end().map_err(SyncError::Replica)?;
        let theirs = &mut self.theirs;
        if end != theirs.seen {
            // New entries may have come without their values.
            let pause_ms = if self.values.fruitless == 0 { 0 } else { self.values.pause_ms() };
            self.values.due_ms = self.values.due_ms.min(now_ms + pause_ms);
        }
        if theirs.stale || end != theirs.seen {
            (theirs.stale, theirs.seen) = (false, end);
            theirs.lacking.clear();
            theirs.unknown.retain(|id| match here.replica.knows(id) {
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
            here.report.lacking = theirs.lacking.len() as u64;
            theirs.bound(here.replica)?;
        }
        let ours = &mut self.ours;
        let is_first = ours.number == 0;
        ours.waits = is_first || end > ours.announced;
        if is_first || (ours.waits && now_ms >= ours.announced_ms + ANNOUNCE_MS) {
            ours.announce(end, here);
        }
        self.ask(end, here)?;
        self.serving.serve(end, &self.theirs.have, here)?;
        if now_ms >= self.queued_ms + ALIVE_MS {
            Frame::Alive.write(here.output);
        }
        if here.output.len() > before {
            self.queued_ms = now_ms;
        }
        Ok(())
    }

    /// Wants what is lacking, or reports that nothing more is wanted.
    fn ask<R: Replica>(&mut self, end: u64, here: &mut Here<'_, R>) -> Done<R> {
        let (theirs, now_ms) = (&mut self.theirs, here.now_ms);
        if self.question.is_some() || !theirs.is_known() {
            return Ok(());
        }
        if !theirs.lacking.is_empty() && now_ms >= self.wants.retry_ms {
            if self.wants.fruitless >= FRUITLESS_MAX {
                return Err(SyncError::Promise);
            }
            let until_ms = now_ms + LEASE_MS;
            if here.fetching.claim(here.number, &theirs.lacking, until_ms, now_ms).is_empty() {
                return Ok(());
            }
            // The peer must know what is here now.
            if self.ours.waits {
                self.ours.announce(end, here);
            }
            let places = here.replica.places((self.ours.acknowledged, end), &theirs.have);
            write_id_frames(&places, here.output, |is_last, ids| Frame::Want { is_last, ids });
            let asked = Asked::Entries(Got::default());
            self.question = Some(Question { last_ms: now_ms, asked });
            return Ok(());
        }
        if theirs.lacking.is_empty() && now_ms >= self.values.due_ms {
            let ids = here.replica.lacking_values(self.values.behind);
            if !ids.is_empty() {
                // Fewer than a question holds are the end of a round.
                self.values.behind = ids.last().copied().filter(|_| ids.len() == VALUES_MAX);
                Frame::Values(ids).write(here.output);
                self.question = Some(Question { last_ms: now_ms, asked: Asked::Values });
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
        let number = theirs.number;
        if theirs.took.number < number && (self.values.was_asked || !theirs.lacking.is_empty()) {
            let lacking = in_32_bits(theirs.lacking.len() as u64);
            Frame::Took(Took { number, lacking, ..theirs.took }).write(here.output);
            theirs.took = Took { number, ..Took::default() };
        }
        Ok(())
    }

    /// The time at which [`Self::advance`] must be called at the latest.
    pub(super) fn next_ms(&self, fetching: &Fetching) -> u64 {
        let mut next = self.queued_ms + ALIVE_MS;
        if self.ours.waits {
            next = next.min(self.ours.announced_ms + ANNOUNCE_MS);
        }
        next = next.min(self.serving.due_ms().unwrap_or(u64::MAX));
        if self.question.is_some() {
            return next;
        }
        if !self.theirs.lacking.is_empty() {
            let claims = self.theirs.lacking.iter();
            let free = claims.map(|id| fetching.until(id).unwrap_or(0)).min().unwrap_or(0);
            next = next.min(free.max(self.wants.retry_ms));
        } else if self.theirs.is_known() {
            next = next.min(self.values.due_ms);
        }
        next
    }
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

impl Theirs {
    /// Whether the peer has announced what it has, and does not go on with it.
    fn is_known(&self) -> bool {
        self.number > 0 && !self.begun
    }

    /// Keeps few identities for the peer.
    fn bound<R: Replica>(&mut self, replica: &mut R) -> Done<R> {
        let is_long = self.have.len() + self.unknown.len() > HEADS_KEPT_MAX;
        if is_long || self.have.len() > 2 * self.kept + 64 {
            replica.keep_last(&mut self.have);
            self.kept = self.have.len();
        }
        if self.have.len() + self.unknown.len() > HEADS_KEPT_MAX {
            return Err(SyncError::Heads);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Question {
    /// The time of the last frame of the answer, or of the question.
    last_ms: u64,
    asked: Asked,
}

#[derive(Debug)]
enum Asked {
    /// A want of entries.
    Entries(Got),
    /// A question for values.
    Values,
}

/// What came of the answer to a want.
#[derive(Debug, Default)]
struct Got {
    added: u64,
    not_kept: u64,
    /// The bytes since the claims were renewed.
    bytes: usize,
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
        self.due_ms = now_ms;
        if self.behind.is_none() {
            // It was the last one of the round.
            self.was_asked = true;
            self.fruitless = if self.added > 0 { 0 } else { self.fruitless + 1 };
            self.added = 0;
            self.due_ms += self.pause_ms();
        }
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

impl Ours {
    fn announce<R: Replica>(&mut self, end: u64, here: &mut Here<'_, R>) {
        let heads = here.replica.heads(self.announced, end);
        self.number += 1;
        (self.announced, self.announced_ms, self.waits) = (end, here.now_ms, false);
        if self.open.len() == OPEN_ANNOUNCEMENTS_MAX {
            self.open.pop_front();
        }
        let number = self.number;
        self.open.push_back((number, end));
        let frame = |is_last, ids| Frame::Heads { number, is_last, ids };
        write_id_frames(&heads, here.output, frame);
    }
}

/// The answers of this side.
#[derive(Debug, Default)]
struct Serving {
    want: Want,
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
enum Want {
    /// No whole want. Holds the number of the identities of one that has begun.
    Listen(usize),
    /// Entries. The want is not answered yet.
    Entries,
    /// The values of these entries. The want is not answered yet.
    Values(Vec<EntryId>),
    /// An answer is under way: the places that it sends, and how many of them it has sent.
    Answer { places: Vec<u64>, sent: usize, is_values: bool },
}

impl Default for Want {
    fn default() -> Self {
        Self::Listen(0)
    }
}

impl Serving {
    /// The identities and places that are held, in bytes, about.
    fn bytes(&self) -> usize {
        match &self.want {
            Want::Listen(_) | Want::Entries => 0,
            Want::Values(ids) => ids.capacity() * 40,
            Want::Answer { places, .. } => places.capacity() * 8,
        }
    }

    /// The time at which a want is answered, also if there is nothing new.
    fn due_ms(&self) -> Option<u64> {
        match &self.want {
            Want::Listen(_) | Want::Answer { .. } => None,
            Want::Entries => Some(self.answered_ms + REPEAT_MS),
            Want::Values(_) => Some(self.values_ms.map_or(0, |last| last + REPEAT_MS)),
        }
    }

    /// Begins the answer to a want if it is due, and makes the next pieces of one.
    fn serve<R: Replica>(
        &mut self,
        end: u64,
        have: &HashSet<EntryId>,
        here: &mut Here<'_, R>,
    ) -> Done<R> {
        let is_due = self.due_ms().is_some_and(|due_ms| here.now_ms >= due_ms);
        let is_new = end > self.end || self.more || self.end == 0;
        let begun = match &self.want {
            Want::Entries if is_due || is_new => {
                let places = here.replica.lacking(have);
                (self.end, self.more) = (end, places.len() == LACKING_MAX);
                Some((places, false))
            }
            Want::Values(ids) if is_due => {
                self.values_ms = Some(here.now_ms);
                Some((here.replica.places_of_values(ids), true))
            }
            _ => None,
        };
        if let Some((mut places, is_values)) = begun {
            // Those behind are not on disk.
            places.truncate(places.partition_point(|&place| place < end));
            self.want = Want::Answer { places, sent: 0, is_values };
        }
        while here.output.len() < OUTPUT_LOW
            && let Want::Answer { places, sent, is_values } = &mut self.want
        {
            if *sent >= places.len() {
                Frame::End { more: self.more && !*is_values }.write(here.output);
                if !*is_values {
                    self.answered_ms = here.now_ms;
                }
                self.want = Want::Listen(0);
                break;
            }
            let entries = here.replica.read(&places[*sent..]).map_err(SyncError::Replica)?;
            *sent += entries.len().max(1);
            here.report.sent += entries.len() as u64;
            let mut records = Vec::new();
            to_records(&entries, &mut records);
            write_records(&records, here.output);
        }
        Ok(())
    }
}

fn in_32_bits(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
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
