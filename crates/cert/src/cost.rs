//! The CPU time that certificates of strangers can cost, by a model.
//!
//! The model counts before any work is done, and counts the worst case: as if every key tried every
//! signature that it may have made. It reads no clock, so the same bytes cost the same on every
//! computer and under any load. Its figures are those of one core of a server of 2023 (`openssl
//! speed`). Other computers differ from it by a constant factor.

use std::time::Duration;

use crate::cert::Cert;
use crate::key::{Curve, Key, Material};
use crate::packet::PacketRef;
use crate::served::{BACK_SIGNATURES_MAX, embedded};
use crate::signature::Signature;
use crate::tag::Tag;

/// Parsing, joining, summarizing and indexing, in nanoseconds for each certificate, packet and
/// byte.
const CERT_NS: u64 = 50_000;
const PACKET_NS: u64 = 1000;
const BYTE_NS: u64 = 10;

/// Hashing of one byte with a slow algorithm, in nanoseconds.
const HASH_BYTE_NS: u64 = 5;

/// The number of digests of one component that signatures without a salt share: one for each hash
/// algorithm, for version 3 and for later versions.
const SHARED_DIGESTS: u64 = 22;

impl Cert {
    /// The CPU time for storing the certificate, at most: parsing, joining, verification by its own
    /// keys, indexing. The verification of signatures by other keys is not a part of it.
    #[must_use]
    pub fn cost(&self) -> Duration {
        let mut packets = self.packets().peekable();
        let Some(first) = packets.peek().copied() else { return Duration::ZERO };
        let primary_ns = Key::parse(first).map_or(0, |key| key.verification_ns());
        let mut ns = self.handling_ns();
        while let Some(component) = packets.next() {
            let subkey_ns = match component.tag {
                Tag::PUBLIC_SUBKEY => Key::parse(component).map_or(0, |key| key.verification_ns()),
                _ => 0,
            };
            let (mut salted, mut unsalted) = (0, 0);
            while let Some(signature) = packets.next_if(|packet| packet.tag == Tag::SIGNATURE) {
                let number =
                    if signature.body.first() == Some(&6) { &mut salted } else { &mut unsalted };
                *number += 1;
                let back = if subkey_ns == 0 { 0 } else { back_signatures(signature) };
                ns = ns.saturating_add(primary_ns).saturating_add(subkey_ns.saturating_mul(back));
            }
            let hashed = (first.body.len() + component.body.len()) as u64;
            let digests = SHARED_DIGESTS.min(unsalted) + salted;
            ns = ns.saturating_add(HASH_BYTE_NS.saturating_mul(hashed).saturating_mul(digests));
        }
        Duration::from_nanos(ns)
    }

    /// The part of [`Self::cost`] without any verification.
    #[must_use]
    pub fn handling_cost(&self) -> Duration {
        Duration::from_nanos(self.handling_ns())
    }

    fn handling_ns(&self) -> u64 {
        CERT_NS + PACKET_NS * self.packets().len() as u64 + BYTE_NS * self.as_bytes().len() as u64
    }
}

/// The number of signatures in a packet that its subkey may have to be tried on.
fn back_signatures(packet: PacketRef<'_>) -> u64 {
    Signature::parse(packet.body).map_or(0, |signature| {
        let areas = [signature.hashed_area, signature.unhashed_area];
        areas.into_iter().map(|area| embedded(area).take(BACK_SIGNATURES_MAX).count() as u64).sum()
    })
}

