//! Ed25519 signatures whose points have components of small order: one verdict, alone and among
//! others.

use curve25519_dalek::EdwardsPoint;
use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{Identity as _, IsIdentity as _};
use talaria_log::{
    Action, Certificate, ChainName, Clock, Entry, EntryId, FieldChange, Grant, KeyName, Log,
    ObjectId, Operations, Outcome, Pattern, Signed, read_record,
};
use talaria_message::Fingerprint;
use talaria_message::openpgp::types::HashAlgorithm;

use crate::people::{NOW, NOW_MS, Person, begin, change, genesis_of};

fn hash(algorithm: HashAlgorithm, parts: &[&[u8]]) -> Vec<u8> {
    let mut context = algorithm.context().unwrap().for_digest();
    parts.iter().for_each(|part| context.update(part));
    context.into_digest().unwrap()
}

fn scalar(seed: u64) -> Scalar {
    let wide = hash(HashAlgorithm::SHA512, &[&seed.to_be_bytes()]);
    Scalar::from_bytes_mod_order_wide(&wide.try_into().unwrap())
}

/// A key with a point of small order added to its own, in a certificate without user IDs.
struct Odd {
    secret: Scalar,
    point: [u8; 32],
    chain: ChainName,
    certificate: Certificate,
}

impl Odd {
    fn new(seed: u64, torsion: EdwardsPoint) -> Self {
        let secret = scalar(seed);
        let point = (EdwardsPoint::mul_base(&secret) + torsion).compress().0;
        let mut body = vec![4];
        body.extend((NOW - 1000).to_be_bytes());
        body.push(27);
        body.extend(point);
        let length = u8::try_from(body.len()).unwrap();
        let certificate = Certificate::read(&[&[0xc6, length], &body[..]].concat()).unwrap();
        let print = hash(HashAlgorithm::SHA1, &[&[0x99, 0, length], &body]);
        let name = KeyName::of(Fingerprint::V4(print.try_into().unwrap())).unwrap();
        assert_eq!(certificate.name(), name);
        let chain = ChainName { author: name, subkey: name, instance: [1; 16] };
        Self { secret, point, chain, certificate }
    }

    /// The record of an entry, with a signature that holds if both sides are multiplied by eight.
    /// The digest is computed here from the document of the format.
    fn sign(&self, entry: &Entry, seed: u64, torsion: EdwardsPoint) -> Vec<u8> {
        let bytes = entry.to_bytes();
        let fingerprint = self.chain.subkey.fingerprint();
        let name = b"log@talaria.example";
        let area = [
            &[5, 0x82][..],
            &NOW.to_be_bytes(),
            &[22, 33, 4],
            fingerprint.as_bytes(),
            &[60, 20, 0, 0, 0, 0, 0, 19, 0, 32],
            name,
            &entry.log.0,
        ]
        .concat();
        let hashed = [&[4, 0, 27, 8, 0, u8::try_from(area.len()).unwrap()][..], &area[..]].concat();
        let trailer = [4, 0xff, 0, 0, 0, u8::try_from(hashed.len()).unwrap()];
        let digest = hash(HashAlgorithm::SHA256, &[&bytes, &hashed, &trailer]);
        let nonce = scalar(seed);
        let r = (EdwardsPoint::mul_base(&nonce) + torsion).compress().0;
        let wide = hash(HashAlgorithm::SHA512, &[&r, &self.point, &digest]);
        let challenge = Scalar::from_bytes_mod_order_wide(&wide.try_into().unwrap());
        let s = nonce + challenge * self.secret;
        let length = u32::try_from(bytes.len()).unwrap();
        [&[1][..], &length.to_be_bytes(), &bytes, &[2], &NOW.to_be_bytes(), &r, s.as_bytes()]
            .concat()
    }
}

#[test]
fn small_order_components_have_one_verdict_in_any_order_and_batch() {
    let mut alice = Person::new(0, 1);
    let genesis = genesis_of(&[&alice], 1);
    let genesis = begin(&mut alice, genesis);
    let mut log = Log::begin(&genesis).unwrap();
    // A key for each point of small order, and a sound key with many entries around them.
    let mut keys: Vec<Odd> =
        (0..8).zip(EIGHT_TORSION).map(|(at, torsion)| Odd::new(at, torsion)).collect();
    keys.push(Odd::new(99, EdwardsPoint::identity()));
    let mut grants: Vec<Signed> = Vec::new();
    for key in &keys {
        let grant = Grant {
            certificate: key.certificate.clone(),
            object: ObjectId::NONE,
            fields: Pattern::new("*").unwrap(),
            operations: Operations::ALL,
            ends_ms: 0,
        };
        grants.push(alice.make(&mut log, Action::Grant(Box::new(grant))).unwrap());
    }
    let last = grants.last().unwrap();
    let mut records = Vec::new();
    let mut wanted = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        // Each entry has a chain of its own, so that none waits for another one.
        for at in 0..if number == 8 { 60 } else { 8_u8 } {
            let instance = [at + 1; 16];
            let entry = Entry {
                log: log.id(),
                chain: ChainName { instance, ..key.chain },
                sequence: 0,
                previous: EntryId::NONE,
                links: vec![last.id],
                clock: Clock::at_ms(NOW_MS + 1),
                grant: grants[number].id,
                action: change(1, "count", FieldChange::Count(1 << number)),
            };
            let torsion = EIGHT_TORSION[usize::from(at) % if number == 8 { 1 } else { 8 }];
            let seed = 1000 + 100 * number as u64 + u64::from(at);
            records.push(key.sign(&entry, seed, torsion));
            // gpg's rule: neither point has a component of small order.
            wanted.push(EIGHT_TORSION[number % 8].is_identity() && torsion.is_identity());
        }
    }
    assert_eq!(wanted.iter().filter(|good| **good).count(), 61);
    let copy = || {
        let mut log = Log::begin(&genesis).unwrap();
        log.offer(grants.clone(), NOW_MS);
        log
    };
    let read = |at: usize| read_record(&records[at]).unwrap().remove(0);
    let is_good = |outcome: &Outcome| match outcome {
        Outcome::Added => true,
        Outcome::Refused(refusal) if refusal.kind() == "signature" => false,
        other => panic!("{other:?}"),
    };
    let mut alone = copy();
    for (at, wanted) in wanted.iter().enumerate() {
        let outcome = alone.offer(vec![read(at)], NOW_MS).outcomes.remove(0);
        assert_eq!(is_good(&outcome), *wanted, "{at}");
    }
    let mut batch = copy();
    let outcomes = batch.offer((0..records.len()).map(read).collect(), NOW_MS).outcomes;
    assert_eq!(outcomes.iter().map(is_good).collect::<Vec<_>>(), wanted);
    let mut backwards = copy();
    for chunk in (0..records.len()).rev().collect::<Vec<_>>().chunks(100) {
        backwards.offer(chunk.iter().map(|&at| read(at)).collect(), NOW_MS);
    }
    assert_eq!(alone.state_hash(), batch.state_hash());
    assert_eq!(alone.state_hash(), backwards.state_hash());
}
