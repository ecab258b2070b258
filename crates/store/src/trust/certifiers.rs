//! Who certified a certificate: the introducers with a certification on it.

use talaria_cert::Timestamp;
use talaria_trust::{Certification, Introducer, IntroducerCert, Subject, certifiers, issuers};

use crate::error::StoreError;
use crate::number::CertId;
use crate::store::Store;
use crate::trust::evaluation::{Evaluation, read};
use crate::trust::node::due;
use crate::trust::voices::Oracle;

/// A certification by an introducer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Certifier {
    /// Index of the user ID in the summary.
    pub user_id: usize,
    /// Number of the introducer's certificate in the store.
    pub cert: CertId,
    /// The introducer's role in the web of trust.
    pub introducer: Introducer,
    /// Creation time of the certification.
    pub created: Timestamp,
    /// Expiry time of the certification, `None` for never.
    pub expires: Option<Timestamp>,
}

/// Finds the introducers that certified certificates, with a cache.
pub struct Certifiers<'s> {
    store: &'s Store,
    web: Option<Evaluation<'s>>,
    now: u32,
}

impl<'s> Certifiers<'s> {
    /// The certifications by introducers at `now`.
    pub(crate) fn new(store: &'s Store, now: u32) -> Result<Self, StoreError> {
        let connection = &store.connection;
        let web = || -> rusqlite::Result<Option<Evaluation<'_>>> {
            let Some(mut web) = Evaluation::of(connection, now)? else { return Ok(None) };
            web.spread(due(connection, now)?)?;
            Ok(Some(web))
        };
        let web = web().map_err(|source| StoreError::engine(&store.path, source))?;
        Ok(Self { store, web, now })
    }

    /// The introducers with a valid certification on a certificate, the most trusted of each user
    /// ID first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn of(&mut self, id: CertId) -> Result<Vec<Certifier>, StoreError> {
        self.find(id.get(), false)
    }

    /// The introducers whose certifications decided the standing of a certificate. Further
    /// introducers that could not change the result are left out. No signature is verified.
    ///
    /// # Errors
    ///
    /// As [`Self::of`].
    pub fn that_decided(&mut self, id: CertId) -> Result<Vec<Certifier>, StoreError> {
        self.find(id.get(), true)
    }

    fn find(&mut self, id: i64, only_known: bool) -> Result<Vec<Certifier>, StoreError> {
        let Self { store, web: Some(web), now } = self else { return Ok(Vec::new()) };
        let now = *now;
        store.run(|connection| {
            let Some((cert, summary)) = read(connection, id, now)? else { return Ok(Vec::new()) };
            let voices = web.voices(issuers(&cert))?;
            let subject = Subject::of(&cert, &summary, web.rules.gnupg, now);
            let known = web.node(id)?;
            let mut oracle = Oracle::new(&cert, known, &voices);
            oracle.only_known = only_known;
            let found = certifiers(
                &subject,
                now,
                |id| voices.named(id),
                |issuer, user_id, certification| oracle.made(issuer, user_id, certification),
            );
            let certifier =
                |(user_id, issuer, certification): (_, &IntroducerCert, &Certification<'_>)| {
                    Certifier {
                        user_id,
                        cert: CertId::new(issuer.cert),
                        introducer: issuer.introducer.clone(),
                        created: certification.created.into(),
                        expires: Some(certification.expires)
                            .filter(|&time| time != 0)
                            .map(Timestamp::new),
                    }
                };
            Ok(found.into_iter().map(certifier).collect())
        })
    }
}
