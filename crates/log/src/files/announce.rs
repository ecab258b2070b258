//! Telling listeners about changes that are on disk.
//!
//! Events wait in the order in which their entries were admitted. The thread that brought them to
//! disk calls the listeners, one event after the other, and holds no lock meanwhile: a listener may
//! read and write the log.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};

use parking_lot::{Condvar, Mutex};

use crate::listen::{Event, Interest};

/// Most bytes of events that wait for listeners. A thread that has written more waits for them.
pub const EVENTS_BYTES_MAX: usize = 64 << 20;

pub(super) type Call = Box<dyn FnMut(&Event) -> ControlFlow<()> + Send>;

/// The events that wait, and those who want them.
#[derive(Default)]
pub(super) struct Announcer {
    queue: Mutex<Queue>,
    /// The last append whose entries are on disk.
    durable: AtomicU64,
    less: Condvar,
}

#[derive(Default)]
struct Queue {
    /// Each event with the number of the append that it belongs to.
    events: VecDeque<(u64, Event)>,
    bytes: usize,
    listeners: Vec<(Interest, Call)>,
    /// The thread that calls listeners now.
    delivering: Option<ThreadId>,
}

/// Gives the listeners back, also if one of them panics.
struct Delivery<'a> {
    announcer: &'a Announcer,
    listeners: Vec<(Interest, Call)>,
    has_ended: bool,
}

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let mut queue = self.announcer.queue.lock();
        // Listeners that came meanwhile stand behind the others.
        self.listeners.append(&mut queue.listeners);
        queue.listeners = std::mem::take(&mut self.listeners);
        queue.delivering = None;
        self.announcer.less.notify_all();
    }
}

impl Announcer {
    /// Lets events wait until the entries of the append are on disk. The caller holds the log, so
    /// that the order is that of admission.
    pub(super) fn add(&self, append: u64, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let mut queue = self.queue.lock();
        queue.bytes += events.iter().map(Event::bytes).sum::<usize>();
        queue.events.extend(events.into_iter().map(|event| (append, event)));
    }

    /// Tells listeners what is on disk, up to an append, unless another thread is telling them
    /// already: then that thread goes on. The caller holds no lock.
    pub(super) fn deliver(&self, durable: u64) {
        self.durable.fetch_max(durable, Ordering::SeqCst);
        let me = thread::current().id();
        let mut queue = self.queue.lock();
        // Another thread tells them. Too much must not wait for it; but a listener that writes
        // cannot wait for itself.
        while queue.delivering.is_some_and(|thread| thread != me) && queue.bytes > EVENTS_BYTES_MAX
        {
            self.less.wait(&mut queue);
        }
        if queue.delivering.is_some() || queue.events.is_empty() {
            return;
        }
        queue.delivering = Some(me);
        let listeners = std::mem::take(&mut queue.listeners);
        drop(queue);
        let mut delivery = Delivery { announcer: self, listeners, has_ended: false };
        while let Some(event) = self.next(&mut delivery) {
            delivery.listeners.retain_mut(|(interest, call)| {
                !interest.wants(event.object, event.name.as_deref(), &event.change)
                    || call(&event).is_continue()
            });
        }
    }

    /// The next event that is on disk. Without one, the delivery has ended.
    fn next(&self, delivery: &mut Delivery<'_>) -> Option<Event> {
        let mut queue = self.queue.lock();
        delivery.listeners.append(&mut queue.listeners);
        let durable = self.durable.load(Ordering::SeqCst);
        let is_durable = queue.events.front().is_some_and(|(append, _)| *append <= durable);
        if !is_durable {
            // In the same locked section, so that no other thread leaves an event to a delivery
            // that has ended.
            queue.listeners = std::mem::take(&mut delivery.listeners);
            queue.delivering = None;
            delivery.has_ended = true;
            self.less.notify_all();
            return None;
        }
        let (_, event) = queue.events.pop_front()?;
        queue.bytes -= event.bytes();
        self.less.notify_all();
        Some(event)
    }

    pub(super) fn listen(&self, interest: Interest, call: Call) {
        self.queue.lock().listeners.push((interest, call));
    }
}
