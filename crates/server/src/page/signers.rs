//! The names of those who signed, looked up together.

use std::collections::HashMap;

use talaria_cert::{Fingerprint, KeyId, Signature};

use super::frame::Visit;
use super::parts::{name, names};
use crate::answer::Refusal;
use crate::engine::Reading;

/// Signers that are looked up for one page; of others only the key ID is shown.
const SIGNERS_MAX: usize = 1000;

/// The issuer of a signature, as far as this store knows.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    /// The certificate that the signing key belongs to.
    pub(crate) fingerprint: Fingerprint,
    /// Its name, `None` if it has none that may be shown.
    pub(crate) name: Option<String>,
}

/// Looks up the makers of signatures, each once, by the key ID that they name. A signature that names
/// a whole fingerprint is not attributed to another key with the same ID.
pub(crate) async fn resolve<'a>(
    visit: &Visit<'_>,
    store: &mut Reading,
    signatures: impl Iterator<Item = &'a Signature<'a>>,
) -> Result<HashMap<KeyId, Signer>, Refusal> {
    let mut wanted: HashMap<KeyId, Option<Fingerprint>> = HashMap::new();
    for signature in signatures {
        if wanted.len() == SIGNERS_MAX {
            break;
        }
        if let Some(id) = signature.issuer {
            let named = wanted.entry(id).or_default();
            *named = named.or(signature.issuer_fingerprint);
        }
    }
    let mut signers = HashMap::with_capacity(wanted.len());
    for (id, fingerprint) in wanted {
        let Some(summary) = store.signer(id).await? else { continue };
        let is_it =
            fingerprint.is_none_or(|wanted| summary.keys().any(|key| key.fingerprint == wanted));
        if is_it {
            let name =
                names(visit, store, &summary).await?.first().map(|first| name(first).into_owned());
            signers.insert(id, Signer { fingerprint: summary.fingerprint(), name });
        }
    }
    Ok(signers)
}