impl Key<'_> {
    /// The CPU time for verifying one signature by the key, at most.
    #[must_use]
    pub fn verification_cost(&self) -> Duration {
        Duration::from_nanos(self.verification_ns())
    }

    pub(crate) fn verification_ns(&self) -> u64 {
        let bits = |number: &[u8]| 8 * number.len() as u64;
        match self.material {
            // 16 µs with 2,048 bits and a usual exponent of 17 bits.
            Material::Rsa { n, e } => {
                let square = bits(n).min(16_384).pow(2) / 256;
                square.saturating_mul(bits(e).div_ceil(24).max(1))
            }
            // 70 µs with 1,024 and 160 bits.
            Material::Dsa { p, q, .. } => bits(p).min(4096).pow(2) * bits(q).min(512) / 2400,
            Material::Ec { curve: Some(curve), .. } => match curve {
                Curve::NistP256 => 100_000,
                Curve::Ed25519 => 60_000,
                Curve::Secp256k1 | Curve::BrainpoolP256 => 350_000,
                Curve::NistP384 | Curve::NistP521 | Curve::BrainpoolP384 => 750_000,
                Curve::BrainpoolP512 => 1_000_000,
                Curve::Ed448 => 250_000,
                Curve::Cv25519 | Curve::X448 => 0,
            },
            Material::Native(_) if self.algorithm == 27 => 60_000,
            Material::Native(_) if self.algorithm == 28 => 250_000,
            Material::Elgamal { .. }
            | Material::Ec { curve: None, .. }
            | Material::Native(_)
            | Material::Opaque => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(raw: &mut Vec<u8>, tag: Tag, body: &[u8]) {
        raw.extend([0xc0 | tag.0, 255]);
        raw.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        raw.extend_from_slice(body);
    }

    fn key(algorithm: u8, numbers: &[usize]) -> Vec<u8> {
        let mut body = vec![4, 0, 0, 0, 1, algorithm];
        if numbers.is_empty() {
            body.extend([7; 32]);
        }
        for &bits in numbers {
            body.extend(u16::try_from(bits).unwrap().to_be_bytes());
            body.push(if bits % 8 == 0 { 0x80 } else { 1 });
            body.extend(vec![1; bits.div_ceil(8) - 1]);
        }
        body
    }

    /// A certificate with signatures on its first user ID, and with its second key as a subkey.
    fn cert(primary: &[u8], subkey: Option<&[u8]>, signatures: u32, signature: &[u8]) -> Cert {
        let mut raw = Vec::new();
        write(&mut raw, Tag::PUBLIC_KEY, primary);
        match subkey {
            Some(subkey) => write(&mut raw, Tag::PUBLIC_SUBKEY, subkey),
            None => write(&mut raw, Tag::USER_ID, b"a"),
        }
        for number in 0..signatures {
            write(&mut raw, Tag::SIGNATURE, &[signature, &number.to_be_bytes()].concat());
        }
        Cert::parse(&raw).unwrap()
    }

    #[test]
    fn the_cost_grows_with_the_signatures_and_with_the_algorithm() {
        let rsa_2048 = key(1, &[2048, 17]);
        let rsa_4096 = key(1, &[4096, 17]);
        let rsa_with_long_exponent = key(1, &[2048, 2048]);
        let dsa_4096 = key(17, &[4096, 512, 4096, 4096]);
        let ed25519 = key(27, &[]);
        let each = |primary: &[u8]| {
            let cost = |signatures| cert(primary, None, signatures, &[4; 20]).cost();
            cost(2000).abs_diff(cost(1000)) / 1000
        };
        let us = |n| Duration::from_micros(n);
        assert!((us(16)..us(25)).contains(&each(&rsa_2048)), "{:?}", each(&rsa_2048));
        assert!((us(64)..us(80)).contains(&each(&rsa_4096)), "{:?}", each(&rsa_4096));
        assert!(each(&rsa_with_long_exponent) > 50 * each(&rsa_2048));
        assert!((us(3000)..us(5000)).contains(&each(&dsa_4096)), "{:?}", each(&dsa_4096));
        assert!((us(60)..us(70)).contains(&each(&ed25519)), "{:?}", each(&ed25519));
        // What a usual certificate costs.
        assert!(cert(&rsa_4096, None, 10, &[4; 500]).cost() < Duration::from_millis(2));
    }

    #[test]
    fn salted_digests_and_back_signatures_count() {
        let ed25519 = key(27, &[]);
        let long = [ed25519.clone(), vec![7; 60_000]].concat();
        let on_long = |signature: &[u8]| cert(&ed25519, Some(&long), 1000, signature).cost();
        // Each signature with a salt needs the whole component hashed: 300 ms.
        let salted = on_long(&[6; 20]).abs_diff(on_long(&[4; 20]));
        assert!(salted > Duration::from_millis(250), "{salted:?}");
        // Of 60 back signatures in the unhashed area, by a key for DSA, four are tried.
        let dsa_4096 = key(17, &[4096, 512, 4096, 4096]);
        let areas = [&[0, 0, 0, 180][..], &[2, 32, 1].repeat(60)].concat();
        let signature = [&[4, 0x18, 27, 8][..], &areas, &[1, 2], &[3; 64]].concat();
        let with = cert(&ed25519, Some(&dsa_4096), 1, &signature).cost();
        let without = cert(&ed25519, Some(&dsa_4096), 1, &signature[..4]).cost();
        let tried = Key::parse(PacketRef { tag: Tag::PUBLIC_SUBKEY, body: &dsa_4096 })
            .unwrap()
            .verification_cost();
        let difference = with.abs_diff(without);
        assert!(difference > 4 * tried && difference < 5 * tried, "{with:?} {without:?} {tried:?}");
    }
}
