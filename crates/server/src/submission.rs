//! Certificates that were sent to the server: armored or binary, one or many.

use talaria_cert::{Armor, BATCH_BYTES, Cert, Splitter};

use crate::answer::Refusal;

/// Certificates in one submission.
const CERTS_MAX: usize = 10_000;

/// The content of a submission.
#[derive(Debug, Default)]
pub(crate) struct Submission {
    pub(crate) certs: Vec<Cert>,
    /// Data that are not a certificate, and why.
    pub(crate) rejected: Vec<String>,
    /// The keyserver that passed it on, as it calls itself.
    pub(crate) via: Option<String>,
}

/// Reads a submission. At least one certificate or one rejection comes out.
///
/// # Errors
///
/// [`Refusal::Malformed`] if there is nothing in it, [`Refusal::TooLarge`] if there is too much.
pub(crate) fn read(bytes: &[u8]) -> Result<Submission, Refusal> {
    let mut submission = Submission::default();
    let start = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(bytes.len());
    let bytes = &bytes[start..];
    if bytes.first().is_some_and(|first| first & 0x80 != 0) {
        split(Splitter::new(bytes, BATCH_BYTES), &mut submission)?;
    } else {
        split(Splitter::new(Armor::new(bytes), BATCH_BYTES), &mut submission)?;
    }
    if submission.certs.is_empty() && submission.rejected.is_empty() {
        return Err(Refusal::Malformed("the submission contains no OpenPGP certificate".into()));
    }
    Ok(submission)
}

fn split(
    mut splitter: Splitter<impl std::io::Read>,
    submission: &mut Submission,
) -> Result<(), Refusal> {
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
            match Cert::parse(raw) {
                Ok(cert) => submission.certs.push(cert),
                Err(reason) => submission.rejected.push(format!("at byte {offset}: {reason}")),
            }
        }
        submission
            .rejected
            .extend(batch.rejects().map(|r| format!("at byte {}: {}", r.offset, r.reason)));
    }
}
