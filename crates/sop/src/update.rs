//! `update-key`: renews the outdated parts of a key.

use sop::Password;
use sop::ops;
use talaria_message::make::{self, RenewOptions};
use talaria_message::openpgp::Cert;

use crate::error::{self, Result};
use crate::maintain::merged;
use crate::material::{Certs, Keys};
use crate::passwords::Passwords;
use crate::talaria::Talaria;

type Dyn<'s> = dyn ops::UpdateKey<'s, Talaria, Certs<'s>, Keys<'s>> + 's;

pub(crate) struct UpdateKey<'s> {
    sop: &'s Talaria,
    signing_only: bool,
    add_capabilities: bool,
    passwords: Passwords,
    updates: Vec<Cert>,
}

impl<'s> UpdateKey<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self {
            sop,
            signing_only: false,
            add_capabilities: true,
            passwords: Passwords::default(),
            updates: Vec::new(),
        }
    }

    fn updated(&self, cert: &Cert) -> Result<Cert> {
        let cert = merged(cert.clone(), &self.updates)?;
        let options = match (self.add_capabilities, self.signing_only) {
            (false, _) => RenewOptions::Keep,
            (true, true) => RenewOptions::ExtendSigning,
            (true, false) => RenewOptions::Extend,
        };
        let ask = &mut self.passwords.asked();
        let packets = make::renew(&cert, options, ask, self.sop.now);
        let packets = packets.map_err(error::of_make)?;
        Ok(cert.insert_packets(packets).map_err(error::unspecified)?.0)
    }
}

impl<'s> ops::UpdateKey<'s, Talaria, Certs<'s>, Keys<'s>> for UpdateKey<'s> {
    fn signing_only(mut self: Box<Self>) -> Box<Dyn<'s>> {
        self.signing_only = true;
        self
    }

    fn no_added_capabilities(mut self: Box<Self>) -> Box<Dyn<'s>> {
        self.add_capabilities = false;
        self
    }

    fn with_key_password(mut self: Box<Self>, password: Password) -> Result<Box<Dyn<'s>>> {
        self.passwords.add(&password);
        Ok(self)
    }

    fn merge_updates(mut self: Box<Self>, updates: &Certs<'s>) -> Result<Box<Dyn<'s>>> {
        self.updates.extend(updates.certs.iter().cloned());
        Ok(self)
    }

    fn update(self: Box<Self>, keys: &Keys<'s>) -> Result<Keys<'s>> {
        let updated = keys.certs.iter().map(|cert| self.updated(cert)).collect::<Result<_>>()?;
        Ok(Keys::new(updated, self.sop))
    }
}
