//! Keys that sign, and what is said about their signatures.

use std::collections::BTreeSet;

use talaria_cert::Fingerprint;
use talaria_message::SigningKey;

use crate::gpg::request::Form;
use crate::session::Session;

/// Keys that sign, in the order of their signatures.
#[derive(Default)]
pub(crate) struct Signing {
    pub(crate) keys: Vec<SigningKey>,
    fingerprints: Vec<Fingerprint>,
}

impl Signing {
    /// Adds a key.
    pub(crate) fn add(&mut self, key: SigningKey, fingerprint: Fingerprint) {
        self.keys.push(key);
        self.fingerprints.push(fingerprint);
    }

    /// Turns the order round: in a message, signatures are announced in the other one.
    pub(crate) fn reverse(&mut self) {
        self.keys.reverse();
        self.fingerprints.reverse();
    }

    /// Says that signatures begin.
    pub(crate) fn begin(&self, session: &Session) {
        let digests: BTreeSet<u8> = self.keys.iter().map(SigningKey::hash).collect();
        let digests: String = digests.iter().map(|number| format!(" H{number}")).collect();
        session.status.line(&format!("BEGIN_SIGNING{digests}"));
    }

    /// Says that the signatures were made.
    pub(crate) fn end(&self, session: &Session, form: Form) {
        let (letter, class) = match form {
            Form::Detached => ('D', 0),
            Form::Clear => ('C', 1),
            Form::Inline => ('S', 0),
        };
        for (key, fingerprint) in self.keys.iter().zip(&self.fingerprints) {
            let (algorithm, hash, now) = (key.algorithm(), key.hash(), session.now);
            session.status.line(&format!(
                "SIG_CREATED {letter} {algorithm} {hash} {class:02X} {now} {fingerprint}"
            ));
        }
    }
}
