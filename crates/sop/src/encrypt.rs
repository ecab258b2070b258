//! `encrypt`

use std::io::{BufWriter, Read, Write};

use sop::errors::Error;
use sop::ops::{self, EncryptAs};
use sop::{Password, SessionKey};
use talaria_message::openpgp::Cert;
use talaria_message::{
    ArmorWriter, EncryptOptions, Encrypted, Label, Literal, Recipients, encrypt,
};

use crate::buffer::WRITE_BYTES;
use crate::error::{self, Result};
use crate::material::{Certs, Keys};
use crate::profile::SopProfile;
use crate::sign::Signers;
use crate::talaria::Talaria;
use crate::{passwords, text};

type Dyn<'s> = dyn ops::Encrypt<'s, Talaria, Certs<'s>, Keys<'s>> + 's;

pub(crate) struct Encrypt<'s> {
    sop: &'s Talaria,
    armor: bool,
    profile: SopProfile,
    mode: EncryptAs,
    signers: Signers,
    recipients: Recipients,
}

impl<'s> Encrypt<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self {
            sop,
            armor: true,
            profile: SopProfile::default(),
            mode: EncryptAs::default(),
            signers: Signers::default(),
            recipients: Recipients::default(),
        }
    }

    fn add(&mut self, cert: &Cert) -> Result<()> {
        self.recipients
            .add(cert, self.sop.rules, &mut |_| None, self.sop.now)
            .map(drop)
            .map_err(|why| error::because(Error::CertCannotEncrypt, why))
    }
}

impl<'s> ops::Encrypt<'s, Talaria, Certs<'s>, Keys<'s>> for Encrypt<'s> {
    fn no_armor(mut self: Box<Self>) -> Box<Dyn<'s>> {
        self.armor = false;
        self
    }

    fn list_profiles(&self) -> Vec<(String, String)> {
        SopProfile::list(|profile| match profile {
            SopProfile::Rfc9580 => "AEAD, unless a recipient has not announced that it reads that",
            SopProfile::Rfc4880 => "CFB with a digest, which every program reads",
        })
    }

    fn profile(mut self: Box<Self>, profile: &str) -> Result<Box<Dyn<'s>>> {
        self.profile = SopProfile::named(profile)?;
        Ok(self)
    }

    fn mode(mut self: Box<Self>, mode: EncryptAs) -> Box<Dyn<'s>> {
        self.mode = mode;
        self
    }

    fn sign_with_keys(mut self: Box<Self>, keys: &Keys<'s>) -> Result<Box<Dyn<'s>>> {
        self.signers.add(keys);
        Ok(self)
    }

    fn with_key_password(mut self: Box<Self>, password: Password) -> Result<Box<Dyn<'s>>> {
        self.signers.passwords.add(&password);
        Ok(self)
    }

    fn with_password(mut self: Box<Self>, password: Password) -> Result<Box<Dyn<'s>>> {
        self.recipients.add_password(passwords::for_new(&password));
        Ok(self)
    }

    fn with_certs(mut self: Box<Self>, certs: &Certs<'s>) -> Result<Box<Dyn<'s>>> {
        certs.certs.iter().try_for_each(|cert| self.add(cert))?;
        Ok(self)
    }

    fn plaintext<'d>(
        self: Box<Self>,
        plaintext: &'d mut (dyn Read + Send + Sync),
    ) -> Result<Box<dyn ops::Ready<Option<SessionKey>> + 'd>>
    where
        's: 'd,
    {
        if self.recipients.is_empty() {
            return Err(Error::MissingArg);
        }
        let signers = self.signers.unlocked(self.sop)?;
        Ok(Box::new(EncryptThis { encrypt: *self, signers, plaintext }))
    }
}

struct EncryptThis<'s, 'd> {
    encrypt: Encrypt<'s>,
    signers: Vec<talaria_message::SigningKey>,
    plaintext: &'d mut (dyn Read + Send + Sync),
}

impl ops::Ready<Option<SessionKey>> for EncryptThis<'_, '_> {
    fn to_writer(
        self: Box<Self>,
        sink: &mut (dyn Write + Send + Sync),
    ) -> Result<Option<SessionKey>> {
        let Self {
            encrypt: Encrypt { sop, armor, profile, mode, recipients, .. },
            mut signers,
            plaintext,
        } = *self;
        let text = mode == EncryptAs::Text;
        let mut options = EncryptOptions::default();
        options.profile = match profile {
            // The newest that all recipients have announced.
            SopProfile::Rfc9580 => None,
            SopProfile::Rfc4880 => Some(talaria_message::Profile::Rfc4880),
        };
        options.literal = Literal { text, ..Literal::default() };
        let input = text::input(plaintext, text);
        let mut sink = BufWriter::with_capacity(WRITE_BYTES, sink);
        let encrypted = if armor {
            let mut armor =
                ArmorWriter::new(&mut sink, Label::Message).map_err(error::of_message)?;
            let encrypted =
                encrypt(input, &mut armor, &recipients, &mut signers, &options, sop.now);
            encrypted.and_then(|encrypted| armor.finish().map(|_| encrypted))
        } else {
            encrypt(input, &mut sink, &recipients, &mut signers, &options, sop.now)
        };
        let Encrypted { cipher, session_key, .. } = encrypted.map_err(error::of_message)?;
        sink.flush()?;
        Ok(Some(SessionKey::new(cipher as u8, &*session_key)?))
    }
}
