//! Certificates as text for people and as JSON.

use std::collections::HashMap;
use std::io::Write as _;

use serde::Serialize;
use talaria::cert::{
    Address, Capabilities, Gnupg, Key, KeyId, KeySummary, PacketRef, RevokerState, RevokerSummary,
    Signature, Summary, Tag, UserIdContent, UserIdSummary, Validity, Verdict, user_id,
};
use talaria::gnupg::{Colons, write_cert as write_colons, write_cert_with_signatures};
use talaria::store::{Row, Stored};
use talaria::trust_models::Level;
use talaria::trust_models::tofu::History;
use talaria::{Judge, Judged, Opened, Reason, Stores, algorithm, date};

/// A time as a date, in UTC.
pub(crate) fn day(time: u32) -> String {
    let (year, month, day) = date(time);
    format!("{year:04}-{month:02}-{day:02}")
}

/// A user ID for a terminal: what could move the cursor or turn the direction of text is written as
/// an escape.
pub(crate) fn printable(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for c in user_id::text(text).chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// The letters of capabilities, upper case.
fn letters(capabilities: Capabilities) -> String {
    [
        (Capabilities::SIGN, 'S'),
        (Capabilities::CERTIFY, 'C'),
        (Capabilities::ENCRYPT, 'E'),
        (Capabilities::AUTHENTICATE, 'A'),
    ]
    .iter()
    .filter(|(which, _)| capabilities.has(*which))
    .map(|(_, letter)| *letter)
    .collect()
}

fn word(validity: Validity) -> &'static str {
    match validity {
        Validity::Valid => "valid",
        Validity::Expired => "expired",
        Validity::Revoked => "revoked",
        Validity::Invalid => "invalid",
    }
}

/// Appends a certificate as the human listing shows it, with what is believed if that is given,
/// and why.
pub(crate) fn write_cert(
    out: &mut Vec<u8>,
    summary: &Summary,
    judged: Option<&Judged>,
    reasons: &[Vec<Reason>],
    now: u32,
) {
    write_key(out, "pub", &summary.primary, summary, now);
    let belief = |at: usize| judged.and_then(|judged| judged.user_ids.get(at));
    let conflicts = |at: usize| {
        let decision = belief(at).and_then(|id| id.tofu.as_ref());
        decision.map_or(&[][..], |decision| &decision.conflicts[..])
    };
    let mut user_ids: Vec<(usize, &UserIdSummary)> = summary.user_ids.iter().enumerate().collect();
    user_ids.sort_by_key(|(at, user_id)| {
        let valid = user_id.validity(now) == Validity::Valid;
        (conflicts(*at).is_empty(), !user_id.primary, !valid)
    });
    for (at, user_id) in user_ids {
        let validity = (user_id.validity(now), summary.validity(now));
        let is_valid = validity == (Validity::Valid, Validity::Valid);
        let state = match validity {
            _ if !summary.checked => "unchecked",
            // A user ID is never better than its key.
            (Validity::Valid, Validity::Valid) => {
                belief(at).map_or("valid", |belief| belief.level.name())
            }
            (Validity::Valid, other) => word(other),
            (other, _) => word(other),
        };
        let _ = match &user_id.content {
            UserIdContent::Text(text) => writeln!(out, "uid   [{state:^9}] {}", printable(text)),
            UserIdContent::Attribute { bytes, .. } => {
                writeln!(out, "uid   [{state:^9}] (user attribute, {bytes} bytes)")
            }
        };
        match reasons.get(at) {
            // Of what is over nothing is believed, whatever speaks for it.
            Some(_) if !is_valid => {}
            Some(reasons) => {
                for reason in reasons {
                    let _ = writeln!(out, "      {}", sentence(reason));
                }
            }
            None => {
                for &other in conflicts(at) {
                    let _ = writeln!(out, "      {}", sentence(&Reason::Conflict(other)));
                }
            }
        }
    }
    for subkey in &summary.subkeys {
        write_key(out, "sub", subkey, summary, now);
    }
    out.push(b'\n');
}

/// A reason in words.
fn sentence(reason: &Reason) -> String {
    match reason {
        Reason::Own => "your own".to_owned(),
        Reason::Owner(level) => format!("you trust its owner: {}", level.name()),
        Reason::Certified { by, name, trust, created } => {
            let name = name.as_deref().map(printable).unwrap_or_default();
            let (who, day, trust) = (format!("{by} {name}"), day(*created), trust.name());
            format!("certified by {} [{trust}] on {day}", who.trim_end())
        }
        Reason::Flow(amount) => format!("{amount} of 120 flows to it"),
        Reason::Decided(policy) => format!("you decided: {}", policy.name()),
        Reason::CertifiedByOwn => "certified by a key of yours".to_owned(),
        Reason::Seen { signatures, encryptions } => match (signatures.count, encryptions.count) {
            (0, 0) => "not seen in use".to_owned(),
            (_, 0) => format!("seen: {}", times(signatures, "signature")),
            (0, _) => format!("seen: {}", times(encryptions, "message to it")),
            _ => format!(
                "seen: {}; {}",
                times(signatures, "signature"),
                times(encryptions, "message to it")
            ),
        },
        Reason::Conflict(other) => format!("conflict: the same address is in {other}"),
    }
}

