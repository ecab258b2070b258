//! `verify`, and which signatures other operations accept.

use std::io::Read;
use std::time::{Duration, SystemTime};

use sop::errors::Error;
use sop::ops::{self, SignatureMode, Verification};
use sop::{Load as _, ops::VerifySignatures};
use talaria_message::openpgp::Cert;
use talaria_message::{Outcome, SignatureReport, Verifier, lookup_in};

use crate::error::{self, Result, say};
use crate::maintain::merged;
use crate::material::{Certs, Sigs};
use crate::talaria::Talaria;

/// Type of a signature on text (RFC 9580, section 5.2.1.2).
const TEXT: u8 = 0x01;

/// Whose signatures are accepted, and of which time.
#[derive(Default)]
pub(crate) struct Acceptance {
    certs: Vec<Cert>,
    /// Fingerprints, and the names of the files that they came from.
    sources: Vec<(String, String)>,
    pub(crate) not_before: Option<SystemTime>,
    pub(crate) not_after: Option<SystemTime>,
}

impl Acceptance {
    /// Adds certificates; of one that comes twice all is known that either copy says.
    pub(crate) fn add(&mut self, certs: &Certs<'_>) -> Result<()> {
        for cert in &certs.certs {
            if let Some(source) = certs.source_name() {
                self.sources.push((cert.fingerprint().to_hex(), source.to_owned()));
            }
            match self.certs.iter_mut().find(|known| known.fingerprint() == cert.fingerprint()) {
                Some(known) => *known = merged(known.clone(), std::slice::from_ref(cert))?,
                None => self.certs.push(cert.clone()),
            }
        }
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.certs.is_empty()
    }

    pub(crate) fn verifier<'a>(&'a self, sop: &'a Talaria) -> Verifier<'a> {
        Verifier::new(lookup_in(self.certs.clone()), sop.rules, sop.now)
    }

    /// Whether a signature is good, and of the wanted time: in a report that says so alone.
    fn judged(&self, report: &SignatureReport) -> SignatureReport {
        let created = made(report);
        let is_early = self.not_before.is_some_and(|first| created < first);
        let is_late = self.not_after.is_some_and(|last| created > last);
        let mut report = report.clone();
        if report.is_good() && (is_early || is_late) {
            report.outcome =
                Outcome::Unchecked("the signature is outside of the wanted time".into());
        }
        report
    }

    /// The accepted signatures. Problems of the others are printed.
    pub(crate) fn accepted(&self, reports: &[SignatureReport]) -> Result<Vec<Verification>> {
        self.verifications(reports).map(|(verifications, _)| verifications)
    }

    fn verifications(
        &self,
        reports: &[SignatureReport],
    ) -> Result<(Vec<Verification>, Vec<SignatureReport>)> {
        let reports: Vec<_> = reports.iter().map(|report| self.judged(report)).collect();
        let mut verifications = Vec::new();
        for report in &reports {
            let Some(signer) = report.signer.as_ref().filter(|_| report.is_good()) else {
                say(format_args!("a signature is not accepted: {:?}", report.outcome));
                continue;
            };
            let mode = match report.kind {
                TEXT => SignatureMode::Text,
                _ => SignatureMode::Binary,
            };
            let (key, cert) = (&signer.key, &signer.certificate);
            let mut verification = Verification::new(made(report), key, cert, mode, None)?;
            for (_, source) in self.sources.iter().filter(|(of, _)| of == cert) {
                verification.add_signer(source);
            }
            verifications.push(verification);
        }
        Ok((verifications, reports))
    }

    /// At least one that is accepted: the policy of the draft.
    pub(crate) fn some_accepted(&self, reports: &[SignatureReport]) -> Result<Vec<Verification>> {
        let (verifications, reports) = self.verifications(reports)?;
        match talaria_message::Acceptance::AnyValid.decide(&reports) {
            Ok(_) => Ok(verifications),
            Err(why) => Err(error::because(Error::NoSignature, why)),
        }
    }
}

/// When a signature says that it was made.
fn made(report: &SignatureReport) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(report.created))
}

type Dyn<'s> = dyn ops::Verify<'s, Talaria, Certs<'s>, Sigs<'s>> + 's;

pub(crate) struct Verify<'s> {
    sop: &'s Talaria,
    acceptance: Acceptance,
}

impl<'s> Verify<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self { sop, acceptance: Acceptance::default() }
    }
}

impl<'s> ops::Verify<'s, Talaria, Certs<'s>, Sigs<'s>> for Verify<'s> {
    fn not_before(mut self: Box<Self>, time: SystemTime) -> Box<Dyn<'s>> {
        self.acceptance.not_before = Some(time);
        self
    }

    fn not_after(mut self: Box<Self>, time: SystemTime) -> Box<Dyn<'s>> {
        self.acceptance.not_after = Some(time);
        self
    }

    fn certs(mut self: Box<Self>, certs: &Certs<'s>) -> Result<Box<Dyn<'s>>> {
        self.acceptance.add(certs)?;
        Ok(self)
    }

    fn signatures<'sigs>(
        self: Box<Self>,
        signatures: &'sigs Sigs<'s>,
    ) -> Result<Box<dyn VerifySignatures<'sigs> + 'sigs>>
    where
        's: 'sigs,
    {
        if self.acceptance.is_empty() {
            return Err(Error::MissingArg);
        }
        Ok(Box::new(VerifyThese { verify: *self, signatures }))
    }
}

struct VerifyThese<'s, 'sigs> {
    verify: Verify<'s>,
    signatures: &'sigs Sigs<'s>,
}

impl<'sigs> VerifySignatures<'sigs> for VerifyThese<'_, 'sigs> {
    fn data(self: Box<Self>, mut data: &mut (dyn Read + Send + Sync)) -> Result<Vec<Verification>> {
        let Verify { sop, acceptance } = &self.verify;
        let reports = acceptance
            .verifier(sop)
            .detached(&self.signatures.packets, &mut data)
            .map_err(error::of_message)?;
        acceptance.some_accepted(&reports)
    }
}
