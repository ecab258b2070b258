//! What holds for any bytes: nothing panics, and what is written is read back.

use std::hint::black_box;
use std::ops::ControlFlow;

use talaria_cert::{
    Cert, PACKET_BYTES_MAX, Splitter, Summary, Terms, Verification, carried_over, complete,
    verdicts,
};

/// Times at which summaries are evaluated: the first, within the life of most keys, the last.
const TIMES: [u32; 3] = [0, 1_740_000_000, u32::MAX];

/// Cuts a stream of packets and holds every certificate in it to the laws.
pub fn ring(bytes: &[u8]) {
    // The size of the batches has no influence on what is found, as long as nothing is rejected.
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

/// What holds for every certificate that could be read.
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
    // Signatures that were not computed bind nothing; good ones lead further.
    let good = vec![talaria_cert::Verdict::Good; found.len()];
    for verdicts in [found, &good] {
        for now in TIMES {
            let summary = Summary::evaluate(cert, verdicts, now);
            assert!(now == u32::MAX || summary.holds.contains(now));
            let mut stored = Vec::new();
            summary.write(&mut stored);
            assert_eq!(Summary::read(cert.fingerprint(), &stored).as_ref(), Some(&summary));
            black_box((Terms::of(cert, &summary), summary.usable(now)));
            black_box(summary.primary_user_id());
        }
        let minimal = cert.minimal(verdicts);
        assert_eq!(minimal.union(cert), *cert);
    }
    assert_eq!(cert.exportable().union(cert), *cert);
}

/// A file that lives in memory where the system allows that.
pub fn scratch(bytes: &[u8]) -> tempfile::NamedTempFile {
    use std::io::Write as _;
    let memory = std::path::Path::new("/dev/shm");
    let file = match memory.is_dir() {
        true => tempfile::NamedTempFile::new_in(memory),
        false => tempfile::NamedTempFile::new(),
    };
    let mut file = file.expect("a temporary file");
    file.write_all(bytes).expect("room for a few kilobytes");
    file
}

/// Goes on, up to a bound.
pub fn bounded(count: &mut usize) -> ControlFlow<()> {
    *count += 1;
    if *count < 1000 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}
