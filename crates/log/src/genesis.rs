//! The genesis entry of a log: who decides, by which rules, within which limits.

use crate::bytes::{Fields, Malformed, count_u8, count_u16, text, write_part};
use crate::certificate::{CERTIFICATE_BYTES_MAX, Certificate};
use crate::note::{KEY_NAME_BYTES_MAX, NoteKey, NoteKind, is_key_name};
use crate::value::VALUE_BYTES_MAX;

/// Most owners.
pub const OWNERS_MAX: usize = 16;
/// Most merge rules.
pub const RULES_MAX: usize = 256;
/// Most witnesses.
pub const WITNESSES_MAX: usize = 32;
/// The usual grace time after the expiry of a key, in seconds: a week.
pub const GRACE_S: u32 = 7 * 86_400;
/// Longest pattern of fields, in bytes.
pub(crate) const PATTERN_BYTES_MAX: usize = 256;

/// The content of a genesis entry. It is fixed for the life of a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Genesis {
    /// The certificates of the owners, ascending by key name.
    pub owners: Vec<Certificate>,
    /// The number of owners who must agree on a grant, a revocation or a choice.
    pub threshold: u8,
    /// The algorithms of keys that may sign (RFC 9580, section 9.1), ascending.
    pub algorithms: Vec<u8>,
    /// The limits of entries and chains.
    pub limits: Limits,
    /// The merge rules: the first whose pattern matches counts.
    pub rules: Vec<(Pattern, MergeRule)>,
    /// The Ed25519 key of the checkpointer.
    pub checkpointer: Option<[u8; 32]>,
    /// The witnesses, ascending by key.
    pub witnesses: Vec<Witness>,
    /// The number of witnesses who must cosign a checkpoint: more than half of them.
    pub witness_threshold: u8,
    /// The time after the expiry of a key within which a checkpoint must cover its entries, in
    /// seconds.
    pub grace_s: u32,
}

/// A witness, who cosigns checkpoints.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Witness {
    /// The name of the key, as in cosignatures.
    pub name: String,
    /// The Ed25519 key.
    pub key: [u8; 32],
}

impl Witness {
    /// The key for cosignatures.
    #[must_use]
    pub fn note_key(&self) -> NoteKey {
        NoteKey { name: self.name.clone(), kind: NoteKind::Timed, key: self.key }
    }
}

/// Limits for each author. An entry beyond them is not admissible.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Largest value of an operation on data, in bytes.
    pub value_bytes: u32,
    /// Largest number of entries of a chain.
    pub chain_entries: u64,
    /// Largest sum of the bytes of the entries of a chain.
    pub chain_bytes: u64,
    /// Largest number of chains of one author, as seen by the first entry of a chain.
    pub chains: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self { value_bytes: 65_536, chain_entries: 100_000_000, chain_bytes: 1 << 36, chains: 64 }
    }
}

/// The rule that merges values of a field that were written concurrently.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum MergeRule {
    /// The last writer wins.
    #[default]
    LastWriter,
    /// Values stay side by side until an entry replaces them.
    Strict,
    /// Elements are added, and removed if they have been seen.
    Set,
    /// Numbers are added.
    Counter,
    /// Elements have an order (Fugue).
    List,
}

impl MergeRule {
    /// The number of the rule in the format.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::LastWriter => 1,
            Self::Strict => 2,
            Self::Set => 3,
            Self::Counter => 4,
            Self::List => 5,
        }
    }

    /// The rule with a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        let all = [Self::LastWriter, Self::Strict, Self::Set, Self::Counter, Self::List];
        all.into_iter().find(|rule| rule.number() == number)
    }

    /// The rule with a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        (1..=5).filter_map(Self::from_number).find(|rule| rule.name() == name)
    }

    /// The name of the rule in commands.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LastWriter => "last-writer",
            Self::Strict => "strict",
            Self::Set => "set",
            Self::Counter => "counter",
            Self::List => "list",
        }
    }
}

/// A pattern of fields: the text of one, or text and a final `*` for all that start with it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Pattern(String);

impl Pattern {
    /// The pattern with this text. `None` if it is empty, too long, or has a control character.
    #[must_use]
    pub fn new(pattern: &str) -> Option<Self> {
        let fits = (1..=PATTERN_BYTES_MAX).contains(&pattern.len());
        (fits && text(pattern.as_bytes()).is_some()).then(|| Self(pattern.to_owned()))
    }

    /// Whether a field matches.
    #[must_use]
    pub fn matches(&self, field: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(start) => field.starts_with(start),
            None => field == self.0,
        }
    }

    /// Whether every field that another pattern matches matches this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self.0.strip_suffix('*'), other.0.strip_suffix('*')) {
            (Some(start), Some(other)) => other.starts_with(start),
            (None, Some(_)) => false,
            (_, None) => self.matches(&other.0),
        }
    }

    /// The text of the pattern.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let text = fields.text(PATTERN_BYTES_MAX, "pattern")?;
        Self::new(&text).ok_or(Malformed::Field("pattern"))
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write_part(out, 2, self.0.as_bytes());
    }
}

impl Genesis {
    /// The content for a log with these owners, with Ed25519 keys only and the usual limits. All
    /// fields have the rule that the last writer wins.
    #[must_use]
    pub fn new(mut owners: Vec<Certificate>, threshold: u8) -> Self {
        owners.sort_by_key(Certificate::name);
        Self {
            owners,
            threshold,
            algorithms: vec![22, 27],
            limits: Limits::default(),
            rules: Vec::new(),
            checkpointer: None,
            witnesses: Vec::new(),
            witness_threshold: 0,
            grace_s: 0,
        }
    }

