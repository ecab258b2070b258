//! Passwords, and the keys that they unlock: which belongs to which is not said, so each is tried.

use sop::plumbing::PasswordsAreHumanReadable as _;
use talaria_message::keep_secrets_in_memory;
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::packet::Key;
use talaria_message::openpgp::packet::key::{PublicParts, UnspecifiedRole};

/// Passwords to consume something with, in all forms that they may be meant in.
#[derive(Clone, Default)]
pub(crate) struct Passwords(Vec<Password>);

impl Passwords {
    pub(crate) fn add(&mut self, password: &sop::Password) {
        keep_secrets_in_memory();
        self.0.extend(password.variants().map(Password::from));
    }

    /// The `n`th one.
    pub(crate) fn get(&self, n: usize) -> Option<Password> {
        self.0.get(n).cloned()
    }

    pub(crate) fn into_vec(self) -> Vec<Password> {
        self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives one after the other.
    pub(crate) fn asked(
        &self,
    ) -> impl FnMut(usize, &Key<PublicParts, UnspecifiedRole>) -> Option<Password> + Send {
        |asked, _| self.get(asked)
    }
}

/// The form of a password that something new is protected with.
pub(crate) fn for_new(password: &sop::Password) -> Password {
    Password::from(password.normalized())
}
