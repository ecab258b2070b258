//! A stream cut into segments that are worked on by all cores and leave in the order they came.
//!
//! Every worker takes a segment from the source (one at a time, under a lock), works on it while it is
//! still in its cache, waits for its turn and gives it to the drain. So memory is one segment per
//! worker, nothing is queued, and what the drain has seen is a prefix of the stream at any moment: an
//! error of one segment reaches the caller after all segments before it were drained, and before any
//! behind it is.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{MessageError, Result};

/// Where segments come from.
pub(crate) trait Source<S>: Send {
    /// Fills the next segment; `false` if it is the last one.
    fn fill(&mut self, segment: &mut S) -> Result<bool>;
}

/// What is done to each segment, by many workers at once.
pub(crate) trait Work<S>: Send {
    /// Works on one segment.
    fn work(&mut self, segment: &mut S) -> Result<()>;
}

/// Where segments go, in order.
pub(crate) trait Drain<S>: Send {
    /// Takes the next segment.
    fn drain(&mut self, segment: &mut S) -> Result<()>;
}

struct Intake<'a, R> {
    source: &'a mut R,
    next: u64,
    done: bool,
}

struct Outlet<'a, D> {
    drain: &'a mut D,
    turn: u64,
    failed: Option<MessageError>,
}

/// Moves all segments from `source` to `drain`. A stream of one segment stays on this thread.
pub(crate) fn run<S: Send + Default, W: Work<S>>(
    threads: usize,
    source: &mut impl Source<S>,
    drain: &mut impl Drain<S>,
    mut worker: impl FnMut() -> W,
) -> Result<()> {
    let mut segment = S::default();
    let mut first = worker();
    // One segment ahead, to know whether threads are worth their start.
    let mut more = source.fill(&mut segment)?;
    first.work(&mut segment)?;
    drain.drain(&mut segment)?;
    if threads < 2 {
        while more {
            more = source.fill(&mut segment)?;
            first.work(&mut segment)?;
            drain.drain(&mut segment)?;
        }
    }
    if !more {
        return Ok(());
    }
    let intake = Mutex::new(Intake { source, next: 0, done: false });
    let outlet = Mutex::new(Outlet { drain, turn: 0, failed: None });
    let turned = Condvar::new();
    let workers: Vec<W> = (1..threads).map(|_| worker()).collect();
    std::thread::scope(|scope| {
        for mut worker in workers {
            let (intake, outlet, turned) = (&intake, &outlet, &turned);
            scope.spawn(move || serve(intake, outlet, turned, &mut S::default(), &mut worker));
        }
        serve(&intake, &outlet, &turned, &mut segment, &mut first);
    });
    let outlet = outlet.into_inner().unwrap_or_else(PoisonError::into_inner);
    outlet.failed.map_or(Ok(()), Err)
}

/// What one worker does until the stream ends or something fails.
fn serve<S, R: Source<S>, D: Drain<S>>(
    intake: &Mutex<Intake<'_, R>>,
    outlet: &Mutex<Outlet<'_, D>>,
    turned: &Condvar,
    segment: &mut S,
    worker: &mut impl Work<S>,
) {
    let _alarm = Alarm { outlet, turned };
    loop {
        let (ticket, filled) = {
            let mut intake = lock(intake);
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
        let mut outlet = lock(outlet);
        while outlet.turn != ticket && outlet.failed.is_none() {
            outlet = turned.wait(outlet).unwrap_or_else(PoisonError::into_inner);
        }
        if outlet.failed.is_some() {
            return;
        }
        if let Err(error) = worked.and_then(|()| outlet.drain.drain(segment)) {
            outlet.failed = Some(error);
            drop(outlet);
            lock(intake).done = true;
            turned.notify_all();
            return;
        }
        outlet.turn += 1;
        drop(outlet);
        turned.notify_all();
    }
}

/// A worker that panics holds a turn that never comes: the others must not wait for it. The panic itself
/// goes on to the caller.
struct Alarm<'a, 'b, D> {
    outlet: &'a Mutex<Outlet<'b, D>>,
    turned: &'a Condvar,
}

impl<D> std::ops::Drop for Alarm<'_, '_, D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(self.outlet).failed.get_or_insert(MessageError::Malformed("a worker panicked"));
            self.turned.notify_all();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
