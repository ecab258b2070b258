//! The page of a certificate: only its served parts, with the names of its signers.

use std::collections::HashMap;

use maud::{Markup, html};
use talaria_cert::{
    Address, Capabilities, Cert, Fault, Fingerprint, Key, KeyId, KeySummary, PacketRef, Purpose,
    Signature, Summary, Tag, ThirdParty, UserIdContent, UserIdSummary, Validity, Verdict, enarmor,
    kind, user_id,
};

use super::frame::Visit;
use super::text::{self, day, encoded, foreign, rest};
use super::timeline::{self, End, Track};
use super::{parts, qr};
use crate::answer::Answer;
use crate::clock;

/// Signatures of others that are shown on one user ID.
const SIGNATURES_MAX: usize = 200;

/// User IDs and subkeys that are shown.
const COMPONENTS_MAX: usize = 200;

/// User IDs and subkeys that are shown before a click.
const UNFOLDED_MAX: usize = 6;

/// Parts that the time line shows before a click.
const TRACKS_MAX: usize = 6;

/// Bytes of a certificate whose armor is on the page as well.
const ARMOR_BYTES_MAX: usize = 256 << 10;

/// The issuer of a signature, as far as the engine knows.
#[derive(Clone, Debug)]
pub(crate) struct Signer {
    /// The certificate that the signing key belongs to.
    pub(crate) fingerprint: Fingerprint,
    /// Its name, `None` if it has none that may be shown.
    pub(crate) name: Option<String>,
}

/// A certificate and all that its page shows.
pub(crate) struct Shown {
    /// As it is served.
    pub(crate) cert: Cert,
    /// The summary in the store. The validity of the primary key can follow from packets that the
    /// page does not show.
    pub(crate) known: Summary,
    pub(crate) signers: HashMap<KeyId, Signer>,
    /// The primary keys of those who may have revoked it in the owner's name.
    pub(crate) revokers: Vec<(Fingerprint, Vec<u8>)>,
    /// The addresses whose owner confirmed them here.
    pub(crate) published: Vec<Address>,
}

/// Whether a page ends with the certificate in armor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Armor {
    Shown,
    Left,
}

/// Calls `look` with the signatures of others that the page shows.
pub(crate) fn signatures_shown(cert: &Cert, look: impl FnMut(&Signature<'_>)) {
    let (components, _) = components(cert);
    components.iter().flat_map(|part| part.others.iter().take(SIGNATURES_MAX)).for_each(look);
}

/// A component of a certificate as it is given out.
struct Component<'a> {
    packet: PacketRef<'a>,
    own: Vec<Signature<'a>>,
    others: Vec<Signature<'a>>,
}

impl Component<'_> {
    /// The creation time of the first of its own signatures of some kinds.
    fn first(&self, which: impl Fn(u8) -> bool) -> Option<u32> {
        self.own.iter().filter(|s| which(s.kind)).map(|s| s.created).min()
    }

    /// The creation time of the last of them.
    fn last(&self, which: u8) -> Option<u32> {
        self.own.iter().filter(|s| s.kind == which).map(|s| s.created).max()
    }
}

