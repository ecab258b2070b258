//! Statistics of the certificates in a store.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::Serialize;
use talaria_cert::{KeySummary, Validity, year};
use talaria_store::{Order, Row, Store, StoreError};

use crate::error::Error;
use crate::stores::Stores;

/// Statistics over all certificates.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Statistics {
    /// The number of certificates.
    pub certificates: u64,
    /// The number of user IDs.
    pub user_ids: u64,
    /// The number of user attributes.
    pub attributes: u64,
    /// The number of subkeys.
    pub subkeys: u64,
    /// The number of signature packets.
    pub signatures: u64,
    /// The size of all packets in bytes.
    pub bytes: u64,
    /// The size of the stores on disk in bytes.
    pub bytes_on_disk: u64,
    /// Certificates by validity.
    pub by_validity: BTreeMap<&'static str, u64>,
    /// Primary keys by algorithm and size.
    pub by_algorithm: BTreeMap<String, u64>,
    /// Subkeys by algorithm and size.
    pub by_subkey_algorithm: BTreeMap<String, u64>,
    /// Primary keys by version.
    pub by_version: BTreeMap<u8, u64>,
    /// Primary keys by the year of their creation.
    pub by_year: BTreeMap<i32, u64>,
    /// Certificates by the year in which their primary key expires or has expired, without those
    /// that never expire.
    pub by_expiry_year: BTreeMap<i32, u64>,
    /// Certificates by size: each key is a power of two of bytes, an exclusive upper bound.
    pub by_bytes: BTreeMap<u64, u64>,
    /// Certificates by number of signatures: each key is a power of two, an exclusive upper bound.
    pub by_signatures: BTreeMap<u64, u64>,
}

impl Statistics {
    /// Adds a certificate of a store to the counts, as it is at `now` (seconds since 1970).
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    pub fn add(&mut self, store: &Store, row: &Row, now: u32) -> Result<(), StoreError> {
        let summary = &row.summary;
        let attributes = summary.user_ids.len() as u64 - summary.texts().count() as u64;
        self.certificates += 1;
        self.user_ids += summary.user_ids.len() as u64 - attributes;
        self.attributes += attributes;
        self.subkeys += summary.subkeys.len() as u64;
        self.signatures += u64::from(summary.signatures);
        let validity = if summary.checked { name(summary.validity(now)) } else { "unchecked" };
        *self.by_validity.entry(validity).or_default() += 1;
        *self.by_algorithm.entry(algorithm(&summary.primary)).or_default() += 1;
        for subkey in &summary.subkeys {
            *self.by_subkey_algorithm.entry(algorithm(subkey)).or_default() += 1;
        }
        *self.by_version.entry(summary.fingerprint().version()).or_default() += 1;
        *self.by_year.entry(year(summary.primary.created)).or_default() += 1;
        if summary.primary.expires != 0 {
            *self.by_expiry_year.entry(year(summary.primary.expires)).or_default() += 1;
        }
        let signatures = u64::from(summary.signatures);
        *self.by_signatures.entry((signatures + 1).next_power_of_two()).or_default() += 1;
        let bytes = store.cert_length(row.id)?;
        self.bytes += bytes;
        *self.by_bytes.entry((bytes + 1).next_power_of_two()).or_default() += 1;
        Ok(())
    }
}

/// The statistics of the stores at `now` (seconds since 1970).
///
/// # Errors
///
/// Errors of reading the store.
pub fn statistics(stores: &Stores, now: u32) -> Result<Statistics, Error> {
    let mut counts = Statistics::default();
    stores.visit(&[], Order::Insertion, now, |opened, row| {
        counts.add(&opened.store, &row, now)?;
        Ok(ControlFlow::Continue(()))
    })?;
    for opened in stores.iter().filter(|opened| !opened.keyring) {
        let pages = opened.store.pages()?;
        counts.bytes_on_disk += pages.page_bytes * pages.total;
    }
    Ok(counts)
}

fn name(validity: Validity) -> &'static str {
    match validity {
        Validity::Valid => "valid",
        Validity::Expired => "expired",
        Validity::Revoked => "revoked",
        Validity::Invalid => "invalid",
    }
}

/// The usual short name of a key's algorithm and size: `rsa4096`, `ed25519`, `dsa1024`.
#[must_use]
pub fn algorithm(key: &KeySummary) -> String {
    match (key.curve, key.algorithm) {
        (Some(curve), _) => curve.name().to_owned(),
        (None, 1..=3) => format!("rsa{}", key.bits),
        (None, 16 | 20) => format!("elg{}", key.bits),
        (None, 17) => format!("dsa{}", key.bits),
        // RFC 9980.
        (None, 30) => "mldsa65+ed25519".into(),
        (None, 31) => "mldsa87+ed448".into(),
        (None, 32) => "slhdsa128s".into(),
        (None, 33) => "slhdsa128f".into(),
        (None, 34) => "slhdsa256s".into(),
        (None, 35) => "mlkem768+x25519".into(),
        (None, 36) => "mlkem1024+x448".into(),
        (None, other) => format!("algorithm {other}"),
    }
}
