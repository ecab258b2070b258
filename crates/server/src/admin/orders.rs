//! The operator's commands over HTTP: delete, block, redact and their opposites, a list of what is
//! blocked and redacted, and the audit log.
//!
//! They are for operators only, see [`operators_only`], and a request must have the media type of
//! JSON: the form of another site, opened in the browser of an operator, cannot send that.

use std::collections::VecDeque;

use http::Method;
use serde::{Deserialize, Serialize};
use talaria_cert::Fingerprint;

use crate::answer::{Answer, Refusal, json, media};
use crate::audit::{Audit, AuditError, Author};
use crate::config::Settings;
use crate::engine::{
    Command, Done, Engine, EngineError, KeptOut, Order, Outcome, Query, Reading, Redaction, Terms,
    Wish,
};
use crate::operators::operators_only;
use crate::request::Request;

/// Certificates in one request.
const CERTS_MAX: usize = 1000;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    /// Whole fingerprints, 40 or 64 digits.
    fingerprints: Vec<String>,
    /// For `redact`: the whole texts of user IDs.
    #[serde(default)]
    user_ids: Vec<String>,
    /// For `redact`: all user IDs and attributes.
    #[serde(default)]
    all: bool,
    /// The name of the operator, for the audit log.
    #[serde(default)]
    who: Option<String>,
    /// Why, for the audit log.
    #[serde(default)]
    reason: Option<String>,
}

/// The result for a certificate.
#[derive(Debug, Serialize)]
struct Line {
    fingerprint: String,
    outcome: &'static str,
}

/// Something that is kept out.
#[derive(Debug, Serialize)]
struct Entry {
    fingerprint: String,
    /// `blocked` or `redacted`.
    what: &'static str,
    /// When it was blocked, if the log still has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// The SHA-256 of the redacted user ID, if not all are redacted.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id_sha256: Option<String>,
}

/// Answers `/admin/…`.
pub(crate) struct Orders {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    pub(crate) audit: Audit,
}

/// Entries of the audit log in an answer: the newest ones.
const ENTRIES_MAX: usize = 1000;

impl Orders {
    pub(crate) async fn handle(&self, request: &Request) -> Result<Answer, Refusal> {
        operators_only(&self.settings.load(), request)?;
        let action = request.path().strip_prefix("/admin/").unwrap_or_default().to_owned();
        let posts = *request.method() == Method::POST;
        if action == "list" && !posts {
            let list = async |store: &mut Reading| Ok(json(&entries(store.kept_out().await?)));
            return self.engine.read(list).await;
        }
        if action == "log" && !posts {
            return self.log().await;
        }
        if !matches!(action.as_str(), "delete" | "block" | "unblock" | "redact" | "unredact") {
            return Err(Refusal::NotFound("there is no such command".into()));
        }
        if !posts {
            let method = request.method().to_string();
            return Err(Refusal::Method { method, allow: "POST" });
        }
        if request.media() != media::JSON {
            return Err(Refusal::BadRequest("the media type must be application/json".into()));
        }
        let order: Asked = serde_json::from_slice(&request.body)
            .map_err(|error| Refusal::BadRequest(format!("cannot parse the request: {error}")))?;
        if order.fingerprints.is_empty() || order.fingerprints.len() > CERTS_MAX {
            return Err(Refusal::BadRequest(format!(
                "a request names 1 to {CERTS_MAX} fingerprints"
            )));
        }
        if action == "redact" && order.all != order.user_ids.is_empty() {
            return Err(Refusal::BadRequest("give either user_ids or all".into()));
        }
        let mut all = Vec::with_capacity(order.fingerprints.len());
        for text in &order.fingerprints {
            all.push(fingerprint(text)?);
        }
        tracing::info!(%action, certificates = all.len(), "an operator sent a command");
        let command = match action.as_str() {
            "delete" => Command::Delete,
            "block" => Command::Block,
            "unblock" => Command::Unblock,
            "redact" if order.all => Command::Redact(vec![Redaction::All]),
            "redact" => Command::Redact(
                order.user_ids.iter().map(|text| Redaction::of(text.as_bytes())).collect(),
            ),
            _ => Command::Unredact,
        };
        let terms = Terms::now(self.settings.load().policy.limits());
        let author = Author {
            who: order.who.unwrap_or_else(|| "operator".into()),
            from: Some(request.client.to_string()),
            reason: order.reason,
        };
        let done = carry_out(&self.engine, &self.audit, &author, &all, &command, terms).await?;
        let results = all.iter().zip(done).map(|(fingerprint, outcome)| Line {
            fingerprint: fingerprint.to_string(),
            outcome: outcome.words(),
        });
        Ok(json(&results.collect::<Vec<_>>()))
    }