/// The components of the served `cert`, and a verdict on each signature: served signatures are good
/// or foreign.
fn components(cert: &Cert) -> (Vec<Component<'_>>, Vec<Verdict>) {
    let own = cert.fingerprint().key_id();
    let (mut parts, mut verdicts): (Vec<Component<'_>>, _) = (Vec::new(), Vec::new());
    for packet in cert.packets() {
        if packet.tag != Tag::SIGNATURE {
            parts.push(Component { packet, own: Vec::new(), others: Vec::new() });
            continue;
        }
        let signature = Signature::parse(packet.body);
        let is_own = signature.is_some_and(|signature| signature.names(own));
        verdicts.push(if is_own { Verdict::Good } else { Verdict::Foreign });
        if let (Some(signature), Some(part)) = (signature, parts.last_mut()) {
            if is_own { part.own.push(signature) } else { part.others.push(signature) }
        }
    }
    for part in &mut parts {
        part.others.sort_by_key(|signature| std::cmp::Reverse(signature.created));
    }
    (parts, verdicts)
}

/// The page of a certificate.
pub(crate) fn page(visit: &Visit<'_>, shown: &Shown, armored: Armor) -> Answer {
    let (texts, now) = (visit.texts, clock::now());
    let Shown { cert, known, signers, revokers, published } = shown;
    let (components, verdicts) = components(cert);
    let mut summary = known.at_another_time(cert, &verdicts, now);
    summary.primary = known.primary.clone();
    let is_user_id =
        |part: &&Component<'_>| matches!(part.packet.tag, Tag::USER_ID | Tag::USER_ATTRIBUTE);
    let is_subkey = |part: &&Component<'_>| {
        part.packet.tag == Tag::PUBLIC_SUBKEY && Key::parse(part.packet).is_ok()
    };
    // The summary has them in the order of the packets.
    let mut user_ids: Vec<_> =
        summary.user_ids.iter().zip(components.iter().filter(is_user_id)).collect();
    user_ids
        .sort_by_key(|(user_id, _)| (!user_id.primary, std::cmp::Reverse(user_id.validity(now))));
    let subkeys: Vec<_> = summary.subkeys.iter().zip(components.iter().filter(is_subkey)).collect();
    let by_revokers =
        revokers.iter().flat_map(|(by, key)| cert.signatures_of_revoker(*by, key)).collect();
    let view = View { visit, summary: &summary, signers, by_revokers, published, now };
    let names = parts::names(visit, &summary, Some(published));
    let first = names.first().map(parts::name);
    let fingerprint = summary.fingerprint();
    let primary = components.first();
    let title = first.as_deref().map_or_else(|| texts.no_name.into(), |name| text::plain(name, 60));
    let validity = summary.state(now);
    let (tracks, old_tracks) = view.tracks(primary, &user_ids, &subkeys);
    let body = html! {
        article.certificate.revoked[validity == Validity::Revoked] {
            header {
                h1 {
                    @match &first { Some(name) => { (foreign(name)) } None => { (texts.no_name) } }
                }
                (parts::state(visit, &summary, now))
            }
            @if let Some(name) = &first { (rest(name, texts)) }
            (view.explained(primary, &components))
            // Without a signature that is checked, nothing is known about times.
            @if summary.primary.has_known_algorithm() {
                section aria-labelledby="timeline-heading" {
                    h2 #timeline-heading { (texts.timeline) }
                    (timeline::draw(texts, &tracks, now))
                    @if !old_tracks.is_empty() {
                        details {
                            summary { ((texts.other_parts)(old_tracks.len() as u64)) }
                            (timeline::draw(texts, &old_tracks, now))
                        }
                    }
                }
            }
            div.overview {
                section.identity aria-labelledby="fingerprint-heading" {
                    h2 #fingerprint-heading { (texts.fingerprint) }
                    p.key.large data-copy=(fingerprint) data-copy-label=(texts.copy)
                        data-copied=(texts.copied) { (text::fingerprint(fingerprint)) }
                    p.hint { (view.claim(&names)) " " (texts.compare) }
                    (parts::facts(visit, &summary.primary))
                    (downloads(visit, fingerprint, validity))
                }
                figure.qr {
                    (qr::code(fingerprint, texts.qr_title))
                    figcaption { (texts.qr_caption) }
                }
            }
            section aria-labelledby="user-ids-heading" {
                h2 #user-ids-heading { (texts.user_ids) " (" (user_ids.len()) ")" }
                @if user_ids.is_empty() {
                    p {
                        @if summary.primary.has_known_algorithm() { (texts.no_user_ids) }
                        @else { (texts.not_checked_user_ids) }
                    }
                }
                (view.user_ids(&user_ids))
            }
            section aria-labelledby="keys-heading" {
                h2 #keys-heading { (texts.keys) " (" (1 + subkeys.len()) ")" }
                (view.keys(&subkeys))
                @if let Some(primary) = primary { (view.others(primary)) }
            }
            @if armored == Armor::Shown { (armor(visit, cert)) }
        }
    };
    visit.page(&title, &body)
}

