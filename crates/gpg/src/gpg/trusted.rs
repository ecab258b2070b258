//! What gpg says about the key of a good signature: whether it belongs to whom it names, and
//! whether it is revoked or has expired.

use std::cell::OnceCell;

use talaria_cert::{Fingerprint, Subpacket};

use crate::code::Exit;
use crate::gpg::manner::Manner;
use crate::gpg::trust::{Believed, Level};
use crate::keyblock::{KeyState, Keyblock, UserId};
use crate::session::Session;
use crate::signature::subpacket;
use crate::text::printable;

/// What stands beside the name of a signer.
#[derive(Debug, Default)]
pub(crate) struct Mark {
    /// Behind the key ID in a status line.
    pub(crate) status: &'static str,
    /// Behind the name in a text.
    pub(crate) text: String,
}

/// A certificate, and what the trust database has about it.
pub(crate) struct Trusted<'a> {
    session: &'a Session,
    manner: &'a Manner,
    keyblock: &'a Keyblock,
    believed: OnceCell<Believed>,
}

impl<'a> Trusted<'a> {
    /// A certificate; the trust database is not looked at yet.
    pub(crate) fn new(session: &'a Session, manner: &'a Manner, keyblock: &'a Keyblock) -> Self {
        Self { session, manner, keyblock, believed: OnceCell::new() }
    }

    fn believed(&self) -> Result<&Believed, Exit> {
        if let Some(known) = self.believed.get() {
            return Ok(known);
        }
        let log = &self.session.log;
        self.manner.trust.tell(log);
        let found = self.manner.trust.find(log, self.keyblock.primary().fingerprint)?;
        Ok(self.believed.get_or_init(|| found))
    }

    /// What stands beside the name of the signer: `primary` is the user ID that stands for the
    /// certificate, and `any` the one that is written.
    pub(crate) fn mark(
        &self,
        primary: Option<&UserId>,
        any: Option<&UserId>,
    ) -> Result<Mark, Exit> {
        if let Some(primary) = primary {
            return Ok(Mark { status: "", text: self.validity(primary)? });
        }
        let is_uncertain = any.is_some() && !self.manner.trust.is_always;
        let status = if is_uncertain { "[uncertain] " } else { "" };
        let text = if is_uncertain { " [uncertain]".to_owned() } else { String::new() };
        Ok(Mark { status, text })
    }

    /// The validity of a user ID as a word behind it.
    pub(crate) fn validity(&self, user_id: &UserId) -> Result<String, Exit> {
        if !self.manner.shown.validity {
            return Ok(String::new());
        }
        let word = if user_id.is_revoked {
            "revoked"
        } else if user_id.is_rejected {
            "expired"
        } else {
            let level = self.believed()?.of(&user_id.raw);
            if self.keyblock.primary().has_expired { "expired" } else { level.name() }
        };
        Ok(format!(" [{word}]"))
    }

    /// Whether user IDs that are revoked or have expired are written.
    pub(crate) fn shows_unusable(&self) -> bool {
        self.manner.shown.unusable_user_ids
    }

    /// Whether other user IDs than the primary one are written.
    pub(crate) fn shows_others(&self) -> bool {
        !self.manner.shown.only_primary
    }

