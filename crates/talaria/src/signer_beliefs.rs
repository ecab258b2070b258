//! The validity of the signers of a document, and what TOFU records of their signatures.

use parking_lot::Mutex;
use talaria_cert::{Addressee, Fingerprint};
use talaria_message::{Distrust, Outcome, SignatureReport, Signer};

use crate::belief::{Belief, Trust};
use crate::believed::InUse;
use crate::error::Error;
use crate::parsed::stored_fingerprint;
use crate::stores::Stores;
use crate::tofu::{Sight, verified};

/// The validity of the signers of a document. It is computed once for each signer, when a signature
/// of the signer is good otherwise.
pub struct SignerBeliefs<'o> {
    trust: Trust,
    now: u32,
    open: Box<dyn Fn() -> Option<Stores> + Send + Sync + 'o>,
    known: Mutex<Known>,
}

/// The opened stores, and the beliefs computed so far.
#[derive(Default)]
struct Known {
    /// `None` until they are needed, then `Some(None)` if there are none.
    stores: Option<Option<Stores>>,
    beliefs: Vec<(InUse, Option<Belief>)>,
}

impl<'o> SignerBeliefs<'o> {
    /// Beliefs as of `now`, in seconds since 1970. `open` opens the stores when the first signer
    /// needs them; without a store no validity is known.
    pub fn new(
        trust: Trust,
        now: u32,
        open: impl Fn() -> Option<Stores> + Send + Sync + 'o,
    ) -> Self {
        Self { trust, now, open: Box::new(open), known: Mutex::default() }
    }

    /// A function that says which signers are not to be trusted, for a
    /// [`talaria_message::Verifier`]. If the validity cannot be read, it says so of the signer, and
    /// [`Self::of`] has the error.
    pub fn distrust(&self) -> Distrust<'_> {
        Box::new(|signer, user_id| match self.of_signer(signer, user_id) {
            Ok(belief) => belief.is_some_and(Belief::is_never),
            Err(_) => true,
        })
    }

    /// What TOFU records of the signatures, for [`crate::tofu::observe`]: the good ones, in a TOFU
    /// model. Record it before you ask for the validity of the signers.
    #[must_use]
    pub fn seen(&self, reports: &[SignatureReport]) -> Vec<Sight> {
        if !self.trust.model().is_tofu() {
            return Vec::new();
        }
        let sight = |report: &SignatureReport| {
            let event = verified(&report.digest, report.created.into(), self.now.into());
            let addressee = self.claimed(report.signer_user_id.as_deref());
            Some(Sight { fingerprint: fingerprint(maker(report)?)?, addressee, event })
        };
        reports.iter().filter_map(sight).collect()
    }

    /// The validity of the signers of good signatures, in the order of the reports.
    ///
    /// # Errors
    ///
    /// Errors of reading the stores.
    pub fn of(&self, reports: &[SignatureReport]) -> Result<Vec<Option<Belief>>, Error> {
        let believe = |report: &SignatureReport| match maker(report) {
            Some(signer) => self.of_signer(signer, report.signer_user_id.as_deref()),
            None => Ok(None),
        };
        reports.iter().map(believe).collect()
    }

    /// The addressee that a signature names. If it names a user ID of the signer, TOFU records and
    /// judges that user ID only.
    fn claimed(&self, user_id: Option<&[u8]>) -> Option<Addressee> {
        user_id.filter(|_| self.trust.model().is_tofu()).map(Addressee::of_user_id)
    }

    fn of_signer(&self, signer: &Signer, user_id: Option<&[u8]>) -> Result<Option<Belief>, Error> {
        let used = InUse::signing(fingerprint(signer), self.claimed(user_id));
        let Known { stores, beliefs } = &mut *self.known.lock();
        if let Some((_, belief)) = beliefs.iter().find(|(known, _)| *known == used) {
            return Ok(*belief);
        }
        let Some(stores) = stores.get_or_insert_with(&self.open) else { return Ok(None) };
        let found = stores.beliefs(std::slice::from_ref(&used), self.trust, self.now)?;
        let belief = found.into_iter().next().flatten();
        beliefs.push((used, belief));
        Ok(belief)
    }
}

/// The signer of a signature that the key made.
fn maker(report: &SignatureReport) -> Option<&Signer> {
    let made = matches!(report.outcome, Outcome::Good | Outcome::Distrusted);
    report.signer.as_ref().filter(|_| made)
}

fn fingerprint(signer: &Signer) -> Option<Fingerprint> {
    stored_fingerprint(&signer.certificate.parse().ok()?)
}
