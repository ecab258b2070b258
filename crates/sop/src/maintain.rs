//! Subcommands that change keys and certificates without judging them: `change-key-password`,
//! `revoke-key`, `extract-cert`, `merge-certs`. And `update-key`'s merging, which is the same.

use sop::ops;
use talaria_message::make::{self, Protection, RevocationReason, Revoked};
use talaria_message::openpgp::{Cert, Packet};

use crate::error::{self, Result};
use crate::material::{Certs, Keys};
use crate::passwords::{self, Passwords};
use crate::talaria::Talaria;

/// `cert` with all that is in `updates` about it.
pub(crate) fn merged(mut cert: Cert, updates: &[Cert]) -> Result<Cert> {
    let name = cert.fingerprint();
    for update in updates.iter().filter(|update| update.fingerprint() == name) {
        cert = cert.merge_public(update.clone()).map_err(error::unspecified)?;
    }
    Ok(cert)
}

type DynChange<'s> = dyn ops::ChangeKeyPassword<'s, Talaria, Keys<'s>> + 's;

pub(crate) struct ChangeKeyPassword<'s> {
    sop: &'s Talaria,
    old: Passwords,
    new: Protection,
}

impl<'s> ChangeKeyPassword<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self { sop, old: Passwords::default(), new: Protection::Unprotected }
    }

    fn change(&self, cert: &Cert) -> Result<Cert> {
        make::unlocked(cert.clone(), &mut self.old.asked())
            .and_then(|cert| make::protected(cert, &self.new))
            .map_err(error::of_make)
    }
}

impl<'s> ops::ChangeKeyPassword<'s, Talaria, Keys<'s>> for ChangeKeyPassword<'s> {
    fn new_key_password(
        mut self: Box<Self>,
        password: sop::Password,
    ) -> Result<Box<DynChange<'s>>> {
        self.new = Protection::Passphrase(passwords::for_new(&password));
        Ok(self)
    }

    fn old_key_password(
        mut self: Box<Self>,
        password: sop::Password,
    ) -> Result<Box<DynChange<'s>>> {
        self.old.add(&password);
        Ok(self)
    }

    fn keys(self: Box<Self>, keys: &Keys<'s>) -> Result<Keys<'s>> {
        let changed = keys.certs.iter().map(|cert| self.change(cert)).collect::<Result<_>>()?;
        Ok(Keys::new(changed, self.sop))
    }
}

type DynRevoke<'s> = dyn ops::RevokeKey<'s, Talaria, Certs<'s>, Keys<'s>> + 's;

pub(crate) struct RevokeKey<'s> {
    sop: &'s Talaria,
    passwords: Passwords,
}

impl<'s> RevokeKey<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self { sop, passwords: Passwords::default() }
    }

    /// The primary key and its revocation (RFC 9580, section 10.1.3), for version 4, too.
    fn revocation(&self, cert: &Cert) -> Result<Cert> {
        let reason = RevocationReason::Unspecified;
        let ask = &mut self.passwords.asked();
        let made = make::revoke(cert, Revoked::Certificate, reason, "", ask, self.sop.now);
        let signature = made.map_err(error::of_make)?;
        let key = Packet::from(cert.primary_key().key().clone());
        Cert::from_packets([key, signature.into()].into_iter()).map_err(error::unspecified)
    }
}

impl<'s> ops::RevokeKey<'s, Talaria, Certs<'s>, Keys<'s>> for RevokeKey<'s> {
    fn with_key_password(
        mut self: Box<Self>,
        password: sop::Password,
    ) -> Result<Box<DynRevoke<'s>>> {
        self.passwords.add(&password);
        Ok(self)
    }

    fn keys(self: Box<Self>, keys: &Keys<'s>) -> Result<Certs<'s>> {
        let revoked = keys.certs.iter().map(|cert| self.revocation(cert)).collect::<Result<_>>()?;
        Ok(Certs::new(revoked, self.sop))
    }
}

pub(crate) struct ExtractCert<'s> {
    sop: &'s Talaria,
}

impl<'s> ExtractCert<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self { sop }
    }
}

impl<'s> ops::ExtractCert<'s, Talaria, Certs<'s>, Keys<'s>> for ExtractCert<'s> {
    fn keys(self: Box<Self>, keys: &Keys<'s>) -> Result<Certs<'s>> {
        let certs = keys.certs.iter().map(|cert| cert.clone().strip_secret_key_material());
        Ok(Certs::new(certs.collect(), self.sop))
    }
}

pub(crate) struct MergeCerts<'s> {
    sop: &'s Talaria,
    updates: Vec<Cert>,
}

impl<'s> MergeCerts<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self { sop, updates: Vec::new() }
    }
}

impl<'s> ops::MergeCerts<'s, Talaria, Certs<'s>> for MergeCerts<'s> {
    fn merge_updates(
        mut self: Box<Self>,
        updates: &Certs<'s>,
    ) -> Result<Box<dyn ops::MergeCerts<'s, Talaria, Certs<'s>> + 's>> {
        self.updates.extend(updates.certs.iter().cloned());
        Ok(self)
    }

    /// Each certificate once, with all that is known about it; updates for others are left out.
    fn merge(self: Box<Self>, certs: &Certs<'s>) -> Result<Certs<'s>> {
        let mut out: Vec<Cert> = Vec::new();
        for cert in &certs.certs {
            match out.iter_mut().find(|known| known.fingerprint() == cert.fingerprint()) {
                Some(known) => *known = merged(known.clone(), std::slice::from_ref(cert))?,
                None => out.push(merged(cert.clone(), &self.updates)?),
            }
        }
        Ok(Certs::new(out, self.sop))
    }
}
