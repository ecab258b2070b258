//! Ed25519 keys and signatures with components of small order, in certificates and on documents:
//! the verdict is the same alone and in a batch, and a signature that gpg calls bad is never good.

use std::collections::HashSet;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::digest;
use curve25519_dalek::constants::EIGHT_TORSION;
use curve25519_dalek::edwards::{CompressedEdwardsY, EdwardsPoint};
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::{Identity as _, IsIdentity as _};
use talaria_cert::{Cert, Rules, Verdict, Verification, View, sha256};
use talaria_corpus::{CorpusProfile, Generate, certs};
use talaria_message::openpgp::parse::Parse as _;
use talaria_message::{Outcome, Verifier, lookup_in, openpgp};
use talaria_store::{Depth, Store};

const NOW: u32 = 1_740_000_000;
const CREATED: u32 = NOW - 86_400;

/// A key whose owner added a component of small order.
struct Attacker {
    secret: Scalar,
    public: [u8; 32],
    /// Whether the key has no component of small order.
    honest: bool,
}

/// A packet with its header.
fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![0xc0 | tag, 255];
    out.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    out.extend(body);
    out
}

fn mpi(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len());
    let bytes = &bytes[start..];
    let bits = bytes.first().map_or(0, |first| bytes.len() * 8 - first.leading_zeros() as usize);
    [&u16::try_from(bits).unwrap().to_be_bytes()[..], bytes].concat()
}

impl Attacker {
    fn new(secret: Scalar, component: EdwardsPoint) -> Self {
        let public = (EdwardsPoint::mul_base(&secret) + component).compress().0;
        Self { secret, public, honest: component.is_identity() }
    }

    fn numbered(number: usize, component: EdwardsPoint) -> Self {
        Self::new(Scalar::from_bytes_mod_order(sha256(&[b"key", &number.to_be_bytes()])), component)
    }

    /// Signs so that the equation times eight holds. `wanted` says whether the equation itself must
    /// hold, which depends on the nonce.
    fn sign(&self, message: &[u8], component: EdwardsPoint, wanted: bool) -> Option<[u8; 64]> {
        for nonce in 0..200_u64 {
            let nonce = Scalar::from_bytes_mod_order(sha256(&[message, &nonce.to_be_bytes()]));
            let r = EdwardsPoint::mul_base(&nonce) + component;
            let mut context = digest::Context::new(&digest::SHA512);
            context.update(&r.compress().0);
            context.update(&self.public);
            context.update(message);
            let hashed: [u8; 64] = context.finish().as_ref().try_into().unwrap();
            let h = Scalar::from_bytes_mod_order_wide(&hashed);
            let s = nonce + h * self.secret;
            let public = CompressedEdwardsY(self.public);
            let right = EdwardsPoint::mul_base(&s) - public.decompress().unwrap() * h;
            if (right == r) == wanted {
                return Some([r.compress().0, s.to_bytes()].concat().try_into().unwrap());
            }
        }
        None
    }

    fn key(&self) -> Vec<u8> {
        let mut body = vec![4];
        body.extend(CREATED.to_be_bytes());
        body.extend([22, 9, 0x2b, 6, 1, 4, 1, 0xda, 0x47, 0x0f, 1]);
        body.extend(mpi(&[&[0x40][..], &self.public].concat()));
        body
    }

    fn fingerprint(&self) -> Vec<u8> {
        let key = self.key();
        let len = u16::try_from(key.len()).unwrap().to_be_bytes();
        let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
        [&[0x99][..], &len, &key].into_iter().for_each(|part| context.update(part));
        context.finish().as_ref().to_vec()
    }

    /// A signature packet over the given start of the digest.
    fn signature(
        &self,
        kind: u8,
        before: &[u8],
        component: EdwardsPoint,
        wanted: bool,
    ) -> Option<Vec<u8>> {
        let fingerprint = self.fingerprint();
        let mut hashed = vec![5, 2];
        hashed.extend(CREATED.to_be_bytes());
        hashed.extend([2, 27, 3, 22, 33, 4]);
        hashed.extend(&fingerprint);
        let mut body = vec![4, kind, 22, 8];
        body.extend(u16::try_from(hashed.len()).unwrap().to_be_bytes());
        body.extend(&hashed);
        let trailer = u32::try_from(body.len()).unwrap().to_be_bytes();
        let digest = sha256(&[before, &body, &[4, 0xff], &trailer]);
        body.extend([0, 10, 9, 16]);
        body.extend(&fingerprint[12..]);
        body.extend(&digest[..2]);
        let signed = self.sign(&digest, component, wanted)?;
        body.extend(mpi(&signed[..32]));
        body.extend(mpi(&signed[32..]));
        Some(packet(2, &body))
    }

