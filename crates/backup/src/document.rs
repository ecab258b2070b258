//! Signed documents of a repository: opening them, and whose word they are.

use std::sync::Arc;
use std::{fmt, io};

use talaria_message::openpgp::{Cert, Fingerprint};
use talaria_message::{
    Message, MessageKind, NotCounted, Outcome, Parts, Profile, ReadLimits, ReadOptions, Rules,
    Secrets, SignatureReport, Spool, Verifier, lookup_in, read_message, verify_inline,
};

use crate::error::{BackupError, Result};

/// The maximum length of a document in bytes.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// The content of a message, and the results for its signatures.
pub(crate) struct Document {
    /// The content.
    pub(crate) text: Vec<u8>,
    /// Reports on the signatures.
    pub(crate) signatures: Vec<SignatureReport>,
    /// The format of the encrypted packet; `None` if the message is not encrypted.
    pub(crate) profile: Option<Profile>,
}

/// Opens the message in the object `name`.
pub(crate) fn open(
    name: &str,
    bytes: &[u8],
    secrets: &mut Secrets,
    verifier: &Verifier<'_>,
) -> Result<Document> {
    let failed = |source| BackupError::Message { name: name.into(), source };
    let message = Message::new(bytes).map_err(failed)?;
    let mut text = Vec::new();
    let mut limits = ReadLimits::default();
    limits.expansion = 2;
    limits.expansion_free_bytes = DOCUMENT_BYTES_MAX;
    if message.kind() != MessageKind::Encrypted {
        let mut packets = message.into_packets().map_err(failed)?;
        let (_, signatures) =
            verify_inline(&mut packets, &mut text, verifier, limits).map_err(failed)?;
        return Ok(Document { text, signatures, profile: None });
    }
    let no_spool = || -> io::Result<Box<dyn Spool>> { Ok(Box::new(io::Cursor::new(Vec::new()))) };
    let mut options = ReadOptions::new(&no_spool);
    options.disposable = true;
    options.limits = limits;
    options.threads = 1;
    let received = read_message(message, &mut text, secrets, verifier, &options).map_err(failed)?;
    let Parts::Decrypted(decrypted) = received.parts else {
        return Err(BackupError::damaged(name, "it is not encrypted"));
    };
    Ok(Document { text, signatures: decrypted.signatures, profile: Some(decrypted.profile) })
}

/// A verifier that knows these certificates, at the time `now`. Documents that are dated later
/// count: on the day of the fire, a clock may be wrong.
pub(crate) fn verifier(certs: Arc<[Cert]>, now: u32) -> Verifier<'static> {
    Verifier::new(lookup_in(certs), Rules::default(), now).with_later_dates()
}

/// Whether a key that signed is compromised, or was revoked before it signed.
pub(crate) fn is_revoked(reports: &[SignatureReport]) -> bool {
    let is_it =
        |report: &SignatureReport| report.outcome == Outcome::NotCounted(NotCounted::Revoked);
    reports.iter().any(is_it)
}

/// Whose word a document is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DocumentStanding {
    /// A key that may sign such documents made a good signature.
    Good(Fingerprint),
    /// As [`Self::Good`], but the key has expired or was retired since: the signer and the reason.
    Past(Fingerprint, String),
    /// The key is compromised, or had expired before: the signer and the reason. Somebody else may
    /// have signed.
    Doubtful(Fingerprint, String),
    /// The document needs no signature here.
    Unsigned,
    /// Nobody whose signature counts here has signed the document, with the reason.
    Foreign(String),
}

impl DocumentStanding {
    /// The signer whose word the document is.
    #[must_use]
    pub fn signer(&self) -> Option<&Fingerprint> {
        match self {
            Self::Good(signer) | Self::Past(signer, _) | Self::Doubtful(signer, _) => Some(signer),
            Self::Unsigned | Self::Foreign(_) => None,
        }
    }

    /// Whether the document counts here: somebody signed it who may, even if the key is doubtful by
    /// now, or it needs no signature.
    #[must_use]
    pub fn counts(&self) -> bool {
        !matches!(self, Self::Foreign(_))
    }

    /// Whether a decision that others suffer from may rest on the document: it counts, and its key
    /// is not doubtful.
    pub(crate) fn is_trusted(&self) -> bool {
        self.counts() && !matches!(self, Self::Doubtful(..))
    }

    /// The standing of a document with these signatures, where the certificates may sign for which
    /// `is_allowed` is true.
    pub(crate) fn of(
        reports: &[SignatureReport],
        is_allowed: impl Fn(&Fingerprint) -> bool,
    ) -> Self {
        let allowed = |report: &SignatureReport| {
            let signer = report.signer.as_ref()?.certificate.parse::<Fingerprint>().ok()?;
            is_allowed(&signer).then_some(signer)
        };
        let (mut past, mut doubtful) = (None, None);
        let mut refused = "it has no signature".to_owned();
        for report in reports {
            match (allowed(report), &report.outcome) {
                (Some(signer), Outcome::Good) => match &report.since {
                    None => return Self::Good(signer),
                    Some(since) => past = Some(Self::Past(signer, since.to_string())),
                },
                (
                    Some(signer),
                    Outcome::NotCounted(why @ (NotCounted::Revoked | NotCounted::KeyExpired)),
                ) => {
                    let why = why.to_string();
                    doubtful.get_or_insert(Self::Doubtful(signer, why));
                }
                (None, Outcome::Good) => {
                    let who = report.signer.as_ref().map_or("", |signer| &signer.certificate);
                    refused = format!("its signer {who} has no such role here");
                }
                (_, Outcome::NoKey) => refused = "the certificate of its signer is not here".into(),
                (_, Outcome::Bad) => refused = "its signature is bad".into(),
                (_, outcome) => {
                    refused = format!(
                        "its signature does not count: {}",
                        outcome.why().unwrap_or_default()
                    );
                }
            }
        }
        past.or(doubtful).unwrap_or(Self::Foreign(refused))
    }
}

impl fmt::Display for DocumentStanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Good(_) => f.write_str("good"),
            Self::Past(_, why) => write!(f, "good when it was made; since then: {why}"),
            Self::Doubtful(_, why) => write!(f, "doubtful: {why}"),
            Self::Unsigned => f.write_str("unsigned"),
            Self::Foreign(why) => write!(f, "does not count: {why}"),
        }
    }
}
