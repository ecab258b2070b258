//! Which uploads a server takes at all: that of an organisation takes only certificates with an
//! address of its own.

use std::sync::Arc;

use talaria_cert::{Address, Cert, Rules, Summary, UserIdContent, Verification, verdicts};

use crate::answer::Refusal;
use crate::clock;
use crate::config::{Config, Policy};
use crate::engine::{Preparation, Reading};
use crate::intake::Lanes;
use crate::network::Network;
use crate::report::Named;

/// The certificates of an upload that the server takes, and a report on the others.
///
/// A certificate that is already here is taken whatever it has, so that its owner can revoke it.
///
/// # Errors
///
/// [`Refusal::TooCostly`], [`Refusal::Busy`], [`Refusal::Store`].
pub(crate) async fn choose(
    lanes: &Lanes,
    from: Network,
    config: Arc<Config>,
    certs: Vec<Cert>,
    is_light: bool,
) -> Result<(Vec<Cert>, Vec<Named>), Refusal> {
    if config.policy.upload_domains.is_empty() {
        return Ok((certs, Vec::new()));
    }
    let work = async move |store: &mut Reading, certs: Vec<Cert>, _: &Preparation| {
        let (mut taken, mut turned_away) = (Vec::new(), Vec::new());
        for cert in certs {
            if is_known(store, &cert).await? || has_address(&cert, &config.policy) {
                taken.push(cert);
                continue;
            }
            let mut named = Named::new(cert.fingerprint());
            named.comment = Some(format!(
                "this server takes only certificates with an address at {}",
                config.policy.upload_domains.join(", ")
            ));
            turned_away.push(named);
        }
        Ok((taken, turned_away))
    };
    Ok(lanes.work_on(from, certs, is_light, work).await?.0)
}

async fn is_known(store: &mut Reading, cert: &Cert) -> Result<bool, Refusal> {
    Ok(store.row(cert.fingerprint()).await?.is_some())
}

/// Whether the owner of a certificate has signed a user ID with an address of one of the domains.
fn has_address(cert: &Cert, policy: &Policy) -> bool {
    let judged = verdicts(&[cert], Verification::Full).pop().unwrap_or_default();
    let summary = Summary::glance(Rules::Standard, cert, &judged, clock::now());
    summary.user_ids.iter().any(|user_id| match &user_id.content {
        UserIdContent::Text(text) if user_id.created > 0 => {
            Address::of_user_id(text).is_some_and(|email| policy.is_upload_domain(&email))
        }
        _ => false,
    })
}
