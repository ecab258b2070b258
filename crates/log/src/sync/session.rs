//! One side of an exchange, as a state machine.

use std::mem;

use super::frame::{Farewell, Frame, HEADER_BYTES, check_length, kind};
use super::limits::{ANSWER_MS, FRAME_MS, FRAMES_MAX, HELLO_MS, IDLE_MS, SEND_MS};
use super::open::{Here, Open};
use super::replica::{Fetching, Replica};
use super::report::{SessionReport, SyncError};
use crate::name::EntryId;

/// When a session ends by itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// When each side has what the other one had at the beginning, or cannot get it now.
    Once,
    /// Never: new entries are exchanged as they come.
    Stay,
}

/// One side of one connection between two nodes.
#[derive(Debug)]
pub struct Session {
    number: u64,
    mode: Mode,
    state: State,
    output: Vec<u8>,
    /// The time at which the peer last took output, or at which there was none.
    drained_ms: u64,
    report: SessionReport,
}

/// How far a session is.
#[derive(Debug)]
enum State {
    /// The peer has not said hello. Holds the log that it must name.
    Greeting(Input, EntryId),
    /// Both sides announce, want and answer.
    Open(Input, Box<Open>),
    /// The session has ended. Output may remain.
    Over,
}

/// What comes from the peer, as long as it is read.
#[derive(Debug, Default)]
struct Input {
    /// The frame that comes in, and the time at which it began.
    frame: Vec<u8>,
    frame_ms: u64,
    /// The time of the last whole frame, at first that of the beginning of the session.
    received_ms: u64,
    /// The frames of the current second.
    second: (u64, u32),
}

impl Input {
    /// Moves bytes into the frame that comes in, if its kind is one of those that `is_due` allows,
    /// and returns the frame when it is whole.
    fn fill<E>(
        &mut self,
        rest: &mut &[u8],
        now_ms: u64,
        is_due: impl FnOnce(u8) -> bool,
    ) -> Result<Option<Vec<u8>>, SyncError<E>> {
        if self.frame.is_empty() {
            self.frame_ms = now_ms;
        }
        let mut move_to = |frame: &mut Vec<u8>, length: usize| {
            let (now, later) = rest.split_at(length.saturating_sub(frame.len()).min(rest.len()));
            frame.extend_from_slice(now);
            *rest = later;
            frame.len() >= length
        };
        if !move_to(&mut self.frame, HEADER_BYTES) {
            return Ok(None);
        }
        let length = self.length();
        check_length(self.frame[0], length)?;
        if !is_due(self.frame[0]) {
            return Err(SyncError::Unexpected("hello is due"));
        }
        if !move_to(&mut self.frame, HEADER_BYTES + length) {
            return Ok(None);
        }
        self.received_ms = now_ms;
        if self.second.0 != now_ms / 1000 {
            self.second = (now_ms / 1000, 0);
        }
        self.second.1 += 1;
        if self.second.1 > FRAMES_MAX {
            return Err(SyncError::Flood);
        }
        Ok(Some(mem::take(&mut self.frame)))
    }

    /// The length of the content of the frame; 0 if it has not come.
    fn length(&self) -> usize {
        let length = self.frame.get(1..HEADER_BYTES).unwrap_or_default();
        length.iter().fold(0, |a, &byte| a << 8 | usize::from(byte))
    }

    /// The time at which the frame must be whole, if one has begun.
    fn frame_due_ms(&self) -> Option<u64> {
        let time_ms = FRAME_MS + self.length() as u64 / 16;
        (!self.frame.is_empty()).then_some(self.frame_ms + time_ms)
    }
}

impl Session {
    /// A session about the log `log`. `number` is different for each session of a node.
    #[must_use]
    pub fn new(log: EntryId, number: u64, mode: Mode, now_ms: u64) -> Self {
        let mut output = Vec::new();
        Frame::Hello(log).write(&mut output);
        let input = Input { received_ms: now_ms, ..Input::default() };
        let state = State::Greeting(input, log);
        let report = SessionReport::default();
        Self { number, mode, state, output, drained_ms: now_ms, report }
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
        matches!(self.state, State::Over)
    }

    /// What was done so far.
    #[must_use]
    pub fn report(&self) -> &SessionReport {
        &self.report
    }

