//! A parallel pipeline: a stream is cut into segments, all cores work on them, and the output keeps
//! their order.
//!
//! Every worker takes a segment from the source (one at a time, under a lock) and works on it while
//! the segment is in the cache of its core. Then the segment passes two stages that see the
//! segments in order: the check, which computes a digest, and the drain, which writes. While one
//! worker is in the drain, another is in the check. So memory use is one segment per worker, and
//! nothing is queued. At any moment the drain has seen a prefix of the stream. If a segment fails,
//! all segments before it are drained before the caller gets the error, and none after it is
//! drained.

use parking_lot::{Condvar, Mutex};

use crate::error::{MessageError, Result};

/// The source of the segments.
pub(crate) trait Source<S>: Send {
    /// Fills the next segment; `false` for the last one.
    fn fill(&mut self, segment: &mut S) -> Result<bool>;
}

/// The work on each segment, done by many workers at once.
pub(crate) trait Work<S>: Send {
    /// Processes one segment.
    fn work(&mut self, segment: &mut S) -> Result<()>;
}

/// A stage that sees the segments in order, one at a time.
pub(crate) trait Stage<S>: Send {
    /// Processes the next segment.
    fn pass(&mut self, segment: &mut S) -> Result<()>;
}

/// The empty stage.
impl<S> Stage<S> for () {
    fn pass(&mut self, _: &mut S) -> Result<()> {
        Ok(())
    }
}

struct Intake<'a, R> {
    source: &'a mut R,
    next: u64,
    done: bool,
}

/// A stage with a queue of tickets.
struct Station<'a, T> {
    state: Mutex<Turns<'a, T>>,
    turned: Condvar,
}

struct Turns<'a, T> {
    stage: &'a mut T,
    turn: u64,
    closed: bool,
}

impl<'a, T> Station<'a, T> {
    fn new(stage: &'a mut T) -> Self {
        let state = Mutex::new(Turns { stage, turn: 0, closed: false });
        Self { state, turned: Condvar::new() }
    }

    /// Waits for the turn of `ticket` and takes it. `so_far` is the result of the work before.
    /// After an error in `so_far` or in this stage the stage is closed, and nobody gets a turn any
    /// more. `None` if the stage was closed before.
    fn pass<S>(&self, ticket: u64, segment: &mut S, so_far: Result<()>) -> Option<Result<()>>
    where
        T: Stage<S>,
    {
        let mut turns = self.state.lock();
        while turns.turn != ticket && !turns.closed {
            self.turned.wait(&mut turns);
        }
        if turns.closed {
            return None;
        }
        let passed = so_far.and_then(|()| turns.stage.pass(segment));
        turns.turn += 1;
        turns.closed = passed.is_err();
        drop(turns);
        self.turned.notify_all();
        Some(passed)
    }

    fn close(&self) {
        self.state.lock().closed = true;
        self.turned.notify_all();
    }
}

/// Passes all segments from `source` through both stages. A stream of one segment is processed on
/// this thread.
pub(crate) fn run<S: Send + Default, W: Work<S>>(
    threads: usize,
    source: &mut impl Source<S>,
    (check, drain): (&mut impl Stage<S>, &mut impl Stage<S>),
    mut worker: impl FnMut() -> W,
) -> Result<()> {
    let mut segment = S::default();
    let mut first = worker();
    // Read one segment ahead, to know whether the stream is long enough to start threads.
    let mut more = source.fill(&mut segment)?;
    first.work(&mut segment)?;
    check.pass(&mut segment)?;
    drain.pass(&mut segment)?;
    if threads < 2 {
        while more {
            more = source.fill(&mut segment)?;
            first.work(&mut segment)?;
            check.pass(&mut segment)?;
            drain.pass(&mut segment)?;
        }
    }
    if !more {
        return Ok(());
    }
    let shared = Shared {
        intake: Mutex::new(Intake { source, next: 0, done: false }),
        check: Station::new(check),
        drain: Station::new(drain),
        failed: Mutex::new(None),
    };
    let workers: Vec<W> = (1..threads).map(|_| worker()).collect();
    std::thread::scope(|scope| {
        for mut worker in workers {
            let shared = &shared;
            scope.spawn(move || shared.serve(&mut S::default(), &mut worker));
        }
        shared.serve(&mut segment, &mut first);
    });
    shared.failed.into_inner().map_or(Ok(()), Err)
}

struct Shared<'a, R, C, D> {
    intake: Mutex<Intake<'a, R>>,
    check: Station<'a, C>,
    drain: Station<'a, D>,
    failed: Mutex<Option<MessageError>>,
}

impl<R, C, D> Shared<'_, R, C, D> {
    /// The loop of one worker, until the stream ends or an error occurs.
    fn serve<S>(&self, segment: &mut S, worker: &mut impl Work<S>)
    where
        R: Source<S>,
        C: Stage<S>,
        D: Stage<S>,
    {
        let _alarm = Alarm(self);
        loop {
            let (ticket, filled) = {
                let mut intake = self.intake.lock();
                if intake.done {
                    return;
                }
                let ticket = intake.next;
                intake.next += 1;
                let filled = intake.source.fill(segment);
                intake.done = !matches!(filled, Ok(true));
                (ticket, filled)
            };
            let worked = filled.and_then(|_| worker.work(segment));
            // An error waits for its turn, too, so that all segments before it are drained first.
            let Some(checked) = self.check.pass(ticket, segment, worked) else { return };
            let Some(drained) = self.drain.pass(ticket, segment, checked) else { return };
            if let Err(error) = drained {
                self.failed.lock().get_or_insert(error);
                self.check.close();
                self.intake.lock().done = true;
                return;
            }
        }
    }
}

/// Closes the pipeline if a worker panics. The panicking worker holds a ticket whose turn never
/// ends, and the others must not wait for it. The panic itself is passed on to the caller.
struct Alarm<'a, 'b, R, C, D>(&'a Shared<'b, R, C, D>);

impl<R, C, D> Drop for Alarm<'_, '_, R, C, D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.lock().get_or_insert(MessageError::Malformed("a worker thread panicked"));
            self.0.check.close();
            self.0.drain.close();
        }
    }
}
