//! The certificates of secret keys in the store.

use talaria::Stores;
use talaria::keys::KeyStore;
use talaria::message::openpgp::Cert;
use talaria::store::{Access, IngestOutcome, Query};

use crate::context::Context;
use crate::error::CliError;

/// Opens the stores, the first for writing.
pub(super) fn writable(cx: &Context) -> Result<Stores, CliError> {
    let mut stores = cx.stores(Access::Create)?;
    stores.writable()?;
    Ok(stores)
}

/// The key that a query names, with what the store knows of it, to be changed: the folder of keys,
/// the stores, the first for writing, and the key.
pub(super) fn to_change(query: &Query, cx: &Context) -> Result<(KeyStore, Stores, Cert), CliError> {
    let keys = cx.keys()?;
    let stores = writable(cx)?;
    let cert = stores.refreshed(keys.one(query)?, cx.now)?;
    Ok((keys, stores, cert))
}

/// Writes the public part of a key to the store.
pub(super) fn publish(cert: &Cert, stores: &mut Stores, cx: &Context) -> Result<(), CliError> {
    if let IngestOutcome::Refused(why) = stores.add_public(cert, cx.now)? {
        cx.status(format_args!("The store refuses the public certificate: {why}."));
    }
    Ok(())
}

/// Writes the public part of a changed key to the store, and waits until the change is in force: a
/// second change in the same second is dated one second ahead.
pub(super) fn publish_change(
    cert: &Cert,
    stores: &mut Stores,
    cx: &Context,
) -> Result<(), CliError> {
    publish(cert, stores, cx)?;
    let user_ids = cert.userids().flat_map(|id| id.self_signatures().chain(id.self_revocations()));
    let keys = cert.keys().flat_map(|key| key.self_signatures().chain(key.self_revocations()));
    for signature in user_ids.chain(keys) {
        if let Some(created) = signature.signature_creation_time() {
            cx.wait_until(created);
        }
    }
    Ok(())
}
