//! The signatures of a certificate in a listing.

use serde::Serialize;
use talaria::cert::{Key, PacketRef, Signature, Tag, Verdict, user_id};
use talaria::store::Stored;

use super::lines::Lines;

/// A signature in JSON.
#[derive(Serialize)]
pub(crate) struct SignatureJson {
    pub(super) on: String,
    pub(super) kind: u8,
    pub(super) issuer: Option<String>,
    pub(super) issuer_fingerprint: Option<String>,
    pub(super) issuer_user_id: Option<String>,
    pub(super) created: u32,
    pub(super) expires: Option<u32>,
    pub(super) algorithm_id: u8,
    pub(super) hash_id: u8,
    pub(super) exportable: bool,
    pub(super) verdict: &'static str,
}

impl Lines<'_> {
    /// All signatures, in the order of their components.
    pub(super) fn signature_list(
        &mut self,
        stored: &Stored,
    ) -> Result<Vec<SignatureJson>, talaria::Error> {
        let mut list = Vec::new();
        let mut component = String::new();
        let mut verdicts = stored.verdicts.iter();
        for packet in stored.cert.packets() {
            if packet.tag != Tag::SIGNATURE {
                component = component_name(packet);
                continue;
            }
            let verdict = verdicts.next().copied().unwrap_or(Verdict::Unchecked);
            let Some(signature) = Signature::parse(packet.body) else {
                continue;
            };
            let maker = match signature.issuer {
                Some(id) => self.maker(id)?,
                None => None,
            };
            list.push(SignatureJson {
                on: component.clone(),
                kind: signature.kind,
                issuer: signature.issuer.map(|id| id.to_string()),
                issuer_fingerprint: signature.issuer_fingerprint.map(|f| f.to_string()),
                issuer_user_id: maker.map(|text| user_id::text(&text).into_owned()),
                created: signature.created,
                expires: (signature.expires != 0).then_some(signature.expires),
                algorithm_id: signature.algorithm,
                hash_id: signature.hash,
                exportable: signature.exportable,
                verdict: verdict_word(verdict),
            });
        }
        Ok(list)
    }
}

/// The name of a component in a list of signatures.
fn component_name(packet: PacketRef<'_>) -> String {
    match packet.tag {
        Tag::PUBLIC_KEY => "the primary key".to_owned(),
        Tag::USER_ID => user_id::text(packet.body).into_owned(),
        Tag::USER_ATTRIBUTE => "a user attribute".to_owned(),
        Tag::PUBLIC_SUBKEY => match Key::parse(packet) {
            Ok(key) => key.fingerprint().to_string(),
            Err(_) => "a subkey".to_owned(),
        },
        Tag(other) => format!("a packet of type {other}"),
    }
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unchecked => "unchecked",
        Verdict::Good => "good",
        Verdict::Bad => "bad",
        Verdict::Unsupported => "unsupported",
        Verdict::Weak => "weak",
        Verdict::Malformed => "malformed",
        Verdict::Foreign | Verdict::Other => "foreign",
        Verdict::Misplaced => "misplaced",
        Verdict::Certified | Verdict::Mutual => "certified",
    }
}
