//! Properties of any bytes as a message.

use std::io::{BufReader, Read as _};

use talaria_message::openpgp;
use talaria_message::openpgp::crypto::{SessionKey, mpi};
use talaria_message::openpgp::packet::PKESK;
use talaria_message::openpgp::packet::pkesk::{PKESK3, PKESK6};
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::{
    ArmorInput, Cipher, DecryptOptions, Message, MessageError, RangeOpener, ReadLimits,
    ReadOptions, Recognised, Release, Secrets, Spool, decrypt, detach, read_message,
    verify_cleartext, verify_inline,
};

use crate::known::{DOCUMENT, secrets, stranger, verifier};

/// Limits on the content of one input.
fn limits() -> ReadLimits {
    let mut limits = ReadLimits::default();
    limits.expansion_free_bytes = 1 << 20;
    limits.argon2_mib = 0;
    limits
}

/// A message for the session key in its first 32 bytes, or for known keys. Every way of reading
/// gives the same content or the same kind of error, and version 1 releases nothing before the
/// integrity check.
pub fn decrypted(bytes: &[u8]) {
    let Some((key, message)) = bytes.split_first_chunk::<32>() else { return };
    let open = |threads: usize, streamed: bool| -> (Vec<u8>, Result<bool, MessageError>) {
        let mut secrets = Secrets {
            keys: secrets(),
            session_keys: vec![(Some(Cipher::Aes256), key.to_vec().into())],
            ..Secrets::default()
        };
        let spool = || Err(std::io::Error::other("no message here is that long"));
        let checked = Release::Checked { spool: &spool, again: None };
        let release = if streamed { Release::Streamed } else { checked };
        let mut options = DecryptOptions::new(release);
        options.limits = limits();
        options.threads = threads;
        let mut plain = Vec::new();
        let done = decrypt(&mut &*message, &mut plain, &mut secrets, &verifier(), options);
        (plain, done.map(|decrypted| decrypted.aead.is_none()))
    };
    let (streamed, one) = open(1, true);
    let (held, two) = open(2, false);
    assert_eq!(one.is_ok(), two.is_ok());
    match two {
        Ok(_) => assert_eq!(streamed, held),
        Err(_) => assert!(streamed.starts_with(&held) || held.starts_with(&streamed)),
    }
    ranges(key, message, two.is_ok().then_some(&held));
}

/// A session key that a sender has wrapped in any way with the public key of a receiver. The first
/// bytes choose the key, the version of the packet and of the encrypted data, and a change of the
/// wrapped key; the rest is its content. Nothing panics, and the sender learns only that the
/// message does not open.
pub fn wrapped(bytes: &[u8]) {
    let Some((&[choice, at, change], content)) = bytes.split_first_chunk::<3>() else { return };
    let keys: Vec<_> = crate::known::encryption_keys().collect();
    let key = &keys[usize::from(choice >> 1) % keys.len()];
    let Ok(mut sealed) = key.encrypt(&SessionKey::from(content)) else { return };
    if let (mpi::Ciphertext::X25519 { key, .. }, 0) = (&mut sealed, choice & 1) {
        *key = [&[at], &key[..]].concat().into();
    }
    let (algorithm, name) = (key.pk_algo(), key.fingerprint());
    let packet = match choice & 1 {
        0 => PKESK3::new(Some(key.keyid()), algorithm, sealed).map(PKESK::V3),
        _ => PKESK6::new(Some(name), algorithm, sealed).map(PKESK::V6),
    };
    let packet = packet.map(openpgp::Packet::from).and_then(|packet| packet.to_vec());
    let Ok(mut message) = packet else { return };
    // The number of the algorithm and what follows it may be changed, too.
    if change != 0 {
        let at = message.len() - 1 - usize::from(at) % 64;
        message[at] ^= change;
    }
    let body = match choice & 1 {
        0 => [&[1][..], &[7; 80]].concat(),
        _ => [&[2, 9, 2, 6][..], &[7; 120]].concat(),
    };
    message.extend([0xd2, u8::try_from(body.len()).expect("it is short")]);
    message.extend(body);
    let mut secrets = Secrets { keys: secrets(), ..Secrets::default() };
    let mut plain = Vec::new();
    let mut options = DecryptOptions::new(Release::Streamed);
    (options.limits, options.threads) = (limits(), 1);
    let done = decrypt(&mut &message[..], &mut plain, &mut secrets, &verifier(), options);
    assert!(plain.is_empty());
    match done.map(drop) {
        Err(MessageError::Unopened { .. }) => {}
        // An old cipher that is named, or a packet that is not one of the algorithm any more.
        Err(MessageError::Unsupported(_)) if change != 0 || content.len() >= 16 => {}
        Err(_) if change != 0 => {}
        other => panic!("{other:?}"),
    }
}

/// A part of a message is the same as in the whole, if both can be read.
fn ranges(key: &[u8; 32], message: &[u8], whole: Option<&Vec<u8>>) {
    let mut secrets = Secrets {
        session_keys: vec![(Some(Cipher::Aes256), key.to_vec().into())],
        ..Secrets::default()
    };
    let Ok(opener) = RangeOpener::new(message, message.len() as u64, &mut secrets) else { return };
    let bytes = opener.content_bytes();
    let all = opener.open_whole(message);
    assert_eq!(all.as_ref().ok(), whole);
    for range in [0..bytes, 0..0, bytes..bytes, bytes / 3..bytes / 2, bytes / 2..bytes] {
        let needed = opener.needed(&range);
        let at = |byte: u64| usize::try_from(byte).expect("it is in the message");
        let sealed = &message[at(needed.start)..at(needed.end)];
        if let (Ok(part), Some(whole)) = (opener.open_range(&range, sealed), whole) {
            assert_eq!(part, whole[at(range.start)..at(range.end)]);
        }
    }
}

/// A signed message, a signed text or a detached signature; the first byte chooses.
pub fn verified(bytes: &[u8]) {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    let mut out = Vec::new();
    recognised(rest);
    match kind % 4 {
        0 => {
            let Ok(mut input) = ArmorInput::new(BufReader::new(rest)) else { return };
            let _ = verify_inline(&mut input, &mut out, &verifier(), limits());
        }
        1 => {
            let _ = verify_cleartext(&mut &*rest, &verifier());
        }
        2 => {
            let Ok(mut input) = ArmorInput::new(BufReader::new(rest)) else { return };
            let _ = detach(&mut input, &mut out, limits());
        }
        _ => {
            let Ok(input) = ArmorInput::new(BufReader::new(rest)) else { return };
            let mut signatures = Vec::new();
            if input.take(1 << 16).read_to_end(&mut signatures).is_ok() {
                let _ = verifier().detached(&signatures, &mut &DOCUMENT[..]);
                let _ = verifier().one(&signatures, DOCUMENT);
            }
        }
    }
}

/// The kind of a message does not depend on how it arrives, and reading the message does not panic.
fn recognised(bytes: &[u8]) {
    let whole = Recognised::of(bytes, true).expect("there is no more");
    let message = Message::new(BufReader::with_capacity(61, bytes)).expect("memory is read");
    assert_eq!(message.kind(), whole.kind);
    let _ = message.start();
    let spools = || Ok(Box::new(std::io::Cursor::new(Vec::new())) as Box<dyn Spool>);
    let mut options = ReadOptions::new(&spools);
    options.limits = limits();
    options.threads = 1;
    let mut secrets = Secrets::default();
    let mut out = Vec::new();
    let read = read_message(message, &mut out, &mut secrets, &stranger(), &options);
    assert!(read.is_err_and(|_| out.is_empty()) || out.is_empty(), "nobody is known here");
}
