//! The details of one certificate, with each signature below its component.

use std::io::Write as _;

use talaria::cert::{Fingerprint, Key, RevokerState, Signature, Tag};
use talaria::store::{Row, Stored};
use talaria::{Confirmation, Error, Opened, day};

use super::counted;
use super::lines::Lines;
use super::signatures::SignatureJson;
use super::text::{sorted_user_ids, verb, write_key, write_user_id};
use crate::terminal::Paint;

/// The signatures of a certificate by component.
#[derive(Default)]
struct Grouped {
    /// Signatures on the primary key and the subkeys, by fingerprint, with their keygrips.
    keys: Vec<(Option<Fingerprint>, Option<String>, Vec<SignatureJson>)>,
    /// Signatures on the user IDs and attributes.
    user_ids: Vec<Vec<SignatureJson>>,
    /// Signatures on other components.
    others: Vec<SignatureJson>,
}

impl Grouped {
    fn new(stored: &Stored, signatures: Vec<SignatureJson>) -> Self {
        let mut grouped = Self::default();
        let mut signatures = signatures.into_iter();
        let mut last = None;
        for packet in stored.cert.packets() {
            match packet.tag {
                Tag::PUBLIC_KEY | Tag::PUBLIC_SUBKEY => {
                    let key = Key::parse(packet).ok();
                    let keygrip = key.as_ref().and_then(Key::keygrip);
                    let fingerprint = key.as_ref().map(Key::fingerprint);
                    grouped.keys.push((
                        fingerprint,
                        keygrip.map(|grip| grip.to_string()),
                        Vec::new(),
                    ));
                }
                Tag::USER_ID | Tag::USER_ATTRIBUTE => grouped.user_ids.push(Vec::new()),
                Tag::SIGNATURE => {
                    let readable = Signature::parse(packet.body).is_some();
                    if let Some(signature) = readable.then(|| signatures.next()).flatten() {
                        grouped.group(last).push(signature);
                    }
                    continue;
                }
                _ => {}
            }
            last = Some(packet.tag);
        }
        grouped
    }

    /// The signatures on the last component, which has this type.
    fn group(&mut self, of: Option<Tag>) -> &mut Vec<SignatureJson> {
        let group = match of {
            Some(Tag::PUBLIC_KEY | Tag::PUBLIC_SUBKEY) => {
                self.keys.last_mut().map(|(_, _, group)| group)
            }
            Some(Tag::USER_ID | Tag::USER_ATTRIBUTE) => self.user_ids.last_mut(),
            _ => None,
        };
        group.unwrap_or(&mut self.others)
    }
}

/// Whether a signature was made by another certificate.
fn is_third_party(signature: &SignatureJson) -> bool {
    signature.verdict == "foreign"
}

