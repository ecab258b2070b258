//! TOFU policies by their names on the command line and in the settings.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use talaria::trust_models::tofu::Policy;

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
