//! RSA keys with public exponents of any length. gpg verifies all of these signatures.

use openssl::bn::{BigNum, BigNumContext, BigNumRef};
use openssl::rsa::Rsa;
use openssl::sha::sha256;
use talaria_cert::{Cert, Earlier, Verdict, Verification, renewed, verdicts};

/// A packet with a length of four bytes.
fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[0xc0 | tag, 255][..], &len, body].concat()
}

fn mpi(number: &BigNumRef) -> Vec<u8> {
    let bits = u16::try_from(number.num_bits()).unwrap().to_be_bytes();
    [&bits[..], &number.to_vec()].concat()
}

/// A certificate of an RSA key with a signature on its user ID.
fn cert(n: &BigNumRef, e: &BigNumRef, sign: impl Fn(&[u8]) -> BigNum) -> Cert {
    let key = [&[4, 0, 0, 2, 0, 1][..], &mpi(n), &mpi(e)].concat();
    let unsigned = [packet(6, &key), packet(13, b"a")].concat();
    let id = Cert::parse(&unsigned).unwrap().fingerprint().key_id();
    let hashed = [4, 0x13, 1, 8, 0, 6, 5, 2, 0, 0, 3, 0];
    let len = u16::try_from(key.len()).unwrap().to_be_bytes();
    let parts = [&[0x99][..], &len, &key, &[0xb4, 0, 0, 0, 1, b'a'], &hashed];
    let digest = sha256(&[&parts.concat()[..], &[4, 0xff, 0, 0, 0, 12]].concat());
    let issuer = [&[0, 10, 9, 16][..], &id.0.to_be_bytes()].concat();
    let body = [&hashed[..], &issuer, &digest[..2], &mpi(&sign(&digest))].concat();
    Cert::parse(&[unsigned, packet(2, &body)].concat()).unwrap()
}

/// AWS-LC computes with exponents of up to 33 bits, and OpenSSL with those of up to 64 for a
/// modulus above 3,072 bits.
#[test]
fn rsa_signatures_with_exponents_of_any_length_are_verified() {
    let prefix =
        [0x30, 0x31, 0x30, 0x0d, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0, 4, 0x20];
    for bits in [1024, 4096] {
        let mut cx = BigNumContext::new().unwrap();
        let key = Rsa::generate(bits).unwrap();
        let (p, q, one) = (key.p().unwrap(), key.q().unwrap(), BigNum::from_u32(1).unwrap());
        let mut order = BigNum::new().unwrap();
        order.checked_mul(&(p - &*one), &(q - &*one), &mut cx).unwrap();
        for length in [3, 17, 33, 34, 64, 65, 200, 1000] {
            let (mut e, mut d) = (BigNum::new().unwrap(), BigNum::new().unwrap());
            e.set_bit(length - 1).unwrap();
            e.set_bit(0).unwrap();
            while d.mod_inverse(&e, &order, &mut cx).is_err() {
                e.add_word(2).unwrap();
            }
            assert!((length..length + 2).contains(&e.num_bits()));
            let sign = |digest: &[u8]| {
                let bytes = usize::try_from(bits / 8).unwrap() - 3 - 19 - 32;
                let padded = [&[0, 1][..], &vec![0xff; bytes], &[0], &prefix, digest].concat();
                let (mut signed, mut cx) = (BigNum::new().unwrap(), BigNumContext::new().unwrap());
                let number = BigNum::from_slice(&padded).unwrap();
                signed.mod_exp(&number, &d, key.n(), &mut cx).unwrap();
                signed
            };
            let right = cert(key.n(), &e, sign);
            let found = verdicts(&[&right], Verification::Full);
            assert_eq!(found, [[Verdict::Good]], "{bits} {length}");
            // Verifier 6 called long ones bad.
            let earlier = Earlier { verdicts: &[Verdict::Bad], verifier: 6 };
            let again = renewed(&[(&right, earlier)], Verification::Deferred);
            let wanted = if e.num_bits() > 33 { Verdict::Good } else { Verdict::Bad };
            assert_eq!(again, [[wanted]], "{bits} {length}");
            let wrong = cert(key.n(), &e, |digest| sign(&sha256(digest)));
            let found = verdicts(&[&wrong], Verification::Full);
            assert_eq!(found, [[Verdict::Bad]], "{bits} {length}");
        }
    }
}
