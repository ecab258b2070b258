//! `generate-key`

use sop::errors::Error;
use sop::ops;
use talaria_message::make::{self, GenerateOptions, KeyProfile, KeyUses, Protection};

use crate::error::{self, Result};
use crate::material::Keys;
use crate::passwords;
use crate::profile::SopProfile;
use crate::talaria::Talaria;

/// New keys are dated a minute back: the clock of a recipient may be a little behind, and
/// signatures and changes made now have to be later than the key.
pub(crate) const BACKDATED_SECONDS: u32 = 60;

type Dyn<'s> = dyn ops::GenerateKey<'s, Talaria, Keys<'s>> + 's;

pub(crate) struct GenerateKey<'s> {
    sop: &'s Talaria,
    options: GenerateOptions,
    protection: Protection,
}

impl<'s> GenerateKey<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        let mut options = GenerateOptions::default();
        options.profile = key_profile(SopProfile::default());
        Self { sop, options, protection: Protection::Unprotected }
    }
}

fn key_profile(profile: SopProfile) -> KeyProfile {
    match profile {
        SopProfile::Rfc9580 => KeyProfile::Rfc9580,
        SopProfile::Rfc4880 => KeyProfile::Rfc4880,
    }
}

impl<'s> ops::GenerateKey<'s, Talaria, Keys<'s>> for GenerateKey<'s> {
    fn list_profiles(&self) -> Vec<(String, String)> {
        SopProfile::list(|profile| match profile {
            SopProfile::Rfc9580 => "version 6 keys, Ed25519 and X25519",
            SopProfile::Rfc4880 => "version 4 keys, EdDSA and ECDH over Curve25519",
        })
    }

    fn profile(mut self: Box<Self>, profile: &str) -> Result<Box<Dyn<'s>>> {
        self.options.profile = key_profile(SopProfile::named(profile)?);
        Ok(self)
    }

    fn signing_only(mut self: Box<Self>) -> Box<Dyn<'s>> {
        self.options.uses = KeyUses::Sign;
        self
    }

    fn with_key_password(mut self: Box<Self>, password: sop::Password) -> Result<Box<Dyn<'s>>> {
        if matches!(self.protection, Protection::Passphrase(_)) {
            return Err(Error::UnsupportedOption);
        }
        self.protection = Protection::Passphrase(passwords::for_new(&password));
        Ok(self)
    }

    fn userid(mut self: Box<Self>, user_id: &str) -> Box<Dyn<'s>> {
        self.options.user_ids.push(user_id.to_owned());
        self
    }

    fn generate(self: Box<Self>) -> Result<Keys<'s>> {
        let made = self.sop.now.saturating_sub(BACKDATED_SECONDS);
        let made = make::generate(&self.options, &self.protection, made).map_err(error::of_make)?;
        Ok(Keys::new(vec![made.cert], self.sop))
    }
}
