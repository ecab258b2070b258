//! Keys of the targets, so that signatures and encrypted messages pass the cryptographic checks,
//! and changed certificates with good signatures.

use std::sync::OnceLock;

use talaria::cert::Verification;
use talaria::store::{Access, Depth, IngestOutcome, Order, Query};
use talaria::{Stores, lookup};
use talaria_message::openpgp::Cert;
use talaria_message::openpgp::packet::Key;
use talaria_message::openpgp::packet::key::{PublicParts, UnspecifiedRole};
use talaria_message::{
    Issuer, Recipients, Rules, SignatureReport, Verifier, decryption_keys, lookup_in, make,
    read_cert, read_certs,
};

/// A time after that of the seeds.
pub const NOW: u32 = 1_740_000_000;

/// Secret keys without a passphrase, made by `talaria key generate` at 1,700,000,000.
const KEYS: [&[u8]; 3] = [
    include_bytes!("../keys/ed25519.pgp"),
    include_bytes!("../keys/rsa.pgp"),
    include_bytes!("../keys/v6.pgp"),
];

/// The signed document.
pub const DOCUMENT: &[u8] = b"a document";

/// Times for judging certificates: before their creation, during their validity, later, the last
/// possible time.
const TIMES: [u32; 4] = [1_600_000_000, NOW, NOW + 86400 * 9999, u32::MAX];

/// The known keys.
pub fn keys() -> &'static [Cert] {
    static CERTS: OnceLock<Vec<Cert>> = OnceLock::new();
    CERTS.get_or_init(|| KEYS.iter().map(|key| read_cert(key).expect("a key")).collect())
}

/// A verifier with the certificates of all keys here.
#[must_use]
pub fn verifier() -> Verifier<'static> {
    Verifier::new(lookup_in(keys()), Rules::default(), NOW)
}

/// A verifier without certificates.
#[must_use]
pub fn stranger() -> Verifier<'static> {
    Verifier::new(Box::new(|_: &Issuer| Vec::new()), Rules::default(), NOW)
}

/// The secrets of all keys here.
#[must_use]
pub fn secrets() -> Vec<talaria_message::DecryptionKey> {
    decryption_keys(keys(), |_, _| None)
}

/// The public encryption keys of all keys here: ECDH, RSA and X25519.
pub fn encryption_keys() -> impl Iterator<Item = Key<PublicParts, UnspecifiedRole>> {
    let keys = keys().iter().flat_map(|cert| cert.keys());
    let keys = keys.map(|key| key.key().parts_as_public().clone());
    keys.filter(|key| key.pk_algo().for_encryption())
}

/// The parts of an input: a byte for the choice, certificates after their length, and the rest.
fn parts(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let ([choice, high, low], rest) = bytes.split_first_chunk::<3>()?;
    let (certs, rest) = rest.split_at_checked(u16::from_be_bytes([*high, *low]).into())?;
    Some((*choice, certs, rest))
}

/// An input of [`judged`] and [`stored`].
#[must_use]
pub fn joined(choice: u8, certs: &[u8], rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(certs.len()).expect("certificates here are short").to_be_bytes();
    [&[choice][..], &length, certs, rest].concat()
}

/// Certificates with foreign changes, and signatures to verify with them. The answer is the same
/// each time and through each function.
pub fn judged(bytes: &[u8]) {
    let Some((choice, certs, signatures)) = parts(bytes) else { return };
    let Ok(certs) = read_certs(certs) else { return };
    let certs: Vec<Cert> = certs.into_iter().filter_map(Result::ok).collect();
    let now = TIMES[usize::from(choice) % TIMES.len()];
    let verifier = || Verifier::new(lookup_in(certs.clone()), Rules::default(), now);
    let good = |reports: &[SignatureReport]| {
        reports.iter().map(SignatureReport::is_good).collect::<Vec<_>>()
    };
    let known = verifier();
    if let Ok(first) = known.detached(signatures, &mut &DOCUMENT[..]) {
        let again = known.detached(signatures, &mut &DOCUMENT[..]).expect("it could be read");
        let fresh = verifier().detached(signatures, &mut &DOCUMENT[..]).expect("it could be read");
        assert_eq!(good(&first), good(&again));
        assert_eq!(good(&first), good(&fresh));
        if let [report] = &first[..] {
            assert_eq!(report.is_good(), known.one(signatures, DOCUMENT).is_good());
        }
    }
    let certifier = &keys()[0];
    for cert in &certs {
        let _ = Recipients::default().add(cert, Rules::default(), &mut |_| None, now);
        let Ok(user_ids) = make::certifiable(cert, Rules::default(), now) else { continue };
        for user_id in user_ids.iter().take(2) {
            let says = make::CertifyOptions::default();
            let Ok(mut signer) =
                make::certifier(certifier, Rules::default(), now, &mut |_, _| None)
            else {
                continue;
            };
            let signature = make::certify(cert, user_id, &mut signer, &says, now);
            let _ = signature.map(|signature| {
                let primary = cert.primary_key().key();
                signature
                    .verify_userid_binding(certifier.primary_key().key(), primary, user_id)
                    .expect("what was signed is good");
            });
        }
    }
}

/// Certificates with foreign changes in a store: derived tables match the certificates, and
/// lookups do not panic.
pub fn stored(bytes: &[u8]) {
    let Some((choice, certs, signatures)) = parts(bytes) else { return };
    let mut splitter = talaria_cert::Splitter::new(certs, talaria_cert::BATCH_BYTES);
    let mut taken = Vec::new();
    while let Some(batch) = splitter.next_batch().expect("a slice can be read") {
        taken.extend(batch.certs().filter_map(|(_, raw)| talaria_cert::Cert::parse(raw).ok()));
    }
    if taken.is_empty() {
        return;
    }
    let now = TIMES[usize::from(choice) % TIMES.len()];
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    let folder = folder.expect("a folder");
    let path = folder.path().join("certs.db");
    let mut stores = Stores::open(&[path], Access::Create, now).expect("a new store");
    let store = stores.writable().expect("it is new");
    let names: Vec<_> = taken.iter().map(talaria_cert::Cert::fingerprint).collect();
    let outcomes =
        store.ingest(taken.clone(), Verification::Full, now.into()).expect("there is room");
    // Importing a certificate again adds no row to the change log.
    let before = store.log().last().expect("it can be read");
    let again = store.ingest(taken, Verification::Full, now.into()).expect("there is room");
    assert_eq!(store.log().last().expect("it can be read"), before);
    for (first, again) in outcomes.iter().zip(again) {
        assert_ne!(again, IngestOutcome::New);
        assert_eq!(
            matches!(first, IngestOutcome::Refused(_)),
            matches!(again, IngestOutcome::Refused(_))
        );
    }
    let report = store.check(Depth::Signatures, |_| {}).expect("it can be read");
    assert_eq!(report.findings, []);
    for name in names {
        let query: Query = name.to_string().parse().expect("a fingerprint");
        let _ = stores.recipient(&query, Rules::default(), now);
        let _ = stores.certifiable(&name.to_string(), &[], Rules::default(), now);
        let _ = stores.visit(&[query], Order::Insertion, now, |_, row| {
            let user_id = row.summary.primary_user_id().map(String::from_utf8_lossy);
            let _ = user_id.map(|text| stores.certifiable(&text, &[], Rules::default(), now));
            Ok(std::ops::ControlFlow::Continue(()))
        });
    }
    let verifier = Verifier::new(lookup(Some(stores), Vec::new(), now), Rules::default(), now);
    let _ = verifier.one(signatures, DOCUMENT);
    let _ = verifier.one(signatures, DOCUMENT);
}