    /// A certificate whose self-signature has a component of small order in R.
    fn certificate(&self, component: EdwardsPoint, wanted: bool) -> Option<Vec<u8>> {
        let (key, user_id) = (self.key(), b"Mallory <mallory@evil.example>");
        let mut before = vec![0x99];
        before.extend(u16::try_from(key.len()).unwrap().to_be_bytes());
        before.extend(&key);
        before.push(0xb4);
        before.extend(u32::try_from(user_id.len()).unwrap().to_be_bytes());
        before.extend(user_id);
        let signature = self.signature(0x13, &before, component, wanted)?;
        Some([packet(6, &key), packet(13, user_id), signature].concat())
    }
}

/// A certificate, whether its signature is good, and whether its key has no component of small
/// order.
type Made = (Vec<u8>, bool, bool);

/// Certificates with every pair of components in A and R, with an equation that holds and with one
/// that does not, if both exist.
fn hostile() -> Vec<Made> {
    let mut made = Vec::new();
    for (i, a) in EIGHT_TORSION.into_iter().enumerate() {
        for (j, r) in EIGHT_TORSION.into_iter().enumerate() {
            for wanted in [false, true] {
                let attacker = Attacker::numbered(100 * i + 2 * j + usize::from(wanted), a);
                let good = wanted && attacker.honest;
                let cert = attacker.certificate(r, wanted);
                made.extend(cert.map(|cert| (cert, good, attacker.honest)));
            }
        }
    }
    made
}

