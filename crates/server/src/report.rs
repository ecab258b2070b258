//! The report on an upload: which certificates were taken, and which were not.

use serde::Serialize;
use talaria_cert::{Cert, Fingerprint, Key};

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
    /// Whether clients get no more of it than its primary key: see [`for_peers`].
    #[serde(skip)]
    pub(crate) is_for_peers: bool,
    /// Whether a part of it was not kept.
    #[serde(skip)]
    pub(crate) is_cut: bool,
}

impl Named {
    pub(crate) fn new(fingerprint: Fingerprint) -> Self {
        Self {
            version: fingerprint.version(),
            cert: Some(fingerprint),
            fingerprint: fingerprint.to_string().to_ascii_lowercase(),
            comment: None,
            is_for_peers: false,
            is_cut: false,
        }
    }

    /// Adds a sentence to the comment.
    pub(crate) fn add_comment(&mut self, more: String) {
        self.comment = Some(match self.comment.take() {
            Some(comment) => format!("{comment}; {more}"),
            None => more,
        });
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

    /// The certificates that are new or have new parts.
    pub(crate) fn added(&self) -> impl Iterator<Item = &Named> {
        self.inserted.iter().chain(&self.updated)
    }

    /// Whether a part of a certificate was not kept.
    pub(crate) fn is_cut(&self) -> bool {
        self.added().any(|named| named.is_cut)
    }
}

/// Comments in an answer that has one text for all of them. Bytes that are no certificate can have
/// any number.
const COMMENTS_MAX: usize = 10;

/// The comment on a certificate that was ignored.
pub(crate) const NOTHING_NEW: &str = "the server already had every part of it";

/// The comment on one that had nothing else new than signatures that are marked as local.
pub(crate) const NOTHING_ELSE_NEW: &str = "the server already had every other part of it";

/// The comment on a certificate whose signatures cannot be checked here, because the algorithm of
/// its primary key is not known: `None` for any other. It is kept for other keyservers. What the
/// owner has signed in it is not known, so clients get none of it.
pub(crate) fn for_peers(cert: &Cert) -> Option<String> {
    let key = cert.packets().next().and_then(|packet| Key::parse(packet).ok())?;
    let given = match key.version {
        _ if key.has_known_algorithm() => return None,
        // Clients refuse a key of version 4 without a user ID.
        ..=4 => "clients do not get it",
        _ => "clients get the primary key only",
    };
    Some(format!(
        "kept for other keyservers; its signatures cannot be checked here (algorithm {}), so {given}",
        key.algorithm
    ))
}

/// Says how much of a certificate was not kept, and why. `local` is the number of signatures that
/// are marked as local.
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