fn armor(visit: &Visit<'_>, cert: &Cert) -> Markup {
    html! {
        @if cert.as_bytes().len() <= ARMOR_BYTES_MAX {
            section aria-labelledby="armor-heading" {
                h2 #armor-heading { (visit.texts.armor) }
                pre.armor tabindex="0" { (enarmor(cert.as_bytes())) }
            }
        }
    }
}

fn downloads(visit: &Visit<'_>, fingerprint: Fingerprint, validity: Validity) -> Markup {
    let texts = visit.texts;
    let version = format!("{:02}", fingerprint.version());
    let armored = format!("/pks/lookup?op=get&options=mr&search=0x{fingerprint}");
    let binary = format!("/pks/v2/certs/by-vfingerprint/{version}{fingerprint}");
    let keyserver = parts::keyserver(visit);
    // GnuPG takes no certificates of later versions than 4 from keyservers.
    let command = if fingerprint.version() <= 4 {
        format!("gpg --keyserver {keyserver} --recv-keys {fingerprint}")
    } else {
        format!("sq network keyserver search --server {keyserver} {fingerprint}")
    };
    html! {
        p.buttons {
            // Nobody needs a revoked key for more than its revocation.
            a.button.quiet[validity == Validity::Revoked] href=(armored) { (texts.download_armored) }
            a.button.quiet href=(binary) download={ (fingerprint) ".pgp" } { (texts.download_binary) }
        }
        p.label { (texts.fetch) }
        pre.command tabindex="0" data-copy=(command) data-copy-label=(texts.copy)
            data-copied=(texts.copied) { code { (command) } }
    }
}

/// Data that the parts of the page share.
struct View<'a> {
    visit: &'a Visit<'a>,
    summary: &'a Summary,
    signers: &'a HashMap<KeyId, Signer>,
    by_revokers: Vec<Signature<'a>>,
    /// The addresses whose owner confirmed them here.
    published: &'a [Address],
    now: u32,
}

