//! What pages show, read from the engine before anything is rendered.

use std::collections::HashMap;

use talaria_cert::{Address, Cert, Fingerprint, KeyId, Query, Signature, Summary, UserIdSummary};

use super::certificate::{Shown, Signer, signatures_shown};
use super::frame::Visit;
use super::parts::{self, names};
use super::search::{Listing, is_for_words};
use super::suggest::{self, Candidate};
use super::upload::{self, Uploaded};
use crate::addresses::{self, confirmable};
use crate::answer::Refusal;
use crate::clock;
use crate::config::Config;
use crate::engine::{Bounds, Judging, Reading, Row};
use crate::report::{Named, Report};
use crate::search::{LOOKS_MAX, served};
use crate::token::Tokens;

/// Signers whose names are looked up.
const SIGNERS_MAX: usize = 1000;

/// Signers that are looked up at once. Their summaries can be large.
const SIGNERS: usize = 16;

/// Bytes that the user IDs of the certificates of an upload take in memory, after which the others
/// have only their fingerprint on its page.
const USER_IDS_BYTES: usize = 4 << 20;

/// The addresses that were confirmed of each certificate.
pub(super) type Confirmed = HashMap<Fingerprint, Vec<Address>>;

/// The confirmed addresses of certificates, if the page depends on them.
async fn confirmed<'a>(
    store: &mut Reading,
    summaries: impl Iterator<Item = &'a Summary>,
    is_wanted: bool,
) -> Result<Confirmed, Refusal> {
    if !is_wanted {
        return Ok(Confirmed::new());
    }
    Ok(addresses::confirmed(store, summaries.map(Summary::fingerprint).collect()).await?)
}

/// The certificates that a fingerprint names: nearly always one.
pub(super) async fn lookup(store: &mut Reading, fingerprint: &str) -> Result<Vec<Row>, Refusal> {
    let Ok(query @ Query::Fingerprint(_)) = fingerprint.parse::<Query>() else {
        return Ok(Vec::new());
    };
    let mut rows = store.find(&query, Bounds { results: 10, looks: LOOKS_MAX }).await?.rows;
    let own = |row: &Row| row.fingerprint().to_string().eq_ignore_ascii_case(fingerprint);
    if let Some(at) = rows.iter().position(own) {
        rows = vec![rows.swap_remove(at)];
    }
    Ok(rows)
}

/// A certificate for its page, `None` if no part of it is served. `cert` is the served certificate,
/// if the caller has it already.
pub(super) async fn certificate(
    visit: &Visit<'_>,
    store: &mut Reading,
    row: &Row,
    cert: Option<Cert>,
) -> Result<Option<Shown>, Refusal> {
    let cert = match cert {
        Some(cert) => cert,
        None => match served(store, row, &visit.config).await? {
            Some(cert) => cert,
            None => return Ok(None),
        },
    };
    let signers = signers(visit, store, &cert).await?;
    let published = store.facts_of(row.fingerprint()).await?.published;
    let revokers = revokers(store, &row.summary).await?;
    Ok(Some(Shown { cert, known: row.summary.clone(), signers, revokers, published }))
}

/// The primary keys of the named revokers who have revoked a certificate.
async fn revokers(
    store: &mut Reading,
    summary: &Summary,
) -> Result<Vec<(Fingerprint, Vec<u8>)>, Refusal> {
    let mut keys = Vec::new();
    for by in summary.revoked_by() {
        let Some(row) = store.row(by).await? else { continue };
        let Some(revoker) = store.stored(&row, Judging::Stored).await? else { continue };
        keys.extend(revoker.cert.packets().next().map(|key| (by, key.body.to_vec())));
    }
    Ok(keys)
}

