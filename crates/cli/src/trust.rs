//! The arguments for the trust model.

use std::ops::ControlFlow;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use parking_lot::Mutex;
use talaria::cert::{Addressee, UserIdContent};
use talaria::message::{Distrust, Outcome, SignatureReport, Signer};
use talaria::store::{Access, Event, Order, Query, Row, Store};
use talaria::tofu::{Sight, observe, verified};
use talaria::trust_models::Level;
use talaria::trust_models::tofu::Policy;
use talaria::{Error, Judge, Judged, TrustModel};

use crate::context::Context;
use crate::error::CliError;
use crate::policy::policy_parser;
use crate::query::one_certificate;

/// Trust model for deciding whom a certificate belongs to.
#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// Trust model for deciding whom a certificate belongs to [default: pgp]
    #[arg(long, value_name = "MODEL", env = "TALARIA_TRUST_MODEL", hide_env_values = true, value_parser = model_parser())]
    pub(crate) trust_model: Option<TrustModel>,
    /// TOFU policy for addresses without a decision
    #[arg(long, value_name = "POLICY", default_value = "auto", value_parser = policy_parser())]
    pub(crate) tofu_default_policy: Policy,
}

fn model_parser() -> impl clap::builder::TypedValueParser<Value = TrustModel> {
    PossibleValuesParser::new(TrustModel::ALL.map(TrustModel::name))
        .map(|name| name.parse().expect("it is one of them"))
}

impl TrustArgs {
    /// The trust model; the web of trust by default.
    pub(crate) fn model(&self) -> TrustModel {
        self.trust_model.unwrap_or_default()
    }

    /// A judge of the certificates in `store`. Set `all` if most of the certificates will be
    /// judged.
    pub(crate) fn judge<'s>(
        &self,
        store: &'s Store,
        all: bool,
        now: u32,
    ) -> Result<Judge<'s>, Error> {
        self.judge_by(self.model(), store, all, now)
    }

    /// Like [`Self::judge`], with a trust model that the command chooses.
    pub(crate) fn judge_by<'s>(
        &self,
        model: TrustModel,
        store: &'s Store,
        all: bool,
        now: u32,
    ) -> Result<Judge<'s>, Error> {
        Ok(Judge::new(store, model, self.tofu_default_policy, all, now)?)
    }
}

/// The validity of a certificate, with the trust model that computed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Belief {
    pub(crate) level: Level,
    pub(crate) model: TrustModel,
}

impl Belief {
    /// Whether the validity is sufficient, as in GnuPG.
    pub(crate) fn is_enough(self) -> bool {
        !self.is_never() && (self.model == TrustModel::Always || self.level >= Level::Marginal)
    }

    /// Whether the user, or a rule of the trust model, has decided against the certificate.
    pub(crate) fn is_never(self) -> bool {
        self.level == Level::Never
    }
}

/// A certificate from a search, and the address for which it is used, if there is one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Named<'n> {
    certificate: &'n str,
    addressee: Option<Addressee>,
    /// The addressee that a signature of the certificate names. Its maker chose it, so it does not
    /// limit the user's decisions.
    claimed: Option<Addressee>,
}

impl<'n> Named<'n> {
    fn all(certificate: &'n str) -> Self {
        Self { certificate, addressee: None, claimed: None }
    }

    /// A certificate from the search `chosen_by`.
    pub(crate) fn chosen(certificate: &'n str, chosen_by: &Query) -> Self {
        let addressee = match chosen_by.exact() {
            Some(Query::Email(address)) => Some(address.into()),
            Some(Query::Exact(user_id)) => Some(Addressee::of_user_id(user_id.as_bytes())),
            _ => None,
        };
        Self { certificate, addressee, claimed: None }
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

/// The validity of the signers of a document. It is computed once for each signer, when a signature
/// of the signer is good otherwise.
pub(crate) struct SignerBeliefs<'c> {
    trust: &'c TrustArgs,
    cx: &'c Context,
    known: Mutex<Vec<Known>>,
}

/// A certificate, the addressee that a signature of it names, and the validity.
type Known = (String, Option<Addressee>, Option<Belief>);

impl<'c> SignerBeliefs<'c> {
    pub(crate) fn new(trust: &'c TrustArgs, cx: &'c Context) -> Self {
        Self { trust, cx, known: Mutex::default() }
    }

    /// A function that says which signers are not to be trusted, for a
    /// [`talaria::message::Verifier`]. If the validity cannot be read, it says so of the signer,
    /// and [`Self::of`] has the error.
    pub(crate) fn distrust(&self) -> Distrust<'_> {
        Box::new(|signer, user_id| match self.of_signer(&signer.certificate, user_id) {
            Ok(belief) => belief.is_some_and(Belief::is_never),
            Err(_) => true,
        })
    }