    /// The bytes that the session holds, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let held = match &self.state {
            State::Greeting(input, _) => input.frame.capacity(),
            State::Open(input, open) => input.frame.capacity() + open.bytes(),
            State::Over => 0,
        };
        self.output.capacity() + held
    }

    /// Ends the session with a reason, unless it has ended.
    pub fn end(&mut self, reason: Farewell, told: &str, fetching: &Fetching) {
        if self.is_over() {
            return;
        }
        // The peer cannot read a farewell in the middle of a frame, so the rest of the output
        // stays.
        Frame::Bye(reason, told.to_owned()).write(&mut self.output);
        self.close(fetching);
    }

    fn close(&mut self, fetching: &Fetching) {
        self.state = State::Over;
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
        while !rest.is_empty() {
            let filled = match &mut self.state {
                State::Greeting(input, _) => {
                    input.fill(&mut rest, now_ms, |of| matches!(of, kind::HELLO | kind::BYE))
                }
                State::Open(input, _) => input.fill(&mut rest, now_ms, |_| true),
                State::Over => break,
            };
            let taken = filled.and_then(|frame| match frame {
                Some(frame) => self.frame(&frame, replica, fetching, now_ms, wall_ms),
                None => Ok(()),
            });
            taken.map_err(|error| self.fail(error, fetching))?;
        }
        self.advance(replica, fetching, now_ms)
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
        frame: &[u8],
        replica: &mut R,
        fetching: &Fetching,
        now_ms: u64,
        wall_ms: u64,
    ) -> Result<(), SyncError<R::Error>> {
        let Self { number, state, output, report, .. } = self;
        let mut here = Here { number: *number, replica, fetching, now_ms, output, report };
        match (state, Frame::read(frame[0], &frame[HEADER_BYTES..])?) {
            (_, Frame::Bye(Farewell::Done | Farewell::Stopping, _)) => {
                self.close(fetching);
                Ok(())
            }
            (_, Frame::Bye(reason, told)) => Err(SyncError::Bye { reason, told }),
            (State::Greeting(_, log), Frame::Hello(theirs)) if *log != theirs => {
                Err(SyncError::OtherLog(theirs))
            }
            (State::Greeting(input, _), Frame::Hello(_)) => {
                self.state = State::Open(mem::take(input), Box::new(Open::new(now_ms)));
                Ok(())
            }
            (State::Open(_, open), Frame::Heads { number, is_last, ids }) => {
                open.heads(number, is_last, &ids, replica)
            }
            (State::Open(_, open), Frame::Want { is_last, ids }) => {
                open.wanted(is_last, &ids, replica)
            }
            (State::Open(_, open), Frame::Values(ids)) => open.values_wanted(ids),
            (State::Open(_, open), Frame::Entries(records)) => {
                open.entries(&records, &mut here, wall_ms)
            }
            (State::Open(_, open), Frame::End { more }) => open.answered(more, &here),
            (State::Open(_, open), Frame::Took(took)) => open.took(took, &mut here),
            (State::Open(..), Frame::Alive) => Ok(()),
            (State::Open(..), Frame::Hello(_)) => Err(SyncError::Unexpected("a second hello")),
            (State::Greeting(..) | State::Over, _) => Err(SyncError::Unexpected("hello is due")),
        }
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
        if self.output.is_empty() {
            self.drained_ms = now_ms;
        }
        let late = self.deadlines().find(|(at, _)| now_ms >= *at);
        let Self { number, state, output, report, .. } = self;
        let done = match (state, late) {
            (State::Over, _) => return Ok(()),
            (_, Some((_, what))) => Err(SyncError::Slow(what)),
            (State::Greeting(..), None) => Ok(()),
            (State::Open(_, open), None) => {
                let number = *number;
                open.advance(&mut Here { number, replica, fetching, now_ms, output, report })
            }
        };
        done.map_err(|error| self.fail(error, fetching))?;
        if let State::Open(_, open) = &self.state
            && self.mode == Mode::Once
            && open.is_settled(&self.report)
        {
            self.end(Farewell::Done, "", fetching);
        }
        Ok(())
    }

    /// The deadlines, with the peer's failing if they pass.
    fn deadlines(&self) -> impl Iterator<Item = (u64, &'static str)> {
        let (input, hello, asked) = match &self.state {
            State::Greeting(input, _) => (Some(input), Some(input.received_ms + HELLO_MS), None),
            State::Open(input, open) => (Some(input), None, open.asked_ms()),
            State::Over => (None, None, None),
        };
        let frame = input.and_then(Input::frame_due_ms);
        let send = (!self.output.is_empty()).then_some(self.drained_ms + SEND_MS);
        // A frame that comes in has a deadline of its own.
        let answer = asked.filter(|_| frame.is_none()).map(|last_ms| last_ms + ANSWER_MS);
        [
            (hello, "it does not say hello"),
            (frame, "a frame takes too long"),
            (send, "it does not read"),
            (answer, "it does not answer"),
            (input.map(|input| input.received_ms + IDLE_MS), "it says nothing"),
        ]
        .into_iter()
        .filter_map(|(at, what)| at.map(|at| (at, what)))
    }

    /// The time at which [`Self::advance`] must be called at the latest.
    #[must_use]
    pub fn next_ms(&self, fetching: &Fetching) -> u64 {
        let next = self.deadlines().map(|(at, _)| at).min().unwrap_or(u64::MAX);
        match &self.state {
            State::Open(_, open) => next.min(open.next_ms(fetching)),
            State::Greeting(..) | State::Over => next,
        }
    }
}
