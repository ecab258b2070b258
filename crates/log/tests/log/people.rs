//! People with keys, and their copies of a log.

use std::sync::LazyLock;

use talaria_log::{
    Action, Certificate, ChainName, Change, DataAction, DraftError, Entry, EntryId, FieldChange,
    Genesis, Grant, KeyName, Limits, Log, Maker, MergeRule, ObjectId, Offered, Operations, Outcome,
    Pattern, Refusal, Revocation, Signed, Target, Value, read_record,
};
use talaria_message::make::{GenerateOptions, KeyProfile, KeyUses, Protection, generate};
use talaria_message::openpgp;
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::{SigningKey, policy, signing_key};

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
        generate(&options, &Protection::Unprotected, NOW - 1000).unwrap().cert
    };
    (0..6).map(make).collect()
});

/// The person whose key has version 6.
pub(crate) const V6: usize = 4;

/// A person with a key and a device.
pub(crate) struct Person {
    pub(crate) certificate: Certificate,
    pub(crate) key: SigningKey,
    pub(crate) chain: ChainName,
}

impl Person {
    /// Person `number`, from 0 to 5, on a device.
    pub(crate) fn new(number: usize, device: u8) -> Self {
        Self::of(&KEYS[number], device)
    }

    /// The secret key of a person, for another process.
    pub(crate) fn secret(number: usize) -> Vec<u8> {
        KEYS[number].as_tsk().to_vec().unwrap()
    }

    /// The owner of a secret key, on a device.
    pub(crate) fn of(cert: &openpgp::Cert, device: u8) -> Self {
        let key = signing_key(cert, policy(), NOW, &mut |_, _| None).unwrap();
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

pub(crate) fn revoke(person: &Person, heads: Vec<EntryId>) -> Action {
    let target = Target::Author(person.name());
    Action::Revoke(Revocation { target, reason: 2, heads })
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
