//! The validity of certificates for the addresses for which they are used.

use talaria_cert::{Addressee, Fingerprint, UserIdContent};
use talaria_store::{Query, Row};
use talaria_trust::Level;

use crate::belief::{Belief, Trust};
use crate::error::Error;
use crate::stores::Stores;
use crate::trust::Judged;

/// A certificate, and the address for which it is used, if there is one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct InUse {
    /// `None` for a version that no store has.
    certificate: Option<Fingerprint>,
    addressee: Option<Addressee>,
    /// The addressee that a signature of the certificate names. Its maker chose it, so it does not
    /// limit the user's decisions.
    claimed: Option<Addressee>,
}

impl InUse {
    /// A certificate from the search `chosen_by`. If that is an address, only the validity of the
    /// address counts, because anybody can add somebody else's address to his certificate.
    pub(crate) fn chosen(certificate: Option<Fingerprint>, chosen_by: &Query) -> Self {
        let addressee = match chosen_by.exact() {
            Some(Query::Email(address)) => Some(address.into()),
            Some(Query::Exact(user_id)) => Some(Addressee::of_user_id(user_id.as_bytes())),
            _ => None,
        };
        Self { certificate, addressee, claimed: None }
    }

    /// The certificate of a signer whose signature names the addressee `claimed`.
    pub(crate) fn signing(certificate: Option<Fingerprint>, claimed: Option<Addressee>) -> Self {
        Self { certificate, addressee: None, claimed }
    }
}

impl Stores {
    /// The validity of certificates in the first store, if the store has a web of trust or the user
    /// named a model. A certificate that the user has called bad has the validity `never` in every
    /// model.
    pub(crate) fn beliefs(
        &self,
        used: &[InUse],
        trust: Trust,
        now: u32,
    ) -> Result<Vec<Option<Belief>>, Error> {
        let Some(first) = self.iter().next() else { return Ok(vec![None; used.len()]) };
        let is_judged = trust.model.is_some() || first.store.web().rules()?.is_some();
        let judge = is_judged.then(|| trust.judge(&first.store, false, now)).transpose()?;
        let model = trust.model();
        let believe = |InUse { certificate, addressee, claimed }: &InUse| {
            let found = certificate.map(|certificate| self.row(certificate, now)).transpose()?;
            let Some((opened, row)) = found.flatten() else { return Ok(None) };
            if self.is_called_bad(&row, addressee.as_ref(), now)? {
                return Ok(Some(Belief { level: Level::Never, model }));
            }
            let Some(judge) = judge.as_ref().filter(|one| one.is_of(&opened.store)) else {
                return Ok(None);
            };
            let judged = judge.judge(&row)?;
            let level = match addressee.as_ref().or(claimed.as_ref()) {
                Some(addressee) => level_of(&judged, &row, addressee),
                None => judged.level,
            };
            Ok(Some(Belief { level, model }))
        };
        used.iter().map(believe).collect()
    }
}

/// The validity of an address of a certificate.
fn level_of(judged: &Judged, row: &Row, addressee: &Addressee) -> Level {
    let user_ids = row.summary.user_ids.iter().zip(&judged.user_ids);
    let matching = user_ids.filter(|(user_id, _)| match &user_id.content {
        UserIdContent::Text(text) => Addressee::of_user_id(text) == *addressee,
        UserIdContent::Attribute { .. } => false,
    });
    matching.map(|(_, judged)| judged.level).max().unwrap_or_default()
}