impl<'a> View<'a> {
    /// The meaning of the certificate's state for its users.
    fn explained(&self, primary: Option<&Component<'a>>, components: &[Component<'_>]) -> Markup {
        let texts = self.visit.texts;
        if !self.summary.primary.has_known_algorithm() {
            return html! { aside.note.warning { p { (texts.not_checked_means) } } };
        }
        match self.summary.fault(self.now) {
            None if self.cannot_encrypt() => {
                html! { aside.note.warning { p { (texts.no_encryption_means) } } }
            }
            None => html! {},
            Some(Fault::Revoked) => self.revoked(primary),
            Some(Fault::Expired(end)) => html! {
                aside.note.warning {
                    @if end > 0 && end <= self.now {
                        p { strong { (texts.expired_on) " " (day(end)) "." } }
                    }
                    p { (texts.expired_means) }
                }
            },
            Some(fault) => {
                html! { aside.note.warning { p { (self.unusable(fault, components)) } } }
            }
        }
    }

    /// The reason why the certificate is not usable now.
    fn unusable(&self, fault: Fault, components: &[Component<'_>]) -> Markup {
        let texts = self.visit.texts;
        match fault {
            Fault::Future(_) => html! { (texts.future_means) },
            Fault::Short(bits) => html! { ((texts.short_means)(bits)) },
            Fault::NoUserId => html! { (texts.no_user_id_means) },
            Fault::Weak(weak) => {
                html! { ((texts.weak_means)(weak.hash_name())) " " (day(weak.made)) "." }
            }
            _ => self.unbound(components),
        }
    }

    /// The reason why no signature of the owner counts.
    fn unbound(&self, components: &[Component<'_>]) -> Markup {
        let texts = self.visit.texts;
        let created = self.summary.primary.created;
        if created > self.now {
            return html! { (texts.future_means) };
        }
        // A subkey binding does not make the primary key usable.
        let of_key = |part: &&Component<'_>| part.packet.tag != Tag::PUBLIC_SUBKEY;
        let binds = |signature: &&Signature<'_>| {
            signature.kind == kind::DIRECT_KEY || kind::CERTIFICATION.contains(&signature.kind)
        };
        let own = components.iter().filter(of_key).flat_map(|part| &part.own).filter(binds);
        let times: Vec<u32> = own.map(|signature| signature.created).collect();
        let first_ahead = times.iter().filter(|&&time| time > self.now).min();
        match first_ahead {
            Some(&time) => html! { (texts.signed_ahead_means) " " (day(time)) "." },
            None if times.iter().any(|&time| time < created) => {
                html! { (texts.signed_before_means) }
            }
            None => html! { (texts.invalid_means) },
        }
    }

    /// Whether its keys for encryption have ended.
    fn cannot_encrypt(&self) -> bool {
        let keys = self.summary.keys_for(Purpose::Encrypt, self.now);
        keys.is_err_and(|why| why.key.is_some())
    }

    /// The revocation of the primary key that counts, and whether its owner made it. Otherwise a
    /// named revoker did.
    fn key_revocation(&self, primary: Option<&Component<'a>>) -> Option<(Signature<'a>, bool)> {
        let own = primary.and_then(|part| revocation(&part.own, kind::KEY_REVOCATION));
        let by_revoker = || revocation(&self.by_revokers, kind::KEY_REVOCATION);
        own.map(|own| (own, true)).or_else(|| Some((by_revoker()?, false)))
    }

    /// When, by whom and why the certificate was revoked.
    fn revoked(&self, primary: Option<&Component<'a>>) -> Markup {
        let texts = self.visit.texts;
        let (revocation, who) = match self.key_revocation(primary) {
            Some((revocation, true)) => (Some(revocation), texts.revoked_by_owner),
            Some((revocation, false)) => (Some(revocation), texts.revoked_by_other),
            None => (None, texts.revoked_by_other),
        };
        html! {
            aside.note.danger role="note" {
                p {
                    strong {
                        (who)
                        @if let Some(revocation) = &revocation {
                            " " (texts.on_day) " " (day(revocation.created))
                        }
                        "."
                    }
                    " " (texts.revoked_means)
                }
                @if let Some(revocation) = &revocation { (self.reason(revocation)) }
            }
        }
    }

    /// The reason of a revocation: its code in words, and the text of whoever made it.
    fn reason(&self, revocation: &Signature<'_>) -> Markup {
        let texts = self.visit.texts;
        let (code, text) = revocation.revocation_reason.unwrap_or((0, b""));
        // Some people write several lines.
        let text = user_id::text(text).lines().collect::<Vec<_>>().join(" ");
        html! {
            dl.facts {
                div {
                    dt { (texts.reason) }
                    dd {
                        ((texts.reason_code)(code))
                        @if !text.is_empty() { ": " q.said { (foreign(&text)) } }
                    }
                }
            }
            @if !text.is_empty() { (rest(&text, texts)) }
        }
    }

    /// Whose claim the name of the certificate is.
    fn claim(&self, names: &[UserIdSummary]) -> Markup {
        let texts = self.visit.texts;
        let is_confirmed = |name: &&UserIdSummary| self.is_confirmed(name);
        let confirmed = names.iter().filter(is_confirmed).count();
        html! {
            @if confirmed == 0 { (texts.name_unverified) }
            @else { ((texts.names_confirmed)(confirmed as u64)) }
        }
    }

    /// Whether somebody who reads mail to the address of a user ID confirmed it on this server.
    fn is_confirmed(&self, user_id: &UserIdSummary) -> bool {
        self.visit.config.vks.enabled && parts::is_confirmed(user_id, self.published, self.now)
    }

    /// User IDs: the first ones, then those behind a click.
    fn user_ids(&self, all: &[(&UserIdSummary, &Component<'_>)]) -> Markup {
        // A revoked certificate has no user ID that could be used.
        let all_are_old = self.summary.state(self.now) != Validity::Valid;
        let is_current = |user_id: &UserIdSummary| {
            all_are_old || matches!(self.validity(user_id), Validity::Valid)
        };
        let (mut current, mut old): (Vec<_>, Vec<_>) =
            all.iter().partition(|(user_id, _)| is_current(user_id));
        current.truncate(COMPONENTS_MAX);
        old.truncate(COMPONENTS_MAX - current.len());
        let show = |(user_id, part): &(&UserIdSummary, &Component<'_>)| self.user_id(user_id, part);
        html! {
            (self.folded(&current, &old, show))
            (self.left(all.len()))
        }
    }

    /// The primary key and subkeys in use, then old ones behind a click.
    fn keys(&self, subkeys: &[(&KeySummary, &Component<'_>)]) -> Markup {
        let texts = self.visit.texts;
        let is_current =
            |key: &KeySummary| self.summary.key_state(key, self.now) == Validity::Valid;
        let all = subkeys.iter().map(|&(key, part)| (key, Some(part)));
        let (mut current, mut old): (Vec<_>, Vec<_>) = all.partition(|(key, _)| is_current(key));
        current.truncate(COMPONENTS_MAX);
        old.truncate(COMPONENTS_MAX - current.len());
        let mut first = vec![(&self.summary.primary, None)];
        first.extend(current);
        let show = |(key, part): &(&KeySummary, Option<&Component<'_>>)| {
            let role = if part.is_none() { texts.primary_key } else { texts.subkey };
            self.key(key, *part, role)
        };
        html! {
            (self.folded(&first, &old, show))
            (self.left(subkeys.len()))
        }
    }

    /// The first of the current parts in a list, the others of them and the old ones behind clicks.
    fn folded<T>(&self, current: &[T], old: &[T], show: impl Fn(&T) -> Markup) -> Markup {
        let texts = self.visit.texts;
        let (first, more) = current.split_at(current.len().min(UNFOLDED_MAX));
        html! {
            @if !first.is_empty() {
                ul.components { @for one in first { li { (show(one)) } } }
            }
            @for (label, list) in [(texts.further, more), (texts.older_parts, old)] {
                @if !list.is_empty() {
                    details.folded {
                        summary { (label(list.len() as u64)) }
                        ul.components { @for one in list { li { (show(one)) } } }
                    }
                }
            }
        }
    }

    fn left(&self, count: usize) -> Markup {
        html! {
            @if count > COMPONENTS_MAX {
                p { ((self.visit.texts.more)((count - COMPONENTS_MAX) as u64)) }
            }
        }
    }

    /// The state of a user ID: never better than that of its key.
    fn validity(&self, user_id: &UserIdSummary) -> Validity {
        user_id.validity(self.now).min(self.summary.state(self.now))
    }

    fn user_id(&self, user_id: &UserIdSummary, part: &Component<'_>) -> Markup {
        let texts = self.visit.texts;
        let since = part.first(|kind| kind::CERTIFICATION.contains(&kind));
        let validity = self.validity(user_id);
        let revocation = if user_id.revoked {
            revocation(&part.own, kind::CERTIFICATION_REVOCATION)
        } else {
            None
        };
        html! {
            div.component {
                p.name {
                    @match &user_id.content {
                        UserIdContent::Text(text) => {
                            (foreign(&user_id::text(text)))
                        }
                        UserIdContent::Attribute { bytes, .. } => {
                            em { ((texts.attribute)(u64::from(*bytes))) }
                        }
                    }
                    @if user_id.primary { " " span.mark { (texts.primary) } }
                }
                // That of the certificate stands at the top.
                @if validity != self.summary.state(self.now) {
                    (parts::badge(self.visit, validity))
                } @else if self.is_confirmed(user_id) {
                    (parts::confirmed(texts, user_id))
                }
            }
            @if let UserIdContent::Text(text) = &user_id.content {
                (rest(&user_id::text(text), texts))
            }
            dl.facts {
                @if let Some(since) = since { div { dt { (texts.since) } dd { (day(since)) } } }
                @if user_id.expires > 0 {
                    div { dt { (texts.expires) } dd { (day(user_id.expires)) } }
                }
                @if let Some(revocation) = &revocation {
                    div { dt { (texts.revoked_on) } dd { (day(revocation.created)) } }
                }
                @if let UserIdContent::Text(text) = &user_id.content
                    && let Some(address) = Address::of_user_id(text) {
                    div {
                        dd {
                            a href={ "/pks/lookup?op=index&search=" (encoded(&address.to_string())) } {
                                (texts.same_address)
                            }
                        }
                    }
                }
            }
            @if let Some(revocation) = &revocation { (self.reason(revocation)) }
            (self.others(part))
        }
    }

    /// A key. `part` is that of a subkey; the fingerprint of the primary key stands at the top of
    /// the page.
    fn key(&self, key: &KeySummary, part: Option<&Component<'_>>, role: &str) -> Markup {
        let texts = self.visit.texts;
        let abilities = [
            (Capabilities::CERTIFY, texts.certify),
            (Capabilities::SIGN, texts.sign),
            (Capabilities::ENCRYPT, texts.encrypt),
            (Capabilities::AUTHENTICATE, texts.authenticate),
        ];
        let validity = self.summary.key_state(key, self.now);
        let own = if key.revoked {
            part.and_then(|part| revocation(&part.own, kind::SUBKEY_REVOCATION))
        } else {
            None
        };
        html! {
            div.component {
                p.name {
                    (role) " "
                    @for (which, name) in abilities {
                        @if key.capabilities.has(which) && !key.withheld.has(which) { span.mark { (name) } " " }
                    }
                }
                @if validity != self.summary.state(self.now) {
                    (parts::badge(self.visit, validity))
                }
            }
            @if part.is_some() { p.key { (text::fingerprint(key.fingerprint)) } }
            (parts::facts(self.visit, key))
            @if let Some(own) = &own {
                dl.facts { div { dt { (texts.revoked_on) } dd { (day(own.created)) } } }
                (self.reason(own))
            }
        }
    }

    /// The signatures of others on a component, newest first.
    fn others(&self, part: &Component<'_>) -> Markup {
        let texts = self.visit.texts;
        let count = part.others.len() as u64;
        html! {
            @if count > 0 {
                details.signatures {
                    summary { ((texts.signatures)(count)) }
                    p.hint {
                        @match self.visit.config.policy.third_party {
                            ThirdParty::Verified | ThirdParty::Revocations => { (texts.signatures_verified) }
                            ThirdParty::All => { (texts.signatures_unchecked) }
                        }
                    }
                    div.scroll tabindex="0" role="region" aria-label=((texts.signatures)(count)) {
                        table.stack {
                            thead {
                                tr {
                                    th scope="col" { (texts.signer) }
                                    th scope="col" { (texts.signature_kind) }
                                    th scope="col" { (texts.signature_date) }
                                    th scope="col" { (texts.expires) }
                                }
                            }
                            tbody {
                                @for signature in part.others.iter().take(SIGNATURES_MAX) {
                                    (self.signature(signature))
                                }
                            }
                        }
                    }
                    @if part.others.len() > SIGNATURES_MAX {
                        p { ((texts.more)(count - SIGNATURES_MAX as u64)) }
                    }
                }
            }
        }
    }

    fn signature(&self, signature: &Signature<'_>) -> Markup {
        let texts = self.visit.texts;
        let kind = match signature.kind {
            kind::CERTIFICATION_REVOCATION | kind::KEY_REVOCATION | kind::SUBKEY_REVOCATION => {
                texts.signature_revokes
            }
            kind::DIRECT_KEY => texts.signature_direct,
            _ => texts.signature_certifies,
        };
        let id = signature.issuer;
        let signer = id.and_then(|id| self.signers.get(&id));
        html! {
            tr {
                th scope="row" {
                    @match (signer, id) {
                        (Some(signer), _) => {
                            a href=(text::path(signer.fingerprint)) {
                                @match &signer.name {
                                    Some(name) => { (foreign(name)) }
                                    None => { (texts.no_name) }
                                }
                            }
                        }
                        (None, Some(_)) => { span.unknown { (texts.unknown_signer) } }
                        (None, None) => { span.unknown { (texts.unnamed_signer) } }
                    }
                    @if let Some(id) = id { br; code { (id) } }
                }
                td data-label=(texts.signature_kind) {
                    (kind)
                    @if let Some((depth, _)) = signature.trust.filter(|&(depth, _)| depth > 0) {
                        " " span.mark { ((texts.trust_depth)(depth)) }
                    }
                }
                td data-label=(texts.signature_date) { (day(signature.created)) }
                td data-label=(texts.expires) {
                    @if signature.expires == 0 { "–" } @else { (day(signature.expires)) }
                }
            }
        }
    }

    /// The events of the time line: the first parts that are in use, and the others.
    fn tracks(
        &self,
        primary: Option<&Component<'a>>,
        user_ids: &[(&UserIdSummary, &Component<'_>)],
        subkeys: &[(&KeySummary, &Component<'_>)],
    ) -> (Vec<Track>, Vec<Track>) {
        let texts = self.visit.texts;
        let end = |revoked: Option<u32>, expires: u32| match (revoked, expires) {
            (Some(time), _) => End::Revoked(time),
            (None, 0) => End::Open,
            (None, time) => End::Expires(time),
        };
        let key =
            |key: &KeySummary, part: Option<&Component<'_>>, which: u8, label: String| Track {
                label,
                validity: self.summary.key_state(key, self.now),
                from: key.created,
                end: end(
                    key.revoked.then(|| part.and_then(|part| part.first(|k| k == which))).flatten(),
                    key.expires,
                ),
            };
        let summary = self.summary;
        // A key that is revoked or expired ends everything on it.
        let ended = self.key_revocation(primary).filter(|_| summary.primary.revoked);
        let ended = ended.map(|(revocation, _)| revocation);
        let bounded = |mut track: Track| {
            if let (Some(ended), true) = (&ended, track.validity == Validity::Revoked) {
                let time = match track.end {
                    End::Revoked(time) => time.min(ended.created),
                    End::Open | End::Expires(_) => ended.created,
                };
                track.end = End::Revoked(time.max(track.from));
            }
            let last = summary.primary.expires;
            if last > 0 {
                track.end = match track.end {
                    End::Open => End::Expires(last),
                    End::Expires(time) => End::Expires(time.min(last)),
                    revoked @ End::Revoked(_) => revoked,
                };
            }
            track
        };
        let mut tracks =
            vec![key(&summary.primary, primary, kind::KEY_REVOCATION, texts.primary_key.into())];
        for (user_id, part) in user_ids {
            let label = match &user_id.content {
                UserIdContent::Text(text) => {
                    text::label(&user_id::text(text), timeline::LABEL_CHARACTERS)
                }
                UserIdContent::Attribute { bytes, .. } => (texts.attribute)(u64::from(*bytes)),
            };
            let revoked = user_id.revoked.then(|| part.last(kind::CERTIFICATION_REVOCATION));
            tracks.push(Track {
                label,
                validity: self.validity(user_id),
                from: part
                    .first(|kind| kind::CERTIFICATION.contains(&kind))
                    .unwrap_or(summary.primary.created),
                end: end(revoked.flatten(), user_id.expires),
            });
        }
        for (subkey, part) in subkeys {
            let label = format!("{} {}", texts.subkey, subkey.fingerprint.key_id());
            tracks.push(key(subkey, Some(part), kind::SUBKEY_REVOCATION, label));
        }
        // The primary key comes first in any case.
        let usual = summary.state(self.now);
        let (mut current, mut old) = (Vec::new(), Vec::new());
        for (at, track) in tracks.into_iter().map(bounded).enumerate() {
            let is_current =
                at == 0 || track.validity == usual || track.validity == Validity::Valid;
            let list =
                if is_current && current.len() < TRACKS_MAX { &mut current } else { &mut old };
            list.push(track);
        }
        (current, old)
    }
}

/// The revocation that counts: a hard one if there is one, otherwise the last.
fn revocation<'a>(signatures: &[Signature<'a>], which: u8) -> Option<Signature<'a>> {
    let is_hard =
        |signature: &Signature<'_>| matches!(signature.revocation_reason, None | Some((0 | 2, _)));
    let all = signatures.iter().filter(|signature| signature.kind == which);
    all.max_by_key(|signature| (is_hard(signature), signature.created)).copied()
}
