//! Certificates reduced to the packets that are still needed today.

use crate::cert::Cert;
use crate::signature::{Signature, kind};
use crate::tag::Tag;
use crate::verdict::Verdict;

impl Cert {
    /// The certificate without signatures that are no longer needed, as with GnuPG's
    /// `export-minimal`. The newest good self-signature of each component stays, and so do
    /// revocations by the owner or by a designated revoker. Third-party signatures and older
    /// self-signatures are dropped. All user IDs and subkeys stay.
    #[must_use]
    pub fn minimal(&self, verdicts: &[Verdict]) -> Self {
        // For each packet, whether it stays.
        let mut keep = vec![true; self.packets().len()];
        let mut newest: Option<(usize, u32)> = None;
        let mut verdicts = verdicts.iter();
        let revokers: Vec<_> =
            self.named_revokers().into_iter().map(|revoker| revoker.key_id()).collect();
        let by_revoker = |signature: &Signature<'_>| {
            signature.kind == kind::KEY_REVOCATION
                && signature.issuers().iter().any(|(id, _)| revokers.contains(id))
        };
        for (at, packet) in self.packets().enumerate() {
            if packet.tag != Tag::SIGNATURE {
                newest = None;
                continue;
            }
            let good = verdicts.next() == Some(&Verdict::Good);
            let signature =
                Signature::parse(packet.body).filter(|s| good && s.binds() || by_revoker(s));
            keep[at] = match signature {
                None => false,
                Some(s) if matches!(s.kind, kind::KEY_REVOCATION | kind::SUBKEY_REVOCATION) => true,
                // Older signatures may name designated revokers too.
                Some(s) if s.revokers().next().is_some() => true,
                Some(s) => match newest {
                    Some((_, created)) if created > s.created => false,
                    before => {
                        if let Some((before, _)) = before {
                            keep[before] = false;
                        }
                        newest = Some((at, s.created));
                        true
                    }
                },
            };
        }
        self.retain(|at, _| keep[at])
    }

    /// The certificate without signatures that are marked as local to a keyring (RFC 9580, section
    /// 5.2.3.19).
    #[must_use]
    pub fn exportable(&self) -> Self {
        let local = |body: &[u8]| Signature::parse(body).is_some_and(|s| !s.exportable);
        if !self.packets().any(|packet| packet.tag == Tag::SIGNATURE && local(packet.body)) {
            return self.clone();
        }
        self.retain(|_, packet| packet.tag != Tag::SIGNATURE || !local(packet.body))
    }
}
