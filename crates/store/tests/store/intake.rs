//! Writing in two steps: certificates are prepared without a lock, and then only written.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use sequoia_openpgp::cert::{CertBuilder, CertRevocationBuilder, CipherSuite};
use sequoia_openpgp::serialize::MarshalInto as _;
use sequoia_openpgp::types::{ReasonForRevocation, RevocationKey, SignatureType};
use talaria_cert::{Cert, Limits, Tag, Verdict, Verification, Work};
use talaria_store::{Access, IngestOutcome, IngestRefusal, Preparation, Return, Store, StoreError};

use crate::common::{Folder, NOW, assert_clean, contents, corpus, part};

fn preparation() -> Preparation {
    Preparation {
        limits: Limits::default(),
        verification: Verification::Full,
        now: NOW.into(),
        work: Work::of(Duration::from_secs(10)).with_part(Duration::from_secs(2)),
    }
}

fn outcomes(intake: talaria_store::Intake) -> Vec<IngestOutcome> {
    intake.into_ingested().into_iter().map(|ingested| ingested.outcome).collect()
}

#[test]
fn certificates_that_were_overtaken_are_prepared_again_and_lose_nothing() {
    let folder = Folder::new();
    let mut store = folder.store();
    let reader = Store::open(&folder.path(), Access::Read).unwrap();
    let all = corpus(12);
    let half = |odd: usize| all.iter().map(|cert| part(cert, |at| at % 2 == odd)).collect();
    let (even, odd): (Vec<Cert>, Vec<Cert>) = (half(0), half(1));
    let first = reader.prepare(even, &preparation()).unwrap();
    let second = reader.prepare([&odd[..], &odd[..2]].concat(), &preparation()).unwrap();
    assert!(!first.is_written() && first.pending() == 12 && second.pending() == 12);
    assert_eq!(store.count().unwrap(), 0);
    let mut both = [first, second];
    store.write(&mut both, usize::MAX, NOW.into()).unwrap();
    let [first, mut second] = both;
    assert_eq!(outcomes(first), [IngestOutcome::New; 12]);
    assert!(second.is_overtaken() && !second.is_written());
    reader.prepare_again(&mut second, &preparation()).unwrap();
    store.write(slice::from_mut(&mut second), usize::MAX, NOW.into()).unwrap();
    let second = outcomes(second);
    assert!(second.contains(&IngestOutcome::Updated), "{second:?}");
    assert_eq!(second[12..], [IngestOutcome::Unchanged; 2]);
    let expected = all.iter().map(|cert| (cert.fingerprint(), cert.as_bytes().to_vec()));
    assert_eq!(contents(&store), expected.collect());
    // What is all there needs no write.
    let intake = reader.prepare(all, &preparation()).unwrap();
    assert!(intake.is_written());
    assert_eq!(outcomes(intake), [IngestOutcome::Unchanged; 12]);
    assert_clean(&store);
}

#[test]
fn a_transaction_writes_no_more_certificates_than_it_may() {
    let folder = Folder::new();
    let mut store = folder.store();
    let all = corpus(10);
    let mut intakes = [
        store.prepare(all[..7].to_vec(), &preparation()).unwrap(),
        store.prepare(all[7..].to_vec(), &preparation()).unwrap(),
    ];
    for (count, left) in [(4, [3, 3]), (8, [0, 2]), (10, [0, 0])] {
        store.write(&mut intakes, 4, NOW.into()).unwrap();
        assert_eq!(store.count().unwrap(), count);
        assert_eq!([intakes[0].pending(), intakes[1].pending()], left);
    }
    for intake in intakes {
        assert!(outcomes(intake).iter().all(|outcome| *outcome == IngestOutcome::New));
    }
    assert_clean(&store);
}

#[test]
fn a_certificate_that_is_blocked_after_it_was_prepared_is_refused() {
    let folder = Folder::new();
    let mut store = folder.store();
    let all = corpus(2);
    let mut intake = store.prepare(all.clone(), &preparation()).unwrap();
    store.delete(&[all[0].fingerprint()], Return::Blocked, NOW.into()).unwrap();
    store.write(slice::from_mut(&mut intake), usize::MAX, NOW.into()).unwrap();
    assert!(intake.is_overtaken());
    store.prepare_again(&mut intake, &preparation()).unwrap();
    let refused = IngestOutcome::Refused(IngestRefusal::Blocked);
    assert_eq!(outcomes(intake), [refused, IngestOutcome::New]);
}

fn is_too_costly<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::TooCostly(cost)) if cost.needed > cost.allowed)
}

