//! Any bytes from a gossip peer, in both roles, and as bodies of queries.

use std::hint::black_box;
use std::sync::LazyLock;

use talaria_recon::{
    Decoder, Digest, Exchange, ExchangeRole, GossipMessage, Outbox, PeerConfig, PrefixTree,
    Settings, decode_hashquery, decode_hashreply, encode_hashquery, encode_hashreply,
};

/// More digests than a leaf holds, with low and high digests that a fuzzer finds.
static TREE: LazyLock<PrefixTree> = LazyLock::new(|| {
    (0..=255).flat_map(|n| [[n; 16], u128::from(n).to_be_bytes()]).map(Digest).collect()
});

/// Checks one input.
pub fn run(bytes: &[u8]) {
    if let Ok(digests) = decode_hashquery(bytes) {
        assert_eq!(decode_hashquery(&encode_hashquery(&digests)).as_ref(), Ok(&digests));
    }
    if let Ok(certs) = decode_hashreply(bytes, usize::MAX) {
        assert_eq!(decode_hashreply(&encode_hashreply(&certs), certs.len()).as_ref(), Ok(&certs));
    }
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let mut stream = Vec::new();
    if choice & 1 == 1 {
        greeting().iter().for_each(|message| message.encode(&mut stream));
    }
    stream.extend(bytes);
    let piece = usize::from(choice >> 1) + 1;
    let messages = decoded(&stream, piece);
    assert_eq!(messages, decoded(&stream, stream.len().max(1)));
    for role in [ExchangeRole::Acceptor, ExchangeRole::Initiator] {
        talk(role, messages.clone());
    }
    if let [GossipMessage::Config(_), GossipMessage::Passed, ..] = &messages[..] {
        let mut again = Vec::new();
        messages.iter().for_each(|message| message.encode(&mut again));
        assert_eq!(decoded(&again, again.len()), messages);
    }
}

fn greeting() -> [GossipMessage; 2] {
    let Settings { version, http_port, filters, .. } = Settings::default();
    let config = PeerConfig { version, http_port, bit_quantum: 2, m_bar: 5, filters };
    [GossipMessage::Config(config), GossipMessage::Passed]
}

fn decoded(bytes: &[u8], piece: usize) -> Vec<GossipMessage> {
    let mut decoder = Decoder::new();
    let mut messages = Vec::new();
    for piece in bytes.chunks(piece) {
        decoder.feed(piece);
        while let Ok(Some(message)) = decoder.next_message() {
            messages.push(message);
        }
    }
    black_box(decoder.is_amid());
    messages
}

/// Learned digests are new and sent messages are readable, whatever the peer sends.
fn talk(role: ExchangeRole, messages: Vec<GossipMessage>) {
    let settings = Settings { wanted_max: 9, ..Settings::default() };
    let mut outbox = Outbox::new();
    let mut exchange = Exchange::start(role, settings, 1, &mut outbox);
    let mut told = Vec::new();
    for message in messages {
        match exchange.step(message, &TREE, &mut outbox) {
            Ok(next) => exchange = next,
            Err(error) => {
                black_box(error.to_string());
                told.extend(outbox.take_due());
                return;
            }
        }
        told.extend(outbox.take_due());
    }
    let mut decoder = Decoder::new();
    decoder.feed(&told);
    while decoder.next_message().expect("what we sent").is_some() {}
    assert!(!decoder.is_amid());
    if let Some(outcome) = exchange.into_outcome() {
        assert!(outcome.wanted.len() <= 9);
        assert!(outcome.wanted.iter().all(|digest| !TREE.contains(digest)));
    }
}