    /// The validity of the signers of good signatures, in the order of the reports. In a TOFU
    /// model, the signatures are recorded first.
    pub(crate) fn of(&self, reports: &[SignatureReport]) -> Result<Vec<Option<Belief>>, CliError> {
        let makers = reports.iter().map(|report| {
            let made = matches!(report.outcome, Outcome::Good | Outcome::Distrusted);
            report.signer.as_ref().filter(|_| made)
        });
        let events = reports.iter().zip(makers.clone()).filter_map(|(report, signer)| {
            let certificate = &signer?.certificate;
            let claimed = self.claimed(report.signer_user_id.as_deref());
            let seen = verified(&report.digest, report.created.into(), self.cx.now.into());
            Some((Named { certificate, addressee: None, claimed }, seen))
        });
        self.trust.record(events, self.cx)?;
        let believe = |(report, signer): (&SignatureReport, Option<&Signer>)| match signer {
            Some(signer) => self.of_signer(&signer.certificate, report.signer_user_id.as_deref()),
            None => Ok(None),
        };
        reports.iter().zip(makers).map(believe).collect()
    }

    /// The addressee that a signature names. If it names a user ID of the signer, TOFU records and
    /// judges that user ID only.
    fn claimed(&self, user_id: Option<&[u8]>) -> Option<Addressee> {
        user_id.filter(|_| self.trust.model().is_tofu()).map(Addressee::of_user_id)
    }

    fn of_signer(
        &self,
        certificate: &str,
        user_id: Option<&[u8]>,
    ) -> Result<Option<Belief>, CliError> {
        let claimed = self.claimed(user_id);
        let mut known = self.known.lock();
        let same = |one: &&Known| one.0 == certificate && one.1 == claimed;
        if let Some((_, _, belief)) = known.iter().find(same) {
            return Ok(*belief);
        }
        let named = Named { certificate, addressee: None, claimed: claimed.clone() };
        let belief = self.trust.believe(&[named], self.cx)?.pop().flatten();
        known.push((certificate.to_owned(), claimed, belief));
        Ok(belief)
    }
}

impl TrustArgs {
    /// The validity of recipients. If a certificate was chosen by an address, only the validity of
    /// that address counts, because anybody can add somebody else's address to his certificate.
    pub(crate) fn of_recipients<'n>(
        &self,
        chosen: impl IntoIterator<Item = Named<'n>>,
        cx: &Context,
    ) -> Result<Vec<Option<Belief>>, CliError> {
        self.believe(&chosen.into_iter().collect::<Vec<_>>(), cx)
    }

    /// Records that a message was encrypted to certificates, in a TOFU model.
    pub(crate) fn encrypted_to(&self, names: &[String], cx: &Context) -> Result<(), CliError> {
        let event = || Event::Encrypted(cx.now.into());
        self.record(names.iter().map(|name| (Named::all(name), event())), cx)
    }

    /// Records events of certificates, in a TOFU model.
    fn record<'n>(
        &self,
        events: impl Iterator<Item = (Named<'n>, Event)>,
        cx: &Context,
    ) -> Result<(), CliError> {
        let mut events = events.peekable();
        if !self.model().is_tofu() || events.peek().is_none() {
            return Ok(());
        }
        let mut stores = cx.stores(Access::Write)?;
        let mut seen = Vec::new();
        for (Named { certificate, addressee, claimed }, event) in events {
            let addressee = addressee.or(claimed);
            let query: Query = certificate.parse().map_err(Error::from)?;
            let found = one_certificate(&stores, &query, cx.now);
            seen.extend(found.map(|row| {
                let fingerprint = row.summary.fingerprint();
                Sight { fingerprint, addressee, event }
            }));
        }
        Ok(observe(stores.writable()?, seen, cx.now).map_err(Error::from)?)
    }

    /// The validity of certificates in the first store, if the store has a web of trust or the user
    /// named a model. A certificate that the user has called bad has the validity `never` in every
    /// model.
    fn believe(
        &self,
        certificates: &[Named<'_>],
        cx: &Context,
    ) -> Result<Vec<Option<Belief>>, CliError> {
        let model = self.model();
        let nothing = vec![None; certificates.len()];
        // Without a store no validity is known.
        let Ok(stores) = cx.stores(Access::Read) else { return Ok(nothing) };
        let Some(first) = stores.iter().next() else { return Ok(nothing) };
        let has_web = first.store.web().rules().map_err(Error::from)?.is_some();
        let judged = self.trust_model.is_some() || has_web;
        let judge = judged.then(|| self.judge(&first.store, false, cx.now)).transpose()?;
        let mut beliefs = Vec::with_capacity(certificates.len());
        for Named { certificate, addressee, claimed } in certificates {
            let mut belief = None;
            let query: Query = certificate.parse().map_err(Error::from)?;
            let visited = stores.visit(&[query], Order::Insertion, cx.now, |opened, row| {
                if stores.is_called_bad(&row, addressee.as_ref(), cx.now)? {
                    belief = Some(Belief { level: Level::Never, model });
                } else if let Some(judge) = judge.as_ref().filter(|one| one.is_of(&opened.store)) {
                    let judged = judge.judge(&row)?;
                    let level = match addressee.as_ref().or(claimed.as_ref()) {
                        Some(addressee) => level_of(&judged, &row, addressee),
                        None => judged.level,
                    };
                    belief = Some(Belief { level, model });
                }
                Ok(ControlFlow::Continue(()))
            });
            match visited {
                Ok(()) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            beliefs.push(belief);
        }
        Ok(beliefs)
    }
}
