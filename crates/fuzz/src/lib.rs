//! Properties for any bytes: nothing panics, and written data read back.

pub mod backup;
pub mod known;
pub mod log;
pub mod messages;
pub mod seeds;
pub mod targets;

use std::collections::BTreeSet;
use std::hint::black_box;
use std::ops::ControlFlow;

use talaria_cert::{
    Cert, Limits, PACKET_BYTES_MAX, Serving, Signature, Splitter, Summary, Tag, Terms, ThirdParty,
    Verdict, Verification, View, Work, carried_over, complete, verdicts,
};

/// Times for evaluating summaries: the first possible time, a time when most keys are valid, and
/// the last one.
const TIMES: [u32; 3] = [0, 1_740_000_000, u32::MAX];

/// Splits a stream of packets, and checks the laws for every certificate in it.
pub fn ring(bytes: &[u8]) {
    // The size of the batches does not matter, as long as nothing is rejected.
    let (whole, clean) = split(bytes, bytes.len().max(1));
    let (parts, clean_parts) = split(bytes, 61);
    if clean && clean_parts {
        assert_eq!(whole, parts);
    }
    let certs: Vec<Cert> = whole.iter().filter_map(|raw| Cert::parse(raw).ok()).collect();
    for cert in &certs {
        laws(cert);
    }
    for pair in certs.windows(2) {
        let [a, b] = pair else { continue };
        if a.packets().next() == b.packets().next() {
            let joined = a.union(b);
            assert_eq!(joined, b.union(a));
            assert_eq!(joined.union(a), joined);
            laws(&joined);
        }
    }
}

/// The raw certificates of a stream, and whether there was nothing else in it.
fn split(bytes: &[u8], batch_bytes: usize) -> (Vec<Vec<u8>>, bool) {
    let mut splitter = Splitter::new(bytes, batch_bytes);
    let (mut certs, mut clean) = (Vec::new(), true);
    while let Some(batch) = splitter.next_batch().expect("a slice can be read") {
        for (offset, raw) in batch.certs() {
            let at = usize::try_from(offset).expect("an offset into the input");
            assert_eq!(&bytes[at..at + raw.len()], raw);
            certs.push(raw.to_vec());
        }
        clean &= batch.rejects().next().is_none();
    }
    (certs, clean)
}

/// The laws for every readable certificate.
pub fn laws(cert: &Cert) {
    assert_eq!(Cert::parse(cert.as_bytes()).as_ref(), Ok(cert));
    assert_eq!(Cert::from_canonical(cert.as_bytes().to_vec()).as_ref(), Ok(cert));
    assert_eq!(cert.union(cert), *cert);
    assert!(cert.packets().all(|packet| packet.body.len() <= PACKET_BYTES_MAX));
    black_box(cert.sks_digest());
    for key in cert.keys() {
        let (fingerprint, stored) = (key.fingerprint(), key.fingerprint().to_stored());
        let read = talaria_cert::Fingerprint::from_stored(&stored);
        assert_eq!(read, Some((fingerprint, &[][..])));
        black_box((key.keygrip(), key.bits(), fingerprint.to_string()));
    }
    let found = &verdicts(&[cert], Verification::Deferred)[0];
    assert_eq!(found.len(), cert.signature_count());
    assert_eq!(carried_over(cert, cert, found).len(), found.len());
    assert_eq!(&complete(cert, found.clone(), Verification::Deferred), found);
    // Unverified signatures bind nothing. Good ones reach further code.
    let good = vec![talaria_cert::Verdict::Good; found.len()];
    for verdicts in [found, &good] {
        for now in TIMES {
            let summary = Summary::evaluate(cert, verdicts, now);
            assert!(now == u32::MAX || summary.holds.contains(now));
            let mut stored = Vec::new();
            summary.write(&mut stored);
            assert_eq!(Summary::read(cert.fingerprint(), &stored).as_ref(), Some(&summary));
            black_box((Terms::of(cert, verdicts, &summary), summary.usable(now)));
            black_box(summary.primary_user_id());
        }
        let minimal = cert.minimal(verdicts);
        assert_eq!(minimal.union(cert), *cert);
    }
    assert_eq!(cert.exportable().union(cert), *cert);
}

