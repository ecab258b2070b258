//! `sign`, and the keys that other operations sign with.

use std::io::Read;

use sop::errors::Error;
use sop::ops::{self, Micalg, SignAs};
use talaria_message::openpgp::Cert;
use talaria_message::{SigningKey, sign_detached, signing_key};

use crate::error::{self, Result};
use crate::material::{Keys, Sigs};
use crate::passwords::Passwords;
use crate::talaria::Talaria;
use crate::text;

/// Certificates to sign with, and the passwords for their keys. One signature is made for each.
#[derive(Default)]
pub(crate) struct Signers {
    certs: Vec<Cert>,
    pub(crate) passwords: Passwords,
}

impl Signers {
    pub(crate) fn add(&mut self, keys: &Keys<'_>) {
        self.certs.extend(keys.certs.iter().cloned());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.certs.is_empty()
    }

    /// The keys, unlocked.
    pub(crate) fn unlocked(&self, sop: &Talaria) -> Result<Vec<SigningKey>> {
        self.certs.iter().map(|cert| self.unlocked_one(cert, sop)).collect()
    }

    fn unlocked_one(&self, cert: &Cert, sop: &Talaria) -> Result<SigningKey> {
        let mut is_locked = false;
        let mut ask = |asked: usize, _: &_| {
            let password = self.passwords.get(asked);
            is_locked = password.is_none();
            password
        };
        signing_key(cert, sop.rules, sop.now, &mut ask).map_err(|why| {
            error::because(
                if is_locked { Error::KeyIsProtected } else { Error::KeyCannotSign },
                why,
            )
        })
    }
}

type Dyn<'s> = dyn ops::Sign<'s, Talaria, Keys<'s>, Sigs<'s>> + 's;

pub(crate) struct Sign<'s> {
    sop: &'s Talaria,
    mode: SignAs,
    signers: Signers,
}

impl<'s> Sign<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self { sop, mode: SignAs::default(), signers: Signers::default() }
    }
}

impl<'s> ops::Sign<'s, Talaria, Keys<'s>, Sigs<'s>> for Sign<'s> {
    fn mode(mut self: Box<Self>, mode: SignAs) -> Box<Dyn<'s>> {
        self.mode = mode;
        self
    }

    fn keys(mut self: Box<Self>, keys: &Keys<'s>) -> Result<Box<Dyn<'s>>> {
        self.signers.add(keys);
        Ok(self)
    }

    fn with_key_password(mut self: Box<Self>, password: sop::Password) -> Result<Box<Dyn<'s>>> {
        self.signers.passwords.add(&password);
        Ok(self)
    }

    fn data(self: Box<Self>, data: &mut (dyn Read + Send + Sync)) -> Result<(Micalg, Sigs<'s>)> {
        if self.signers.is_empty() {
            return Err(Error::MissingArg);
        }
        let mut signers = self.signers.unlocked(self.sop)?;
        let micalg = one_digest(&mut signers)?;
        let text = self.mode == SignAs::Text;
        let mut packets = Vec::new();
        let mut input = text::input(data, text);
        sign_detached(&mut input, &mut packets, &mut signers, text, self.sop.now)
            .map_err(error::of_message)?;
        Ok((micalg, Sigs::new(packets, self.sop)))
    }
}

/// The digest of all signatures: a mail can announce one only. Where they would differ, SHA2-512
/// goes with every key.
fn one_digest(signers: &mut [SigningKey]) -> Result<Micalg> {
    let name = |signer: &SigningKey| signer.hash_name();
    if signers.iter().any(|signer| name(signer) != name(&signers[0])) {
        for signer in &mut *signers {
            signer.set_hash(10).map_err(error::of_message)?;
        }
    }
    Ok(match name(&signers[0]) {
        "SHA256" => Micalg::SHA256,
        "SHA384" => Micalg::SHA384,
        "SHA512" => Micalg::SHA512,
        other => Micalg::Unknown(other.to_owned()),
    })
}
