//! Which snapshots to forget: those that the user names, or those that no rule keeps.

use std::collections::{BTreeMap, BTreeSet};

use talaria_backup::{
    Evidence, Fate, Grouping, Id, Irregularity, Listed, Repository, Retention, SnapshotName,
    decide, halved, select,
};
use talaria_message::openpgp::Fingerprint;

use crate::backup::client::Client;
use crate::backup::error::ClientError;
use crate::backup::notice::Notice;

/// The snapshots to forget.
#[derive(Clone, Copy, Debug)]
pub enum ToForget<'a> {
    /// Those with these names, as [`select`] finds them. A snapshot that cannot be read or is
    /// missing needs its whole identifier.
    Named(&'a [String]),
    /// Those that these rules do not keep in a group.
    Unkept(&'a Retention, Grouping),
}

/// The snapshots that would be forgotten. Nothing is changed yet: [`Repository::forget`] does it.
#[derive(Clone, Debug)]
pub struct ForgetPlan {
    /// The snapshots to forget.
    pub names: BTreeSet<SnapshotName>,
    /// All snapshots of the client, or of all clients.
    pub listed: Vec<Listed>,
    /// The fates of these by the rules, if there are rules.
    pub fates: BTreeMap<Id, Fate>,
}

impl ForgetPlan {
    /// The identifiers of the snapshots to forget.
    #[must_use]
    pub fn ids(&self) -> BTreeSet<Id> {
        self.names.iter().map(|name| name.id).collect()
    }

    /// Refuses the plan if a client would lose more than half of its snapshots, which is more often
    /// a mistake than a wish.
    ///
    /// # Errors
    ///
    /// [`ClientError::Halved`] with the first such client.
    pub fn refuse_halving(&self) -> Result<(), ClientError> {
        match halved(&self.listed, &self.ids()).into_iter().next() {
            None => Ok(()),
            Some(client) => Err(ClientError::Halved { client }),
        }
    }
}

impl Client {
    /// The snapshots to forget, among those of a client, if there is one.
    ///
    /// # Errors
    ///
    /// The errors of [`Client::snapshots`], [`select`] and [`decide`].
    pub fn plan_forget(
        &mut self,
        wanted: ToForget<'_>,
        client: Option<&Fingerprint>,
        now: u32,
        tell: &mut dyn FnMut(Notice),
    ) -> Result<ForgetPlan, ClientError> {
        let (mut listed, wrong) = self.snapshots(now, tell)?;
        let (forgotten, _) = self.repository.forgotten(&self.keys, now)?;
        listed.retain(|l| client.is_none_or(|client| l.snapshot.client.as_ref() == Some(client)));
        let (mut names, mut fates) = (BTreeSet::new(), BTreeMap::new());
        match wanted {
            ToForget::Named(wanted) => {
                for name in wanted {
                    names.insert(named(name, (&listed, &wrong), &self.repository, client)?);
                }
            }
            ToForget::Unkept(rules, grouping) => {
                fates = decide(&listed, &forgotten, rules, grouping, now)?;
                let lost = listed.iter().filter(|l| fates.get(&l.id) == Some(&Fate::Forget));
                names.extend(lost.map(SnapshotName::of));
            }
        }
        Ok(ForgetPlan { names, listed, fates })
    }
}

/// The snapshot that a user means. One that cannot be read or is missing needs its whole
/// identifier.
fn named(
    name: &str,
    (listed, wrong): (&[Listed], &[Irregularity]),
    repository: &Repository,
    client: Option<&Fingerprint>,
) -> Result<SnapshotName, ClientError> {
    let selected = select(listed, name, client);
    let missing = wrong.iter().find_map(|irregularity| match irregularity {
        Irregularity::Missing { client, number, id, evidence } if id.to_string() == name => {
            Some(match evidence {
                Evidence::Seen | Evidence::Chain => {
                    SnapshotName { client: client.clone(), number: *number, id: *id }
                }
                // The number that a thief may have made up is not used up by a tombstone.
                Evidence::Claim(_) => SnapshotName::unreadable(*id),
            })
        }
        _ => None,
    });
    if let (Err(_), Some(missing)) = (&selected, missing) {
        return Ok(missing);
    }
    if let (Err(_), Ok(id)) = (&selected, name.parse::<Id>())
        && repository.has_object_of(&id)?
    {
        return Ok(SnapshotName::unreadable(id));
    }
    Ok(SnapshotName::of(selected?))
}
