//! The OpenPGP HTTP Keyserver Protocol: the parts that its versions share.

pub(crate) mod machine;
pub(crate) mod v1;
pub(crate) mod v2;

use serde::Serialize;
use talaria_cert::Fingerprint;
use talaria_store::{IngestOutcome, LeftOut};

use crate::admission;
use crate::answer::Refusal;
use crate::metrics::count;
use crate::state::State;
use crate::submission::Submission;

/// A certificate in the report on a submission.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Named {
    pub(crate) version: u8,
    pub(crate) fingerprint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) comment: Option<String>,
}

impl Named {
    pub(crate) fn new(fingerprint: Fingerprint) -> Self {
        Self {
            version: fingerprint.version(),
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
}

impl Report {
    /// The number of uploaded certificates that are on the server now, at least in part.
    pub(crate) fn taken(&self) -> usize {
        self.inserted.len() + self.updated.len() + self.ignored.len()
    }

    /// Whether a part of a certificate was not kept.
    pub(crate) fn is_cut(&self) -> bool {
        self.inserted.iter().chain(&self.updated).any(|named| named.comment.is_some())
    }
}

/// The comment on a certificate that was ignored.
pub(crate) const NOTHING_NEW: &str = "the server already had every part of it";

/// Says how much of a certificate was not kept, and why.
fn left_out(left_out: LeftOut) -> String {
    let LeftOut { components, signatures } = left_out;
    let number = |n: usize, what: &str| match n {
        0 => None,
        1 => Some(format!("1 {what}")),
        n => Some(format!("{n} {what}s")),
    };
    let parts = [number(components, "component"), number(signatures, "signature")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!(
        "not kept: {}, which exceed the limits of this server for a certificate or were removed from it for good",
        parts.join(" and ")
    )
}

/// Stores the submitted certificates durably, and returns a report.
pub(crate) async fn submit(state: &State, submission: Submission) -> Result<Report, Refusal> {
    if !state.config.load().policy.uploads {
        return Err(Refusal::Forbidden("this server does not accept uploads".into()));
    }
    let submitted = submit_open(state, submission).await;
    if let Err(Refusal::TooCostly { .. }) = submitted {
        count(&state.metrics.uploads_too_costly, 1);
    }
    submitted
}

async fn submit_open(state: &State, submission: Submission) -> Result<Report, Refusal> {
    let Submission { certs, rejected, via } = submission;
    let (certs, turned_away) = admission::choose(state, certs).await?;
    let names: Vec<Named> = certs.iter().map(|cert| Named::new(cert.fingerprint())).collect();
    let outcomes = state.add(certs, via).await?;
    let mut report = Report::default();
    for (mut name, ingested) in names.into_iter().zip(outcomes) {
        if !ingested.left_out.is_none() {
            name.comment = Some(left_out(ingested.left_out));
        }
        match ingested.outcome {
            IngestOutcome::New => report.inserted.push(name),
            IngestOutcome::Updated => report.updated.push(name),
            // No new part was kept.
            IngestOutcome::Unchanged if name.comment.is_some() => report.invalid.push(name),
            IngestOutcome::Unchanged => {
                name.comment = Some(NOTHING_NEW.into());
                report.ignored.push(name);
            }
            IngestOutcome::Refused(refusal) => {
                name.comment = Some(refusal.to_string());
                report.invalid.push(name);
            }
        }
    }
    report.invalid.extend(turned_away);
    report.invalid.extend(rejected.into_iter().map(|why| Named {
        version: 0,
        fingerprint: String::new(),
        comment: Some(why),
    }));
    Ok(report)
}
