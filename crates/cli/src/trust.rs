//! The arguments for the trust model.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use talaria::store::Access;
use talaria::tofu::{Sight, observe};
use talaria::trust_models::tofu::Policy;
use talaria::{Error, SignerBeliefs, Trust, TrustModel};

use crate::context::Context;
use crate::error::CliError;
use crate::policy::policy_parser;

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
    /// The trust settings.
    pub(crate) fn settings(&self) -> Trust {
        Trust { model: self.trust_model, tofu_default_policy: self.tofu_default_policy }
    }

    /// The validity of the signers of a document.
    pub(crate) fn of_signers<'c>(&self, cx: &'c Context) -> SignerBeliefs<'c> {
        SignerBeliefs::new(self.settings(), cx.now, || cx.stores(Access::Read).ok())
    }
}

/// Records what TOFU has seen of certificates, if it has seen something.
pub(crate) fn record(seen: Vec<Sight>, cx: &Context) -> Result<(), CliError> {
    if seen.is_empty() {
        return Ok(());
    }
    Ok(observe(cx.stores(Access::Write)?.writable()?, seen, cx.now).map_err(Error::from)?)
}
