//! The texts of the pages, in the languages that they are in.
//!
//! All of a language stands in one value, so that a text that is missing does not compile.

mod english;
mod german;

pub(crate) use english::ENGLISH;
use german::GERMAN;

use http::header;
use talaria_cert::Validity;

use crate::request::Request;

/// The languages.
static ALL: [&Texts; 2] = [&ENGLISH, &GERMAN];

/// The texts for a request: the best accepted language, or else English.
pub(crate) fn of(request: &Request) -> &'static Texts {
    preferred(request.header(header::ACCEPT_LANGUAGE).unwrap_or_default())
}

/// RFC 9110, section 12.5.4, by the first part of the tags.
fn preferred(accept: &str) -> &'static Texts {
    let mut best: Option<(f32, &'static Texts)> = None;
    for range in accept.split(',').take(32) {
        let mut parts = range.split(';');
        let tag = parts.next().unwrap_or_default().trim();
        let language = tag.split('-').next().unwrap_or_default();
        let weight = parts
            .find_map(|part| part.trim().strip_prefix("q="))
            .map_or(1.0, |q| q.trim().parse::<f32>().unwrap_or(0.0));
        let texts = ALL.into_iter().find(|texts| texts.lang.eq_ignore_ascii_case(language));
        // Of equal ones the first, as it was written.
        if let Some(texts) = texts
            && weight > best.map_or(0.0, |(best, _)| best)
        {
            best = Some((weight, texts));
        }
    }
    best.map_or(&ENGLISH, |(_, texts)| texts)
}

/// The texts of one language.
pub(crate) struct Texts {
    /// The separator between groups of three digits.
    pub(crate) thousands: char,

    // The frame.
    pub(crate) lang: &'static str,
    pub(crate) skip: &'static str,
    pub(crate) nav_label: &'static str,
    pub(crate) nav_search: &'static str,
    pub(crate) nav_upload: &'static str,
    pub(crate) nav_statistics: &'static str,
    pub(crate) nav_peers: &'static str,
    pub(crate) nav_manage: &'static str,
    pub(crate) footer: &'static str,
    pub(crate) software: &'static str,
    pub(crate) contact: &'static str,

    // The start page and the search form.
    pub(crate) home_title: &'static str,
    pub(crate) home_lead: &'static str,
    pub(crate) home_count: &'static str,
    pub(crate) home_trust_title: &'static str,
    pub(crate) home_trust: &'static str,
    pub(crate) home_publish_title: &'static str,
    pub(crate) home_publish: &'static str,
    pub(crate) home_gnupg_title: &'static str,
    pub(crate) home_gnupg: &'static str,
    pub(crate) search_label: &'static str,
    pub(crate) search_button: &'static str,
    pub(crate) search_hint: &'static str,
    pub(crate) search_hint_exact: &'static str,
    pub(crate) suggest_found: &'static str,
    pub(crate) suggest_none: &'static str,

    // The results of a search.
    pub(crate) results_title: fn(&str) -> String,
    pub(crate) results_for: &'static str,
    pub(crate) found: fn(u64) -> String,
    pub(crate) ambiguous: &'static str,
    pub(crate) several: &'static str,
    pub(crate) no_name: &'static str,
    pub(crate) other_names: &'static str,
    pub(crate) more: fn(u64) -> String,
    pub(crate) whole_text: fn(u64) -> String,
    pub(crate) narrow: &'static str,
    pub(crate) other_spelling: &'static str,
    pub(crate) result_pages: &'static str,
    pub(crate) page_of: fn(u64, u64) -> String,
    pub(crate) previous: &'static str,
    pub(crate) next: &'static str,

