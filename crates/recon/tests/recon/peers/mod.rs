//! One side of a connection in memory.

pub(crate) mod digest;

use talaria_recon::{
    DecodeError, Decoder, Exchange, ExchangeError, ExchangeOutcome, ExchangeRole, GossipMessage,
    Outbox, PrefixTree, Settings,
};

/// The reason why one side gave up.
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    Decode(DecodeError),
    Exchange(ExchangeError),
}

/// One side of a connection.
pub(crate) struct Side {
    exchange: Option<Exchange>,
    decoder: Decoder,
    pub(crate) outbox: Outbox,
    pub(crate) received: Vec<GossipMessage>,
    pub(crate) bytes: usize,
}

impl Side {
    pub(crate) fn new(role: ExchangeRole, settings: Settings, seed: u64) -> Self {
        let mut outbox = Outbox::new();
        let exchange = Some(Exchange::start(role, settings, seed, &mut outbox));
        Self { exchange, decoder: Decoder::new(), outbox, received: Vec::new(), bytes: 0 }
    }

    /// Receives bytes from the other side; the answers are in the outbox.
    pub(crate) fn receive(&mut self, bytes: &[u8], tree: &PrefixTree) -> Result<(), Failure> {
        self.bytes += bytes.len();
        self.decoder.feed(bytes);
        while !self.is_done() {
            let exchange = self.exchange.as_ref().expect("used after a failure");
            let admitted = self.decoder.announced().map(|frame| exchange.admit(frame));
            admitted.transpose().map_err(Failure::Exchange)?;
            let next = self.decoder.next_message().map_err(Failure::Decode)?;
            let Some(message) = next else { break };
            self.received.push(message.clone());
            let exchange = self.exchange.take().expect("used after a failure");
            let next = exchange.step(message, tree, &mut self.outbox);
            self.exchange = Some(next.map_err(Failure::Exchange)?);
        }
        Ok(())
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.exchange, Some(Exchange::Done(_)))
    }

    /// The result, also after a lost connection.
    pub(crate) fn outcome(self) -> Option<ExchangeOutcome> {
        self.exchange?.into_outcome()
    }
}
