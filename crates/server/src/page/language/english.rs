//! English.

use crate::page::number::grouped;
use crate::page::texts::Texts;

pub(crate) static ENGLISH: Texts = Texts {
    thousands: ',',

    // The frame.
    lang: "en",
    skip: "Skip to the content",
    nav_label: "Pages",
    imprint: "Imprint",
    privacy: "Privacy",
    nav_search: "Search",
    nav_upload: "Upload",
    nav_statistics: "Statistics",
    nav_peers: "Peers",
    nav_manage: "Manage confirmed addresses",
    footer: "A name on a certificate is a claim, not a proof: anybody can upload a certificate with any name.",
    software: "Software:",
    contact: "Contact:",

    // The start page and the search form.
    home_title: "Find OpenPGP certificates",
    home_lead: "Public keys of people you want to write to, or whose signatures you want to check.",
    home_count: "certificates in this keyserver",
    home_trust_title: "Compare the fingerprint",
    home_trust: "Before you rely on a certificate, compare its fingerprint with the one that its owner gave you: in person, on paper, by phone.",
    home_publish_title: "Publish your own",
    home_publish: "Others find your certificate here, and learn when you extend or revoke it. A published certificate stays public.",
    home_gnupg_title: "From the command line",
    home_gnupg: "GnuPG and other programs ask this server directly.",
    search_label: "Name, e-mail address, fingerprint or key ID",
    search_button: "Search",
    search_hint: "For example alice@example.org, Alice Smith, or a fingerprint of 40 digits.",
    search_hint_exact: "A whole address such as alice@example.org, or a fingerprint of 40 digits. This server does not search for parts of names.",
    suggest_found: "Suggestions: use the arrow keys.",
    suggest_none: "No suggestions.",

    // The results of a search.
    results_title: |text| format!("Search for “{text}”"),
    results_for: "Certificates for",
    found: |n| {
        if n == 1 {
            "1 certificate was found.".into()
        } else {
            format!("{} certificates were found.", grouped(n, ','))
        }
    },
    ambiguous: "Several usable certificates match, and anybody can upload one with any name. Take the one whose fingerprint its owner gave you.",
    several: "Several certificates match, and anybody can upload one with any name: a usable one need not be genuine. Take the one whose fingerprint its owner gave you, and none that is revoked or expired.",
    no_name: "(no user ID)",
    other_names: "Other user IDs",
    more: |n| format!("and {} more, not shown", grouped(n, ',')),
    whole_text: |n| format!("Whole text ({} characters)", grouped(n, ',')),
    narrow: "Only with an address at:",
    result_pages: "Pages of results",
    page_of: |page, pages| format!("Page {page} of {pages}"),
    previous: "Previous",
    next: "Next",

    // States and times.
    valid: "Usable",
    expired: "Expired",
    revoked: "Revoked",
    invalid: "Not usable",
    unchecked: "Not checked",
    valid_means: "Neither expired nor revoked. This does not say that the name is genuine.",
    address_confirmed: "Address confirmed",
    confirmed_means: "Somebody who reads the mail to this address confirmed it on this server.",
    name_unverified: "This server did not check the name: anybody can upload a certificate with any name.",
    names_confirmed: |n| {
        if n == 1 {
            "Somebody who reads the mail to one of the addresses confirmed it on this server. The names are not checked.".into()
        } else {
            format!(
                "Somebody who reads the mail to {n} of the addresses confirmed them on this server. The names are not checked."
            )
        }
    },
    created: "Created",
    expires: "Expires",
    never: "never",
    now: "today",
    since: "Since",
    revoked_on: "Revoked",
    reason: "Reason given",
    reason_code: |code| match code {
        0 => "none",
        1 => "superseded by another key",
        2 => "the secret key may be in other hands",
        3 => "no longer used",
        32 => "the user ID is no longer right",
        _ => "another one",
    },
    on_day: "on",

    // A certificate.
    fingerprint: "Fingerprint",
    algorithm: "Algorithm",
    compare: "Compare this with the fingerprint that the owner gave you. It is their certificate only if all digits are equal.",
    copy: "Copy",
    copied: "Copied",
    qr_title: "QR code of the fingerprint",
    qr_caption: "Scan with an OpenPGP app",
    download_armored: "Download (.asc)",
    download_binary: "Binary (.pgp)",
    fetch: "Or fetch it with:",
    armor: "As text",
    expired_means: "This certificate has expired. Do not encrypt to it. Its owner can extend it: ask for a newer copy.",
    expired_on: "Expired on",
    revoked_means: "Do not use this certificate any more.",
    revoked_by_owner: "Revoked by its owner",
    revoked_by_other: "Revoked by a key that its owner named for this",
    further: |n| format!("{} more", grouped(n, ',')),
    older_parts: |n| {
        if n == 1 {
            "1 more part, not usable now".into()
        } else {
            format!("{} more parts, not usable now", grouped(n, ','))
        }
    },
    other_parts: |n| {
        if n == 1 { "1 more part".into() } else { format!("{} more parts", grouped(n, ',')) }
    },
    invalid_means: "This certificate cannot be used: no good signature of its owner that counts now is known on its primary key or on a user ID.",
    short_means: |bits| {
        format!(
            "This certificate cannot be used: its primary key has only {bits} bits. Its owner needs a new key."
        )
    },
    no_user_id_means: "This certificate cannot be used: all its user IDs are revoked or expired. Its owner can sign a user ID anew: ask for a newer copy.",
    weak_means: |hash| {
        format!(
            "This certificate cannot be used: the signatures of its owner are made with {hash}, which is broken. Its owner can sign it anew: ask for a newer copy. The newest of these signatures is of"
        )
    },
    signed_ahead_means: "The signatures of the owner on this certificate are dated in the future. Programs do not use it before that date:",
    signed_before_means: "The signatures of the owner on this certificate are dated before its key was created. Programs do not accept them.",
    future_means: "This certificate is dated in the future. Programs do not use it before that date.",
    no_encryption_means: "Nothing can be encrypted to this certificate now: its keys for that have expired or were revoked. Ask its owner for a newer copy.",
    user_ids: "User IDs",
    not_checked: "Not checked here",
    not_checked_means: "This server does not know the algorithm of the primary key, so it cannot check any signature of the owner. It does not know the names, the expiry date or a revocation. It keeps the certificate for other keyservers, and gives out the primary key only.",
    not_checked_user_ids: "This server cannot check which user IDs belong to the key.",
    no_user_ids: "No user ID may be shown.",
    primary: "primary",
    attribute: |n| format!("Photo or other attribute ({} bytes)", grouped(n, ',')),
    same_address: "Others with this address",
    keys: "Keys",
    primary_key: "Primary key",
    subkey: "Subkey",
    certify: "certify",
    sign: "sign",
    encrypt: "encrypt",
    authenticate: "authenticate",
    timeline: "Over time",
    timeline_title: "When keys and user IDs were made, and when they end; the dates are in the lists below",

    // Signatures of others.
    signatures: |n| {
        if n == 1 {
            "1 signature by others".into()
        } else {
            format!("{} signatures by others", grouped(n, ','))
        }
    },
    signatures_unchecked: "Signatures by others are shown as they were uploaded and are not checked here; the names are those that this server knows for the key.",
    signatures_verified: "This server has verified these signatures with the keys of their signers, or the owner of the certificate has attested them. Revocations in the name of a revoker whom the owner named may be unverified. The names of the signers are not checked.",
    signer: "By",
    signature_kind: "Kind",
    signature_date: "Date",
    signature_certifies: "certification",
    signature_revokes: "revocation",
    signature_direct: "on the key",
    trust_depth: |n| format!("trust, depth {n}"),
    unknown_signer: "not on this server",
    unnamed_signer: "not named",

    // Uploading.
    upload_title: "Upload a certificate",
    upload_lead: "Your public certificate, or a newer copy of one: with a new expiry date, a new address, a revocation.",
    upload_warning: "Your upload becomes public, with its names and addresses, and goes on to other keyservers. Nobody can remove it everywhere. Upload only your own certificates.",
    upload_paste_title: "Paste",
    upload_paste_label: "Certificate as text",
    upload_file_title: "Choose a file",
    upload_file_label: "File with certificates, as text or binary",
    upload_limit: |n| format!("At most {n} MiB."),
    upload_button: "Upload",
    upload_export_title: "Export with GnuPG",
    upload_closed: "This server does not accept uploads.",
    uploaded_title: "Thank you for the upload",
    not_uploaded_title: "Nothing was uploaded",
    report_new: "New",
    report_new_says: "These certificates were not known here.",
    report_updated: "Updated",
    report_updated_says: "The server had these certificates, and added the new parts.",
    report_unchanged: "Unchanged",
    report_unchanged_says: "The server already had every part of these certificates.",
    report_for_peers: "Kept for other keyservers",
    report_for_peers_says: "This server cannot check the signatures on these certificates. Other keyservers get them from here; people do not find them by name.",
    report_refused: "Refused",
    report_refused_says: "The server refused these certificates for the reason beside them.",
    back_to_upload: "Upload another one",
    confirm_heading: "Confirm your addresses",
    confirm_offer: "Programs that ask for confirmed addresses find your certificate by an address once you have confirmed it. You get a mail with a link.",
    confirm_found_by_all: "Searches on this server find your certificate by each address in it, confirmed or not.",
    confirm_send: "Send the mails",

    // Statistics.
    statistics_title: "Statistics",
    counted_at: "Counted at",
    counting: "The certificates are being counted; load the page again in a moment.",
    certificates: "Certificates",
    subkeys: "Subkeys",
    all_signatures: "Signatures",
    growth: "Changes",
    chart_growth: "New and updated certificates by day",
    contents: "Contents",
    chart_validity: "By state",
    chart_algorithms: "Primary keys by algorithm",
    chart_sizes: "Primary keys by size",
    chart_years: "Primary keys by year of creation",
    requests: "Requests",
    chart_requests_day: "By day and kind",
    chart_requests_kind: "Since the server was started",
    day: "Day",
    year: "Year",
    state: "State",
    kind: "Kind",
    key_size: "Size",
    as_table: "As a table",
    nothing_yet: "Nothing yet.",
    operated_by: "Certificate of the operator",
    for_programs: "For programs",

    // Peers.
    peers_title: "Peers",
    peers_lead: "Keyservers with which this one exchanges certificates.",
    peers_none: "This server exchanges certificates with no other.",
    peer_name: "Server",
    peer_state: "State",
    peer_view: "View",
    peer_last: "Last exchange",
    peer_exchanges: "Exchanges",
    peer_failures: "Failures",
    peer_learnt: "Learnt of",
    peer_fetched: "Fetched",
    peer_error: "Last error",
    peer_good: "Working",
    peer_failing: "Failing",
    peer_waiting: "No exchange yet",

    // For operators.
    operator_title: "Operation",
    health: "Health",
    last_change: "Last change",
    uptime: "Running for",
    days_hours: |days, hours, minutes| format!("{days} d {hours} h {minutes} min"),
    memory: "Memory",
    commits: "Commits since the start",
    writes_waiting: "Writes waiting",
    unobtainable: "Certificates that peers did not deliver",
    views: "Views",
    digests: "Digests",
    counters: "Counters",
    settings: "Settings in force",
    settings_show: "Show",

    // Errors.
    status: |status| format!("Status {status}"),
    searched_for: "You searched for",
    detail: "In detail:",
    back_to_search: "To the search",
    nothing_title: "No certificate was found",
    nothing_advice: "Check the spelling, search for the address instead of the name, or ask the owner for the fingerprint. Not everybody publishes their certificate here.",
    missing_title: "Page not found",
    missing_advice: "There is no such page, or no certificate with this fingerprint.",
    found_more: |n| {
        format!(
            "More certificates match. Only the first {} are shown. Add a word, or search for a whole address or a fingerprint.",
            grouped(n, ',')
        )
    },
    found_more_of_address: |n| {
        format!(
            "More certificates have this address, and anybody can upload one with any address. Only the first {} are shown. Search for the fingerprint that the owner gave you.",
            grouped(n, ',')
        )
    },
    too_large_title: "The request is too large",
    too_large_advice: "Send fewer certificates at a time.",
    slow_down_title: "Too many requests",
    slow_down_advice: |n| format!("Your network sent too many requests. Try again in {n} seconds."),
    bad_search_title: "This is not a valid search",
    bad_search_advice: "Search for a name, a whole address, a key ID of 16 digits or a fingerprint of 40 or 64 digits.",
    bad_request_title: "The request is not valid",
    bad_request_advice: "Go back to the form and try again.",
    malformed_title: "No certificate found in the upload",
    secret_title: "This is a secret key",
    secret_advice: "The server did not keep it, but it has left your computer. Send only the public certificate: “gpg --armor --export ADDRESS”, without “secret”. If the key had no good passphrase, or somebody else could read the connection, make a new key and revoke this one.",
    malformed_advice: "A certificate as text starts with “-----BEGIN PGP PUBLIC KEY BLOCK-----”. Send all of its lines.",
    forbidden_title: "Access denied",
    forbidden_advice: "The operator of this server does not offer this to everybody.",
    damaged_title: "The storage of this server failed",
    damaged_advice: "The copy on this server is damaged, or its disk has a fault. A new try does not help. Other keyservers may have the certificate. The operator finds the cause in the log of the server.",
    full_title: "The disk of this server is full",
    full_advice: "Your upload was not stored, because the server has no more room for it. Searches still work. Use another keyserver, or tell the operator.",
    unavailable_title: "Temporarily unavailable",
    unavailable_advice: "The server cannot answer this at the moment. Try again in a few minutes.",
};