    // States and times.
    pub(crate) valid: &'static str,
    pub(crate) expired: &'static str,
    pub(crate) revoked: &'static str,
    pub(crate) invalid: &'static str,
    pub(crate) unchecked: &'static str,
    pub(crate) valid_means: &'static str,
    pub(crate) address_confirmed: &'static str,
    pub(crate) confirmed_means: &'static str,
    pub(crate) name_unverified: &'static str,
    pub(crate) names_confirmed: fn(u64) -> String,
    pub(crate) created: &'static str,
    pub(crate) expires: &'static str,
    pub(crate) never: &'static str,
    pub(crate) now: &'static str,
    pub(crate) since: &'static str,
    pub(crate) revoked_on: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) reason_code: fn(u8) -> &'static str,
    pub(crate) on_day: &'static str,

    // A certificate.
    pub(crate) fingerprint: &'static str,
    pub(crate) algorithm: &'static str,
    pub(crate) compare: &'static str,
    pub(crate) copy: &'static str,
    pub(crate) copied: &'static str,
    pub(crate) qr_title: &'static str,
    pub(crate) qr_caption: &'static str,
    pub(crate) download_armored: &'static str,
    pub(crate) download_binary: &'static str,
    pub(crate) fetch: &'static str,
    pub(crate) armor: &'static str,
    pub(crate) expired_means: &'static str,
    pub(crate) expired_on: &'static str,
    pub(crate) revoked_means: &'static str,
    pub(crate) revoked_by_owner: &'static str,
    pub(crate) revoked_by_other: &'static str,
    pub(crate) further: fn(u64) -> String,
    pub(crate) older_parts: fn(u64) -> String,
    pub(crate) invalid_means: &'static str,
    pub(crate) user_ids: &'static str,
    pub(crate) no_user_ids: &'static str,
    pub(crate) primary: &'static str,
    pub(crate) attribute: fn(u64) -> String,
    pub(crate) same_address: &'static str,
    pub(crate) keys: &'static str,
    pub(crate) primary_key: &'static str,
    pub(crate) subkey: &'static str,
    pub(crate) certify: &'static str,
    pub(crate) sign: &'static str,
    pub(crate) encrypt: &'static str,
    pub(crate) authenticate: &'static str,
    pub(crate) timeline: &'static str,
    pub(crate) timeline_title: &'static str,

    // Signatures of others.
    pub(crate) signatures: fn(u64) -> String,
    pub(crate) signatures_unchecked: &'static str,
    pub(crate) signer: &'static str,
    pub(crate) signature_kind: &'static str,
    pub(crate) signature_date: &'static str,
    pub(crate) signature_certifies: &'static str,
    pub(crate) signature_revokes: &'static str,
    pub(crate) signature_direct: &'static str,
    pub(crate) trust_depth: fn(u8) -> String,
    pub(crate) unknown_signer: &'static str,
    pub(crate) unnamed_signer: &'static str,

    // Uploading.
    pub(crate) upload_title: &'static str,
    pub(crate) upload_lead: &'static str,
    pub(crate) upload_warning: &'static str,
    pub(crate) upload_paste_title: &'static str,
    pub(crate) upload_paste_label: &'static str,
    pub(crate) upload_file_title: &'static str,
    pub(crate) upload_file_label: &'static str,
    pub(crate) upload_limit: fn(u64) -> String,
    pub(crate) upload_button: &'static str,
    pub(crate) upload_export_title: &'static str,
    pub(crate) upload_closed: &'static str,
    pub(crate) uploaded_title: &'static str,
    pub(crate) not_uploaded_title: &'static str,
    pub(crate) report_new: &'static str,
    pub(crate) report_new_says: &'static str,
    pub(crate) report_updated: &'static str,
    pub(crate) report_updated_says: &'static str,
    pub(crate) report_unchanged: &'static str,
    pub(crate) report_unchanged_says: &'static str,
    pub(crate) report_refused: &'static str,
    pub(crate) report_refused_says: &'static str,
    pub(crate) back_to_upload: &'static str,
    pub(crate) confirm_heading: &'static str,
    pub(crate) confirm_offer: &'static str,
    pub(crate) confirm_send: &'static str,

    // Statistics.
    pub(crate) statistics_title: &'static str,
    pub(crate) counted_at: &'static str,
    pub(crate) counting: &'static str,
    pub(crate) certificates: &'static str,
    pub(crate) subkeys: &'static str,
    pub(crate) all_signatures: &'static str,
    pub(crate) growth: &'static str,
    pub(crate) chart_growth: &'static str,
    pub(crate) contents: &'static str,
    pub(crate) chart_validity: &'static str,
    pub(crate) chart_algorithms: &'static str,
    pub(crate) chart_sizes: &'static str,
    pub(crate) chart_years: &'static str,
    pub(crate) requests: &'static str,
    pub(crate) chart_requests_day: &'static str,
    pub(crate) chart_requests_kind: &'static str,
    pub(crate) day: &'static str,
    pub(crate) year: &'static str,
    pub(crate) state: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) key_size: &'static str,
    pub(crate) as_table: &'static str,
    pub(crate) nothing_yet: &'static str,
    pub(crate) operated_by: &'static str,
    pub(crate) for_programs: &'static str,

    // Peers.
    pub(crate) peers_title: &'static str,
    pub(crate) peers_lead: &'static str,
    pub(crate) peers_none: &'static str,
    pub(crate) peer_name: &'static str,
    pub(crate) peer_state: &'static str,
    pub(crate) peer_view: &'static str,
    pub(crate) peer_last: &'static str,
    pub(crate) peer_exchanges: &'static str,
    pub(crate) peer_failures: &'static str,
    pub(crate) peer_learnt: &'static str,
    pub(crate) peer_fetched: &'static str,
    pub(crate) peer_error: &'static str,
    pub(crate) peer_good: &'static str,
    pub(crate) peer_failing: &'static str,
    pub(crate) peer_waiting: &'static str,

    // For operators.
    pub(crate) operator_title: &'static str,
    pub(crate) health: &'static str,
    pub(crate) last_change: &'static str,
    pub(crate) uptime: &'static str,
    pub(crate) days_hours: fn(u64, u64, u64) -> String,
    pub(crate) memory: &'static str,
    pub(crate) commits: &'static str,
    pub(crate) writes_waiting: &'static str,
    pub(crate) unobtainable: &'static str,
    pub(crate) views: &'static str,
    pub(crate) digests: &'static str,
    pub(crate) counters: &'static str,
    pub(crate) settings: &'static str,
    pub(crate) settings_show: &'static str,

    // Errors.
    pub(crate) status: fn(u16) -> String,
    pub(crate) searched_for: &'static str,
    pub(crate) detail: &'static str,
    pub(crate) back_to_search: &'static str,
    pub(crate) nothing_title: &'static str,
    pub(crate) nothing_advice: &'static str,
    pub(crate) missing_title: &'static str,
    pub(crate) missing_advice: &'static str,
    pub(crate) found_more: fn(u64) -> String,
    pub(crate) too_large_title: &'static str,
    pub(crate) too_large_advice: &'static str,
    pub(crate) slow_down_title: &'static str,
    pub(crate) slow_down_advice: fn(u64) -> String,
    pub(crate) bad_search_title: &'static str,
    pub(crate) bad_search_advice: &'static str,
    pub(crate) bad_request_title: &'static str,
    pub(crate) bad_request_advice: &'static str,
    pub(crate) malformed_title: &'static str,
    pub(crate) malformed_advice: &'static str,
    pub(crate) secret_title: &'static str,
    pub(crate) secret_advice: &'static str,
    pub(crate) forbidden_title: &'static str,
    pub(crate) forbidden_advice: &'static str,
    pub(crate) unavailable_title: &'static str,
    pub(crate) unavailable_advice: &'static str,
}

impl Texts {
    /// A state in words.
    pub(crate) fn validity(&self, validity: Validity) -> &'static str {
        match validity {
            Validity::Valid => self.valid,
            Validity::Expired => self.expired,
            Validity::Revoked => self.revoked,
            Validity::Invalid => self.invalid,
        }
    }

    /// A state in words, by the word that statistics have for it.
    pub(crate) fn validity_word(&self, state: &str) -> &'static str {
        match state {
            "valid" => self.valid,
            "expired" => self.expired,
            "revoked" => self.revoked,
            "invalid" => self.invalid,
            _ => self.unchecked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_accepted_language_is_chosen() {
        let cases = [
            ("", "en"),
            ("de", "de"),
            ("de-AT, en;q=0.5", "de"),
            ("en-GB,en;q=0.9,de;q=0.8", "en"),
            ("fr, de;q=0.3", "de"),
            ("fr;q=0.9, *;q=0.1", "en"),
            ("en;q=0.2, DE;q=0.7", "de"),
            ("de;q=0", "en"),
            ("de;q=x", "en"),
        ];
        for (accept, expected) in cases {
            assert_eq!(preferred(accept).lang, expected, "{accept}");
        }
    }
}
