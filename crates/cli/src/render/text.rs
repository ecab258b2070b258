//! Certificates as text for people, in a few lines each.

use std::io::Write as _;

use talaria::cert::{
    Capabilities, Fault, KeySummary, Summary, UserIdContent, UserIdSummary, Validity,
};
use talaria::store::{Row, Stored};
use talaria::trust_models::Level;
use talaria::{Confirmation, Judged, Opened, ValidityReason, algorithm, day};

use super::lines::Lines;
use super::signatures::SignatureJson;
use super::validity::{painted_level, sentence};
use super::{letters, printable, state};
use crate::terminal::{Paint, Painted};

/// Appends a certificate in the form for people, with its validity and the reasons, if they are
/// given.
pub(crate) fn write_cert(
    out: &mut Vec<u8>,
    summary: &Summary,
    judged: Option<&Judged>,
    reasons: &[Vec<ValidityReason>],
    confirmations: &[Confirmation],
    now: u32,
    paint: Paint,
) {
    write_key(out, "pub", &summary.primary, summary, now, paint);
    let belief = |at: usize| judged.and_then(|judged| judged.user_ids.get(at));
    let has_conflict = |at: usize| {
        let decision = belief(at).and_then(|id| id.tofu.as_ref());
        decision.is_some_and(|decision| !decision.conflicts.is_empty())
    };
    let mut user_ids = sorted_user_ids(summary, now);
    user_ids.sort_by_key(|(at, _)| !has_conflict(*at));
    for (at, user_id) in user_ids {
        let level = belief(at).map(|belief| belief.level);
        let confirmation = confirmations.get(at).copied().unwrap_or(Confirmation::Missing);
        let is_valid = write_user_id(out, user_id, summary, (level, confirmation), now, paint);
        match reasons.get(at) {
            // An expired or revoked certificate or user ID has no validity, so its reasons are not
            // shown.
            Some(_) if !is_valid => {}
            Some(reasons) => {
                for reason in reasons {
                    let text = sentence(reason);
                    let text = match reason {
                        ValidityReason::Conflict(_)
                        | ValidityReason::MoreConflicts(_)
                        | ValidityReason::CutOff => paint.doubtful(text),
                        _ => paint.faint(text),
                    };
                    let _ = writeln!(out, "      {text}");
                }
            }
            None => {
                for reason in belief(at).map(talaria::doubts).unwrap_or_default() {
                    let _ = writeln!(out, "      {}", paint.doubtful(sentence(&reason)));
                }
            }
        }
    }
    for subkey in &summary.subkeys {
        write_key(out, "sub", subkey, summary, now, paint);
    }
    out.push(b'\n');
}

/// The user IDs with their indexes: the primary one first, then the valid ones.
pub(super) fn sorted_user_ids(summary: &Summary, now: u32) -> Vec<(usize, &UserIdSummary)> {
    let mut user_ids: Vec<(usize, &UserIdSummary)> = summary.user_ids.iter().enumerate().collect();
    user_ids
        .sort_by_key(|(_, user_id)| (!user_id.primary, user_id.validity(now) != Validity::Valid));
    user_ids
}

/// Appends the line of a user ID. Returns whether both the user ID and its key are valid.
pub(super) fn write_user_id(
    out: &mut Vec<u8>,
    user_id: &UserIdSummary,
    summary: &Summary,
    (level, confirmation): (Option<Level>, Confirmation),
    now: u32,
    paint: Paint,
) -> bool {
    let validity = (user_id.validity(now), summary.validity(now));
    let is_valid = validity == (Validity::Valid, Validity::Valid);
    let state = match (validity, level) {
        _ if !summary.checked => paint.doubtful("unchecked"),
        // A user ID is never more valid than its key.
        ((Validity::Valid, Validity::Valid), Some(level)) => painted_level(level, paint),
        ((Validity::Valid, Validity::Valid), None) => painted_confirmation(confirmation, paint),
        ((Validity::Valid, other) | (other, _), _) => painted(other, paint),
    };
    let text = match &user_id.content {
        UserIdContent::Text(text) => printable(text),
        UserIdContent::Attribute { bytes, .. } => format!("(user attribute, {bytes} bytes)"),
    };
    let text = if is_valid { paint.strong(text) } else { paint.faint(text) };
    let _ = writeln!(out, "uid   [{state:^9}] {text}");
    is_valid
}

/// A status in its colour.
fn painted(validity: Validity, paint: Paint) -> Painted<&'static str> {
    match validity {
        Validity::Valid => paint.faint(state(validity)),
        Validity::Expired => paint.doubtful(state(validity)),
        Validity::Revoked | Validity::Invalid => paint.bad(state(validity)),
    }
}

