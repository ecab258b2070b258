//! Certificates as JSON.

use serde::Serialize;
use talaria::cert::{
    Address, Capabilities, Fault, KeySummary, Purpose, RevokerState, RevokerSummary, Summary,
    UserIdContent, Why, user_id,
};
use talaria::store::Row;
use talaria::trust_models::tofu::Decision;
use talaria::{Confirmation, Judged, Opened, algorithm};

use super::lines::Lines;
use super::signatures::SignatureJson;
use super::validity::sentence;
use super::{letters, word};

/// A certificate in JSON.
#[derive(Serialize)]
pub(crate) struct CertJson {
    fingerprint: String,
    version: u8,
    key_id: String,
    validity: &'static str,
    /// Whether the user has confirmed whose it is. False is left out: most certificates in a store
    /// are a stranger's.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    confirmed: bool,
    checked: bool,
    #[serde(flatten)]
    primary: KeyJson,
    usable: String,
    /// What is in the way of a use that the owner means.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<FaultJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<&'static str>,
    user_ids: Vec<UserIdJson>,
    subkeys: Vec<SubkeyJson>,
    /// Designated revokers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    revokers: Vec<RevokerJson>,
    signatures: u32,
    /// The keygrips of the primary key and the subkeys, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keygrips: Vec<Option<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    certifications: Vec<SignatureJson>,
}

#[derive(Serialize)]
struct FaultJson {
    /// The letters of the uses, as in `usable`.
    uses: String,
    fault: &'static str,
    /// The subkey; none for a fault of the certificate as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The time of the expiry, of the creation or of the weak signature.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u32>,
    text: String,
}

#[derive(Serialize)]
struct RevokerJson {
    fingerprint: String,
    /// Whether the revoker has revoked the certificate: `unknown` if the revoker's certificate is
    /// not in the store.
    state: &'static str,
}

#[derive(Serialize)]
struct KeyJson {
    algorithm: String,
    algorithm_id: u8,
    bits: u16,
    created: u32,
    expires: Option<u32>,
    capabilities: String,
}

#[derive(Serialize)]
struct SubkeyJson {
    fingerprint: String,
    key_id: String,
    validity: &'static str,
    #[serde(flatten)]
    key: KeyJson,
}

#[derive(Serialize)]
struct UserIdJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attribute_bytes: Option<u32>,
    primary: bool,
    validity: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    confirmed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<&'static str>,
    /// The effective TOFU policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    tofu_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<String>,
    /// The number of further conflicts.
    #[serde(skip_serializing_if = "is_zero")]
    conflicts_left_out: usize,
    /// Whether the search for trust ended early, because there are too many certifications.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut_off: bool,
    /// The reasons for the validity, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
    created: Option<u32>,
    expires: Option<u32>,
}

impl CertJson {
    /// Adds who is confirmed.
    fn confirm(&mut self, confirmations: &[Confirmation]) {
        let is_confirmed = |one: &Confirmation| *one == Confirmation::Certified;
        self.confirmed = confirmations.iter().any(is_confirmed);
        for (json, one) in self.user_ids.iter_mut().zip(confirmations) {
            json.confirmed = is_confirmed(one);
        }
    }

    /// Adds the validity.
    fn believe(&mut self, judged: &Judged) {
        self.trust = Some(judged.level.name());
        for (json, believed) in self.user_ids.iter_mut().zip(&judged.user_ids) {
            json.trust = Some(believed.level.name());
            json.cut_off = believed.cut_off;
            if let Some(decision) = &believed.tofu {
                json.tofu_policy = Some(decision.policy.name());
                (json.conflicts, json.conflicts_left_out) = conflicts(decision);
            }
        }
    }
}

/// The maximum number of conflicts of a user ID in JSON. One address may have thousands, each with
/// all the others.
const CONFLICTS_MAX: usize = 100;

