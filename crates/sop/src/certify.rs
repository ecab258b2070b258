//! `certify-userid` and `validate-userid`

use std::time::SystemTime;

use sop::Password;
use sop::errors::Error;
use sop::ops;
use talaria_cert::{Address, Summary, UserIdContent, Validity};
use talaria_message::make::{self, CertifyOptions};
use talaria_message::openpgp::cert::amalgamation::UserIDAmalgamation;
use talaria_message::openpgp::crypto::KeyPair;
use talaria_message::openpgp::packet::UserID;
use talaria_message::openpgp::policy::StandardPolicy;
use talaria_message::openpgp::{Cert, Packet};
use talaria_message::{Purpose, guarded, judge};

use crate::error::{self, Result};
use crate::material::{Certs, Keys};
use crate::passwords::Passwords;
use crate::talaria::Talaria;

fn seconds(time: SystemTime) -> u32 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

type DynCertify<'s> = dyn ops::CertifyUserID<'s, Talaria, Certs<'s>, Keys<'s>> + 's;

pub(crate) struct CertifyUserId<'s> {
    sop: &'s Talaria,
    user_ids: Vec<UserID>,
    passwords: Passwords,
    require_self_sig: bool,
    keys: Vec<Cert>,
}

impl<'s> CertifyUserId<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self {
            sop,
            user_ids: Vec::new(),
            passwords: Passwords::default(),
            require_self_sig: true,
            keys: Vec::new(),
        }
    }

    fn certified(&self, cert: &Cert, signers: &mut [KeyPair]) -> Result<Cert> {
        let mut packets = Vec::new();
        let own = if self.require_self_sig {
            make::certifiable(cert, self.sop.rules, self.sop.now).unwrap_or_default()
        } else {
            self.user_ids.clone()
        };
        for user_id in &self.user_ids {
            if !own.contains(user_id) {
                let name = String::from_utf8_lossy(user_id.value());
                let why = format!("{} has no user ID {name}", cert.fingerprint());
                return Err(error::because(Error::CertUseridNoMatch, why));
            }
            packets.push(Packet::from(user_id.clone()));
            for signer in &mut *signers {
                let what = CertifyOptions::default();
                let signature = make::certify(cert, user_id, signer, &what, self.sop.now);
                packets.push(signature.map_err(error::of_make)?.into());
            }
        }
        Ok(cert.clone().insert_packets(packets).map_err(error::unspecified)?.0)
    }
}

impl<'s> ops::CertifyUserID<'s, Talaria, Certs<'s>, Keys<'s>> for CertifyUserId<'s> {
    fn userid(mut self: Box<Self>, user_id: String) -> Box<DynCertify<'s>> {
        self.user_ids.push(UserID::from(user_id));
        self
    }

    fn with_key_password(mut self: Box<Self>, password: Password) -> Result<Box<DynCertify<'s>>> {
        self.passwords.add(&password);
        Ok(self)
    }

    fn no_require_self_sig(mut self: Box<Self>) -> Box<DynCertify<'s>> {
        self.require_self_sig = false;
        self
    }

    fn keys(mut self: Box<Self>, keys: &Keys<'s>) -> Result<Box<DynCertify<'s>>> {
        self.keys.extend(keys.certs.iter().cloned());
        Ok(self)
    }

    fn certify(self: Box<Self>, certs: &Certs<'s>) -> Result<Certs<'s>> {
        if self.keys.is_empty() || self.user_ids.is_empty() {
            return Err(Error::MissingArg);
        }
        let certifier = |cert| {
            let ask = &mut self.passwords.asked();
            make::certifier(cert, self.sop.rules, self.sop.now, ask).map_err(error::of_make)
        };
        let mut signers = self.keys.iter().map(certifier).collect::<Result<Vec<_>>>()?;
        let certified = certs.certs.iter().map(|cert| self.certified(cert, &mut signers));
        Ok(Certs::new(certified.collect::<Result<_>>()?, self.sop))
    }
}

type DynValidate<'s> = dyn ops::ValidateUserID<'s, Talaria, Certs<'s>> + 's;

pub(crate) struct ValidateUserId<'s> {
    sop: &'s Talaria,
    at: SystemTime,
    authorities: Vec<Cert>,
    targets: Vec<Cert>,
}

