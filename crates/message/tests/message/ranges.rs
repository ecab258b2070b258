//! Reading a range of a message gives the same content as reading all of it, or an error.

use std::io::Cursor;
use std::ops::Range;

use proptest::prelude::*;
use talaria_message::openpgp::crypto::Password;
use talaria_message::{
    Aead, ChunkSize, Compression, EncryptOptions, Literal, MessageError, Profile, RangeOpener,
    Recipients, Secrets, encrypt,
};

use crate::common::{NOW, Parties, with_session_key};

fn options(profile: Profile, chunk: usize) -> EncryptOptions {
    let mut options = EncryptOptions::default();
    options.profile = Some(profile);
    options.aead = Some(Aead::Ocb);
    options.chunk = ChunkSize::from_bytes(chunk).unwrap();
    options.threads = 1;
    options
}

/// A message with a session key of its own, and the secrets that open it.
fn sealed(plain: &[u8], mut options: EncryptOptions) -> (Vec<u8>, Secrets) {
    options.size = Some(plain.len() as u64);
    let mut recipients = Recipients::default();
    recipients
        .add(&Parties::new().certs[1], talaria_message::Rules::default(), &mut |_| None, NOW)
        .unwrap();
    let mut message = Vec::new();
    let done =
        encrypt(Cursor::new(plain), &mut message, &recipients, &mut [], &options, NOW).unwrap();
    let session_keys = vec![(None, done.session_key)];
    (message, Secrets { session_keys, ..Secrets::default() })
}

fn read(message: &[u8], opener: &RangeOpener, range: Range<u64>) -> Result<Vec<u8>, MessageError> {
    let needed = opener.needed(&range);
    let at = |byte: u64| usize::try_from(byte).unwrap();
    opener.open_range(&range, &message[at(needed.start)..at(needed.end)])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_range_is_the_same_as_in_the_whole(
        bytes in prop_oneof![0..600_usize, (0..40_usize).prop_map(|chunks| chunks * 64)],
        newer: bool,
        name in proptest::collection::vec(any::<u8>(), 0..256),
        ranges in proptest::collection::vec((0.0..=1.0_f64, 0.0..=1.0_f64), 8),
        flip in 0.0..1.0_f64,
    ) {
        let plain: Vec<u8> = (0..=250).cycle().take(bytes).collect();
        let profile = if newer { Profile::Rfc9580 } else { Profile::LibrePgp };
        let mut named = options(profile, 64);
        named.literal = Literal { name, ..Literal::default() };
        let (mut message, mut secrets) = sealed(&plain, named);
        let opener = RangeOpener::new(&message, message.len() as u64, &mut secrets).unwrap();
        prop_assert_eq!(opener.profile(), profile);
        prop_assert_eq!(opener.content_bytes(), plain.len() as u64);
        prop_assert_eq!(&opener.open_whole(&message).unwrap(), &plain);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let place = |part: f64, of: usize| (part * of as f64) as usize;
        let ranges: Vec<_> = ranges.iter().map(|(a, b)| {
            let (a, b) = (place(*a, plain.len()), place(*b, plain.len()));
            a.min(b)..a.max(b)
        }).collect();
        for range in &ranges {
            let part = read(&message, &opener, range.start as u64..range.end as u64).unwrap();
            prop_assert_eq!(&part, &plain[range.clone()]);
        }
        // With one flipped bit, a range is what it was, or refused.
        let stream = usize::try_from(opener.needed(&(0..0)).start).unwrap();
        let at = stream + place(flip, message.len() - stream);
        message[at] ^= 1 << (at % 8);
        prop_assert!(opener.open_whole(&message).is_err());
        for range in ranges {
            match read(&message, &opener, range.start as u64..range.end as u64) {
                Ok(part) => prop_assert_eq!(&part, &plain[range]),
                Err(error) => prop_assert!(matches!(error, MessageError::Tampered(_)), "{}", error),
            }
        }
    }
}

#[test]
fn the_start_of_a_large_message_is_enough() {
    let plain = vec![5; 1 << 20];
    let mut options = options(Profile::LibrePgp, 64 << 10);
    options.size = Some(1 << 20);
    let (message, parties) = with_session_key(&plain, &options);
    let start = &message[..67_000];
    let opener = RangeOpener::new(start, message.len() as u64, &mut parties.secrets()).unwrap();
    let part = read(&message, &opener, 777_777..777_787).unwrap();
    assert_eq!(part, [5; 10]);
    let short = RangeOpener::new(&message[..60_000], message.len() as u64, &mut parties.secrets());
    assert!(short.is_err());
}

#[test]
fn a_message_that_is_longer_or_shorter_than_it_says_is_refused() {
    let (message, mut secrets) = sealed(&[1; 1000], options(Profile::Rfc9580, 64));
    let bytes = message.len() as u64;
    let cut = RangeOpener::new(&message, bytes - 1, &mut secrets);
    assert!(matches!(cut, Err(MessageError::Truncated(_))));
    let more = RangeOpener::new(&message, bytes + 1, &mut secrets);
    assert!(matches!(more, Err(MessageError::Malformed(_))));
    let opener = RangeOpener::new(&message, bytes, &mut secrets).unwrap();
    assert!(opener.open_whole(&message[..message.len() - 1]).is_err());
    let mut end = message.clone();
    *end.last_mut().unwrap() ^= 1;
    assert!(matches!(opener.open_whole(&end), Err(MessageError::Tampered(_))));
}

/// Chunks of one message do not pass for those at another place, or of another message with the
/// same key.
#[test]
fn swapped_chunks_are_refused() {
    let (message, mut secrets) = sealed(&[1; 1000], options(Profile::Rfc9580, 64));
    let opener = RangeOpener::new(&message, message.len() as u64, &mut secrets).unwrap();
    let (one, two) = (opener.needed(&(200..210)), opener.needed(&(300..310)));
    assert_ne!(one, two);
    let at = |byte: u64| usize::try_from(byte).unwrap();
    let other = message[at(two.start)..at(two.end)].to_vec();
    let swapped = opener.open_range(&(200..210), &other);
    assert!(matches!(swapped, Err(MessageError::Tampered(_))), "{swapped:?}");
}

#[test]
fn a_message_that_has_to_be_read_as_a_whole_is_named() {
    let unsupported = |message: &[u8], secrets: &mut Secrets| {
        let opened = RangeOpener::new(message, message.len() as u64, secrets);
        let Err(MessageError::Unsupported(what)) = opened else { panic!("{:?}", opened.err()) };
        what
    };
    let (message, _) = sealed(&[1; 100], options(Profile::Rfc4880, 64));
    let what = unsupported(&message, &mut Parties::new().secrets());
    assert!(what.contains("version 1"), "{what}");
    let mut zip = options(Profile::Rfc9580, 64);
    zip.compression = Compression::Zlib(6);
    let (message, mut secrets) = sealed(&vec![1; 100_000], zip);
    let what = unsupported(&message, &mut secrets);
    assert!(what.contains("compressed") || what.contains("partial"), "{what}");
}

#[test]
fn a_wrong_key_is_the_same_error_as_in_a_whole_message() {
    let (message, _) = sealed(&[1; 1000], options(Profile::Rfc9580, 64));
    let mut wrong = Secrets {
        passwords: vec![Password::from("wrong")],
        session_keys: vec![(None, vec![7; 32].into())],
        ..Secrets::default()
    };
    assert!(RangeOpener::new(&message, message.len() as u64, &mut wrong).is_err());
    let none = RangeOpener::new(&message, message.len() as u64, &mut Secrets::default());
    assert!(matches!(none, Err(MessageError::NoSecret { .. })));
}
