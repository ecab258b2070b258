//! The people of the simulated log. Their keys are fixtures, so that entries follow from the seed alone.

use talaria_log::{Certificate, Maker};
use talaria_message::openpgp::serialize::SerializeInto as _;
use talaria_message::{SigningKey, policy, read_certs, signing_key};

/// The begin of every simulation, in milliseconds since 1970. The keys were valid then.
pub(super) const BEGIN_MS: u64 = 1_700_000_000_000;

/// Owners.
pub(super) const OWNERS: usize = 2;
/// People with nodes: owners, and members who may change everything.
pub(super) const MEMBERS: usize = 7;
/// The member whose key is stolen.
pub(super) const VICTIM: usize = 6;
/// Somebody who may change notes, and attacks.
pub(super) const MALLORY: usize = 7;
/// Somebody without a grant.
pub(super) const STRANGER: usize = 8;

/// A person with a key.
pub(super) struct Person {
    pub(super) certificate: Certificate,
    key: SigningKey,
}

impl Person {
    /// A writer of a chain.
    pub(super) fn maker(&mut self, instance: [u8; 16]) -> Maker<'_> {
        Maker::new(&self.certificate, &mut self.key, instance).expect("the key of the person")
    }
}

/// All people, in the order of their numbers.
pub(super) fn people() -> Vec<Person> {
    let begin_s = u32::try_from(BEGIN_MS / 1000).expect("before 2106");
    let certs = read_certs(include_bytes!("../../fixtures/people.pgp")).expect("the fixture");
    let person = |cert: talaria_message::openpgp::Cert| Person {
        certificate: Certificate::minimal(&cert.to_vec().expect("in memory")).expect("short"),
        key: signing_key(&cert, policy(), begin_s, &mut |_, _| None).expect("an unlocked key"),
    };
    certs.into_iter().map(|cert| person(cert.expect("the fixture"))).collect()
}
