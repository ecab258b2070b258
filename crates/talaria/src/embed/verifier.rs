//! Verifying signatures, with certificates that may change meanwhile.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use talaria_cert::first_packet;
use talaria_message::openpgp::{Cert, Fingerprint};
use talaria_message::{
    Acceptance, ExpectedSigner, Facts, Issuer, Lookup, MessageError, NotAccepted, Rules,
    SignatureReport, Unsigned, lookup_in, unarmored,
};
use talaria_store::StoreError;

use crate::embed::call::now;
use crate::embed::certificates::Certificates;
use crate::embed::input::parse_all;
use crate::error::Error;

/// Verifies signatures, as of the time of each call.
pub struct SharedVerifier {
    current: Mutex<Current>,
    source: Source,
}

/// The source of the certificates.
enum Source {
    Given(Arc<[Cert]>, Rules),
    Store(Certificates),
}

struct Current {
    verifier: Arc<talaria_message::Verifier<'static>>,
    moment: Moment,
}

/// The state of the source that a verifier has seen.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Moment {
    now: u32,
    /// The sum of the numbers of the last changes.
    change: i64,
}

impl SharedVerifier {
    /// A verifier with all certificates in `certs`, which count by `rules`.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if an item of `certs` has no certificate.
    pub fn with_certs<B: AsRef<[u8]>>(certs: &[B], rules: Rules) -> Result<Self, Error> {
        Self::new(Source::Given(parse_all(certs)?.into(), rules))
    }

    /// A verifier with the certificates of a store, including those added later. Signatures by
    /// certificates that the user of the store has called bad are
    /// [`talaria_message::Outcome::Distrusted`]; such a decision counts from the next change of a
    /// certificate on.
    ///
    /// # Errors
    ///
    /// [`Error::Store`].
    pub fn with_store(store: &Certificates) -> Result<Self, Error> {
        Self::new(Source::Store(store.clone()))
    }

    fn new(source: Source) -> Result<Self, Error> {
        let moment = source.moment()?;
        let current = Current { verifier: Arc::new(source.verifier(moment.now)), moment };
        Ok(Self { current: Mutex::new(current), source })
    }

    /// Verifies one or more detached signatures on `data`. With `signers`, each of them must have
    /// made a good signature.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] only: an invalid signature is reported in the result.
    pub fn verify(
        &self,
        signature: &[u8],
        data: &[u8],
        signers: Option<&[Fingerprint]>,
    ) -> Result<DocumentReport, Error> {
        let current = self.current()?;
        let acceptance = acceptance(signers, Unsigned::Refused);
        let reports = match unarmored(signature) {
            Ok(packets) if is_one_packet(&packets) => vec![current.one(&packets, data)],
            Ok(packets) => several(&current, &packets, data),
            Err(error) => vec![SignatureReport::unreadable(&error.to_string())],
        };
        Ok(DocumentReport::of(reports, &acceptance))
    }

    /// Verifies many signatures, each with its data, on all cores; Ed25519 signatures in batches.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::verify`].
    pub fn verify_many<S: AsRef<[u8]>, D: AsRef<[u8]>>(
        &self,
        items: &[(S, D)],
        signers: Option<&[Fingerprint]>,
    ) -> Result<Vec<DocumentReport>, Error> {
        let current = self.current()?;
        let acceptance = acceptance(signers, Unsigned::Refused);
        let decoded: Vec<_> =
            items.iter().map(|(signature, _)| unarmored(signature.as_ref())).collect();
        // Single packets are verified together, in batches.
        let together: Vec<(&[u8], &[u8])> = decoded
            .iter()
            .zip(items)
            .filter_map(|(packets, (_, data))| {
                let packets = packets.as_ref().ok().filter(|packets| is_one_packet(packets))?;
                Some((&**packets, data.as_ref()))
            })
            .collect();
        let mut reports = current.many(&together).into_iter();
        let mut of = |packets: &Result<Cow<'_, [u8]>, MessageError>, data: &D| {
            let reports = match packets {
                Ok(packets) if is_one_packet(packets) => {
                    vec![reports.next().expect("one report for each signature")]
                }
                Ok(packets) => several(&current, packets, data.as_ref()),
                Err(error) => vec![SignatureReport::unreadable(&error.to_string())],
            };
            DocumentReport::of(reports, &acceptance)
        };
        Ok(decoded.iter().zip(items).map(|(packets, (_, data))| of(packets, data)).collect())
    }

    /// The verifier as of the current time. No lock is held while it works.
    pub(super) fn current(&self) -> Result<Arc<talaria_message::Verifier<'static>>, Error> {
        let moment = self.source.moment()?;
        let mut current = self.current.lock();
        if current.moment.change != moment.change {
            // The cached certificates may be outdated: a key may have been revoked since.
            current.verifier = Arc::new(self.source.verifier(moment.now));
        }
        if current.moment != moment {
            current.verifier.set_now(moment.now);
            current.moment = moment;
        }
        Ok(Arc::clone(&current.verifier))
    }
}