/// How often something was seen.
fn times(history: &History, what: &str) -> String {
    let History { count, first, last, days } = *history;
    let what = match (count, what.split_once(' ')) {
        (1, _) => what.to_owned(),
        (_, None) => format!("{what}s"),
        (_, Some((noun, rest))) => format!("{noun}s {rest}"),
    };
    match days {
        0 | 1 => format!("{count} {what} on {}", day(last)),
        _ => format!("{count} {what} on {days} days from {} to {}", day(first), day(last)),
    }
}

fn write_key(out: &mut Vec<u8>, kind: &str, key: &KeySummary, summary: &Summary, now: u32) {
    let _ = write!(
        out,
        "{kind}   {} {} [{}]",
        algorithm(key),
        day(key.created),
        letters(key.capabilities)
    );
    let _ = match summary.key_validity(key, now) {
        _ if !summary.checked => write!(out, " [unchecked]"),
        Validity::Revoked => write!(out, " [revoked]"),
        Validity::Invalid => write!(out, " [invalid: no good self-signature]"),
        Validity::Expired if key.expires != 0 && key.expires < now => {
            write!(out, " [expired: {}]", day(key.expires))
        }
        Validity::Expired => write!(out, " [expired with its primary key]"),
        Validity::Valid if key.expires != 0 => write!(out, " [expires: {}]", day(key.expires)),
        Validity::Valid => Ok(()),
    };
    let _ = writeln!(out, "\n      {}", key.fingerprint);
}

/// A certificate in JSON.
#[derive(Serialize)]
pub(crate) struct CertJson {
    fingerprint: String,
    version: u8,
    key_id: String,
    validity: &'static str,
    checked: bool,
    #[serde(flatten)]
    primary: KeyJson,
    usable: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<&'static str>,
    user_ids: Vec<UserIdJson>,
    subkeys: Vec<SubkeyJson>,
    /// Designated revokers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    revokers: Vec<RevokerJson>,
    signatures: u32,
    /// Of the primary key and the subkeys, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keygrips: Vec<Option<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    certifications: Vec<SignatureJson>,
}

#[derive(Serialize)]
struct RevokerJson {
    fingerprint: String,
    /// Whether it has revoked: `unknown` as long as its certificate is not in the store.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    trust: Option<&'static str>,
    /// The policy of trust on first use that is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    tofu_policy: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<String>,
    /// Why it is believed or not, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
    created: Option<u32>,
    expires: Option<u32>,
}

impl CertJson {
    /// Adds what is believed.
    fn believe(&mut self, judged: &Judged) {
        self.trust = Some(judged.level.name());
        for (json, believed) in self.user_ids.iter_mut().zip(&judged.user_ids) {
            json.trust = Some(believed.level.name());
            if let Some(decision) = &believed.tofu {
                json.tofu_policy = Some(decision.policy.name());
                json.conflicts = decision.conflicts.iter().map(ToString::to_string).collect();
            }
        }
    }
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

/// A certificate as JSON shows it.
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

pub(crate) fn cert_json(summary: &Summary, now: u32) -> CertJson {
    CertJson {
        fingerprint: summary.fingerprint().to_string(),
        version: summary.fingerprint().version(),
        key_id: summary.fingerprint().key_id().to_string(),
        validity: word(summary.validity(now)),
        checked: summary.checked,
        primary: key_json(&summary.primary),
        usable: letters(summary.usable(now)),
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
                    trust: None,
                    tofu_policy: None,
                    conflicts: Vec::new(),
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
                validity: word(summary.key_validity(subkey, now)),
                key: key_json(subkey),
            })
            .collect(),
        revokers: summary.revokers.iter().map(revoker_json).collect(),
        signatures: summary.signatures,
        keygrips: Vec::new(),
        certifications: Vec::new(),
    }
}

