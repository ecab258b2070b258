//! The report on an upload: which certificates were taken, and which were not.

use serde::Serialize;
use talaria_cert::Fingerprint;

use crate::engine::LeftOut;

/// A certificate in the report on a submission.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Named {
    pub(crate) version: u8,
    /// `None` for something that is no certificate.
    #[serde(skip)]
    pub(crate) cert: Option<Fingerprint>,
    pub(crate) fingerprint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) comment: Option<String>,
}

impl Named {
    pub(crate) fn new(fingerprint: Fingerprint) -> Self {
        Self {
            version: fingerprint.version(),
            cert: Some(fingerprint),
            fingerprint: fingerprint.to_string().to_ascii_lowercase(),
            comment: None,
        }
    }
}

/// The result of a submission (draft-ietf-openpgp-hkp, "submission response").
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) inserted: Vec<Named>,
    pub(crate) updated: Vec<Named>,
    pub(crate) deleted: Vec<Named>,
    pub(crate) ignored: Vec<Named>,
    pub(crate) invalid: Vec<Named>,
    /// The number of those in `invalid` of which a part is on the server, as it was before.
    #[serde(skip)]
    pub(crate) here_before: usize,
}

impl Report {
    /// The number of uploaded certificates that are on the server now, at least in part.
    pub(crate) fn taken(&self) -> usize {
        self.inserted.len() + self.updated.len() + self.ignored.len()
    }

    /// What was not kept, and why; `None` if all of it is on the server now.
    pub(crate) fn not_kept(&self) -> Option<String> {
        let named = [&self.inserted, &self.updated, &self.ignored, &self.invalid];
        let comments = named.into_iter().flatten().filter_map(|named| named.comment.as_deref());
        let comments = comments.filter(|comment| *comment != NOTHING_NEW).take(COMMENTS_MAX);
        let comments: Vec<&str> = comments.collect();
        (!comments.is_empty()).then(|| comments.join("; "))
    }

    /// Whether a part of a certificate was not kept.
    pub(crate) fn is_cut(&self) -> bool {
        self.inserted.iter().chain(&self.updated).any(|named| named.comment.is_some())
    }
}

/// Comments in an answer that has one text for all of them. Octets that are no certificate can have any number.
const COMMENTS_MAX: usize = 10;

/// The comment on a certificate that was ignored.
pub(crate) const NOTHING_NEW: &str = "the server already had every part of it";

/// The comment on one that had nothing else new than signatures that are marked as local.
pub(crate) const NOTHING_ELSE_NEW: &str = "the server already had every other part of it";

/// Says how much of a certificate was not kept, and why. `local` is the number of signatures that are marked as local.
pub(crate) fn left_out(left_out: LeftOut, local: usize) -> String {
    let LeftOut { components, signatures } = left_out;
    let number = |n: usize, what: &str| match n {
        0 => None,
        1 => Some(format!("1 {what}")),
        n => Some(format!("{n} {what}s")),
    };
    let local = number(local, "signature")
        .map(|local| format!("{local} that should not leave the computer it was made on (local)"));
    let parts = [number(components, "component"), number(signatures, "signature")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let others = (!parts.is_empty()).then(|| {
        format!(
            "{}, which exceed the limits of this server for a certificate or were removed from it for good",
            parts.join(" and ")
        )
    });
    let all: Vec<String> = [local, others].into_iter().flatten().collect();
    format!("not kept: {}", all.join("; "))
}