fn store() -> Store {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let name = format!("small-order-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let mut store = Store::in_memory(name.as_ref()).unwrap();
    store.digests_mut().add_view(View::Hockeypuck23).unwrap();
    store
}

/// An attacker adds a component of small order to a key, so that a batch may find good what single
/// verification refuses. Before, that depended on the other certificates in the file, and `check`
/// called the store damaged.
#[test]
fn small_order_verdicts_do_not_depend_on_the_batch() {
    let hostile = hostile();
    assert!(hostile.iter().any(|made| made.1) && hostile.len() > 100);
    let parsed: Vec<Cert> = hostile.iter().map(|made| Cert::parse(&made.0).unwrap()).collect();
    let read = |store: &Store, cert: &Cert| {
        let row = store.row(cert.fingerprint()).unwrap().unwrap();
        (store.stored(row.id).unwrap().unwrap().verdicts, store.digests().of(row.id).unwrap())
    };
    let mut neighbours =
        certs(&Generate { seed: 7, first: 0, count: 300, profile: CorpusProfile::ed25519() });
    neighbours.extend(parsed.iter().cloned());
    let mut together = store();
    together.ingest(neighbours, Verification::Full, NOW.into()).unwrap();
    assert_eq!(together.check(Depth::Signatures, |_| {}).unwrap().findings, vec![]);
    for (cert, (_, good, _)) in parsed.iter().zip(&hostile) {
        let mut alone = store();
        alone.ingest(vec![cert.clone()], Verification::Full, NOW.into()).unwrap();
        assert_eq!(alone.check(Depth::Signatures, |_| {}).unwrap().findings, vec![]);
        let expected = if *good { Verdict::Good } else { Verdict::Bad };
        assert_eq!(read(&alone, cert).0, [expected]);
        assert_eq!(read(&alone, cert), read(&together, cert));
    }
}

/// gpg's verdicts on the signatures of certificates with an Ed25519 key: `!` is good, everything
/// else bad.
fn by_gpg(certificates: &[Vec<u8>]) -> Option<Vec<bool>> {
    let home = tempfile::tempdir().unwrap();
    let gpg = |args: &[&str]| {
        Command::new("gpg")
            .args(["--batch", "--no-auto-check-trustdb", "--allow-non-selfsigned-uid", "--homedir"])
            .arg(home.path())
            .args(args)
            .output()
    };
    let file = home.path().join("certs.pgp");
    std::fs::write(&file, certificates.concat()).unwrap();
    gpg(&["--import", file.to_str().unwrap()]).ok()?;
    let list = gpg(&["--check-sigs", "--with-colons"]).unwrap();
    let (mut good, mut name) = (HashSet::new(), String::new());
    for line in String::from_utf8_lossy(&list.stdout).lines() {
        let fields: Vec<&str> = line.split(':').collect();
        match fields[..] {
            ["fpr", ..] => fields[9].clone_into(&mut name),
            ["sig", "!", ..] => drop(good.insert(name.clone())),
            _ => {}
        }
    }
    let is_good =
        |raw: &Vec<u8>| good.contains(&Cert::parse(raw).unwrap().fingerprint().to_string());
    Some(certificates.iter().map(is_good).collect())
}

/// For proper keys, gpg's verdict equals ours for every R. For other keys, gpg accepts other
/// signatures than those that satisfy the equation, and our verdict is bad.
#[test]
fn a_signature_that_gpg_calls_bad_is_never_good() {
    let hostile = hostile();
    let raw: Vec<_> = hostile.iter().map(|made| made.0.clone()).collect();
    let Some(gpg) = by_gpg(&raw) else {
        talaria_needs::left_out("gpg");
        return;
    };
    assert!(gpg.contains(&true) && gpg.contains(&false));
    for ((_, good, honest), gpg) in hostile.iter().zip(gpg) {
        assert!(gpg || !good);
        assert!(!honest || gpg == *good);
    }
}

/// A key that is only a point of small order, also zero: anybody can make signatures that satisfy
/// the equation. gpg stops with a fatal error.
#[test]
fn a_key_of_small_order_has_no_good_signature() {
    let made = EIGHT_TORSION.into_iter().flat_map(|a| {
        let attacker = Attacker::new(Scalar::ZERO, a);
        EIGHT_TORSION.into_iter().filter_map(move |r| attacker.certificate(r, true))
    });
    let made: Vec<Cert> = made.map(|raw| Cert::parse(&raw).unwrap()).collect();
    assert!(made.len() > 20);
    let made: Vec<&Cert> = made.iter().cycle().take(200).collect();
    let verdicts = talaria_cert::verdicts(&made, Verification::Full);
    assert!(verdicts.iter().all(|verdicts| *verdicts == [Verdict::Bad]));
}

/// The same with documents: signatures have the same verdict together and alone.
#[test]
fn verify_many_accepts_nothing_that_verify_refuses() {
    let honest = Attacker::numbered(1, EdwardsPoint::identity());
    let mut keys = vec![honest];
    keys.extend(EIGHT_TORSION.into_iter().enumerate().map(|(n, a)| Attacker::numbered(n + 2, a)));
    let certs: Vec<openpgp::Cert> = keys
        .iter()
        .map(|key| {
            let raw = EIGHT_TORSION.into_iter().find_map(|r| key.certificate(r, true)).unwrap();
            openpgp::Cert::from_bytes(&raw).unwrap()
        })
        .collect();
    let verifier = || Verifier::new(lookup_in(certs.clone()), Rules::Standard, NOW);
    let mut items = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        for (j, r) in EIGHT_TORSION.into_iter().enumerate() {
            for wanted in [false, true] {
                let document = format!("document {number} {j}").into_bytes();
                let signed = key.signature(0, &document, r, wanted);
                let good = wanted && key.honest;
                items.extend(signed.map(|signed| (signed, document, good)));
            }
        }
        for more in 0..20 {
            let document = format!("another document {number} {more}").into_bytes();
            let signed = keys[0].signature(0, &document, EdwardsPoint::identity(), true).unwrap();
            items.push((signed, document, true));
        }
    }
    let pairs: Vec<(&[u8], &[u8])> =
        items.iter().map(|(signed, document, _)| (&signed[..], &document[..])).collect();
    let together = verifier().many(&pairs);
    let alone = verifier();
    let mut bad = 0;
    for ((signed, document), (report, (_, _, wanted))) in
        pairs.iter().zip(together.iter().zip(&items))
    {
        let expected = alone.one(signed, document);
        assert_eq!(format!("{:?}", report.outcome), format!("{:?}", expected.outcome));
        assert_eq!(matches!(report.outcome, Outcome::Good), *wanted, "{:?}", report.outcome);
        bad += usize::from(!wanted);
    }
    assert!(bad > 50 && pairs.len() > 200);
}
