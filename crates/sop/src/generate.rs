//! `generate-key`

use std::time::Duration;

use sop::errors::Error;
use sop::ops;
use talaria_message::openpgp::cert::{CertBuilder, CipherSuite};
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::types::{Features, KeyFlags};
use talaria_message::openpgp::{self};

use crate::error::{self, Result};
use crate::material::Keys;
use crate::passwords;
use crate::profile::Profile;
use crate::talaria::Talaria;

/// Keys are made a minute ago: whoever uses them at once may have a clock that is a little behind, and what
/// is signed with them or changed about them now is later than they are.
pub(crate) const BACKDATED: Duration = Duration::from_secs(60);

type Dyn<'s> = dyn ops::GenerateKey<'s, Talaria, Keys<'s>> + 's;

pub(crate) struct GenerateKey<'s> {
    sop: &'s Talaria,
    profile: Profile,
    signing_only: bool,
    password: Option<Password>,
    user_ids: Vec<String>,
}

impl<'s> GenerateKey<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        let profile = Profile::default();
        Self { sop, profile, signing_only: false, password: None, user_ids: Vec::new() }
    }

    /// A primary key that certifies and a subkey for each use. What it announces is what its profile has:
    /// holders of a key for older programs may well have one of these.
    fn build(self) -> openpgp::Result<openpgp::Cert> {
        let (profile, features) = match self.profile {
            Profile::Rfc9580 => (openpgp::Profile::RFC9580, Features::sequoia()),
            Profile::Rfc4880 => (openpgp::Profile::RFC4880, Features::empty().set_seipdv1()),
        };
        let mut builder = CertBuilder::new()
            .set_profile(profile)?
            .set_features(features)?
            .set_cipher_suite(CipherSuite::Cv25519)
            .set_creation_time(self.sop.time() - BACKDATED)
            .set_password(self.password)
            .add_signing_subkey();
        if !self.signing_only {
            let both = KeyFlags::empty().set_transport_encryption().set_storage_encryption();
            builder = builder.add_subkey(both, None, None);
        }
        for user_id in self.user_ids {
            builder = builder.add_userid(user_id);
        }
        Ok(builder.generate()?.0)
    }
}

impl<'s> ops::GenerateKey<'s, Talaria, Keys<'s>> for GenerateKey<'s> {
    fn list_profiles(&self) -> Vec<(String, String)> {
        Profile::list(|profile| match profile {
            Profile::Rfc9580 => "version 6 keys, Ed25519 and X25519",
            Profile::Rfc4880 => "version 4 keys, EdDSA and ECDH over Curve25519",
        })
    }

    fn profile(mut self: Box<Self>, profile: &str) -> Result<Box<Dyn<'s>>> {
        self.profile = Profile::named(profile)?;
        Ok(self)
    }

    fn signing_only(mut self: Box<Self>) -> Box<Dyn<'s>> {
        self.signing_only = true;
        self
    }

    fn with_key_password(mut self: Box<Self>, password: sop::Password) -> Result<Box<Dyn<'s>>> {
        if self.password.is_some() {
            return Err(Error::UnsupportedOption);
        }
        self.password = Some(passwords::for_new(&password));
        Ok(self)
    }

    fn userid(mut self: Box<Self>, user_id: &str) -> Box<Dyn<'s>> {
        self.user_ids.push(user_id.to_owned());
        self
    }

    fn generate(self: Box<Self>) -> Result<Keys<'s>> {
        let sop = self.sop;
        let cert = self.build().map_err(error::unspecified)?;
        Ok(Keys::new(vec![cert], sop))
    }
}
