//! The validity of certificates and its reasons, in words and colours.

use talaria::trust_models::Level;
use talaria::trust_models::tofu::History;
use talaria::{ValidityReason, day};

use super::{counted, printable};
use crate::terminal::{Paint, Painted};

/// A level of validity in its colour.
pub(super) fn painted_level(level: Level, paint: Paint) -> Painted<&'static str> {
    match level {
        Level::Ultimate | Level::Full => paint.good(level.name()),
        Level::Never => paint.bad(level.name()),
        _ => paint.doubtful(level.name()),
    }
}

/// A level of validity in its colour, given by name.
pub(crate) fn painted_level_name(name: &str, paint: Paint) -> Painted<&str> {
    match Level::ALL.into_iter().find(|level| level.name() == name) {
        Some(level) => painted_level(level, paint),
        None => paint.faint(name),
    }
}

/// The sentence for a reason.
pub(super) fn sentence(reason: &ValidityReason) -> String {
    match reason {
        ValidityReason::Own => "your own".to_owned(),
        ValidityReason::Owner(level) => format!("you trust its owner: {}", level.name()),
        ValidityReason::Certified { by, name, trust, created } => {
            let name = name.as_deref().map(printable).unwrap_or_default();
            let (who, day, trust) = (format!("{by} {name}"), day(*created), trust.name());
            format!("certified by {} [{trust}] on {day}", who.trim_end())
        }
        ValidityReason::Flow(amount) => format!("{amount} of 120 flows to it"),
        ValidityReason::Decided(policy) => format!("you decided: {}", policy.name()),
        ValidityReason::CertifiedByOwn => "certified by a key of yours".to_owned(),
        ValidityReason::Seen { signatures, encryptions } => seen(signatures, encryptions),
        ValidityReason::MoreConflicts(more) => {
            format!("and in {}: see talaria tofu conflicts", counted(*more, "more certificate"))
        }
        ValidityReason::CutOff => {
            "too many certifications: the search ended early and may have missed trust".to_owned()
        }
        ValidityReason::Conflict(other) => format!("conflict: the same address is in {other}"),
    }
}

/// The TOFU history of a certificate in words.
pub(crate) fn seen(signatures: &History, encryptions: &History) -> String {
    match (signatures.count, encryptions.count) {
        (0, 0) => "not seen in use".to_owned(),
        (_, 0) => format!("seen: {}", times(signatures, "signature")),
        (0, _) => format!("seen: {}", times(encryptions, "message to it")),
        _ => format!(
            "seen: {}; {}",
            times(signatures, "signature"),
            times(encryptions, "message to it")
        ),
    }
}

/// A number of observations in words.
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