    /// The newest entries of the audit log, the oldest of them first.
    async fn log(&self) -> Result<Answer, Refusal> {
        let audit = self.audit.clone();
        let read = move || {
            let mut newest = VecDeque::new();
            audit.for_each(|entry| {
                newest.push_back(entry);
                if newest.len() > ENTRIES_MAX {
                    newest.pop_front();
                }
            })?;
            Ok::<_, AuditError>(newest)
        };
        let read = tokio::task::spawn_blocking(read).await.map_err(|_| {
            Refusal::Unavailable("the audit log was not read, because of a defect".into())
        })?;
        Ok(json(&read.map_err(|error| unavailable(&error))?))
    }
}

/// The log has the cause, which has a path of this machine.
fn unavailable(error: &AuditError) -> Refusal {
    tracing::error!(error = talaria::describe(error), "the audit log failed");
    Refusal::Unavailable("the audit log of this server cannot be read or written".into())
}

/// Why a command was not carried out, or not recorded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OrderError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Audit(#[from] AuditError),
}

impl From<OrderError> for Refusal {
    fn from(error: OrderError) -> Self {
        match error {
            OrderError::Engine(error) => error.into(),
            OrderError::Audit(error) => unavailable(&error),
        }
    }
}

/// Carries out a command about each of the certificates, or about none if one of them fails, and
/// records it in the audit log.
pub(crate) async fn carry_out(
    engine: &Engine,
    audit: &Audit,
    author: &Author,
    fingerprints: &[Fingerprint],
    command: &Command,
    terms: Terms,
) -> Result<Vec<Outcome>, OrderError> {
    let audit = audit.open()?;
    let now = terms.now;
    let outcomes = ordered(engine, fingerprints, command, terms).await?;
    let done: Vec<_> = fingerprints.iter().copied().zip(outcomes.iter().copied()).collect();
    audit.add(author, command, &done, now)?;
    Ok(outcomes)
}

async fn ordered(
    engine: &Engine,
    fingerprints: &[Fingerprint],
    command: &Command,
    terms: Terms,
) -> Result<Vec<Outcome>, EngineError> {
    let order = |&fingerprint| Order {
        fingerprint,
        wish: Wish::Command(command.clone()),
        unless_changed_since: None,
    };
    let orders = fingerprints.iter().map(order).collect();
    // An order without a condition meets no conflict.
    let done = engine.carry_out(orders, terms).await?.unwrap_or_default();
    let outcomes = done.into_iter().filter_map(|done| match done {
        Done::Command(outcome) => Some(outcome),
        _ => None,
    });
    Ok(outcomes.collect())
}

/// A whole fingerprint of version 4 or 6.
fn fingerprint(text: &str) -> Result<Fingerprint, Refusal> {
    let bytes = match text.parse() {
        Ok(Query::Fingerprint(bytes)) => bytes,
        _ => Vec::new(),
    };
    let parsed = match bytes.len() {
        20 => bytes.as_slice().try_into().ok().map(Fingerprint::V4),
        32 => bytes.as_slice().try_into().ok().map(Fingerprint::V6),
        _ => None,
    };
    parsed
        .ok_or_else(|| Refusal::BadRequest("a fingerprint has 40 or 64 hexadecimal digits".into()))
}

/// All blocked certificates, and all redactions.
fn entries(kept_out: Vec<KeptOut>) -> Vec<Entry> {
    let entry = |kept_out| match kept_out {
        KeptOut::Blocked { fingerprint, since } => Entry {
            fingerprint: fingerprint.to_string(),
            what: "blocked",
            since: since.map(|time| talaria_cert::timestamp(time.seconds())),
            user_id_sha256: None,
        },
        KeptOut::Redacted { fingerprint, redaction } => Entry {
            fingerprint: fingerprint.to_string(),
            what: "redacted",
            since: None,
            user_id_sha256: redaction.digest_text(),
        },
    };
    kept_out.into_iter().map(entry).collect()
}