/// The conflicts of a binding, and the number of those that are left out.
pub(crate) fn conflicts(decision: &Decision) -> (Vec<String>, usize) {
    let mut all = decision.conflicts.iter();
    let named = all.by_ref().take(CONFLICTS_MAX).map(|one| one.to_string()).collect();
    (named, all.count())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn some(time: u32) -> Option<u32> {
    (time != 0).then_some(time)
}

fn key_json(key: &KeySummary) -> KeyJson {
    KeyJson {
        algorithm: algorithm(key),
        algorithm_id: key.algorithm,
        bits: key.bits,
        created: key.created,
        expires: some(key.expires),
        capabilities: letters(key.capabilities),
    }
}

/// Why the certificate cannot serve some of the purposes, each fault once. That it has no key for a
/// purpose is not one.
fn faults(summary: &Summary, now: u32) -> Vec<FaultJson> {
    let mut found: Vec<(Capabilities, Why)> = Vec::new();
    for purpose in Purpose::ALL {
        let Err(why) = summary.keys_for(purpose, now) else { continue };
        let is_same = |(_, other): &&mut (Capabilities, Why)| {
            (other.key, other.fault) == (why.key, why.fault)
        };
        match found.iter_mut().find(is_same) {
            _ if why.fault == Fault::NoKey => {}
            Some((uses, _)) => uses.0 |= purpose.capability().0,
            None => found.push((purpose.capability(), why)),
        }
    }
    let json = |(uses, why): (Capabilities, Why)| FaultJson {
        uses: letters(uses),
        fault: why.fault.name(),
        key: why.key.map(|key| key.to_string()),
        time: why.fault.time(),
        text: why.to_string(),
    };
    found.into_iter().map(json).collect()
}

fn revoker_json(revoker: &RevokerSummary) -> RevokerJson {
    RevokerJson {
        fingerprint: revoker.revoker.fingerprint.to_string(),
        state: match revoker.state {
            RevokerState::Unknown => "unknown",
            RevokerState::Silent => "not_revoked",
            RevokerState::Revoked => "revoked",
        },
    }
}

/// The JSON form of a certificate.
pub(crate) fn cert_json(summary: &Summary, now: u32) -> CertJson {
    CertJson {
        fingerprint: summary.fingerprint().to_string(),
        version: summary.fingerprint().version(),
        key_id: summary.fingerprint().key_id().to_string(),
        validity: word(summary.state(now)),
        confirmed: false,
        checked: summary.checked,
        primary: key_json(&summary.primary),
        usable: letters(summary.able(now)),
        faults: faults(summary, now),
        trust: None,
        user_ids: summary
            .user_ids
            .iter()
            .map(|user_id| {
                let (text, bytes) = match &user_id.content {
                    UserIdContent::Text(text) => (Some(text), None),
                    UserIdContent::Attribute { bytes, .. } => (None, Some(*bytes)),
                };
                UserIdJson {
                    text: text.map(|text| user_id::text(text).into_owned()),
                    email: text
                        .and_then(|text| Address::of_user_id(text))
                        .map(|email| email.to_string()),
                    attribute_bytes: bytes,
                    primary: user_id.primary,
                    validity: word(user_id.validity(now)),
                    confirmed: false,
                    trust: None,
                    tofu_policy: None,
                    conflicts: Vec::new(),
                    conflicts_left_out: 0,
                    cut_off: false,
                    reasons: Vec::new(),
                    created: some(user_id.created),
                    expires: some(user_id.expires),
                }
            })
            .collect(),
        subkeys: summary
            .subkeys
            .iter()
            .map(|subkey| SubkeyJson {
                fingerprint: subkey.fingerprint.to_string(),
                key_id: subkey.fingerprint.key_id().to_string(),
                validity: word(summary.key_state(subkey, now)),
                key: key_json(subkey),
            })
            .collect(),
        revokers: summary.revokers.iter().map(revoker_json).collect(),
        signatures: summary.signatures,
        keygrips: Vec::new(),
        certifications: Vec::new(),
    }
}

impl Lines<'_> {
    /// Writes one JSON object and a line feed.
    pub(crate) fn json(
        &mut self,
        out: &mut Vec<u8>,
        opened: &Opened,
        row: &Row,
    ) -> Result<(), talaria::Error> {
        let mut json = cert_json(&row.summary, self.now);
        json.confirm(&self.confirmations(opened, row)?);
        if let Some(judged) = self.judge(opened, row)? {
            json.believe(&judged);
            let reasons = self.reasons(row, Some(&judged))?;
            for (json, reasons) in json.user_ids.iter_mut().zip(&reasons) {
                json.reasons = reasons.iter().map(sentence).collect();
            }
        }
        if let Some(stored) = self.stored(opened, row)? {
            if self.keygrips {
                json.keygrips =
                    stored.cert.keys().map(|key| key.keygrip().map(|k| k.to_string())).collect();
            }
            if self.signatures {
                json.certifications = self.signature_list(&stored)?;
            }
        }
        serde_json::to_writer(&mut *out, &json).map_err(|source| talaria::Error::Io {
            action: "write",
            name: "JSON".into(),
            source: source.into(),
        })?;
        out.push(b'\n');
        Ok(())
    }
}