/// Renders rows of a listing, with what they need beyond the summary.
pub(crate) struct Lines<'a> {
    stores: &'a Stores,
    now: u32,
    keygrips: bool,
    signatures: bool,
    judge: Option<Judge<'a>>,
    with_reasons: bool,
    tofu_info: bool,
    gnupg: Gnupg,
    /// Primary user IDs of makers of signatures, by key ID.
    makers: HashMap<KeyId, Option<Vec<u8>>>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(stores: &'a Stores, now: u32, keygrips: bool, signatures: bool) -> Self {
        let (judge, makers) = (None, HashMap::new());
        let (with_reasons, tofu_info) = (false, false);
        let gnupg = Gnupg::default();
        Self { stores, now, keygrips, signatures, judge, with_reasons, tofu_info, gnupg, makers }
    }

    /// Says what is believed as well, by this judge of the first store.
    pub(crate) fn judged(self, judge: Judge<'a>) -> Self {
        Self { judge: Some(judge), ..self }
    }

    /// Says why, too.
    pub(crate) fn with_reasons(self, with_reasons: bool) -> Self {
        Self { with_reasons, ..self }
    }

    /// Writes gpg's machine format as this release does.
    pub(crate) fn following(self, gnupg: Gnupg) -> Self {
        Self { gnupg, ..self }
    }

    /// Says in gpg's machine format what was seen, too.
    pub(crate) fn with_tofu_info(self, tofu_info: bool) -> Self {
        Self { tofu_info, ..self }
    }

    /// Whether a certificate shares an address with another, and nobody has decided about that.
    pub(crate) fn has_conflict(&self, opened: &Opened, row: &Row) -> Result<bool, talaria::Error> {
        let judged = self.judge(opened, row)?;
        let decisions = judged.iter().flat_map(|judged| &judged.user_ids);
        let mut decisions = decisions.filter_map(|user_id| user_id.tofu.as_ref());
        Ok(decisions.any(|decision| !decision.conflicts.is_empty()))
    }

    /// Why what was judged is so, if that is to be said.
    fn reasons(
        &self,
        row: &Row,
        judged: Option<&Judged>,
    ) -> Result<Vec<Vec<Reason>>, talaria::Error> {
        match (&self.judge, judged) {
            (Some(judge), Some(judged)) if self.with_reasons => Ok(judge.reasons(row, judged)?),
            _ => Ok(Vec::new()),
        }
    }

    /// What is believed of a certificate, if that is to be said.
    fn judge(&self, opened: &Opened, row: &Row) -> Result<Option<Judged>, talaria::Error> {
        let judge = self.judge.as_ref().filter(|judge| judge.is_of(&opened.store));
        Ok(judge.map(|judge| judge.judge(row)).transpose()?)
    }

    /// The certificate itself, if the listing needs more than the summary.
    fn stored(&self, opened: &Opened, row: &Row) -> Result<Option<Stored>, talaria::Error> {
        let needed = self.keygrips || self.signatures;
        Ok(if needed { opened.store.stored(row.id)? } else { None })
    }

    /// Looks up who made a signature: in all stores, once per listing.
    fn maker(&mut self, id: KeyId) -> Result<Option<Vec<u8>>, talaria::Error> {
        if let Some(known) = self.makers.get(&id) {
            return Ok(known.clone());
        }
        let mut name = None;
        for opened in self.stores.iter() {
            if let Some(holder) = opened.store.holder(id)? {
                name = Some(holder.primary_user_id().unwrap_or_default().to_vec());
                break;
            }
        }
        self.makers.insert(id, name.clone());
        Ok(name)
    }

    /// One JSON object and a line feed.
    pub(crate) fn json(
        &mut self,
        out: &mut Vec<u8>,
        opened: &Opened,
        row: &Row,
    ) -> Result<(), talaria::Error> {
        let mut json = cert_json(&row.summary, self.now);
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

    fn signature_list(&mut self, stored: &Stored) -> Result<Vec<SignatureJson>, talaria::Error> {
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
                expires: some(signature.expires),
                algorithm_id: signature.algorithm,
                hash_id: signature.hash,
                exportable: signature.exportable,
                verdict: verdict_word(verdict),
            });
        }
        Ok(list)
    }

    /// The human listing, one line per signature below its component if they are asked for.
    pub(crate) fn text(
        &mut self,
        out: &mut Vec<u8>,
        opened: &Opened,
        row: &Row,
    ) -> Result<(), talaria::Error> {
        let judged = self.judge(opened, row)?;
        let reasons = self.reasons(row, judged.as_ref())?;
        write_cert(out, &row.summary, judged.as_ref(), &reasons, self.now);
        let Some(stored) = self.stored(opened, row)? else { return Ok(()) };
        // The blank line belongs behind the signatures.
        out.pop();
        if self.keygrips {
            for key in stored.cert.keys() {
                if let Some(keygrip) = key.keygrip() {
                    let _ = writeln!(out, "grip  {keygrip} of {}", key.fingerprint());
                }
            }
        }
        if self.signatures {
            self.write_signatures(out, &stored)?;
        }
        out.push(b'\n');
        Ok(())
    }

    /// Everything about one certificate.
    pub(crate) fn details(
        &mut self,
        out: &mut Vec<u8>,
        opened: &Opened,
        row: &Row,
    ) -> Result<(), talaria::Error> {
        self.text(out, opened, row)?;
        out.pop();
        let bytes = opened.store.cert_length(row.id)?;
        let summary = &row.summary;
        let _ = writeln!(
            out,
            "version {}, {bytes} bytes, {} user IDs, {} subkeys, {} signatures, change {}",
            summary.fingerprint().version(),
            summary.user_ids.len(),
            summary.subkeys.len(),
            summary.signatures,
            row.change,
        );
        for revoker in &summary.revokers {
            let fingerprint = revoker.revoker.fingerprint;
            let _ = match revoker.state {
                RevokerState::Revoked => writeln!(out, "revoked by {fingerprint}"),
                RevokerState::Silent => writeln!(out, "may be revoked by {fingerprint}"),
                RevokerState::Unknown => {
                    writeln!(out, "may have been revoked by {fingerprint}, whose key is unknown")
                }
            };
        }
        Ok(())
    }

    fn write_signatures(
        &mut self,
        out: &mut Vec<u8>,
        stored: &Stored,
    ) -> Result<(), talaria::Error> {
        for signature in self.signature_list(stored)? {
            let kind = match signature.kind {
                0x10..=0x13 => "certifies",
                0x18 => "binds",
                0x1f => "speaks for",
                0x20 | 0x28 | 0x30 => "revokes",
                _ => "signs",
            };
            let name = signature.issuer_user_id.as_deref().map(|t| printable(t.as_bytes()));
            let _ = write!(
                out,
                "sig   {:^11} {} {} {kind} {}",
                signature.verdict,
                day(signature.created),
                signature.issuer.as_deref().unwrap_or("(no issuer)     "),
                signature.on,
            );
            if let Some(expires) = signature.expires {
                let verb = if expires <= self.now { "expired" } else { "expires" };
                let _ = write!(out, " [{verb}: {}]", day(expires));
            }
            let _ = match name {
                Some(name) => writeln!(out, " — {name}"),
                None => writeln!(out),
            };
        }
        Ok(())
    }

    /// gpg's machine format.
    pub(crate) fn colons(
        &mut self,
        out: &mut Vec<u8>,
        opened: &Opened,
        row: &Row,
    ) -> Result<(), talaria::Error> {
        let ownertrust = opened.store.ownertrust(row.summary.fingerprint())?;
        let judged = self.judge(opened, row)?;
        let letter = |level: Level| u8::try_from(level.letter()).unwrap_or(b'-');
        let letters: Option<(u8, Vec<u8>)> = judged.as_ref().map(|judged| {
            let user_ids = judged.user_ids.iter().map(|id| letter(id.level)).collect();
            (letter(judged.level), user_ids)
        });
        let seen = match (&self.judge, &judged) {
            (Some(judge), Some(judged)) if self.tofu_info => Some(judge.seen(row, judged)?),
            _ => None,
        };
        let options = Colons {
            ownertrust,
            keygrips: None,
            trust: letters.as_ref().map(|(key, user_ids)| (*key, &user_ids[..])),
            seen: seen.as_deref(),
            gnupg: self.gnupg,
        };
        let Some(stored) = self.stored(opened, row)? else {
            write_colons(out, &row.summary, &options, self.now);
            return Ok(());
        };
        let keygrips: Option<Vec<_>> =
            self.keygrips.then(|| stored.cert.keys().map(|key| key.keygrip()).collect());
        let options = Colons { keygrips: keygrips.as_deref(), ..options };
        if !self.signatures {
            write_colons(out, &row.summary, &options, self.now);
            return Ok(());
        }
        for packet in stored.cert.packets().filter(|packet| packet.tag == Tag::SIGNATURE) {
            if let Some(id) = Signature::parse(packet.body).and_then(|s| s.issuer) {
                self.maker(id)?;
            }
        }
        let makers = &self.makers;
        write_cert_with_signatures(out, &stored.cert, &row.summary, &options, self.now, |id| {
            makers.get(&id).and_then(|name| name.as_deref())
        });
        Ok(())
    }
}

/// What a component is called in a list of signatures.
fn component_name(packet: PacketRef<'_>) -> String {
    match packet.tag {
        Tag::PUBLIC_KEY => "the primary key".to_owned(),
        Tag::USER_ID => printable(packet.body),
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
        Verdict::Foreign => "foreign",
        Verdict::Misplaced => "misplaced",
    }
}

/// A signature in JSON.
#[derive(Serialize)]
pub(crate) struct SignatureJson {
    on: String,
    kind: u8,
    issuer: Option<String>,
    issuer_fingerprint: Option<String>,
    issuer_user_id: Option<String>,
    created: u32,
    expires: Option<u32>,
    algorithm_id: u8,
    hash_id: u8,
    exportable: bool,
    verdict: &'static str,
}
