//! Uploading: the form, and the result for each certificate.

use std::collections::HashMap;

use maud::{Markup, html};
use talaria_cert::{Address, Fingerprint, Summary};

use super::frame::Visit;
use super::number::grouped;
use super::parts::{name, names};
use super::text::{self, foreign};
use crate::answer::Answer;
use crate::report::{NOTHING_NEW, Named, Report};

/// Certificates of a list that are shown.
pub(crate) const SHOWN_MAX: usize = 200;

/// Certificates of an upload whose addresses can be confirmed. People upload one.
pub(crate) const OFFERS_MAX: usize = 5;

/// The form.
pub(crate) fn form(visit: &Visit<'_>) -> Answer {
    let texts = visit.texts;
    let limit = visit.config.http.body_bytes as u64 >> 20;
    let body = html! {
        h1 { (texts.upload_title) }
        @if visit.config.policy.uploads {
            p.lead { (texts.upload_lead) }
            aside.note.warning { p { (texts.upload_warning) } }
            div.columns.two {
                section {
                    h2 { (texts.upload_paste_title) }
                    form action="/pks/add" method="post" {
                        label for="keytext" { (texts.upload_paste_label) }
                        textarea #keytext name="keytext" rows="12" required spellcheck="false"
                            autocomplete="off" autocapitalize="none"
                            placeholder="-----BEGIN PGP PUBLIC KEY BLOCK-----" {}
                        button type="submit" { (texts.upload_button) }
                    }
                }
                section {
                    h2 { (texts.upload_file_title) }
                    form action="/pks/add" method="post" enctype="multipart/form-data" {
                        label for="keyfile" { (texts.upload_file_label) }
                        input #keyfile type="file" name="keyfile" required
                            accept=".asc,.gpg,.pgp,.key,.pub,application/pgp-keys"
                            aria-describedby="keyfile-hint";
                        p.hint #keyfile-hint { ((texts.upload_limit)(limit)) }
                        button type="submit" { (texts.upload_button) }
                    }
                    h3 { (texts.upload_export_title) }
                    pre.command tabindex="0" { code { "gpg --armor --export alice@example.org" } }
                }
            }
        } @else {
            aside.note.warning { p { (texts.upload_closed) } }
        }
    };
    visit.page(texts.upload_title, &body)
}

/// What the page about an upload shows beside the report.
pub(crate) struct Uploaded {
    /// The certificates that are on the server.
    pub(crate) summaries: HashMap<Fingerprint, Summary>,
    pub(crate) confirmed: HashMap<Fingerprint, Vec<Address>>,
    /// The addresses that can be confirmed, with a token for each certificate.
    pub(crate) offers: Vec<(Fingerprint, String, Vec<Address>)>,
}

/// The result of an upload.
pub(crate) fn report(visit: &Visit<'_>, report: &Report, uploaded: &Uploaded) -> Answer {
    let texts = visit.texts;
    let title = if report.taken() > 0 { texts.uploaded_title } else { texts.not_uploaded_title };
    let (mut inserted, mut updated, mut for_peers) = (Vec::new(), Vec::new(), Vec::new());
    for (from, list) in [(&report.inserted, &mut inserted), (&report.updated, &mut updated)] {
        for named in from {
            if named.is_for_peers { for_peers.push(named) } else { list.push(named) }
        }
    }
    let lists = [
        (texts.report_new, texts.report_new_says, inserted),
        (texts.report_updated, texts.report_updated_says, updated),
        (texts.report_for_peers, texts.report_for_peers_says, for_peers),
        (texts.report_unchanged, texts.report_unchanged_says, report.ignored.iter().collect()),
        (texts.report_refused, texts.report_refused_says, report.invalid.iter().collect()),
    ];
    let lists = lists.into_iter().filter(|(_, _, list)| !list.is_empty());
    let body = html! {
        h1 { (title) }
        @for (heading, says, list) in lists {
            section {
                h2 { (heading) " (" (grouped(list.len() as u64, texts.thousands)) ")" }
                p { (says) }
                ul.report {
                    @for named in list.iter().take(SHOWN_MAX) { li { (item(visit, uploaded, named)) } }
                    @if list.len() > SHOWN_MAX { li { ((texts.more)((list.len() - SHOWN_MAX) as u64)) } }
                }
            }
        }
        @if !uploaded.offers.is_empty() { (confirmation(visit, &uploaded.offers)) }
        p { a href="/upload" { (texts.back_to_upload) } }
    };
    visit.page(title, &body)
}

/// Forms that ask for mails to the addresses of uploaded certificates.
fn confirmation(visit: &Visit<'_>, offers: &[(Fingerprint, String, Vec<Address>)]) -> Markup {
    let texts = visit.texts;
    html! {
        section.panel {
            h2 { (texts.confirm_heading) }
            p {
                (texts.confirm_offer)
                @if !visit.config.vks.only_confirmed { " " (texts.confirm_found_by_all) }
            }
            @for (at, (fingerprint, token, emails)) in offers.iter().enumerate() {
                form action="/vks/request" method="post" {
                    @if offers.len() > 1 { p.key { (text::fingerprint(*fingerprint)) } }
                    input type="hidden" name="token" value=(token);
                    @for (n, email) in emails.iter().enumerate() {
                        @let id = format!("address-{at}-{n}");
                        div.choice {
                            input id=(id) type="checkbox" name="address" value=(email.to_string())
                                checked;
                            label for=(id) { (foreign(&email.to_string())) }
                        }
                    }
                    button type="submit" { (texts.confirm_send) }
                }
            }
        }
    }
}

fn item(visit: &Visit<'_>, uploaded: &Uploaded, named: &Named) -> Markup {
    // The heading says that there was nothing new.
    let reason = named.comment.as_deref().filter(|comment| *comment != NOTHING_NEW);
    let Some(summary) = named.cert.and_then(|cert| uploaded.summaries.get(&cert)) else {
        return html! {
            @if !named.fingerprint.is_empty() { code { (named.fingerprint.to_uppercase()) } " " }
            @if let Some(reason) = reason { span lang="en" { (foreign(reason)) } }
        };
    };
    let fingerprint = summary.fingerprint();
    let shown = names(visit, summary, uploaded.confirmed.get(&fingerprint));
    html! {
        a href=(text::path(fingerprint)) {
            @match shown.first() {
                Some(first) => { (foreign(&name(first))) }
                None => { (visit.texts.no_name) }
            }
        }
        br;
        (text::fingerprint(fingerprint))
        @if let Some(reason) = reason { br; span lang="en" { (foreign(reason)) } }
    }
}