impl Source {
    fn moment(&self) -> Result<Moment, StoreError> {
        let change = match self {
            Self::Given(..) => 0,
            Self::Store(store) => store.last_changes()?,
        };
        Ok(Moment { now: now(), change })
    }

    /// A verifier with these certificates. It knows whom the user of the store has called bad so
    /// far.
    fn verifier(&self, now: u32) -> talaria_message::Verifier<'static> {
        let (Self::Given(_, rules) | Self::Store(Certificates { rules, .. })) = self;
        let verifier = talaria_message::Verifier::new(self.lookup(), *rules, now);
        let Self::Store(store) = self else { return verifier };
        let store = store.clone();
        let mut known: HashMap<String, bool> = HashMap::new();
        verifier.with_distrust(Box::new(move |signer, _| {
            if let Some(bad) = known.get(&signer.certificate) {
                return *bad;
            }
            // Of an unreadable store, nobody can know whom the user has called bad.
            let bad = store.stores.lock().is_bad_certificate(&signer.certificate).unwrap_or(true);
            known.insert(signer.certificate.clone(), bad);
            bad
        }))
    }

    fn lookup(&self) -> Lookup<'static> {
        match self {
            Self::Given(certs, _) => lookup_in(Arc::clone(certs)),
            Self::Store(store) => {
                let store = store.clone();
                Box::new(move |issuer: &Issuer| store.stores.lock().having(issuer, now()))
            }
        }
    }
}

/// The result of verifying the signatures on a document.
#[derive(Clone, Debug)]
pub struct DocumentReport {
    /// The report on the signature that explains the decision.
    pub report: SignatureReport,
    /// Whether the document is accepted.
    pub decision: Result<Facts, NotAccepted>,
}

impl DocumentReport {
    /// Applies the policy to at least one report.
    fn of(mut reports: Vec<SignatureReport>, acceptance: &Acceptance) -> Self {
        let decision = acceptance.decide(&reports);
        let report = match acceptance.decisive(&reports) {
            Some(place) => reports.swap_remove(place),
            None => SignatureReport::unreadable("no signature found"),
        };
        Self { report, decision }
    }
}

/// The acceptance policy for callers with or without expected signers.
pub(super) fn acceptance(signers: Option<&[Fingerprint]>, unsigned: Unsigned) -> Acceptance {
    match signers {
        Some(signers) => {
            Acceptance::Expected(signers.iter().cloned().map(ExpectedSigner::from).collect())
        }
        None => Acceptance::NoneBad(unsigned),
    }
}

/// The reports on several signatures on the same data.
fn several(
    verifier: &talaria_message::Verifier<'_>,
    packets: &[u8],
    mut data: &[u8],
) -> Vec<SignatureReport> {
    verifier
        .detached(packets, &mut data)
        .unwrap_or_else(|error| vec![SignatureReport::unreadable(&error.to_string())])
}

fn is_one_packet(bytes: &[u8]) -> bool {
    let end = bytes.as_ptr_range().end;
    first_packet(bytes).is_some_and(|packet| packet.body.as_ptr_range().end == end)
}