/// The state of a usable user ID: whether it is confirmed whose it is.
fn painted_confirmation(confirmation: Confirmation, paint: Paint) -> Painted<&'static str> {
    match confirmation {
        Confirmation::Certified => paint.good("confirmed"),
        Confirmation::Bad => paint.bad("bad"),
        Confirmation::Missing | Confirmation::Good => painted(Validity::Valid, paint),
    }
}

/// Appends the lines of a key.
pub(super) fn write_key(
    out: &mut Vec<u8>,
    kind: &str,
    key: &KeySummary,
    summary: &Summary,
    now: u32,
    paint: Paint,
) {
    let _ = write!(
        out,
        "{kind}   {} {} [{}]",
        algorithm(key),
        day(key.created),
        letters(key.capabilities)
    );
    let state = match summary.fault_of(key, now) {
        _ if !summary.checked => Some(paint.doubtful("unchecked".to_owned())),
        Some(Fault::Revoked) => Some(paint.bad("revoked".to_owned())),
        Some(Fault::Expired(end)) if end != 0 && end < now => {
            Some(paint.doubtful(format!("expired: {}", day(end))))
        }
        Some(Fault::Expired(_)) => Some(paint.doubtful("expired with its primary key".to_owned())),
        Some(fault) => Some(paint.bad(format!("invalid: {fault}"))),
        None if key.expires != 0 => Some(paint.faint(format!("expires: {}", day(key.expires)))),
        None => None,
    };
    let weak = key.weak.filter(|_| key.bound);
    let weak = weak.map(|weak| paint.doubtful(format!("bound by {} only", weak.hash_name())));
    let unsigned = key.withheld.has(Capabilities::SIGN) && summary.fault_of(key, now).is_none();
    let unsigned =
        unsigned.then(|| paint.bad("cannot sign: it has not signed the primary key".to_owned()));
    for state in state.into_iter().chain(weak).chain(unsigned) {
        let _ = write!(out, " [{state}]");
    }
    let fingerprint = key.fingerprint.to_string();
    let fingerprint =
        if kind == "pub" { paint.handle(fingerprint) } else { paint.faint(fingerprint) };
    let _ = writeln!(out, "\n      {fingerprint}");
}

impl Lines<'_> {
    /// A certificate as text for people, optionally with one line per signature below its
    /// component.
    pub(crate) fn text(
        &mut self,
        out: &mut Vec<u8>,
        opened: &Opened,
        row: &Row,
    ) -> Result<(), talaria::Error> {
        let judged = self.judge(opened, row)?;
        let reasons = self.reasons(row, judged.as_ref())?;
        let confirmations = self.confirmations(opened, row)?;
        let (now, paint) = (self.now, self.paint);
        write_cert(out, &row.summary, judged.as_ref(), &reasons, &confirmations, now, paint);
        let Some(stored) = self.stored(opened, row)? else { return Ok(()) };
        // The blank line belongs after the signatures.
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

    fn write_signatures(
        &mut self,
        out: &mut Vec<u8>,
        stored: &Stored,
    ) -> Result<(), talaria::Error> {
        for signature in self.signature_list(stored)? {
            let _ = write!(
                out,
                "sig   {:^11} {} {} {} {}",
                signature.verdict,
                day(signature.created),
                signature.issuer.as_deref().unwrap_or("(no issuer)     "),
                verb(signature.kind),
                signature.on,
            );
            self.write_end(out, &signature);
        }
        Ok(())
    }

    /// Appends the expiry date of a signature and the name of its issuer.
    pub(super) fn write_end(&self, out: &mut Vec<u8>, signature: &SignatureJson) {
        if let Some(expires) = signature.expires {
            let verb = if expires <= self.now { "expired" } else { "expires" };
            let _ = write!(out, " [{verb}: {}]", day(expires));
        }
        let name = signature.issuer_user_id.as_deref().map(|t| printable(t.as_bytes()));
        let _ = match name {
            Some(name) => writeln!(out, " — {name}"),
            None => writeln!(out),
        };
    }
}

/// The verb for a signature type (RFC 9580, section 5.2.1).
pub(super) fn verb(kind: u8) -> &'static str {
    match kind {
        0x10..=0x13 => "certifies",
        0x18 => "binds",
        0x1f => "speaks for",
        0x20 | 0x28 | 0x30 => "revokes",
        _ => "signs",
    }
}
