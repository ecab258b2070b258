//! The people of the simulated log. Their keys are fixtures, so that entries follow from the seed
//! alone.

use talaria_log::{Certificate, Genesis, Maker, NoteKind, NoteSecret, TreeHead, Witness};
use talaria_message::openpgp::Cert;
use talaria_message::openpgp::serialize::SerializeInto as _;
use talaria_message::{Rules, SigningKey, read_certs, signing_key};

/// The begin of every simulation, in milliseconds since 1970. The keys were valid then.
pub(super) const BEGIN_MS: u64 = 1_700_000_000_000;

/// Owners.
pub(super) const OWNERS: usize = 2;
/// People with nodes: owners, and members who may change everything.
pub(super) const MEMBERS: usize = 7;
/// The member whose certificate expires [`VALID_S`] seconds after the begin.
pub(super) const EXPIRING: usize = 4;
/// The time for which it is valid, in seconds.
#[cfg(test)]
const VALID_S: u64 = 150;
/// The member whose key is stolen.
pub(super) const VICTIM: usize = 6;
/// Somebody who may change notes, and attacks.
pub(super) const MALLORY: usize = 7;
/// Somebody without a grant.
pub(super) const STRANGER: usize = 8;

/// A person with a key.
pub(super) struct Person {
    pub(super) certificate: Certificate,
    /// A newer certificate, which does not expire.
    pub(super) newer: Certificate,
    key: SigningKey,
}

/// The checkpointer of the log, and its witnesses, ascending by key.
pub(super) struct Notary {
    pub(super) key: NoteSecret,
    witnesses: Vec<NoteSecret>,
}

impl Notary {
    pub(super) fn new() -> Self {
        let secret = |name: &str, kind, seed| {
            NoteSecret::new(name, kind, &[seed; 32]).expect("a short name")
        };
        let witness = |number: u8| {
            secret(&format!("witness-{number}.example.org"), NoteKind::Timed, 100 + number)
        };
        let mut witnesses: Vec<NoteSecret> = (0..3).map(witness).collect();
        witnesses.sort_by_key(|witness| witness.public().key);
        Self { key: secret("checkpointer", NoteKind::Plain, 99), witnesses }
    }

    /// The number of witnesses.
    pub(super) fn len(&self) -> usize {
        self.witnesses.len()
    }

    /// A genesis with this checkpointer, its witnesses, and a short time of grace.
    pub(super) fn of(&self, genesis: Genesis) -> Genesis {
        let witness = |witness: &NoteSecret| {
            let public = witness.public();
            Witness { name: public.name, key: public.key }
        };
        let witnesses = self.witnesses.iter().map(witness).collect();
        Genesis { grace_s: 30, ..genesis.with_checkpointer(self.key.public().key, witnesses) }
    }

    /// Cosignatures of witnesses, by their places, on a tree.
    pub(super) fn cosign(
        &self,
        head: &TreeHead,
        places: impl Iterator<Item = usize>,
        time: u64,
    ) -> Vec<talaria_log::NoteLine> {
        let text = head.to_string();
        places.map(|place| self.witnesses[place].cosign(&text, time)).collect()
    }
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
    let expiring = read_certs(include_bytes!("../../fixtures/expiring.pgp")).expect("the fixture");
    let certificate =
        |cert: &Cert| Certificate::minimal(&cert.to_vec().expect("in memory")).expect("short");
    let mut people: Vec<Person> = certs
        .into_iter()
        .map(|cert| {
            let cert = cert.expect("the fixture");
            let key = signing_key(&cert, Rules::default(), begin_s, &mut |_, _| None);
            let key = key.expect("an unlocked key");
            Person { certificate: certificate(&cert), newer: certificate(&cert), key }
        })
        .collect();
    for cert in expiring {
        people[EXPIRING].certificate = certificate(&cert.expect("the fixture"));
    }
    people
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_certificate_expires_in_the_middle() {
        let ends = people().into_iter().map(|person| {
            let keys = person.certificate.key_names().collect::<Vec<_>>();
            let name = person.certificate.name();
            assert_eq!((person.newer.name(), person.newer.expires(name)), (name, None));
            keys.into_iter().filter_map(|key| person.certificate.expires(key)).min()
        });
        let ends: Vec<Option<u64>> = ends.collect();
        let end = BEGIN_MS / 1000 + VALID_S;
        let wanted = (0..ends.len()).map(|number| (number == EXPIRING).then_some(end));
        assert_eq!(ends, wanted.collect::<Vec<_>>());
    }
}
