//! Certificates that were sent to the server: armored or binary, one or many.

use std::io::Read;

use talaria_cert::{Armor, Cert, Reason, Splitter, Tag, packets};

use crate::answer::Refusal;

/// Certificates in one submission.
const CERTS_MAX: usize = 10_000;

/// Parts of one submission that are no certificate. Real ones have few, and an answer names each.
const REJECTS_MAX: usize = 1000;

/// The least bytes of a packet, on average, if there are many. A parsed packet takes several times
/// as much memory. Real packets have 50 and more.
const PACKET_BYTES: usize = 32;
const FEW_PACKETS: usize = 1000;

/// Revocations without a certificate that are looked at in one submission.
const REVOCATIONS_MAX: usize = 4;

/// Bytes that are split into certificates at a time.
const SPLIT_BYTES: usize = 512 << 10;

/// The packets that certificates of strangers may still have: a few, and one for each
/// [`PACKET_BYTES`] bytes.
#[derive(Debug)]
pub(crate) struct PacketsLeft(usize);

impl PacketsLeft {
    /// Of data with so many bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        Self(FEW_PACKETS + bytes / PACKET_BYTES)
    }

    /// Counts the packets of one certificate before it is parsed.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooLarge`] if there are too many.
    pub(crate) fn take(&mut self, raw: &[u8]) -> Result<(), Refusal> {
        let count = packets(raw).take(self.0 + 1).count();
        self.0 = self.0.checked_sub(count).ok_or_else(|| {
            Refusal::TooLarge(format!(
                "the submission has too many packets for its size: {FEW_PACKETS}, and one for each \
                 {PACKET_BYTES} bytes, are allowed"
            ))
        })?;
        Ok(())
    }
}

/// The content of a submission.
#[derive(Debug, Default)]
pub(crate) struct Submission {
    pub(crate) certs: Vec<Cert>,
    /// Data that are not a certificate.
    pub(crate) rejected: Vec<Rejected>,
    /// The keyserver that passed it on, as it calls itself.
    pub(crate) via: Option<String>,
}

/// A part of a submission that is not a certificate.
#[derive(Debug)]
pub(crate) struct Rejected {
    /// Where it is, and what is wrong with it.
    pub(crate) why: String,
    /// The body of its signature, if it is the revocation of a key, which may be here.
    pub(crate) revocation: Option<Vec<u8>>,
}

impl Submission {
    fn reject(
        &mut self,
        offset: u64,
        reason: &Reason,
        revocation: Option<&[u8]>,
    ) -> Result<(), Refusal> {
        if self.rejected.len() == REJECTS_MAX {
            return Err(Refusal::Malformed(format!(
                "the submission has more than {REJECTS_MAX} parts that are no certificate, the first {}",
                self.rejected[0].why
            )));
        }
        let before = self.rejected.iter().filter(|one| one.revocation.is_some()).count();
        let is_signature = *reason == Reason::NoPrimary { tag: Tag::SIGNATURE.0 };
        let why = match revocation {
            Some(_) if before < REVOCATIONS_MAX => {
                "a revocation that came alone: /pks/add takes it if this server has the certificate of the key that made it; \
                 otherwise send a revocation together with the certificate that it revokes"
                    .to_owned()
            }
            Some(_) => format!(
                "a revocation that came alone: one submission may have {REVOCATIONS_MAX} of them; send the others later"
            ),
            None if is_signature => {
                "a signature that came alone, and is not the revocation of a primary key: send it together with its \
                 certificate"
                    .to_owned()
            }
            None => reason.to_string(),
        };
        let revocation = revocation.filter(|_| before < REVOCATIONS_MAX).map(<[u8]>::to_vec);
        self.rejected.push(Rejected { why: format!("at byte {offset}: {why}"), revocation });
        Ok(())
    }
}

/// Reads a submission. At least one certificate or one rejection comes out.
///
/// # Errors
///
/// [`Refusal::Malformed`] if there is nothing in it, [`Refusal::TooLarge`] if there is too much.
pub(crate) fn read(bytes: &[u8]) -> Result<Submission, Refusal> {
    let mut submission = Submission::default();
    split(splitter(bytes), bytes.len(), &mut submission)?;
    if submission.certs.is_empty() && submission.rejected.is_empty() {
        return Err(Refusal::Malformed("the submission contains no OpenPGP certificate".into()));
    }
    Ok(submission)
}

/// Whether a submission is binary. White space may stand in front of it.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first().is_some_and(|first| first & 0x80 != 0)
}

/// Splits a submission, armored or binary, into certificates.
pub(crate) fn splitter(bytes: &[u8]) -> Splitter<Box<dyn Read + '_>> {
    let input: Box<dyn Read> = if is_binary(bytes) {
        Box::new(bytes.trim_ascii_start())
    } else {
        Box::new(Armor::new(bytes))
    };
    Splitter::new(input, SPLIT_BYTES)
}

fn split(
    mut splitter: Splitter<impl Read>,
    bytes: usize,
    submission: &mut Submission,
) -> Result<(), Refusal> {
    let mut packets_left = PacketsLeft::of(bytes);
    loop {
        let batch = splitter
            .next_batch()
            .map_err(|error| Refusal::Malformed(format!("cannot read the submission: {error}")))?;
        let Some(batch) = batch else { return Ok(()) };
        for (offset, raw) in batch.certs() {
            if submission.certs.len() == CERTS_MAX {
                return Err(Refusal::TooLarge(format!(
                    "a submission may have at most {CERTS_MAX} certificates"
                )));
            }
            packets_left.take(raw)?;
            match Cert::parse(raw) {
                Ok(cert) => submission.certs.push(cert),
                Err(reason) => submission.reject(offset, &reason, None)?,
            }
        }
        for reject in batch.rejects() {
            submission.reject(reject.offset, &reject.reason, batch.revocation(reject))?;
        }
    }
}
