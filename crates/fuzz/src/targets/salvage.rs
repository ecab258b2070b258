//! Any bytes as a damaged certificate, after its fingerprint: what is salvaged is signed by it.

use talaria_cert::{Cert, Fingerprint, Verdict, Verification, verdicts};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let Some((fingerprint, damaged)) = Fingerprint::from_stored(bytes) else { return };
    let Some(cert) = Cert::salvage(damaged, fingerprint) else { return };
    assert_eq!(cert.fingerprint(), fingerprint);
    assert_eq!(Cert::from_canonical(cert.as_bytes().to_vec()).as_ref(), Ok(&cert));
    let found = &verdicts(&[&cert], Verification::Full)[0];
    assert!(!found.is_empty() && found.iter().all(|&verdict| verdict == Verdict::Good));
    assert_eq!(Cert::salvage(cert.as_bytes(), fingerprint), Some(cert));
}
