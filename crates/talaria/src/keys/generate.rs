//! Generating keys for the key store.

use talaria_message::make;

use super::{GenerateOptions, Generated, KeyStore, Protection, of_make};
use crate::Error;

impl KeyStore {
    /// Generates a key at `now`, in seconds since 1970, and stores it: a primary key that certifies, a
    /// signing subkey and an encryption subkey.
    ///
    /// # Errors
    ///
    /// [`Error::KeyRefused`] if such a key cannot be generated; errors of writing.
    pub fn generate(
        &self,
        options: &GenerateOptions,
        protection: &Protection,
        now: u32,
    ) -> Result<Generated, Error> {
        let name = options.user_ids.first().map(String::as_str).unwrap_or_default();
        let made = make::generate(options, protection, now);
        let made = made.map_err(|error| of_make("make", name, error))?;
        let _lock = self.lock()?;
        self.write(&made.cert)?;
        Ok(made)
    }
}
