//! Random changes of real certificates, uploaded. Afterwards GnuPG imports every real certificate,
//! and makes of it what it made before.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use fastrand::Rng;
use talaria_cert::{BATCH_BYTES, Cert, Splitter, Tag};

use super::site::{Site, config, gpg, home};

const RING: &str = "/usr/share/keyrings/debian-keyring.gpg";

/// Mutations, and certificates that they are of, in the usual run. In `./test --full` there
/// are 12,000 of all certificates.
const FEW: (usize, usize) = (600, 60);
const ALL: (usize, usize) = (12_000, usize::MAX);

/// Bytes of the certificates in the usual run, at most.
const SMALL_BYTES: usize = 20_000;

fn real_certs() -> Vec<Cert> {
    let mut certs = BTreeMap::new();
    let mut splitter = Splitter::new(fs::File::open(RING).unwrap(), BATCH_BYTES);
    while let Some(batch) = splitter.next_batch().unwrap() {
        for (_, raw) in batch.certs() {
            let cert = Cert::parse(raw).unwrap();
            certs.insert(cert.fingerprint(), cert);
        }
    }
    certs.into_values().collect()
}

fn write(raw: &mut Vec<u8>, tag: Tag, body: &[u8]) {
    raw.extend([0xc0 | tag.0, 255]);
    raw.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    raw.extend_from_slice(body);
}

/// A certificate with some packets changed, left out, repeated, moved, or taken from another
/// certificate.
fn mutated(cert: &Cert, other: &Cert, random: &mut Rng) -> Vec<u8> {
    let mut packets: Vec<(Tag, Vec<u8>)> =
        cert.packets().map(|packet| (packet.tag, packet.body.to_vec())).collect();
    for _ in 0..=random.usize(..4) {
        let at = 1 + random.usize(..packets.len() - 1);
        match random.usize(..9) {
            0 => drop(packets.remove(at)),
            1 => packets.insert(at, packets[at].clone()),
            2 => {
                let to = 1 + random.usize(..packets.len() - 1);
                packets.swap(at, to);
            }
            3 => {
                let theirs: Vec<_> = other.packets().skip(1).collect();
                if !theirs.is_empty() {
                    let packet = theirs[random.usize(..theirs.len())];
                    packets.insert(at, (packet.tag, packet.body.to_vec()));
                }
            }
            4 => {
                let length = random.usize(..=packets[at].1.len());
                packets[at].1.truncate(length);
            }
            5 => {
                let more: Vec<u8> = (0..random.usize(..40)).map(|_| random.u8(..)).collect();
                packets[at].1.extend(more);
            }
            6 => packets[at].0 = Tag(random.u8(..) % 64),
            _ => {
                // The signed part comes first in a signature, so that most of these changes are in
                // it.
                for _ in 0..=random.usize(..3) {
                    let length = packets[at].1.len();
                    let bound = [length, length.min(80)][random.usize(..2)];
                    let place = random.usize(..bound.max(1));
                    let byte = random.u8(..);
                    if let Some(place) = packets[at].1.get_mut(place) {
                        *place = byte;
                    }
                }
            }
        }
        if packets.len() < 2 {
            break;
        }
    }
    let mut raw = Vec::new();
    packets.iter().for_each(|(tag, body)| write(&mut raw, *tag, body));
    raw
}

/// Certificates in one key ring of GnuPG, which writes all of it for each one.
const IN_A_RING: usize = 25;

/// What GnuPG makes of the served certificates: for each primary key the lines of its parts,
/// without the order.
fn listed(server: &Site, certs: &[Cert]) -> Option<BTreeMap<String, BTreeSet<String>>> {
    let mut parts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for some in certs.chunks(IN_A_RING) {
        let home = home();
        let all: Vec<u8> = some.iter().flat_map(|cert| server.fetched(cert).into_bytes()).collect();
        let listing = gpg(home.path(), &all)?;
        let (mut primary, mut line_of_key) = (String::new(), None);
        for line in listing.lines() {
            let fields: Vec<&str> = line.split(':').collect();
            match fields[0] {
                "pub" => line_of_key = Some(line.to_owned()),
                "fpr" => {
                    // The first one behind a primary key is its own.
                    if let Some(line) = line_of_key.take() {
                        fields[9].clone_into(&mut primary);
                        parts.entry(primary.clone()).or_default().insert(line);
                    }
                }
                "uid" | "uat" | "sub" | "rvk" => {
                    parts.entry(primary.clone()).or_default().insert(line.to_owned());
                }
                _ => {}
            }
        }
    }
    Some(parts)
}

#[test]
fn gpg_imports_every_real_certificate_after_mutations_of_it_were_uploaded() {
    if !Path::new(RING).exists() {
        talaria_needs::left_out("debian-keyring");
        return;
    }
    let is_full = talaria_needs::short_or_full(false, true);
    let (mutations, count) = if is_full { ALL } else { FEW };
    let mut certs = real_certs();
    assert!(certs.len() > 800, "{} certificates are too few", certs.len());
    if !is_full {
        certs.retain(|cert| cert.as_bytes().len() < SMALL_BYTES);
    }
    certs.truncate(count);
    let server = Site::with(&certs, config());
    let Some(before) = listed(&server, &certs) else { return };
    let mut random = Rng::with_seed(1);
    let mut taken = 0;
    for number in 0..mutations {
        let (cert, other) = (&certs[number % certs.len()], &certs[random.usize(..certs.len())]);
        let reply = server.offer(&mutated(cert, other, &mut random));
        assert!(matches!(reply.status, 200 | 413 | 422), "{}: {}", reply.status, reply.text());
        taken += usize::from(reply.status == 200);
    }
    eprintln!("{taken} of {mutations} mutations were taken, at least in part");
    assert!(taken > mutations / 4, "{taken} of {mutations}");
    let after = listed(&server, &certs).unwrap();
    for cert in &certs {
        let fingerprint = cert.fingerprint().to_string();
        assert_eq!(after.get(&fingerprint), before.get(&fingerprint), "{fingerprint}");
        assert!(after.contains_key(&fingerprint), "{fingerprint}");
    }
}