    /// Reports the trust in the signing key. `false` if the user never trusts it.
    pub(crate) fn report(&self, key: &KeyState) -> Result<bool, Exit> {
        let Self { session, manner, keyblock, .. } = self;
        let (log, status) = (&session.log, &session.status);
        keyblock.report(session, key);
        if manner.trust.is_always {
            if !session.quiet {
                log.info("WARNING: Using untrusted key!");
            }
            self.fingerprint_if_wanted(key);
            return Ok(true);
        }
        if keyblock.may_be_revoked {
            log.info("WARNING: this key might be revoked (revocation key not present)");
        }
        self.look_up_primary(key);
        let believed = self.believed()?;
        self.report_revocation(key);
        if believed.is_disabled() {
            log.info("Note: This key has been disabled.");
        }
        let level = if key.has_expired { Level::Expired } else { believed.best() };
        let trust = |word: &str| status.line(&format!("TRUST_{word} 0 {}", manner.trust.model));
        match level {
            Level::Expired => {
                log.info("Note: This key has expired!");
                self.fingerprint(key);
            }
            Level::Unknown | Level::Undefined => {
                trust("UNDEFINED");
                log.info("WARNING: This key is not certified with a trusted signature!");
                let what = "There is no indication that the signature belongs to the owner.";
                log.info(format!("         {what}"));
                self.fingerprint(key);
            }
            Level::Never => {
                trust("NEVER");
                log.info("WARNING: We do NOT trust this key!");
                log.info("         The signature is probably a FORGERY.");
                self.fingerprint_if_wanted(key);
                return Ok(false);
            }
            Level::Marginal => {
                trust("MARGINAL");
                log.info(
                    "WARNING: This key is not certified with sufficiently trusted signatures!",
                );
                let what = "It is not certain that the signature belongs to the owner.";
                log.info(format!("         {what}"));
                self.fingerprint(key);
            }
            Level::Full | Level::Ultimate => {
                trust(if level == Level::Full { "FULLY" } else { "ULTIMATE" });
                self.fingerprint_if_wanted(key);
            }
        }
        Ok(true)
    }

    /// Reports that the primary key of a subkey was looked up.
    fn look_up_primary(&self, key: &KeyState) {
        let primary = self.keyblock.primary();
        let mut looked_up = self.session.looked_up.borrow_mut();
        if key.fingerprint != primary.fingerprint && !looked_up.contains(&primary.fingerprint) {
            looked_up.push(primary.fingerprint);
            self.keyblock.report(self.session, primary);
        }
    }

    fn report_revocation(&self, key: &KeyState) {
        let Self { session, keyblock, .. } = self;
        let log = &session.log;
        if keyblock.primary().is_revoked {
            session.status.line("KEYREVOKED");
            let by = if keyblock.is_revoked_by_other { "designated revoker" } else { "owner" };
            log.info(format!("WARNING: This key has been revoked by its {by}!"));
            log.info("         This could mean that the signature is forged.");
        } else if key.is_revoked {
            session.status.line("KEYREVOKED");
            log.info("WARNING: This subkey has been revoked by its owner!");
        } else {
            return;
        }
        keyblock.report(session, key);
        if key.revocation.is_none() && keyblock.is_last(key) {
            keyblock.report(session, key);
        }
        let Some(revocation) = keyblock.revocation(key) else { return };
        for Subpacket { body, .. } in revocation.hashed(subpacket::REVOCATION_REASON) {
            let Some((code, comment)) = body.split_first() else { continue };
            let reason = match code {
                0 => "No reason specified",
                1 => "Key is superseded",
                2 => "Key has been compromised",
                3 => "Key is no longer used",
                32 => "User ID is no longer valid",
                _ => "",
            };
            if reason.is_empty() {
                log.info(format!("reason for revocation: code={code:02x}"));
            } else {
                log.info(format!("reason for revocation: {reason}"));
            }
            for line in comment.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
                log.info(format!("revocation comment: {}", printable(line)));
            }
        }
    }

    fn fingerprint_if_wanted(&self, key: &KeyState) {
        if self.manner.with_fingerprint {
            self.fingerprint(key);
        }
    }

    /// Writes the fingerprint of the certificate, and that of a subkey.
    fn fingerprint(&self, key: &KeyState) {
        self.look_up_primary(key);
        let primary = self.keyblock.primary();
        let log = &self.session.log;
        log.plain(format!("Primary key fingerprint: {}", grouped(primary.fingerprint)));
        if key.fingerprint != primary.fingerprint {
            log.plain(format!("     Subkey fingerprint: {}", grouped(key.fingerprint)));
        }
    }
}

/// A fingerprint in groups of four digits, with two spaces in the middle.
fn grouped(fingerprint: Fingerprint) -> String {
    let digits = fingerprint.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && at % 4 == 0 {
            out += if at == 20 { "  " } else { " " };
        }
        out.push(digit);
    }
    out
}
