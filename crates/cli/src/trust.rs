//! The arguments by which a user says how certificates come to be believed.

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use talaria::store::Store;
use talaria::trust_models::tofu::Policy;
use talaria::{Error, Judge, TrustModel};

/// How certificates come to be believed.
#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// How certificates come to be believed
    #[arg(long, value_name = "MODEL", env = "TALARIA_TRUST_MODEL", value_parser = model_parser())]
    pub(crate) trust_model: Option<TrustModel>,
    /// The policy of bindings that nobody decided about
    #[arg(long, value_name = "POLICY", default_value = "auto", value_parser = policy_parser())]
    pub(crate) tofu_default_policy: Policy,
}

fn model_parser() -> impl clap::builder::TypedValueParser<Value = TrustModel> {
    PossibleValuesParser::new(TrustModel::ALL.map(TrustModel::name))
        .map(|name| name.parse().expect("it is one of them"))
}

/// Reads a policy by its name.
pub(crate) fn policy_parser() -> impl clap::builder::TypedValueParser<Value = Policy> {
    PossibleValuesParser::new(Policy::ALL.map(Policy::name)).map(|name| {
        Policy::ALL.into_iter().find(|policy| policy.name() == name).expect("it is one of them")
    })
}

impl TrustArgs {
    /// The model, that of the web of trust if none is said.
    pub(crate) fn model(&self) -> TrustModel {
        self.trust_model.unwrap_or_default()
    }

    /// A judge of the certificates in `store`; `all` says that most of them will be asked for.
    pub(crate) fn judge<'s>(
        &self,
        store: &'s Store,
        all: bool,
        now: u32,
    ) -> Result<Judge<'s>, Error> {
        self.judge_by(self.model(), store, all, now)
    }

    /// As [`Self::judge`], by a model that the command chooses.
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
