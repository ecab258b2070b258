//! Attestations: snapshots of which the owner says that their client made them, whatever becomes of
//! its key.

use std::collections::{BTreeMap, BTreeSet};

use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use crate::document::DocumentStanding;
use crate::error::{BackupError, Result};
use crate::forget::{self};
use crate::forgotten::SnapshotName;
use crate::id::{Id, RepositoryId};
use crate::listed::Listed;
use crate::repository::{Keys, Repository};
use crate::signed::Header;

/// The folder of attestations.
const ATTESTED: &str = "attested";
const DOMAIN: &str = "talaria backup attested";

/// The snapshots that the attestation with this text names.
///
/// # Errors
///
/// [`Damaged`](BackupError::Damaged) with the reason; [`Newer`](BackupError::Newer).
pub fn parse_attestation(
    name: &str,
    text: &[u8],
    repository: RepositoryId,
) -> Result<BTreeSet<SnapshotName>> {
    forget::parse(DOMAIN, name, text, repository)
}

/// A snapshot with those before it in its chain. Where one of them is missing, the chain goes on at
/// the newest before it, unless there are two of its number.
fn chain<'a>(snapshots: &'a [Listed], head: &'a Listed) -> Vec<&'a Listed> {
    let mut by_number: BTreeMap<u64, Vec<&Listed>> = BTreeMap::new();
    for listed in snapshots.iter().filter(|one| one.snapshot.client == head.snapshot.client) {
        by_number.entry(listed.snapshot.number).or_default().push(listed);
    }
    let mut chain = vec![head];
    let mut newest = head;
    loop {
        let before = by_number.range(..newest.snapshot.number).next_back();
        let next = before.and_then(|(number, found)| {
            if number + 1 == newest.snapshot.number {
                found.iter().find(|one| Some(one.id) == newest.snapshot.previous)
            } else {
                found.first().filter(|_| found.len() == 1)
            }
        });
        match next {
            None => return chain,
            Some(next) => {
                chain.push(next);
                newest = next;
            }
        }
    }
}

impl Repository {
    /// The snapshots that the owner has attested, and the documents that cannot be read or that
    /// somebody else signed.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    pub(crate) fn attested(
        &self,
        keys: &Keys,
        now: u32,
    ) -> Result<(BTreeSet<Id>, Vec<BackupError>)> {
        let mut attested = BTreeSet::new();
        let unreadable = self.read_signed(keys, ATTESTED, now, &mut |signed| {
            let names = parse_attestation(&signed.name, signed.text(), self.id())?;
            match signed.standing(|signer| *signer == self.config().owner) {
                DocumentStanding::Good(_) | DocumentStanding::Past(..) => {
                    attested.extend(names.into_iter().map(|name| name.id));
                    Ok(())
                }
                DocumentStanding::Doubtful(_, why) | DocumentStanding::Foreign(why) => {
                    Err(BackupError::damaged(&signed.name, why))
                }
                DocumentStanding::Unsigned => {
                    Err(BackupError::damaged(&signed.name, "it is not signed"))
                }
            }
        })?;
        Ok((attested, unreadable))
    }

    /// Attests `head` and the snapshots before it in its chain, out of `snapshots`: they count even
    /// if the key of their client is found to be compromised later, or was before. Returns the
    /// number of snapshots.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if the certificate is not the owner, or if the client of the
    /// snapshot did not sign it; errors of the storage.
    pub fn attest(
        &self,
        keys: &Keys,
        snapshots: &[Listed],
        head: &Listed,
        (name, signer): (&Fingerprint, &mut SigningKey),
        now: u32,
    ) -> Result<usize> {
        let refused = |why: String| Err(BackupError::Refused(why));
        if *name != self.config().owner {
            return refused(format!("{} is not the owner of the repository", name.to_hex()));
        }
        if let DocumentStanding::Doubtful(signer, why) = self.standing() {
            let signer = signer.to_hex();
            return refused(format!("the configuration is signed by {signer}, and {why}"));
        }
        let may_count = |one: &&Listed| one.standing.counts() || one.is_unattested;
        if !may_count(&head) {
            return refused(format!("its client did not sign snapshot {}", head.id));
        }
        let chain = chain(snapshots, head);
        let names: BTreeSet<_> =
            chain.into_iter().filter(may_count).map(SnapshotName::of).collect();
        let text = forget::text(DOMAIN, self.id(), Header::new(now)?, &names);
        self.write_signed(keys, ATTESTED, &text, Some(signer), now)?;
        Ok(names.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::listed;

    #[test]
    fn a_chain_follows_the_names_and_goes_on_behind_a_gap() {
        let id = |byte| Id([byte; 32]);
        let with = |number, byte, previous: Option<u8>| {
            let mut one = listed(1, number, id(byte));
            one.snapshot.previous = previous.map(id);
            one
        };
        let all = [
            with(1, 11, None),
            with(2, 12, Some(11)),
            // Somebody else made a branch.
            with(2, 32, Some(11)),
            with(3, 13, Some(12)),
            with(6, 16, Some(15)),
            with(7, 17, Some(16)),
            listed(2, 6, id(26)),
        ];
        let ids =
            |head: &Listed| chain(&all, head).iter().map(|one| one.id.0[0]).collect::<Vec<_>>();
        // Number 5 was forgotten.
        assert_eq!(ids(&all[5]), [17, 16, 13, 12, 11]);
        assert_eq!(ids(&all[2]), [32, 11]);
        assert_eq!(ids(&all[6]), [26]);
        // Behind the gap are two with one number.
        let head = with(4, 14, Some(99));
        assert_eq!(chain(&all[..4], &head).len(), 1);
        let head = with(5, 15, Some(99));
        assert_eq!(chain(&all[..3], &head).len(), 1);
    }
}
