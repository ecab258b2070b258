//! The arguments for the trust model.

use std::ops::ControlFlow;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use talaria::cert::{Addressee, UserIdContent};
use talaria::message::SignatureReport;
use talaria::store::{Access, Event, Order, Query, Row, Store};
use talaria::tofu::{Sight, observe, verified};
use talaria::trust_models::Level;
use talaria::trust_models::tofu::Policy;
use talaria::{Error, Judge, Judged, TrustModel};

use crate::context::Context;
use crate::error::CliError;

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

/// Parses a TOFU policy by its name.
pub(crate) fn policy_named(name: &str) -> Result<Policy, String> {
    let found = Policy::ALL.into_iter().find(|policy| policy.name() == name);
    found.ok_or_else(|| format!("a policy is one of {}", Policy::ALL.map(Policy::name).join(", ")))
}

/// A parser for TOFU policies by name.
pub(crate) fn policy_parser() -> impl clap::builder::TypedValueParser<Value = Policy> {
    PossibleValuesParser::new(Policy::ALL.map(Policy::name))
        .map(|name| policy_named(&name).expect("it is one of them"))
}

impl TrustArgs {
    /// The trust model; the web of trust by default.
    pub(crate) fn model(&self) -> TrustModel {
        self.trust_model.unwrap_or_default()
    }

    /// A judge of the certificates in `store`. Set `all` if most of the certificates will be judged.
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
        self.model == TrustModel::Always || self.level >= Level::Marginal
    }
}

/// A certificate from a search, and the address for which it is used, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Named<'n> {
    certificate: &'n str,
    addressee: Option<Addressee>,
}

impl<'n> Named<'n> {
    fn all(certificate: &'n str) -> Self {
        Self { certificate, addressee: None }
    }

    /// A certificate from the search `chosen_by`.
    pub(crate) fn chosen(certificate: &'n str, chosen_by: &Query) -> Self {
        let addressee = match chosen_by.exact() {
            Some(Query::Email(address)) => Some(address.into()),
            Some(Query::Exact(user_id)) => Some(Addressee::of_user_id(user_id.as_bytes())),
            _ => None,
        };
        Self { certificate, addressee }
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

impl TrustArgs {
    /// The validity of the signers of good signatures, in the order of the reports. In a TOFU model, the
    /// signatures are recorded first.
    pub(crate) fn of_signers(
        &self,
        reports: &[SignatureReport],
        cx: &Context,
    ) -> Result<Vec<Option<Belief>>, CliError> {
        let makers: Vec<Option<Named<'_>>> = reports
            .iter()
            .map(|report| {
                let signer = report.signer.as_ref().filter(|_| report.is_good())?;
                // If the signature names a user ID of the signer, TOFU records and judges that user ID only.
                let user_id = report.signer_user_id.as_deref().filter(|_| self.model().is_tofu());
                let addressee = user_id.map(Addressee::of_user_id);
                Some(Named { certificate: &signer.certificate, addressee })
            })
            .collect();
        let signed = |report: &SignatureReport| {
            verified(&report.digest, report.created.into(), cx.now.into())
        };
        let events = reports.iter().zip(&makers);
        let events = events.filter_map(|(report, maker)| Some((maker.clone()?, signed(report))));
        self.record(events, cx)?;
        self.believe(&makers, cx)
    }

    /// The validity of recipients. If a certificate was chosen by an address, only the validity of that
    /// address counts, because anybody can add somebody else's address to his certificate.
    pub(crate) fn of_recipients<'n>(
        &self,
        chosen: impl IntoIterator<Item = Named<'n>>,
        cx: &Context,
    ) -> Result<Vec<Option<Belief>>, CliError> {
        self.believe(&chosen.into_iter().map(Some).collect::<Vec<_>>(), cx)
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
        for (Named { certificate, addressee }, event) in events {
            let query: Query = certificate.parse().map_err(Error::from)?;
            let found = super::commands::one_certificate(&stores, &query, cx.now);
            seen.extend(found.map(|row| {
                let fingerprint = row.summary.fingerprint();
                Sight { fingerprint, addressee, event }
            }));
        }
        Ok(observe(stores.writable()?, seen, cx.now).map_err(Error::from)?)
    }

    /// The validity of certificates in the first store, if the store has a web of trust or the user named a
    /// model.
    fn believe(
        &self,
        certificates: &[Option<Named<'_>>],
        cx: &Context,
    ) -> Result<Vec<Option<Belief>>, CliError> {
        let model = self.model();
        let nothing = vec![None; certificates.len()];
        if certificates.iter().all(Option::is_none) {
            return Ok(nothing);
        }
        // Without a store no validity is known.
        let Ok(stores) = cx.stores(Access::Read) else { return Ok(nothing) };
        let Some(first) = stores.iter().next() else { return Ok(nothing) };
        if self.trust_model.is_none() && first.store.web().rules().map_err(Error::from)?.is_none() {
            return Ok(nothing);
        }
        let judge = self.judge(&first.store, false, cx.now)?;
        let mut beliefs = Vec::with_capacity(certificates.len());
        for name in certificates {
            let mut belief = None;
            if let Some(Named { certificate, addressee }) = name {
                let query: Query = certificate.parse().map_err(Error::from)?;
                let visited = stores.visit(&[query], Order::Insertion, cx.now, |opened, row| {
                    if judge.is_of(&opened.store) {
                        let judged = judge.judge(&row)?;
                        let level = match addressee {
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
            }
            beliefs.push(belief);
        }
        Ok(beliefs)
    }
}
