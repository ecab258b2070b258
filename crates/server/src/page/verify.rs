//! The pages on which people confirm addresses and take them back.

use http::StatusCode;
use maud::{Markup, html};
use talaria_cert::{Address, Fingerprint};

use super::frame::{self, Visit};
use super::parts;
use super::text::{fingerprint as grouped, foreign, path};
use crate::addresses::{Status, Statuses};
use crate::answer::Answer;

/// The texts of these pages.
struct Words {
    confirm_title: &'static str,
    confirm_question: &'static str,
    confirm_button: &'static str,
    confirm_else: &'static str,
    confirmed_title: &'static str,
    confirmed: &'static str,
    confirmed_back: &'static str,
    ask_title: &'static str,
    ask: &'static str,
    ask_label: &'static str,
    ask_button: &'static str,
    asked_title: &'static str,
    asked: &'static str,
    unknown_title: &'static str,
    unknown: &'static str,
    list_title: &'static str,
    list: &'static str,
    list_empty: &'static str,
    list_button: &'static str,
    /// An address that was taken back, on any server.
    list_means: &'static str,
    /// Searches, if this server shows all addresses.
    found_by_all: &'static str,
    /// Searches, if this server shows only confirmed addresses.
    found_by_confirmed: &'static str,
    removal: &'static str,
    removal_contact: &'static str,
    list_else: &'static str,
    not_sent: &'static str,
}

const ENGLISH: Words = Words {
    confirm_title: "Confirm your address?",
    confirm_question: "Is this your key, and is this your address?",
    confirm_button: "Yes, confirm my address",
    confirm_else: "If it is not your key, close this page: the address is not confirmed then.",
    confirmed_title: "Your address is confirmed",
    confirmed: "Programs that ask for confirmed addresses now find this key by:",
    confirmed_back: "Take addresses back",
    ask_title: "Manage your addresses",
    ask: "Enter an address that you have confirmed. You get a mail with a link to a page on which you \
          can take addresses back.",
    ask_label: "E-mail address",
    ask_button: "Send the link",
    asked_title: "Look into your mailbox",
    asked: "A mail with a link was sent to",
    unknown_title: "This address is not confirmed",
    unknown: "No key on this server was confirmed for",
    list_title: "Your addresses",
    list: "These addresses of the key are confirmed:",
    list_empty: "No address of this key is confirmed.",
    list_button: "Take back",
    list_means: "Programs that ask for confirmed addresses do not find the key by an address that you take back.",
    found_by_all: "Searches on this server find a key by each address in it, confirmed or not.",
    found_by_confirmed: "This server shows no other addresses than confirmed ones. An address that it does not show \
                         can stay in the key on other keyservers.",
    removal: "The operator can remove an address from the key on this server.",
    removal_contact: "Ask:",
    list_else: "To confirm an address again, upload the key once more and ask for a mail.",
    not_sent: "No mail was sent to:",
};

const GERMAN: Words = Words {
    confirm_title: "Adresse bestätigen?",
    confirm_question: "Ist das Ihr Schlüssel, und ist das Ihre Adresse?",
    confirm_button: "Ja, meine Adresse bestätigen",
    confirm_else: "Wenn es nicht Ihr Schlüssel ist, schließen Sie die Seite: Die Adresse wird dann \
                   nicht bestätigt.",
    confirmed_title: "Ihre Adresse ist bestätigt",
    confirmed: "Programme, die nach bestätigten Adressen fragen, finden diesen Schlüssel jetzt unter:",
    confirmed_back: "Adressen zurückziehen",
    ask_title: "Ihre Adressen verwalten",
    ask: "Geben Sie eine Adresse ein, die Sie bestätigt haben. Sie bekommen eine Mail mit einem Link \
          zu einer Seite, auf der Sie Adressen zurückziehen können.",
    ask_label: "E-Mail-Adresse",
    ask_button: "Link schicken",
    asked_title: "Sehen Sie in Ihr Postfach",
    asked: "Eine Mail mit einem Link ging an",
    unknown_title: "Diese Adresse ist nicht bestätigt",
    unknown: "Kein Schlüssel auf diesem Server wurde bestätigt für",
    list_title: "Ihre Adressen",
    list: "Diese Adressen des Schlüssels sind bestätigt:",
    list_empty: "Keine Adresse dieses Schlüssels ist bestätigt.",
    list_button: "Zurückziehen",
    list_means: "Programme, die nach bestätigten Adressen fragen, finden den Schlüssel nicht unter einer Adresse, \
                 die Sie zurückziehen.",
    found_by_all: "Suchen auf diesem Server finden einen Schlüssel unter jeder Adresse darin, bestätigt oder nicht.",
    found_by_confirmed: "Dieser Server zeigt nur bestätigte Adressen. Eine Adresse, die er nicht zeigt, kann auf anderen \
                         Schlüsselservern im Schlüssel bleiben.",
    removal: "Der Betreiber kann eine Adresse aus dem Schlüssel auf diesem Server entfernen.",
    removal_contact: "Fragen Sie:",
    list_else: "Um eine Adresse wieder zu bestätigen, laden Sie den Schlüssel noch einmal hoch und \
                fordern Sie eine Mail an.",
    not_sent: "Keine Mail ging an:",
};

