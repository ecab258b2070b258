//! The signed configuration of a repository: who may do what, and which epochs there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use talaria_cert::{parse_timestamp, timestamp};
use talaria_message::openpgp::Fingerprint;

use crate::epoch::EpochProfile;
use crate::error::Result;
use crate::id::{RepositoryId, from_hex, to_hex};
use crate::text::Lines;

const DOMAIN: &str = "talaria backup configuration";

/// A permission of a signer.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// Sign configurations.
    Admin,
    /// Sign snapshots.
    Create,
    /// Sign that snapshots are no longer needed.
    Forget,
    /// Delete packs that nothing needs.
    Prune,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Create, Self::Forget, Self::Prune];

    /// The name of the role in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Create => "create",
            Self::Forget => "forget",
            Self::Prune => "prune",
        }
    }
}

/// An epoch as the configuration names it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Epoch {
    /// The number, from 1.
    pub number: u32,
    /// The time when it began, in seconds since 1970.
    pub created: u32,
    /// Its packets.
    pub profile: EpochProfile,
    /// The certificates that packs, and indexes and snapshots, are encrypted to; `None` for
    /// [`EpochProfile::None`].
    pub keys: Option<(Fingerprint, Fingerprint)>,
}

/// A configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RepositoryConfig {
    /// The number, from 1.
    pub number: u32,
    /// The time when it was made, in seconds since 1970.
    pub time: u32,
    /// The BLAKE3 hash of the text of the configuration before; `None` for the first.
    pub previous: Option<[u8; 32]>,
    /// The hash of the group secret, since the operator of the storage can encrypt another one to a
    /// reader.
    pub group: [u8; 32],
    /// Snapshots and indexes must be signed.
    pub signed: bool,
    /// The certificate of the owner.
    pub owner: Fingerprint,
    /// Further signers with their roles.
    pub signers: BTreeMap<Fingerprint, BTreeSet<Role>>,
    /// The certificates that can read everything.
    pub readers: BTreeSet<Fingerprint>,
    /// The certificates of write-only clients.
    pub clients: BTreeSet<Fingerprint>,
    /// The epochs, by number. There is at least one.
    pub epochs: Vec<Epoch>,
}

impl RepositoryConfig {
    /// The name of the object with the configuration `number`.
    pub(crate) fn name(number: u32) -> String {
        format!("config/{number:08}")
    }

    /// The text of the configuration.
    pub(crate) fn text(&self, repository: RepositoryId) -> String {
        let mut out = format!("{DOMAIN} 1\nrepository {repository}\n");
        let mut line = |keyword: &str, fields: &str| {
            let _ = writeln!(out, "{keyword} {fields}");
        };
        line("number", &self.number.to_string());
        line("time", &timestamp(self.time));
        line("previous", &self.previous.map_or("none".into(), |hash| to_hex(&hash)));
        line("group", &to_hex(&self.group));
        line("snapshots", if self.signed { "signed" } else { "unsigned" });
        line("owner", &self.owner.to_hex());
        for (signer, roles) in &self.signers {
            let roles: Vec<_> = roles.iter().map(|role| role.name()).collect();
            line("signer", &format!("{} {}", signer.to_hex(), roles.join(",")));
        }
        self.readers.iter().for_each(|reader| line("reader", &reader.to_hex()));
        self.clients.iter().for_each(|client| line("client", &client.to_hex()));
        for Epoch { number, created, profile, keys } in &self.epochs {
            let keys = keys.as_ref();
            let (data, index) = keys.map_or(("none".into(), "none".into()), |(data, index)| {
                (data.to_hex(), index.to_hex())
            });
            line("epoch", &format!("{number} {} {profile} {data} {index}", timestamp(*created)));
        }
        out
    }

    /// Reads the text of the object `name`.
    pub(crate) fn parse(name: &str, text: &[u8], repository: RepositoryId) -> Result<Self> {
        let id = repository.to_string();
        let mut lines = Lines::open(name, text, DOMAIN, Some(&id))?;
        let number = lines.one("number")?;
        let number = number.parse().map_err(|_| lines.damaged("its number is invalid"))?;
        let time = lines.one("time")?;
        let time = parse_timestamp(time).ok_or_else(|| lines.damaged("its time is invalid"))?;
        let previous = match lines.one("previous")? {
            "none" => None,
            hash => {
                Some(from_hex(hash).ok_or_else(|| lines.damaged("its previous hash is invalid"))?)
            }
        };
        let group = from_hex(lines.one("group")?);
        let group =
            group.ok_or_else(|| lines.damaged("its hash of the group secret is invalid"))?;
        let signed = match lines.one("snapshots")? {
            "signed" => true,
            "unsigned" => false,
            _ => return Err(lines.damaged("snapshots are neither signed nor unsigned")),
        };
        let owner = lines.one("owner")?;
        let owner =
            fingerprint(owner).ok_or_else(|| lines.damaged("its owner is no fingerprint"))?;
        let mut config = Self {
            number,
            time,
            previous,
            group,
            signed,
            owner,
            signers: BTreeMap::new(),
            readers: BTreeSet::new(),
            clients: BTreeSet::new(),
            epochs: Vec::new(),
        };
        for fields in lines.many("signer") {
            let parsed = fields.split_once(' ').and_then(|(signer, roles)| {
                let role = |name: &str| Role::ALL.into_iter().find(|role| role.name() == name);
                let roles = roles.split(',').map(role).collect::<Option<BTreeSet<_>>>()?;
                Some((fingerprint(signer)?, roles))
            });
            let (signer, roles) = parsed.ok_or_else(|| lines.damaged("a signer cannot be read"))?;
            config.signers.insert(signer, roles);
        }
        for (keyword, set) in [("reader", &mut config.readers), ("client", &mut config.clients)] {
            for fields in lines.many(keyword) {
                let one = fingerprint(fields);
                set.insert(one.ok_or_else(|| lines.damaged("a fingerprint cannot be read"))?);
            }
        }
        for fields in lines.many("epoch") {
            let epoch = epoch(fields).ok_or_else(|| lines.damaged("an epoch cannot be read"))?;
            config.epochs.push(epoch);
        }
        let in_order = config.epochs.iter().zip(1..).all(|(epoch, number)| epoch.number == number);
        if config.epochs.is_empty() || !in_order {
            return Err(lines.damaged("its epochs are not numbered from 1"));
        }
        lines.end()?;
        // One configuration has one text: sorted, without repetition.
        if config.text(repository).as_bytes() != text {
            return Err(crate::error::BackupError::damaged(
                name,
                "its lines are not in the form of the format",
            ));
        }
        Ok(config)
    }