    /// Allows the algorithms of all keys of the owners that can sign (RFC 9580, section 9.1): RSA,
    /// DSA, ECDSA, `EdDSA`, Ed25519, Ed448.
    pub fn allow_keys_of_owners(&mut self) {
        let used = self.owners.iter().flat_map(Certificate::algorithms);
        let used = used.filter(|algorithm| matches!(algorithm, 1 | 3 | 17 | 19 | 22 | 27 | 28));
        let used: Vec<u8> = used.collect();
        self.algorithms.extend(used);
        self.algorithms.sort_unstable();
        self.algorithms.dedup();
    }

    /// Lets the owner of a key make checkpoints, and a majority of witnesses cosign them.
    #[must_use]
    pub fn with_checkpointer(mut self, key: [u8; 32], mut witnesses: Vec<Witness>) -> Self {
        witnesses.sort_by_key(|witness| witness.key);
        self.checkpointer = Some(key);
        self.witness_threshold = majority(witnesses.len());
        self.witnesses = witnesses;
        self.grace_s = GRACE_S;
        self
    }

    /// The rule of a field.
    #[must_use]
    pub fn rule(&self, field: &str) -> MergeRule {
        let found = self.rules.iter().find(|(pattern, _)| pattern.matches(field));
        found.map_or(MergeRule::LastWriter, |(_, rule)| *rule)
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(count_u8(self.owners.len()));
        self.owners.iter().for_each(|owner| write_part(out, 4, owner.as_bytes()));
        out.push(self.threshold);
        write_part(out, 1, &self.algorithms);
        out.extend(self.limits.value_bytes.to_be_bytes());
        out.extend(self.limits.chain_entries.to_be_bytes());
        out.extend(self.limits.chain_bytes.to_be_bytes());
        out.extend(self.limits.chains.to_be_bytes());
        out.extend(count_u16(self.rules.len()).to_be_bytes());
        for (pattern, rule) in &self.rules {
            pattern.write(out);
            out.push(rule.number());
        }
        out.push(u8::from(self.checkpointer.is_some()));
        self.checkpointer.iter().for_each(|key| out.extend(key));
        out.push(count_u8(self.witnesses.len()));
        for witness in &self.witnesses {
            write_part(out, 1, witness.name.as_bytes());
            out.extend(witness.key);
        }
        out.push(self.witness_threshold);
        out.extend(self.grace_s.to_be_bytes());
    }

    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let count = usize::from(fields.u8()?);
        if !(1..=OWNERS_MAX).contains(&count) {
            return Err(Malformed::Field("number of owners"));
        }
        let owners = (0..count)
            .map(|_| Certificate::read(fields.part(4, CERTIFICATE_BYTES_MAX, "certificate")?))
            .collect::<Result<Vec<_>, _>>()?;
        if !owners.is_sorted_by(|a, b| a.name() < b.name()) {
            return Err(Malformed::Order("owners"));
        }
        let threshold = fields.u8()?;
        if !(1..=count).contains(&usize::from(threshold)) {
            return Err(Malformed::Field("threshold"));
        }
        let algorithms = fields.part(1, 255, "algorithms")?.to_vec();
        if algorithms.is_empty() || !algorithms.is_sorted_by(|a, b| a < b) {
            return Err(Malformed::Order("algorithms"));
        }
        let limits = Limits {
            value_bytes: fields.u32()?,
            chain_entries: fields.u64()?,
            chain_bytes: fields.u64()?,
            chains: fields.u16()?,
        };
        if limits.value_bytes as usize > VALUE_BYTES_MAX {
            return Err(Malformed::Field("largest value"));
        }
        let count = usize::from(fields.u16()?);
        if count > RULES_MAX {
            return Err(Malformed::Field("number of merge rules"));
        }
        let rules = (0..count)
            .map(|_| {
                let pattern = Pattern::read(fields)?;
                let rule = MergeRule::from_number(fields.u8()?);
                Ok((pattern, rule.ok_or(Malformed::Field("merge rule"))?))
            })
            .collect::<Result<Vec<_>, Malformed>>()?;
        let checkpointer = match fields.u8()? {
            0 => None,
            1 => Some(fields.array()?),
            _ => return Err(Malformed::Field("checkpointer")),
        };
        let count = usize::from(fields.u8()?);
        if count > WITNESSES_MAX {
            return Err(Malformed::Field("number of witnesses"));
        }
        let witness = |_| {
            let name =
                std::str::from_utf8(fields.part(1, KEY_NAME_BYTES_MAX, "name of a witness")?);
            let name = name.ok().filter(|name| is_key_name(name));
            let name = name.ok_or(Malformed::Field("name of a witness"))?.to_owned();
            Ok(Witness { name, key: fields.array()? })
        };
        let witnesses = (0..count).map(witness).collect::<Result<Vec<_>, Malformed>>()?;
        if !witnesses.is_sorted_by(|a, b| a.key < b.key) {
            return Err(Malformed::Order("witnesses"));
        }
        let witness_threshold = fields.u8()?;
        let is_majority = (majority(count)..=count_u8(count)).contains(&witness_threshold);
        if !is_majority || (count > 0 && checkpointer.is_none()) {
            return Err(Malformed::Field("witnesses of a checkpoint"));
        }
        let grace_s = fields.u32()?;
        if grace_s > 0 && checkpointer.is_none() {
            return Err(Malformed::Field("grace time"));
        }
        Ok(Self {
            owners,
            threshold,
            algorithms,
            limits,
            rules,
            checkpointer,
            witnesses,
            witness_threshold,
            grace_s,
        })
    }
}

/// The smallest majority of witnesses; 0 of none.
pub(crate) fn majority(witnesses: usize) -> u8 {
    if witnesses == 0 { 0 } else { count_u8(witnesses / 2 + 1) }
}
