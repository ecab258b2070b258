//! People with keys, and their copies of a log.

use std::sync::LazyLock;

use talaria_log::{
    Action, Certificate, ChainName, Change, Cosignatures, DataAction, DraftError, Entry, EntryId,
    FieldChange, Genesis, Grant, KeyName, Limits, Log, Maker, MergeRule, NoteKind, NoteSecret,
    ObjectId, Offered, Operations, Outcome, Pattern, Refusal, Revocation, Signed, Target, TreeHead,
    Value, Witness, read_record,
};
use talaria_message::make::{GenerateOptions, KeyProfile, KeyUses, Protection, generate};
use talaria_message::openpgp;
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::{Rules, SigningKey, signing_key};

/// The time of the tests, in seconds since 1970.
pub(crate) const NOW: u32 = 1_700_000_000;
/// The same in milliseconds.
pub(crate) const NOW_MS: u64 = NOW as u64 * 1000;

static KEYS: LazyLock<Vec<openpgp::Cert>> = LazyLock::new(|| {
    let make = |number: usize| {
        let profile = if number == V6 { KeyProfile::Rfc9580 } else { KeyProfile::Rfc4880 };
        let mut options = GenerateOptions::default();
        options.user_ids = vec![format!("Person {number} <person-{number}@example.org>")];
        options.profile = profile;
        options.uses = KeyUses::Sign;
        options.validity_seconds = (number == EXPIRING).then_some(1000 + VALID_S);
        generate(&options, &Protection::Unprotected, NOW - 1000).unwrap().cert
    };
    (0..7).map(make).collect()
});

/// The person whose key has version 6.
pub(crate) const V6: usize = 4;
/// The person whose key expires, [`VALID_S`] seconds after [`NOW`].
pub(crate) const EXPIRING: usize = 6;
/// The time that a key is valid for, in seconds from [`NOW`].
pub(crate) const VALID_S: u32 = 5000;

/// A person with a key and a device.
pub(crate) struct Person {
    pub(crate) certificate: Certificate,
    pub(crate) key: SigningKey,
    pub(crate) chain: ChainName,
}

impl Person {
    /// Person `number`, from 0 to 6, on a device.
    pub(crate) fn new(number: usize, device: u8) -> Self {
        Self::of(&KEYS[number], device)
    }

    /// The certificate of a person with another validity, in seconds from [`NOW`].
    pub(crate) fn renewed(number: usize, validity_s: u32) -> Certificate {
        let cert = &KEYS[number];
        let mut signer =
            cert.primary_key().key().clone().parts_into_secret().unwrap().into_keypair().unwrap();
        let until =
            std::time::UNIX_EPOCH + std::time::Duration::from_secs((NOW + validity_s).into());
        let made = std::time::UNIX_EPOCH + std::time::Duration::from_secs(NOW.into());
        let policy = openpgp::policy::StandardPolicy::new();
        let valid = cert.with_policy(&policy, made).unwrap();
        let mut signatures =
            valid.primary_key().set_expiration_time(&mut signer, Some(until)).unwrap();
        for subkey in valid.keys().subkeys() {
            let mut own = subkey.key().clone().parts_into_secret().unwrap().into_keypair().unwrap();
            let own: Option<&mut dyn openpgp::crypto::Signer> =
                if subkey.for_signing() { Some(&mut own) } else { None };
            signatures.extend(subkey.set_expiration_time(&mut signer, own, Some(until)).unwrap());
        }
        let cert = cert.clone().insert_packets(signatures).unwrap().0;
        Certificate::minimal(&cert.to_vec().unwrap()).unwrap()
    }

    /// The secret key of a person, for another process.
    pub(crate) fn secret(number: usize) -> Vec<u8> {
        KEYS[number].as_tsk().to_vec().unwrap()
    }

    /// The owner of a secret key, on a device.
    pub(crate) fn of(cert: &openpgp::Cert, device: u8) -> Self {
        let key = signing_key(cert, Rules::default(), NOW, &mut |_, _| None).unwrap();
        let certificate = Certificate::minimal(&cert.to_vec().unwrap()).unwrap();
        let subkey: talaria_message::Fingerprint = fingerprint(&key.public().fingerprint());
        let subkey = KeyName::of(subkey).unwrap();
        let chain = ChainName { author: certificate.name(), subkey, instance: [device; 16] };
        Self { certificate, key, chain }
    }

    pub(crate) fn name(&self) -> KeyName {
        self.chain.author
    }

    pub(crate) fn make(&mut self, log: &mut Log, action: Action) -> Result<Signed, DraftError> {
        self.make_at(log, action, NOW_MS)
    }