#[test]
fn certificates_that_cost_too_much_are_refused_together() {
    let folder = Folder::new();
    let store = folder.store();
    let all = corpus(5);
    let cost: Duration = all.iter().map(Cert::cost).sum();
    let within = |allowed| Preparation { work: preparation().work.up_to(allowed), ..preparation() };
    assert!(is_too_costly(
        &store.prepare(all.clone(), &within(cost.saturating_sub(Duration::from_nanos(1))))
    ));
    let mut intake = store.prepare(all.clone(), &within(cost)).unwrap();
    // To prepare them again costs as much again.
    let mut other = folder.store();
    other.ingest(all, Verification::Full, NOW.into()).unwrap();
    other.write(slice::from_mut(&mut intake), usize::MAX, NOW.into()).unwrap();
    assert!(intake.is_overtaken());
    assert!(is_too_costly(&store.prepare_again(&mut intake, &within(cost))));
}

/// Revocations in the name of a designated revoker are verified for the summary.
#[test]
fn designated_revocations_count() {
    let folder = Folder::new();
    let mut store = folder.store();
    let builder = CertBuilder::new().set_cipher_suite(CipherSuite::P384);
    let revoker = builder.add_userid("Revoker").generate().unwrap().0;
    let public = |cert: &sequoia_openpgp::Cert| Cert::parse(&cert.to_vec().unwrap()).unwrap();
    let name = RevocationKey::from(&revoker);
    let owner = CertBuilder::new().add_userid("Owner").set_revocation_keys(vec![name]);
    let owner = public(&owner.generate().unwrap().0);
    let revoker = public(&revoker);
    let mut raw = Vec::new();
    for (at, packet) in owner.packets().enumerate() {
        let mut write = |tag: Tag, body: &[u8]| {
            raw.extend([0xc0 | tag.0, 255]);
            raw.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
            raw.extend_from_slice(body);
        };
        write(packet.tag, packet.body);
        for number in 0..if at == 0 { 2000u32 } else { 0 } {
            let mut body = vec![4, 0x20, 19, 8, 0, 16, 5, 2];
            body.extend(u32::MAX.to_be_bytes());
            body.extend([9, 16]);
            body.extend(revoker.fingerprint().key_id().0.to_be_bytes());
            body.extend([0, 0, 0, 0, 1, 128, 0x80]);
            body.extend(number.to_be_bytes());
            body.extend([[7; 43].as_slice(), &[1, 128, 0x80], &[7; 47]].concat());
            write(Tag::SIGNATURE, &body);
        }
    }
    let flooded = Cert::parse(&raw).unwrap();
    let cost = flooded.cost();
    // 2,000 signatures with 384 bits.
    let within = |more| Preparation {
        work: preparation().work.up_to(cost + Duration::from_millis(more)),
        now: talaria_cert::Timestamp::new(2_000_000_000),
        ..preparation()
    };
    // As long as the revoker is not here, nothing can be verified.
    assert!(store.prepare(vec![flooded.clone()], &within(0)).is_ok());
    store.ingest(vec![revoker], Verification::Full, NOW.into()).unwrap();
    assert!(is_too_costly(&store.prepare(vec![flooded.clone()], &within(1))));
    // Some of them are tried, so their number refuses nothing.
    assert!(store.prepare(vec![flooded], &within(50)).is_ok());
    assert_eq!(store.count().unwrap(), 1);
}

/// Those that name a revoker who arrives are evaluated again in pieces, if a write has a limit.
#[test]
fn certificates_that_name_a_newcomer_are_evaluated_in_pieces() {
    let folder = Folder::new();
    let make = |name: &str, revokers| {
        let builder = CertBuilder::new().add_userid(name).set_revocation_keys(revokers);
        builder.generate().unwrap().0
    };
    let public = |cert: &sequoia_openpgp::Cert| Cert::parse(&cert.to_vec().unwrap()).unwrap();
    let revoker = make("Revoker", vec![]);
    let key = revoker.primary_key().key().clone().parts_into_secret().unwrap();
    let mut signer = key.into_keypair().unwrap();
    let revoked: Vec<Cert> = (0..120)
        .map(|n| {
            let named = make(&format!("Owner {n}"), vec![RevocationKey::from(&revoker)]);
            let made = CertRevocationBuilder::new()
                .set_reason_for_revocation(ReasonForRevocation::KeyCompromised, b"")
                .unwrap();
            let made = made.build(&mut signer, &named, None).unwrap();
            public(&named.insert_packets(made).unwrap().0)
        })
        .collect();
    let mut store = folder.filled(&revoked);
    let now = talaria_cert::Timestamp::new(2_000_000_000);
    let count = |store: &Store| {
        let is_revoked = |cert: &&Cert| {
            let row = store.row(cert.fingerprint()).unwrap().unwrap();
            row.summary.primary.revoked
        };
        revoked.iter().filter(is_revoked).count()
    };
    assert_eq!(count(&store), 0);
    let preparation = Preparation { now, ..preparation() };
    let mut intake = store.prepare(vec![public(&revoker)], &preparation).unwrap();
    store.write(slice::from_mut(&mut intake), usize::MAX, now).unwrap();
    assert_eq!(count(&store), 50);
    let mut pieces = 0;
    while store.follow_revokers(now).unwrap() {
        pieces += 1;
    }
    assert_eq!((count(&store), pieces), (120, 2));
    assert_clean(&store);
}