    /// The epoch that writers use.
    #[must_use]
    pub fn newest_epoch(&self) -> &Epoch {
        self.epochs.last().expect("a configuration has an epoch")
    }

    /// The owner and the signers with the role `prune`.
    pub(crate) fn pruners(&self) -> impl Iterator<Item = Fingerprint> {
        let signers = self.signers.iter().filter(|(_, roles)| roles.contains(&Role::Prune));
        signers.map(|(signer, _)| signer).chain([&self.owner]).cloned()
    }

    /// Whether a certificate has a role. The owner has all of them; a client may create.
    #[must_use]
    pub fn has_role(&self, certificate: &Fingerprint, role: Role) -> bool {
        *certificate == self.owner
            || self.signers.get(certificate).is_some_and(|roles| roles.contains(&role))
            || (role == Role::Create && self.clients.contains(certificate))
    }
}

/// A fingerprint of version 4 or 6 in upper-case digits.
pub(crate) fn fingerprint(text: &str) -> Option<Fingerprint> {
    let parsed: Fingerprint = text.parse().ok()?;
    let known = matches!(parsed, Fingerprint::V4(_) | Fingerprint::V6(_));
    (known && parsed.to_hex() == text).then_some(parsed)
}

fn epoch(fields: &str) -> Option<Epoch> {
    let fields: Vec<&str> = fields.split(' ').collect();
    let [number, created, profile, data, index] = fields[..] else { return None };
    let profile: EpochProfile = profile.parse().ok()?;
    let keys = match (profile, data, index) {
        (EpochProfile::None, "none", "none") => None,
        (EpochProfile::None, ..) => return None,
        _ => Some((fingerprint(data)?, fingerprint(index)?)),
    };
    Some(Epoch { number: number.parse().ok()?, created: parse_timestamp(created)?, profile, keys })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::BackupError;

    fn config() -> RepositoryConfig {
        let key = |byte| Fingerprint::from_bytes(4, &[byte; 20]).unwrap();
        RepositoryConfig {
            number: 2,
            time: 1_795_381_506,
            previous: Some([7; 32]),
            group: [8; 32],
            signed: true,
            owner: key(1),
            signers: [(key(2), [Role::Create, Role::Admin].into())].into(),
            readers: [key(1), key(3)].into(),
            clients: [key(4)].into(),
            epochs: vec![
                Epoch {
                    number: 1,
                    created: 5,
                    profile: EpochProfile::Rfc4880,
                    keys: Some((key(5), key(6))),
                },
                Epoch { number: 2, created: 9, profile: EpochProfile::None, keys: None },
            ],
        }
    }

    #[test]
    fn a_configuration_comes_back() {
        let (config, id) = (config(), RepositoryId([3; 16]));
        let text = config.text(id);
        assert_eq!(RepositoryConfig::parse("config/2", text.as_bytes(), id).unwrap(), config);
        let other = RepositoryConfig::parse("config/2", text.as_bytes(), RepositoryId([4; 16]));
        assert!(matches!(other, Err(BackupError::Damaged { .. })));
    }

    #[test]
    fn every_changed_line_is_refused_or_means_something_else() {
        let (config, id) = (config(), RepositoryId([3; 16]));
        let text = config.text(id);
        let lines: Vec<&str> = text.lines().collect();
        for at in 0..lines.len() {
            for changed in [
                String::new(),
                format!("{} ", lines[at]),
                lines[at].to_lowercase(),
                format!("{0}\n{0}", lines[at]),
            ] {
                let mut lines = lines.clone();
                lines[at] = &changed;
                let text = format!("{}\n", lines.join("\n"));
                if changed == config.text(id).lines().nth(at).unwrap() {
                    continue;
                }
                let parsed = RepositoryConfig::parse("config/2", text.as_bytes(), id);
                assert!(parsed.is_err(), "{text}");
            }
        }
        assert!(
            RepositoryConfig::parse(
                "c",
                text.replace("admin,create", "create,admin").as_bytes(),
                id
            )
            .is_err()
        );
    }

    #[test]
    fn roles_are_those_of_the_configuration() {
        let config = config();
        let key = |byte| Fingerprint::from_bytes(4, &[byte; 20]).unwrap();
        let has = |byte, role| config.has_role(&key(byte), role);
        assert!(Role::ALL.into_iter().all(|role| has(1, role)));
        assert!(has(2, Role::Admin) && has(2, Role::Create) && !has(2, Role::Prune));
        assert!(has(4, Role::Create) && !has(4, Role::Admin));
        assert!(!has(3, Role::Create), "a reader does not write");
    }
}
