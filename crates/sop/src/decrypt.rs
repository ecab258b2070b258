//! `decrypt`

use std::io::{BufReader, BufWriter, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use sop::errors::Error;
use sop::ops::{self, Verification};
use sop::{Password, SessionKey};
use talaria_message::openpgp::Cert;
use talaria_message::{
    ArmorInput, Cipher, DecryptOptions, Release, Secrets, decrypt, decryption_keys,
};
use zeroize::Zeroizing;

use crate::buffer::{READ_BYTES, WRITE_BYTES, spool};
use crate::error::{self, Result};
use crate::material::{Certs, Keys};
use crate::passwords::Passwords;
use crate::talaria::Talaria;
use crate::verify::Acceptance;

type Dyn<'s> = dyn ops::Decrypt<'s, Talaria, Certs<'s>, Keys<'s>> + 's;

pub(crate) struct Decrypt<'s> {
    sop: &'s Talaria,
    acceptance: Acceptance,
    session_keys: Vec<(Option<Cipher>, Zeroizing<Vec<u8>>)>,
    passwords: Passwords,
    keys: Vec<Cert>,
    key_passwords: Passwords,
}

impl<'s> Decrypt<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self {
            sop,
            acceptance: Acceptance::default(),
            session_keys: Vec::new(),
            passwords: Passwords::default(),
            keys: Vec::new(),
            key_passwords: Passwords::default(),
        }
    }

    /// Whether anything was given that can open a message.
    fn has_secrets(&self) -> bool {
        !(self.session_keys.is_empty() && self.passwords.is_empty() && self.keys.is_empty())
    }
}

impl<'s> ops::Decrypt<'s, Talaria, Certs<'s>, Keys<'s>> for Decrypt<'s> {
    fn verify_not_before(mut self: Box<Self>, time: SystemTime) -> Box<Dyn<'s>> {
        self.acceptance.not_before = Some(time);
        self
    }

    fn verify_not_after(mut self: Box<Self>, time: SystemTime) -> Box<Dyn<'s>> {
        self.acceptance.not_after = Some(time);
        self
    }

    fn verify_with_certs(mut self: Box<Self>, certs: &Certs<'s>) -> Result<Box<Dyn<'s>>> {
        self.acceptance.add(certs)?;
        Ok(self)
    }

    fn with_session_key(mut self: Box<Self>, key: SessionKey) -> Result<Box<Dyn<'s>>> {
        let cipher = CIPHERS.into_iter().find(|cipher| *cipher as u8 == key.algorithm());
        self.session_keys.push((cipher, Zeroizing::new(key.key().to_vec())));
        Ok(self)
    }

    fn with_password(mut self: Box<Self>, password: Password) -> Result<Box<Dyn<'s>>> {
        self.passwords.add(&password);
        Ok(self)
    }

    fn with_keys(mut self: Box<Self>, keys: &Keys<'s>) -> Result<Box<Dyn<'s>>> {
        self.keys.extend(keys.certs.iter().cloned());
        Ok(self)
    }

    fn with_key_password(mut self: Box<Self>, password: Password) -> Result<Box<Dyn<'s>>> {
        self.key_passwords.add(&password);
        Ok(self)
    }

    fn ciphertext<'d>(
        self: Box<Self>,
        ciphertext: &'d mut (dyn Read + Send + Sync),
    ) -> Result<Box<dyn ops::Ready<(Option<SessionKey>, Vec<Verification>)> + 'd>>
    where
        's: 'd,
    {
        if !self.has_secrets() {
            return Err(Error::MissingArg);
        }
        let Acceptance { not_before, not_after, .. } = &self.acceptance;
        if self.acceptance.is_empty() && (not_before.is_some() || not_after.is_some()) {
            return Err(Error::IncompleteVerification);
        }
        Ok(Box::new(DecryptThis { decrypt: *self, ciphertext }))
    }
}

const CIPHERS: [Cipher; 7] = [
    Cipher::TripleDes,
    Cipher::Aes128,
    Cipher::Aes192,
    Cipher::Aes256,
    Cipher::Camellia128,
    Cipher::Camellia192,
    Cipher::Camellia256,
];

struct DecryptThis<'s, 'd> {
    decrypt: Decrypt<'s>,
    ciphertext: &'d mut (dyn Read + Send + Sync),
}

impl ops::Ready<(Option<SessionKey>, Vec<Verification>)> for DecryptThis<'_, '_> {
    fn to_writer(
        self: Box<Self>,
        sink: &mut (dyn Write + Send + Sync),
    ) -> Result<(Option<SessionKey>, Vec<Verification>)> {
        let Decrypt { sop, acceptance, session_keys, passwords, keys, key_passwords } =
            self.decrypt;
        let is_locked = Arc::new(AtomicBool::new(false));
        let has_asked_in_vain = Arc::clone(&is_locked);
        let ask = move |asked: usize, _: &_| {
            let password = key_passwords.get(asked);
            if password.is_none() {
                has_asked_in_vain.store(true, Ordering::Relaxed);
            }
            password
        };
        let mut secrets = Secrets {
            keys: decryption_keys(&keys, ask),
            passwords: passwords.into_vec(),
            session_keys,
            ..Secrets::default()
        };
        let mut input = ArmorInput::new(BufReader::with_capacity(READ_BYTES, self.ciphertext))
            .map_err(error::of_message)?;
        let mut sink = BufWriter::with_capacity(WRITE_BYTES, sink);
        let options = DecryptOptions::new(Release::Checked { spool: &spool, again: None });
        let verifier = acceptance.verifier(sop);
        let decrypted =
            decrypt(&mut input, &mut sink, &mut secrets, &verifier, options).map_err(|error| {
                match error::of_decryption(error) {
                    Error::CannotDecrypt if is_locked.load(Ordering::Relaxed) => {
                        Error::KeyIsProtected
                    }
                    error => error,
                }
            })?;
        sink.flush()?;
        let verifications = if acceptance.is_empty() {
            Vec::new()
        } else {
            acceptance.accepted(&decrypted.signatures)?
        };
        let session_key = SessionKey::new(decrypted.cipher as u8, &*decrypted.session_key)?;
        Ok((Some(session_key), verifications))
    }
}
