//! Passwords, and the keys that they unlock: which belongs to which is not said, so each is tried.

use sop::errors::Error;
use sop::plumbing::PasswordsAreHumanReadable as _;
use talaria_message::openpgp::crypto::{KeyPair, Password};
use talaria_message::openpgp::packet::Key;
use talaria_message::openpgp::packet::key::{SecretParts, UnspecifiedRole};
use talaria_message::{keep_secrets_in_memory, unlock};

use crate::error::{self, Result};

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

    /// A pair of `key`, and the password that unlocked it, if it was locked.
    pub(crate) fn unlock(
        &self,
        key: &Key<SecretParts, UnspecifiedRole>,
    ) -> Result<(KeyPair, Option<Password>)> {
        let mut used = None;
        let mut ask = |asked: usize, _: &_| {
            used = self.get(asked);
            used.clone()
        };
        match unlock(key.clone(), &mut ask) {
            Ok(pair) => Ok((pair, used)),
            Err(error) => Err(error::because(Error::KeyIsProtected, error)),
        }
    }
}

/// The form of a password that something new is protected with.
pub(crate) fn for_new(password: &sop::Password) -> Password {
    Password::from(password.normalized())
}
