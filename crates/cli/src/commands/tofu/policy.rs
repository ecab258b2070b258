//! `talaria tofu policy`

use std::process::ExitCode;

use talaria::cert::{Address, Addressee};
use talaria::store::{Access, Binding, Query};
use talaria::tofu::bindings_of;
use talaria::trust_models::tofu::Policy;

use crate::context::{Content, Context};
use crate::error::CliError;
use crate::policy::policy_parser;
use crate::query::parse_query;
use crate::render::counted;

/// Set the TOFU policy of a certificate
///
/// The policy applies to all of its addresses, or to one with --email.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Certificate whose policy to set
    #[arg(value_name = "QUERY", value_parser = parse_query)]
    query: Query,
    /// Policy; auto removes an earlier decision
    #[arg(value_name = "POLICY", value_parser = policy_parser())]
    policy: Policy,
    /// Set the policy for this address only
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    let row = stores.only(&args.query, cx.now)?;
    // For a binding without an address, compare the text of the user ID.
    let wanted = args.email.as_ref().map(|email| match email.parse::<Address>() {
        Ok(address) => address.into(),
        Err(_) => Addressee::of_user_id(email.as_bytes()),
    });
    let bindings: Vec<Binding> = bindings_of(&row, cx.now)
        .into_iter()
        .filter(|binding| {
            let addressee = || Addressee::of_gnupg_name(&binding.email);
            wanted.as_ref().is_none_or(|wanted| *wanted == addressee())
        })
        .map(|binding| Binding { policy: args.policy, ..binding })
        .collect();
    let fingerprint = row.summary.fingerprint();
    if bindings.is_empty() {
        let what = match &args.email {
            Some(email) => format!("{fingerprint} has no user ID with the address {email}"),
            None => format!("{fingerprint} has no user ID"),
        };
        return Err(CliError::Missing(what));
    }
    stores.writable()?.tofu_mut().set_bindings(&bindings).map_err(talaria::Error::from)?;
    cx.status(format_args!(
        "Set the policy {} for {} of {fingerprint}.",
        args.policy.name(),
        counted(bindings.len(), "address")
    ));
    let emails: Vec<_> =
        bindings.iter().map(|binding| String::from_utf8_lossy(&binding.email)).collect();
    let json = serde_json::json!({
        "action": "set_tofu_policy", "fingerprint": fingerprint.to_string(),
        "policy": args.policy.name(), "addresses": emails,
    });
    cx.report(Content::Elsewhere, &json)?;
    Ok(ExitCode::SUCCESS)
}