/// Reads limits from the first bytes and certificates from the rest, and checks the stored and
/// served parts against the limits. Consecutive copies are offered one after the other. The law:
/// what is kept of them is what is kept of all that was offered since the owner has signed
/// something new.
pub fn kept(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first_chunk::<8>() else { return };
    // 255 means no limit.
    let count = |at: usize, unit: usize| match choice[at] {
        255 => usize::MAX,
        count => usize::from(count) * unit,
    };
    let limits = Limits {
        packet_bytes: count(1, 16),
        user_id_bytes: count(2, 4),
        components: count(3, 1),
        attributes: choice[7] & 1 == 0,
        signatures: usize::MAX,
        variants: count(0, 1),
        hint_bytes: count(0, 4),
        own_signatures: count(4, 1),
        bad_signatures: count(5, 1),
        signatures_per_signer: count(6, 1),
        foreign_signatures: count(7, 1),
        foreign_unranked: count(7, 1),
    };
    let third_party = if choice[6] & 2 == 0 { ThirdParty::All } else { ThirdParty::Verified };
    let attributes = choice[6] & 1 == 0;
    let serving = Serving { third_party, foreign_signatures: count(7, 1), attributes };
    let (raw, _) = split(rest, rest.len().max(1));
    let certs: Vec<Cert> = raw.iter().filter_map(|raw| Cert::parse(raw).ok()).collect();
    let mut here: Option<(Cert, Cert)> = None;
    for cert in certs {
        let known = here.take_if(|(kept, _)| kept.packets().next() == cert.packets().next());
        let (whole, offered) = match known {
            Some((kept, offered)) => {
                let is_new = !owners(&cert).is_subset(&owners(&offered));
                let offered = if is_new { &kept } else { &offered };
                (kept.union(&cert), offered.union(&cert))
            }
            None => (cert.clone(), cert),
        };
        let (kept, verdicts) = kept_of(&whole, &limits);
        served(&kept, &verdicts, serving);
        assert_eq!(kept_of(&offered, &limits).0, kept);
        here = Some((kept, offered));
    }
}

/// The stored part of a certificate, with arbitrary verdicts.
fn kept_of(whole: &Cert, limits: &Limits) -> (Cert, Vec<Verdict>) {
    let verdicts = judged(whole);
    let (mut work, mut nobody) = (Work::UNBOUNDED, Vec::new());
    let Some((cut, left)) = whole.within(&verdicts, limits, 0, &mut work, &mut nobody) else {
        return (whole.clone(), verdicts);
    };
    assert_eq!(cut.union(whole), *whole);
    assert_eq!(left.len(), cut.signature_count());
    assert!(cut.packets().skip(1).all(|packet| packet.body.len() <= limits.packet_bytes));
    assert!(cut.user_ids().all(|user_id| user_id.len() <= limits.user_id_bytes));
    (cut, left)
}

/// The served part of a certificate, and its digest in every view.
fn served(cert: &Cert, verdicts: &[Verdict], serving: Serving) {
    if let Some(cut) = cert.served(verdicts, serving) {
        assert_ne!(cut, *cert);
        assert!(cut.packets().len() <= cert.packets().len());
        assert_eq!(Cert::parse(cut.as_bytes()).as_ref(), Ok(&cut));
    }
    for view in View::ALL {
        let digest = view.cert(cert, verdicts).map(|cert| cert.sks_digest());
        assert_eq!(view.digest(cert, verdicts), digest);
    }
}

/// Verdicts that depend only on the identity of the signature, as real ones do. None is found again
/// by verification ([`Verdict::Other`], [`Verdict::Certified`]).
fn judged(cert: &Cert) -> Vec<Verdict> {
    let signatures = cert.packets().filter(|packet| packet.tag == Tag::SIGNATURE);
    let judge = |body: &[u8]| match Signature::parse(body) {
        None => Verdict::Malformed,
        // From `Good` to `Misplaced`.
        Some(signature) => Verdict::from_number(1 + signature.id()[0] % 7).expect("one of ten"),
    };
    signatures.map(|packet| judge(packet.body)).collect()
}

/// The signatures of the owner, each with the component that it is on.
fn owners(cert: &Cert) -> BTreeSet<(Vec<u8>, [u8; 32])> {
    let mut verdicts = judged(cert).into_iter();
    let (mut component, mut found) = (Vec::new(), BTreeSet::new());
    for packet in cert.packets() {
        if packet.tag != Tag::SIGNATURE {
            component = [&[packet.tag.0], packet.body].concat();
        } else if verdicts.next() == Some(Verdict::Good)
            && let Some(signature) = Signature::parse(packet.body)
        {
            found.insert((component.clone(), signature.id()));
        }
    }
    found
}

/// A file in memory, if the system supports that.
#[must_use]
pub fn scratch(bytes: &[u8]) -> tempfile::NamedTempFile {
    use std::io::Write as _;
    let memory = std::path::Path::new("/dev/shm");
    let file = if memory.is_dir() {
        tempfile::NamedTempFile::new_in(memory)
    } else {
        tempfile::NamedTempFile::new()
    };
    let mut file = file.expect("a temporary file");
    file.write_all(bytes).expect("room for a few kilobytes");
    file
}

/// Continues, up to a bound.
pub fn bounded(count: &mut usize) -> ControlFlow<()> {
    *count += 1;
    if *count < 1000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}