impl Words {
    /// The addresses by which searches on this server find a key.
    fn searches(&self, visit: &Visit<'_>) -> &'static str {
        if visit.config.vks.only_confirmed { self.found_by_confirmed } else { self.found_by_all }
    }
}

/// The page in the language of the client.
fn page(
    visit: &Visit<'_>,
    title: impl Fn(&Words) -> &'static str,
    body: impl Fn(&Words) -> Markup,
) -> Answer {
    let words = if visit.texts.lang == "de" { &GERMAN } else { &ENGLISH };
    let title = title(words);
    let body = body(words);
    visit.page(title, &html! { h1 { (title) } section.panel { (body) } })
}

/// Asks whether an address is to be published. The form leads to where it is shown.
pub(crate) fn confirm(visit: &Visit<'_>, fingerprint: Fingerprint, email: &Address) -> Answer {
    page(
        visit,
        |words| words.confirm_title,
        |words| {
            html! {
                p { (words.confirm_question) }
                p.subject { strong { (foreign(&email.to_string())) } }
                p.key { (grouped(fingerprint)) }
                form method="post" { button type="submit" { (words.confirm_button) } }
                p.hint { (words.confirm_else) " " (words.searches(visit)) }
            }
        },
    )
}

/// Says that an address is published.
pub(crate) fn confirmed(visit: &Visit<'_>, fingerprint: Fingerprint, email: &Address) -> Answer {
    page(
        visit,
        |words| words.confirmed_title,
        |words| {
            html! {
                p { (words.confirmed) }
                p.subject { (parts::confirmed_sign()) " " strong { (foreign(&email.to_string())) } }
                p.key { a href=(path(fingerprint)) { (grouped(fingerprint)) } }
                p { a href="/vks/manage" { (words.confirmed_back) } }
            }
        },
    )
}

/// Asks for an address, to send a link to it.
pub(crate) fn ask(visit: &Visit<'_>) -> Answer {
    page(
        visit,
        |words| words.ask_title,
        |words| {
            html! {
                p { (words.ask) }
                form method="post" {
                    label for="address" { (words.ask_label) }
                    input #address type="email" name="address" required autocomplete="email";
                    button type="submit" { (words.ask_button) }
                }
            }
        },
    )
}

/// Says that a link was sent.
pub(crate) fn asked(visit: &Visit<'_>, email: &Address) -> Answer {
    page(
        visit,
        |words| words.asked_title,
        |words| {
            html! { p { (words.asked) " " strong { (foreign(&email.to_string())) } "." } }
        },
    )
}

/// Says to which addresses of a certificate links were sent, and to which not.
pub(crate) fn sent(
    visit: &Visit<'_>,
    fingerprint: Fingerprint,
    sent: &[Address],
    failed: &[(Address, String)],
) -> Answer {
    page(
        visit,
        |words| words.asked_title,
        |words| {
            html! {
                @if !sent.is_empty() {
                    p { (words.asked) ":" }
                    ul { @for email in sent { li { strong { (foreign(&email.to_string())) } } } }
                }
                @if !failed.is_empty() {
                    p { (words.not_sent) }
                    ul {
                        @for (email, why) in failed {
                            li { (foreign(&email.to_string())) " – " span lang="en" { (foreign(why)) } }
                        }
                    }
                }
                p.key { a href=(path(fingerprint)) { (grouped(fingerprint)) } }
            }
        },
    )
}

/// Says that there is nothing to be managed.
pub(crate) fn unknown(visit: &Visit<'_>, email: &Address) -> Answer {
    let mut answer = page(
        visit,
        |words| words.unknown_title,
        |words| {
            html! { p { (words.unknown) " " strong { (foreign(&email.to_string())) } "." } }
        },
    );
    *answer.status_mut() = StatusCode::NOT_FOUND;
    answer
}

/// The addresses of a certificate, with a button for each that is published.
pub(crate) fn addresses(
    visit: &Visit<'_>,
    fingerprint: Fingerprint,
    statuses: &Statuses,
) -> Answer {
    let published: Vec<&Address> = statuses
        .iter()
        .filter(|(_, status)| **status == Status::Published)
        .map(|(email, _)| email)
        .collect();
    let contact = &visit.config.server.contact;
    page(
        visit,
        |words| words.list_title,
        |words| {
            html! {
                p.key { a href=(path(fingerprint)) { (grouped(fingerprint)) } }
                @if published.is_empty() {
                    p { (words.list_empty) }
                } @else {
                    p { (words.list) }
                    ul.rows {
                        @for email in &published {
                            li {
                                form method="post" {
                                    span { (foreign(&email.to_string())) }
                                    input type="hidden" name="address" value=(email.to_string());
                                    button.quiet type="submit" { (words.list_button) }
                                }
                            }
                        }
                    }
                }
                p { (words.list_means) " " (words.searches(visit)) }
                p {
                    (words.removal)
                    @if !contact.is_empty() { " " (words.removal_contact) " " (frame::contact(contact)) }
                }
                p.hint { (words.list_else) }
            }
        },
    )
}
