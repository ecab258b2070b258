//! The memory that requests and answers hold, and that of the process.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::answer::{Answer, Refusal};
use crate::budget::{Budget, Room};
use crate::config::{Config, Http};
use crate::metrics::{Metrics, count};
use crate::network::Network;
use crate::request::Request;

/// Answers up to this size have a budget of their own, so that large ones leave room for them.
pub(crate) const SMALL: usize = 64 << 10;

/// The bytes of large answers that a network may hold even if others hold all room. Few
/// certificates are larger.
const MODEST: usize = 1 << 20;

/// The bytes of all TLS handshakes that are longer than usual.
const HANDSHAKES_BYTES: usize = 16 << 20;

/// The memory that requests and answers hold now.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) requests: Budget,
    pub(crate) answers: Budget,
    pub(crate) small_answers: Budget,
    handshakes: Budget,
    metrics: Arc<Metrics>,
}

impl Memory {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            requests: Budget::default(),
            answers: Budget::with_modest(MODEST),
            small_answers: Budget::default(),
            handshakes: Budget::default(),
            metrics,
        }
    }

    /// Room for a request.
    pub(crate) fn for_request(
        &self,
        http: &Http,
        payer: Network,
        bytes: usize,
    ) -> Result<Room, Refusal> {
        self.counted(self.requests.take(http.requests_bytes, payer, bytes))
    }

    /// Room for an answer. If some was taken before, it becomes as large as the answer.
    pub(crate) fn for_answer(
        &self,
        http: &Http,
        payer: Network,
        before: Option<Room>,
        bytes: usize,
    ) -> Result<Room, Refusal> {
        let small = http.answers_bytes / 3;
        if let Some(room) = before.filter(|room| room.bytes() >= bytes) {
            return Ok(room.keep(bytes));
        }
        self.counted(if bytes <= SMALL {
            self.small_answers.take(small, payer, bytes)
        } else {
            self.answers.take(http.answers_bytes - small, payer, bytes)
        })
    }

    /// More room for a handshake.
    pub(crate) fn for_handshake(
        &self,
        payer: Network,
        before: Option<Room>,
        more: usize,
    ) -> Result<Room, Refusal> {
        let Some(mut room) = before else {
            return self.counted(self.handshakes.take(HANDSHAKES_BYTES, payer, more));
        };
        self.counted(room.grow(HANDSHAKES_BYTES, more))?;
        Ok(room)
    }

    fn counted<T>(&self, room: Result<T, Refusal>) -> Result<T, Refusal> {
        room.inspect_err(|_| count(&self.metrics.memory_refused, 1))
    }

    /// The account for the answer to a request.
    pub(crate) fn account(self: &Arc<Self>, config: &Arc<Config>, request: &Request) -> Account {
        let payer = config.rates.payer(request.client, request.via);
        Account { memory: Arc::clone(self), config: Arc::clone(config), payer }
    }
}

/// From which the answer to one request takes room, before any of it is read.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    memory: Arc<Memory>,
    config: Arc<Config>,
    payer: Network,
}

impl Account {
    /// Room for an answer whose pieces have at most so many bytes each: the end of one is being
    /// sent while the next one is made.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`].
    pub(crate) fn for_pieces(&self, largest: usize) -> Result<Room, Refusal> {
        self.take(2 * largest.max(SMALL))
    }

    /// Room for an answer with certificates of so many bytes together, which may be in armor.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`].
    pub(crate) fn for_certs(&self, bytes: u64) -> Result<Room, Refusal> {
        self.take(usize::try_from(bytes.saturating_add(bytes / 2)).unwrap_or(usize::MAX))
    }

    fn take(&self, bytes: usize) -> Result<Room, Refusal> {
        self.memory.for_answer(&self.config.http, self.payer, None, bytes)
    }
}

/// The room that an answer has, until the answer is sent.
#[derive(Clone, Debug)]
struct Held(Arc<Mutex<Option<Room>>>);

/// Gives an answer the room that was taken for it.
pub(crate) fn holding(mut answer: Answer, room: Room) -> Answer {
    answer.extensions_mut().insert(Held(Arc::new(Mutex::new(Some(room)))));
    answer
}

/// The room that [`holding`] gave an answer.
pub(crate) fn held(answer: &mut http::response::Parts) -> Option<Room> {
    let Held(room) = answer.extensions.remove()?;
    room.lock().take()
}

/// Bytes of this process that are in memory, 0 where the system does not tell.
pub(crate) fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