    pub(crate) fn make_at(
        &mut self,
        log: &mut Log,
        action: Action,
        now_ms: u64,
    ) -> Result<Signed, DraftError> {
        Maker { chain: self.chain, key: &mut self.key }.make(log, action, now_ms)
    }

    /// Signs an entry as it is.
    pub(crate) fn sign(&mut self, entry: Entry, log: EntryId) -> Signed {
        Maker { chain: self.chain, key: &mut self.key }.sign(entry, log, NOW_MS).unwrap()
    }

    /// An entry at the end of the chain that is signed but not in the log.
    pub(crate) fn draft(&mut self, log: &Log, action: Action) -> Entry {
        log.draft(self.chain, action, NOW_MS).unwrap()
    }
}

pub(crate) fn fingerprint(of: &openpgp::Fingerprint) -> talaria_message::Fingerprint {
    match of.as_bytes().len() {
        20 => talaria_message::Fingerprint::V4(of.as_bytes().try_into().unwrap()),
        _ => talaria_message::Fingerprint::V6(of.as_bytes().try_into().unwrap()),
    }
}

/// The content of a genesis entry with these owners.
pub(crate) fn genesis_of(owners: &[&Person], threshold: u8) -> Genesis {
    let mut owners: Vec<Certificate> =
        owners.iter().map(|owner| owner.certificate.clone()).collect();
    owners.sort_by_key(Certificate::name);
    let rule = |pattern: &str, rule| (Pattern::new(pattern).unwrap(), rule);
    Genesis {
        owners,
        threshold,
        algorithms: vec![1, 22, 27],
        limits: Limits::default(),
        rules: vec![
            rule("strict*", MergeRule::Strict),
            rule("set*", MergeRule::Set),
            rule("count*", MergeRule::Counter),
            rule("list*", MergeRule::List),
        ],
        checkpointer: None,
        witnesses: Vec::new(),
        witness_threshold: 0,
        grace_s: 0,
    }
}

/// A signed genesis entry.
pub(crate) fn begin(author: &mut Person, genesis: Genesis) -> Signed {
    let entry = Entry {
        log: EntryId::NONE,
        chain: author.chain,
        sequence: 0,
        previous: EntryId::NONE,
        links: Vec::new(),
        clock: talaria_log::Clock::at_ms(NOW_MS - 10_000),
        grant: EntryId::NONE,
        action: Action::Genesis(Box::new(genesis)),
    };
    author.sign(entry, EntryId::NONE)
}

/// An object of the tests.
pub(crate) fn object(number: u8) -> ObjectId {
    ObjectId([number; 32])
}

pub(crate) fn change(number: u8, field: &str, change: FieldChange) -> Action {
    let change = Change::Field(field.to_owned(), change);
    Action::Data(DataAction { object: object(number), change })
}

/// Sets the field `name` of object 1.
pub(crate) fn set(text: &str) -> Action {
    change(1, "name", FieldChange::Set(Some(Value::String(text.to_owned()))))
}