/// Alice, with certifications by three friends, and the friends.
fn certified() -> (Cert, Vec<Cert>) {
    let make = |user_id: &str| {
        let builder = CertBuilder::new().set_cipher_suite(CipherSuite::Cv25519);
        builder.add_userid(user_id).generate().unwrap().0
    };
    let alice = make("Alice <alice@example.org>");
    let friends: Vec<_> = (0..3).map(|n| make(&format!("Friend {n} <f{n}@example.org>"))).collect();
    let user_id = alice.userids().next().unwrap().userid().clone();
    let made: Vec<_> = friends
        .iter()
        .map(|friend| {
            let key = friend.primary_key().key().clone().parts_into_secret().unwrap();
            let mut signer = key.into_keypair().unwrap();
            let kind = SignatureType::GenericCertification;
            user_id.certify(&mut signer, &alice, kind, None, None).unwrap()
        })
        .collect();
    let alice = alice.insert_packets(made).unwrap().0;
    let public = |cert: &sequoia_openpgp::Cert| Cert::parse(&cert.to_vec().unwrap()).unwrap();
    (public(&alice), friends.iter().map(public).collect())
}

/// Which of them are dropped must not depend on how little time was allowed.
#[test]
fn certifications_are_ranked_whole_or_the_certificate_needs_more_time() {
    let folder = Folder::new();
    let (alice, friends) = certified();
    let mut store = folder.filled(&friends);
    let limits = Limits { foreign_signatures: 2, ..Limits::default() };
    let within = |micros| Preparation {
        limits: limits.clone(),
        work: preparation().work.up_to(alice.cost() + Duration::from_micros(micros)),
        ..preparation()
    };
    let mut refused = 0;
    for micros in (0..1000).step_by(10) {
        let Ok(mut intake) = store.prepare(vec![alice.clone()], &within(micros)) else {
            refused += 1;
            continue;
        };
        store.write(slice::from_mut(&mut intake), usize::MAX, NOW.into()).unwrap();
        let kept = store.get(alice.fingerprint()).unwrap().unwrap();
        assert_eq!(kept.verdicts.iter().filter(|&&v| v == Verdict::Certified).count(), 2);
        store.delete(&[alice.fingerprint()], Return::Allowed, NOW.into()).unwrap();
    }
    assert!((20..90).contains(&refused), "{refused}");
}

#[test]
fn certifications_that_were_verified_stay_so_while_their_issuers_are_here() {
    let folder = Folder::new();
    let (alice, friends) = certified();
    let mut store = folder.filled(&[friends.clone(), vec![alice.clone()]].concat());
    let count = |verdicts: &[Verdict]| {
        verdicts.iter().filter(|&&verdict| verdict == Verdict::Certified).count()
    };
    let row = store.row(alice.fingerprint()).unwrap().unwrap();
    let verdicts = |store: &Store| store.stored(row.id).unwrap().unwrap().verdicts;
    let before = verdicts(&store);
    assert_eq!(count(&before), 0);
    let found: Arc<[Verdict]> = store.certified(&alice, &before, 1000).unwrap().into();
    assert_eq!(count(&found), 3);
    // Of another state, or of another certificate.
    let other = store.row(friends[0].fingerprint()).unwrap().unwrap();
    let wrong =
        [(row.id, row.change.next(), found.clone()), (other.id, other.change, found.clone())];
    store.keep_certified(&wrong).unwrap();
    assert_eq!(verdicts(&store), before);
    store.keep_certified(&[(row.id, row.change, found.clone())]).unwrap();
    assert_eq!(verdicts(&store), *found);
    assert_eq!(store.row(alice.fingerprint()).unwrap().unwrap().change, row.change);
    assert_clean(&store);
    assert_eq!(store.certified(&alice, &found, 1000).unwrap(), *found);
    // An operator takes an issuer away.
    store.delete(&[friends[1].fingerprint()], Return::Blocked, NOW.into()).unwrap();
    let now = store.certified(&alice, &found, 1000).unwrap();
    assert_eq!((count(&found), count(&now)), (3, 2));
    assert_eq!(now.iter().filter(|&&verdict| verdict == Verdict::Foreign).count(), 1);
    assert_clean(&store);
}