/// The names of those who signed a certificate. A signature that names another fingerprint than
/// that of the certificate here has no name.
async fn signers(
    visit: &Visit<'_>,
    store: &mut Reading,
    cert: &Cert,
) -> Result<HashMap<KeyId, Signer>, Refusal> {
    let mut wanted: HashMap<KeyId, Option<Fingerprint>> = HashMap::new();
    signatures_shown(cert, |signature: &Signature<'_>| {
        if let Some(id) = signature.issuer
            && (wanted.len() < SIGNERS_MAX || wanted.contains_key(&id))
        {
            let named = wanted.entry(id).or_default();
            *named = named.or(signature.issuer_fingerprint);
        }
    });
    let ids: Vec<KeyId> = wanted.keys().copied().collect();
    let mut signers = HashMap::with_capacity(ids.len());
    for some in ids.chunks(SIGNERS) {
        let mut found = store.signers(some).await?;
        found.retain(|id, summary| {
            let named = wanted.get(id).copied().flatten();
            named.is_none_or(|named| summary.keys().any(|key| key.fingerprint == named))
        });
        let confirmed = confirmed(store, found.values(), visit.config.vks.only_confirmed).await?;
        signers.extend(found.into_iter().map(|(id, summary)| {
            let names = names(visit, &summary, confirmed.get(&summary.fingerprint()));
            let name = names.first().map(|first| parts::name(first).into_owned());
            (id, Signer { fingerprint: summary.fingerprint(), name })
        }));
    }
    Ok(signers)
}

/// The certificates that a search has found: the first ones, if there are `more`.
pub(super) async fn listing(
    visit: &Visit<'_>,
    store: &mut Reading,
    rows: Vec<Row>,
    text: &str,
    more: bool,
) -> Result<Listing, Refusal> {
    let now = clock::now();
    let Config { vks, .. } = &*visit.config;
    let summaries: Vec<Summary> = rows.into_iter().map(|row| row.summary).collect();
    let of_all = vks.only_confirmed || (vks.enabled && is_for_words(visit, text));
    let known = confirmed(store, summaries.iter(), of_all).await?;
    let mut listing = Listing::new(visit, summaries, known, text, more, now);
    if !of_all {
        listing.confirmed = confirmed(store, listing.on_page().iter(), vks.enabled).await?;
    }
    Ok(listing)
}

/// The certificates that have what somebody types in a user ID.
pub(super) async fn candidates(
    visit: &Visit<'_>,
    store: &mut Reading,
    typed: &str,
) -> Result<Vec<Candidate>, Refusal> {
    let query = Query::Substring(typed.to_owned());
    let rows = store.find(&query, suggest::BOUNDS).await?.rows;
    let summaries = rows.iter().map(|row| &row.summary);
    let confirmed = confirmed(store, summaries, visit.config.vks.only_confirmed).await?;
    let candidate = |row: Row| {
        let names = names(visit, &row.summary, confirmed.get(&row.fingerprint()));
        Candidate { summary: row.summary, names }
    };
    Ok(rows.into_iter().map(candidate).collect())
}

/// The certificates of a report on an upload, and the addresses that can be confirmed.
pub(super) async fn uploaded(
    visit: &Visit<'_>,
    store: &mut Reading,
    tokens: &Tokens,
    report: &Report,
) -> Result<Uploaded, Refusal> {
    let lists = [&report.inserted, &report.updated, &report.ignored, &report.invalid];
    let shown = lists.into_iter().flat_map(|list| list.iter().take(upload::SHOWN_MAX));
    let shown: Vec<Fingerprint> = shown.filter_map(|named| named.cert).collect();
    let (mut summaries, mut bytes_left) = (HashMap::new(), USER_IDS_BYTES);
    for name in shown {
        if bytes_left == 0 {
            break;
        }
        let Some(Row { summary, .. }) = store.row(name).await? else { continue };
        let texts: usize = summary.texts().map(<[u8]>::len).sum();
        let bytes = summary.user_ids.len() * size_of::<UserIdSummary>() + texts;
        bytes_left = bytes_left.saturating_sub(bytes);
        summaries.insert(name, summary);
    }
    let Config { vks, .. } = &*visit.config;
    let is_wanted = vks.enabled || vks.only_confirmed;
    let confirmed = confirmed(store, summaries.values(), is_wanted).await?;
    let kept = report.inserted.iter().chain(&report.updated).chain(&report.ignored);
    let offer = |named: &Named| {
        let summary = summaries.get(&named.cert?)?;
        let confirmed = confirmed.get(&summary.fingerprint()).map_or(&[][..], Vec::as_slice);
        let (token, emails) = confirmable(tokens, &visit.config, summary, confirmed)?;
        Some((summary.fingerprint(), token, emails))
    };
    let offers = kept.take(upload::OFFERS_MAX).filter_map(offer).collect();
    Ok(Uploaded { summaries, confirmed, offers })
}
