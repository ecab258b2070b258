//! A message that is made in a buffer is one like every other.

use std::io::BufReader;

use proptest::prelude::*;
use talaria_message::{
    Aead, ChunkSize, DecryptOptions, EncryptOptions, Literal, MessageError, Profile, Recipients,
    Release, Rules, Verifier, decrypt, encrypt_buffered, pack,
};

use crate::common::{NOW, Parties};

fn opened(message: &[u8], parties: &Parties) -> Vec<u8> {
    let mut content = Vec::new();
    let mut options = DecryptOptions::new(Release::Streamed);
    options.threads = 1;
    let nobody = Verifier::new(Box::new(|_| Vec::new()), Rules::default(), NOW);
    decrypt(&mut &message[..], &mut content, &mut parties.secrets(), &nobody, options).unwrap();
    content
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn encrypted_buffers_decrypt_to_their_plaintext(
        bytes in prop_oneof![0..600_usize, (0..12_usize).prop_map(|chunks| chunks * 64)],
        piece in 1..200_usize,
        spare in 0..40_usize,
        profile in proptest::sample::select(&[Profile::Rfc9580, Profile::LibrePgp, Profile::Rfc4880][..]),
        aead in proptest::sample::select(&[Aead::Ocb, Aead::Gcm, Aead::Eax][..]),
        name in proptest::collection::vec(any::<u8>(), 0..256),
    ) {
        let parties = Parties::new();
        let mut recipients = Recipients::default();
        recipients.add(&parties.certs[1], Rules::default(), &mut |_| None, NOW).unwrap();
        let mut options = EncryptOptions::default();
options.profile = Some(profile);
options.aead = Some(aead);
options.chunk = ChunkSize::from_bytes(64).unwrap();
options.literal = Literal { name, ..Literal::default() };
        let plain: Vec<u8> = (0..=250).cycle().take(bytes).collect();
        let length = bytes as u64;
        let input = || BufReader::with_capacity(piece, &plain[..]);
        // The former content of the buffer does not matter.
        let mut out = vec![7; 4 * bytes + 2000];
        let end = encrypt_buffered(input(), length, &mut out, Some(&recipients), &options).unwrap();
        prop_assert!(out[end..].iter().all(|byte| *byte == 7));
        prop_assert_eq!(&opened(&out[..end], parties), &plain);

        // A buffer of the exact length is enough, and a shorter one is not.
        let exact = encrypt_buffered(input(), length, &mut out[..end], Some(&recipients), &options);
        prop_assert_eq!(exact.unwrap(), end);
        prop_assert_eq!(&opened(&out[..end], parties), &plain);
        let short = &mut out[..end.saturating_sub(spare + 1)];
        let short = encrypt_buffered(input(), length, short, Some(&recipients), &options);
        prop_assert!(short.is_err());
        let early = encrypt_buffered(input(), length + 1, &mut out, Some(&recipients), &options);
        prop_assert!(early.is_err());

        // Without recipients it is the literal packet that others write.
        let end = encrypt_buffered(input(), length, &mut out, None, &options).unwrap();
        let mut packed = Vec::new();
        let mut sized = options.clone();
sized.size = Some(length);
        pack(&plain[..], &mut packed, &mut [], &sized, NOW).unwrap();
        prop_assert_eq!(&out[..end], &packed[..]);
        let short = encrypt_buffered(input(), length, &mut out[..end - 1], None, &options);
        prop_assert!(matches!(short, Err(MessageError::Usage(_))));
    }
}

#[test]
fn text_and_nobody_are_refused() {
    let mut out = [0; 1000];
    let mut text = EncryptOptions::default();
    text.literal = Literal { text: true, ..Literal::default() };
    let refused = encrypt_buffered(&b"text"[..], 4, &mut out, None, &text);
    assert!(matches!(refused, Err(MessageError::Usage(_))), "{refused:?}");
    let (nobody, options) = (Recipients::default(), EncryptOptions::default());
    let refused = encrypt_buffered(&b"text"[..], 4, &mut out, Some(&nobody), &options);
    assert!(matches!(refused, Err(MessageError::Usage(_))), "{refused:?}");
}