/// The text of the field `name` of object 1.
pub(crate) fn name(log: &Log) -> Option<String> {
    match log.state().field(object(1), "name")? {
        talaria_log::Content::LastWriter(value) => Some(value.to_string()),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn grant_to(person: &Person) -> Grant {
    Grant {
        certificate: person.certificate.clone(),
        object: ObjectId::NONE,
        fields: Pattern::new("*").unwrap(),
        operations: Operations::ALL,
        ends_ms: 0,
    }
}

pub(crate) fn grant(person: &Person) -> Action {
    Action::Grant(Box::new(grant_to(person)))
}

/// Grants everything by another certificate of a person.
pub(crate) fn grant_by(certificate: Certificate) -> Action {
    Action::Grant(Box::new(Grant {
        certificate,
        object: ObjectId::NONE,
        fields: Pattern::new("*").unwrap(),
        operations: Operations::ALL,
        ends_ms: 0,
    }))
}

/// Revokes a person who says when the key was stolen.
pub(crate) fn revoke_since(person: &Person, since: u64) -> Action {
    let target = Target::Author(person.name());
    Action::Revoke(Revocation { target, reason: 2, since, heads: Vec::new() })
}

/// The checkpointer of a log, and its witnesses.
pub(crate) struct Notary {
    pub(crate) key: NoteSecret,
    pub(crate) witnesses: Vec<NoteSecret>,
}

/// The grace time of the tests, in seconds.
pub(crate) const GRACE: u32 = 100;

impl Notary {
    pub(crate) fn new(witnesses: u8) -> Self {
        let witness = |number: u8| {
            let name = format!("witness-{number}.example.org");
            NoteSecret::new(&name, NoteKind::Timed, &[100 + number; 32]).unwrap()
        };
        let key = NoteSecret::new("checkpointer", NoteKind::Plain, &[99; 32]).unwrap();
        let mut witnesses: Vec<NoteSecret> = (0..witnesses).map(witness).collect();
        witnesses.sort_by_key(|witness| witness.public().key);
        Self { key, witnesses }
    }

    /// The same genesis, with this checkpointer and a majority of its witnesses.
    pub(crate) fn of(&self, genesis: Genesis) -> Genesis {
        let witness = |witness: &NoteSecret| {
            let public = witness.public();
            Witness { name: public.name, key: public.key }
        };
        let witnesses = self.witnesses.iter().map(witness).collect();
        Genesis { grace_s: GRACE, ..genesis.with_checkpointer(self.key.public().key, witnesses) }
    }

    /// A checkpoint over all that a copy of the log has, by a person, at a time in seconds after
    /// [`NOW`].
    pub(crate) fn checkpoint(&self, by: &mut Person, log: &mut Log, after: u32) -> Signed {
        self.try_checkpoint(by, log, after).unwrap()
    }

    pub(crate) fn try_checkpoint(
        &self,
        by: &mut Person,
        log: &mut Log,
        after: u32,
    ) -> Result<Signed, DraftError> {
        let time = u64::from(NOW + after);
        let entry = log.draft_checkpoint(by.chain, &self.key, time, NOW_MS)?;
        log.append(entry.clone())?;
        Ok(by.sign(entry, log.id()))
    }

    /// Cosignatures on a checkpoint: the places of witnesses, ascending, with times in seconds
    /// after [`NOW`].
    pub(crate) fn cosignatures(
        &self,
        log: &Log,
        checkpoint: EntryId,
        by: &[(usize, u32)],
    ) -> Action {
        let text = head(log, checkpoint).to_string();
        let line = |&(place, after): &(usize, u32)| {
            self.witnesses[place].cosign(&text, u64::from(NOW + after))
        };
        Action::Cosign(Cosignatures { checkpoint, lines: by.iter().map(line).collect() })
    }

    pub(crate) fn cosign(
        &self,
        person: &mut Person,
        log: &mut Log,
        checkpoint: EntryId,
        by: &[(usize, u32)],
    ) -> Signed {
        let action = self.cosignatures(log, checkpoint, by);
        person.make(log, action).unwrap()
    }
}

/// The tree of a checkpoint.
pub(crate) fn head(log: &Log, checkpoint: EntryId) -> TreeHead {
    match &log.entry(&checkpoint).unwrap().action {
        Action::Checkpoint(checkpoint) => checkpoint.head().clone(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn revoke(person: &Person, heads: Vec<EntryId>) -> Action {
    let target = Target::Author(person.name());
    Action::Revoke(Revocation { target, reason: 2, since: 0, heads })
}

/// A log with one owner and a copy for a member who has a grant.
pub(crate) struct Pair {
    pub(crate) alice: Person,
    pub(crate) carol: Person,
    pub(crate) genesis: Signed,
    pub(crate) grant: Signed,
    /// Alice's copy.
    pub(crate) log: Log,
}

pub(crate) fn pair() -> Pair {
    let (mut alice, carol) = (Person::new(0, 1), Person::new(2, 1));
    let genesis = genesis_of(&[&alice], 1);
    let genesis = begin(&mut alice, genesis);
    let mut log = Log::begin(&genesis).unwrap();
    let grant = alice.make(&mut log, grant(&carol)).unwrap();
    Pair { alice, carol, genesis, grant, log }
}

impl Pair {
    /// Another copy of the log with genesis and the grant.
    pub(crate) fn copy(&self) -> Log {
        let mut log = Log::begin(&self.genesis).unwrap();
        assert_eq!(offer(&mut log, &[&self.grant]).outcomes, [Outcome::Added]);
        log
    }
}

/// Offers entries through their records, as they come from the network.
pub(crate) fn offer(log: &mut Log, entries: &[&Signed]) -> Offered {
    let entries = entries.iter().flat_map(|entry| read_record(&entry.to_record()).unwrap());
    log.offer(entries.collect(), NOW_MS)
}

/// The reason why one entry is refused.
pub(crate) fn refusal(log: &mut Log, entry: &Signed) -> Refusal {
    match offer(log, &[entry]).outcomes.remove(0) {
        Outcome::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    }
}