impl<'s> ValidateUserId<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self { sop, at: sop.time(), authorities: Vec::new(), targets: Vec::new() }
    }

    /// Whether every certificate has a user ID that `is_wanted`, that is its own, and that an
    /// authority has certified.
    fn validate(&self, is_wanted: impl Fn(&UserID) -> bool) -> Result<()> {
        for target in &self.targets {
            if !self.is_valid(target, &is_wanted) {
                let why =
                    format!("{} has no certified user ID with that name", target.fingerprint());
                return Err(error::because(Error::CertUseridNoMatch, why));
            }
        }
        Ok(())
    }

    fn is_valid(&self, target: &Cert, is_wanted: &impl Fn(&UserID) -> bool) -> bool {
        guarded(|| self.has_valid(target, is_wanted)).unwrap_or(false)
    }

    fn has_valid(&self, target: &Cert, is_wanted: &impl Fn(&UserID) -> bool) -> bool {
        let Some(summary) = self.usable(target) else { return false };
        let now = seconds(self.at);
        let is_own = |user_id: &UserID| {
            summary.user_ids.iter().any(|known| {
                known.validity(now) == Validity::Valid
                    && matches!(&known.content, UserIdContent::Text(text) if text == user_id.value())
            })
        };
        let user_ids = target.userids().filter(|id| is_wanted(id.userid()) && is_own(id.userid()));
        let by_authority = |user_id: &UserIDAmalgamation<'_>| {
            self.authorities.iter().any(|authority| {
                authority.fingerprint() == target.fingerprint()
                    || self.has_certified(authority, user_id)
            })
        };
        user_ids.into_iter().any(|user_id| by_authority(&user_id))
    }

    /// The state of a certificate whose primary key may certify at the time of the validation.
    fn usable(&self, cert: &Cert) -> Option<Summary> {
        let now = seconds(self.at);
        let judge = judge(cert, self.sop.rules, &mut |_| None, now).ok()?;
        let summary = judge.at(now);
        judge.usable_in(&summary, Purpose::Certify, now).ok()?;
        Some(summary)
    }

    fn has_certified(&self, authority: &Cert, user_id: &UserIDAmalgamation<'_>) -> bool {
        if self.usable(authority).is_none() {
            return false;
        }
        let policy = &StandardPolicy::new();
        let key = authority.primary_key().key();
        let made = user_id
            .active_certifications_by_key(policy, self.at, key)
            .filter_map(|signature| signature.signature_creation_time())
            .max();
        let taken_back = user_id
            .valid_third_party_revocations_by_key(policy, self.at, key)
            .filter_map(|signature| signature.signature_creation_time())
            .max();
        made.is_some() && made > taken_back
    }
}

impl<'s> ops::ValidateUserID<'s, Talaria, Certs<'s>> for ValidateUserId<'s> {
    fn trust_roots(mut self: Box<Self>, certs: &Certs<'s>) -> Result<Box<DynValidate<'s>>> {
        self.authorities.extend(certs.certs.iter().cloned());
        Ok(self)
    }

    fn target_certs(mut self: Box<Self>, certs: &Certs<'s>) -> Result<Box<DynValidate<'s>>> {
        self.targets.extend(certs.certs.iter().cloned());
        Ok(self)
    }

    fn validate_at(mut self: Box<Self>, at: SystemTime) -> Result<Box<DynValidate<'s>>> {
        self.at = at;
        Ok(self)
    }

    fn userid(self: Box<Self>, user_id: &str) -> Result<()> {
        self.validate(|known| known.value() == user_id.as_bytes())
    }

    fn email(self: Box<Self>, email: &str) -> Result<()> {
        let Ok(wanted) = email.parse::<Address>() else {
            return Err(error::because(
                Error::CertUseridNoMatch,
                "the text is not an e-mail address",
            ));
        };
        self.validate(|known| wanted.is_of(known.value()))
    }
}
