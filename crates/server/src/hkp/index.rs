//! The JSON index of certificates (draft-ietf-openpgp-hkp).

use serde::Serialize;
use talaria_cert::{
    Address, Capabilities, Fingerprint, KeySummary, UserIdContent, Validity, timestamp, user_id,
};

use crate::answer::Refusal;
use crate::clock;
use crate::config::Config;
use crate::engine::{Reading, Row};

/// A certificate in the JSON index.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    version: u8,
    fingerprint: String,
    #[serde(rename = "isRevoked")]
    is_revoked: bool,
    #[serde(flatten)]
    key: Key,
    #[serde(rename = "userIDs")]
    user_ids: Vec<UserId>,
    subkeys: Vec<Subkey>,
}

#[derive(Debug, Serialize)]
struct Key {
    algorithm: Algorithm,
    creation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiration: Option<String>,
    capabilities: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct Algorithm {
    code: u8,
    name: String,
    #[serde(rename = "bitLength")]
    bit_length: u16,
}

#[derive(Debug, Serialize)]
struct UserId {
    #[serde(rename = "uidString")]
    uid_string: String,
    #[serde(rename = "isRevoked")]
    is_revoked: bool,
    creation: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expiration: Option<String>,
    confidence: u8,
}

#[derive(Debug, Serialize)]
struct Subkey {
    version: u8,
    fingerprint: String,
    #[serde(rename = "isRevoked")]
    is_revoked: bool,
    #[serde(flatten)]
    key: Key,
}

/// The JSON index of certificates.
pub(crate) async fn entries(
    store: &mut Reading,
    rows: &[Row],
    config: &Config,
) -> Result<Vec<Entry>, Refusal> {
    let now = clock::now();
    let names: Vec<Fingerprint> = rows.iter().map(Row::fingerprint).collect();
    let facts = store.facts(&names).await?;
    let mut entries = Vec::with_capacity(rows.len());
    for (Row { summary, .. }, facts) in rows.iter().zip(facts) {
        let fingerprint = summary.fingerprint();
        let confirmed = facts.published;
        let user_ids = summary.user_ids.iter().filter(|user_id| user_id.created > 0);
        let user_ids = user_ids.filter_map(|user_id| {
            let UserIdContent::Text(text) = &user_id.content else { return None };
            let is_confirmed =
                Address::of_user_id(text).is_some_and(|email| confirmed.contains(&email));
            (is_confirmed || !config.vks.only_confirmed).then(|| UserId {
                uid_string: user_id::text(text).into_owned(),
                is_revoked: user_id.revoked,
                creation: timestamp(user_id.created),
                expiration: (user_id.expires > 0).then(|| timestamp(user_id.expires)),
                confidence: if is_confirmed { 120 } else { 0 },
            })
        });
        entries.push(Entry {
            version: fingerprint.version(),
            fingerprint: fingerprint.to_string().to_ascii_lowercase(),
            is_revoked: summary.validity(now) == Validity::Revoked,
            key: key(&summary.primary),
            user_ids: user_ids.collect(),
            subkeys: summary
                .subkeys
                .iter()
                .filter(|subkey| subkey.bound)
                .map(|subkey| Subkey {
                    version: subkey.fingerprint.version(),
                    fingerprint: subkey.fingerprint.to_string().to_ascii_lowercase(),
                    is_revoked: summary.key_validity(subkey, now) == Validity::Revoked,
                    key: key(subkey),
                })
                .collect(),
        });
    }
    Ok(entries)
}

fn key(key: &KeySummary) -> Key {
    let capabilities = [
        (Capabilities::CERTIFY, "certify"),
        (Capabilities::SIGN, "sign"),
        (Capabilities::ENCRYPT, "encrypt"),
        (Capabilities::AUTHENTICATE, "authenticate"),
    ];
    Key {
        algorithm: Algorithm {
            code: key.algorithm,
            name: talaria::algorithm(key),
            bit_length: key.bits,
        },
        creation: timestamp(key.created),
        expiration: (key.expires > 0).then(|| timestamp(key.expires)),
        capabilities: capabilities
            .into_iter()
            .filter(|&(which, _)| key.capabilities.has(which))
            .map(|(_, name)| name)
            .collect(),
    }
}