impl Lines<'_> {
    /// The details of one certificate. Certifications by others are only counted unless `all` is
    /// set.
    pub(crate) fn details(
        &mut self,
        out: &mut Vec<u8>,
        opened: &Opened,
        row: &Row,
        all: bool,
    ) -> Result<(), Error> {
        let (summary, now, paint) = (&row.summary, self.now, self.paint);
        let judged = self.judge(opened, row)?;
        let confirmations = self.confirmations(opened, row)?;
        let grouped = match opened.store.stored(row.id)? {
            Some(stored) => {
                let signatures = self.signature_list(&stored)?;
                Grouped::new(&stored, signatures)
            }
            None => Grouped::default(),
        };
        let keys = std::iter::once(&summary.primary).chain(&summary.subkeys);
        for (at, key) in keys.enumerate() {
            write_key(out, if at == 0 { "pub" } else { "sub" }, key, summary, now, paint);
            let is_it = |of: &Option<Fingerprint>| *of == Some(key.fingerprint);
            if let Some((_, keygrip, signatures)) = grouped.keys.iter().find(|(of, ..)| is_it(of)) {
                if let Some(keygrip) = keygrip {
                    let _ = writeln!(out, "      {}", paint.faint(format!("keygrip {keygrip}")));
                }
                self.write_group(out, signatures, all);
            }
            if at > 0 {
                continue;
            }
            for (at, user_id) in sorted_user_ids(summary, now) {
                let level = judged.as_ref().and_then(|judged| judged.user_ids.get(at));
                let known = confirmations.get(at).copied().unwrap_or(Confirmation::Missing);
                let level = level.map(|level| level.level);
                write_user_id(out, user_id, summary, (level, known), now, paint);
                if let Some(signatures) = grouped.user_ids.get(at) {
                    self.write_group(out, signatures, all);
                }
            }
        }
        if !grouped.others.is_empty() {
            let _ = writeln!(out, "other");
            self.write_group(out, &grouped.others, all);
        }
        let bytes = opened.store.cert_length(row.id)?;
        let _ = writeln!(
            out,
            "\nversion {}, {}, {}, {}, {}, change {}",
            summary.fingerprint().version(),
            counted(bytes, "byte"),
            counted(summary.user_ids.len(), "user ID"),
            counted(summary.subkeys.len(), "subkey"),
            counted(summary.signatures, "signature"),
            row.change,
        );
        for revoker in &summary.revokers {
            let fingerprint = revoker.revoker.fingerprint;
            let _ = match revoker.state {
                RevokerState::Revoked => {
                    writeln!(out, "{} {fingerprint}", paint.bad("revoked by"))
                }
                RevokerState::Silent => writeln!(out, "may be revoked by {fingerprint}"),
                RevokerState::Unknown => {
                    writeln!(out, "may have been revoked by {fingerprint}, whose key is unknown")
                }
            };
        }
        Ok(())
    }

    fn write_group(&self, out: &mut Vec<u8>, signatures: &[SignatureJson], all: bool) {
        let (others, own): (Vec<_>, Vec<_>) =
            signatures.iter().partition(|signature| is_third_party(signature));
        for signature in own {
            let verdict = verdict(signature.verdict, self.paint);
            let (made, what) = (day(signature.created), own_kind(signature.kind));
            let _ = write!(out, "      {verdict} {made} {what}");
            self.write_expiry(out, signature);
        }
        if all {
            for signature in others {
                let issuer = signature.issuer.as_deref().unwrap_or("(no issuer)     ");
                let (made, what) = (day(signature.created), verb(signature.kind));
                let _ = write!(out, "      {:>9} {made} {issuer} {what}", "");
                self.write_end(out, signature);
            }
            return;
        }
        if others.is_empty() {
            return;
        }
        let revoking = others.iter().filter(|signature| verb(signature.kind) == "revokes").count();
        let known = others.iter().filter(|signature| signature.issuer_user_id.is_some()).count();
        let makers = match known {
            0 => "none of their certificates is in the store".to_owned(),
            known if known == others.len() => "by certificates in the store".to_owned(),
            known => format!("{known} of them by certificates in the store"),
        };
        let revoked = match revoking {
            0 => String::new(),
            count => format!(", {} among them", counted(count, "revocation")),
        };
        let others = counted(others.len(), "third-party signature");
        let text = format!("{others}{revoked} ({makers})");
        let _ = writeln!(out, "      {}", self.paint.faint(text));
    }

    fn write_expiry(&self, out: &mut Vec<u8>, signature: &SignatureJson) {
        let _ = match signature.expires {
            Some(expires) if expires <= self.now => writeln!(out, " [expired: {}]", day(expires)),
            Some(expires) => writeln!(out, " [expires: {}]", day(expires)),
            None => writeln!(out),
        };
    }
}

/// A verdict in its colour, right-aligned.
fn verdict(word: &'static str, paint: Paint) -> String {
    match word {
        "good" => format!("{:>9}", paint.good(word)),
        "unchecked" | "unsupported" | "weak" => format!("{:>9}", paint.doubtful(word)),
        _ => format!("{:>9}", paint.bad(word)),
    }
}

/// The name of a signature type, for signatures by the key itself (RFC 9580, section 5.2.1).
fn own_kind(kind: u8) -> &'static str {
    match kind {
        0x10..=0x13 => "self-signature",
        0x18 => "subkey binding",
        0x1f => "direct key signature",
        0x20 => "key revocation",
        0x28 => "subkey revocation",
        0x30 => "revocation",
        _ => "signature",
    }
}
