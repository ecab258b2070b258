//! The law for limits with real signatures: by keys that are known, and by a revoker whom the owner
//! named.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use proptest::prelude::*;
use sequoia_openpgp as openpgp;

use openpgp::cert::CertBuilder;
use openpgp::packet::{Signature, UserID};
use openpgp::serialize::MarshalInto as _;
use openpgp::types::{ReasonForRevocation, RevocationKey, SignatureType};
use talaria_cert::{
    Cert, DESIGNATED_MAX, KeyId, Limits, Serving, Tag, ThirdParty, Verdict, Verification, Work,
    verdicts,
};

use crate::common::{MADE, at, builder, judged, key, signer};

/// A day after the certificates were made.
const NOW: u32 = MADE + 86_400;

/// What strangers and the owner may offer.
struct Pool {
    /// The primary key, which names the revoker, and two user IDs with a binding each.
    base: Cert,
    /// Each with one signature beside the components.
    offers: Vec<Cert>,
    /// The offers that have a genuine revocation by the revoker.
    revocations: Vec<usize>,
    /// A friend, whom the owner has certified, somebody else, and the revoker.
    issuers: [(Cert, Vec<Verdict>); 3],
}

fn body(signature: &Signature) -> Vec<u8> {
    signature.to_vec().unwrap()
}

/// The signature with another number, which does not verify.
fn forged(body: &[u8], byte: u8) -> Vec<u8> {
    let (last, rest) = body.split_last().unwrap();
    [rest, &[last ^ byte]].concat()
}

/// The signature with a hint more.
fn hinted(body: &[u8], hint: u8) -> Vec<u8> {
    let hashed = usize::from(u16::from_be_bytes([body[4], body[5]])) + 6;
    let unhashed = usize::from(u16::from_be_bytes([body[hashed], body[hashed + 1]]));
    let end = hashed + 2 + unhashed;
    let length = u16::try_from(unhashed + 3).unwrap().to_be_bytes();
    [&body[..hashed], &length, &body[hashed + 2..end], &[2, 100, hint], &body[end..]].concat()
}

fn packet(tag: Tag, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[0xc0 | tag.0, 255], &length[..], body].concat()
}

fn pool() -> Pool {
    let [friend, known, stranger, revoker] = ["Friend", "Known", "Stranger", "Revoker"].map(key);
    let named = revoker.primary_key().key();
    let named = RevocationKey::new(named.pk_algo(), named.fingerprint(), false);
    let owner = CertBuilder::new().set_creation_time(at(MADE)).set_revocation_keys(vec![named]);
    let owner = owner.add_userid("Olga").add_userid("Olga O.").generate().unwrap().0;
    let primary = owner.primary_key().key().clone();
    let user_ids: Vec<UserID> = owner.userids().map(|user_id| user_id.userid().clone()).collect();
    let base = Cert::parse(&owner.to_vec().unwrap()).unwrap();

    // Signatures on the key, and on each user ID.
    let on_key = |kind, by: &openpgp::Cert, second| {
        let made = builder(kind, second);
        let made = match kind {
            SignatureType::KeyRevocation => {
                made.set_reason_for_revocation(ReasonForRevocation::KeyCompromised, b"").unwrap()
            }
            _ => made,
        };
        body(&made.sign_direct_key(&mut signer(by), Some(&primary)).unwrap())
    };
    let on_user_id = |kind, by: &openpgp::Cert, user_id: &UserID, second| {
        let made = builder(kind, second);
        body(&made.sign_userid_binding(&mut signer(by), &primary, user_id).unwrap())
    };
    let mut direct = vec![on_key(SignatureType::KeyRevocation, &owner, 1)];
    let genuine: Vec<Vec<u8>> =
        (1..7).map(|n| on_key(SignatureType::KeyRevocation, &revoker, n)).collect();
    direct.extend(genuine.iter().enumerate().map(|(n, real)| forged(real, 1 << n)));
    direct.extend((1..5).map(|n| on_key(SignatureType::KeyRevocation, &known, n)));
    direct.push(on_key(SignatureType::DirectKey, &owner, 7));
    let mut offers = Vec::new();
    let head = base.packets().next().unwrap().body.to_vec();
    let mut offer = |component: Option<&UserID>, signature: &[u8]| {
        let component = component.map_or(vec![], |id| packet(Tag::USER_ID, id.value()));
        let signature = packet(Tag::SIGNATURE, signature);
        let raw = [packet(Tag::PUBLIC_KEY, &head), component, signature].concat();
        offers.push(Cert::parse(&raw).unwrap());
        offers.len() - 1
    };
    let revocations = genuine.iter().map(|real| offer(None, real)).collect();
    for signature in &direct {
        offer(None, signature);
    }
    for user_id in &user_ids {
        for second in 1..4 {
            let kind = SignatureType::PositiveCertification;
            offer(Some(user_id), &on_user_id(kind, &owner, user_id, second));
            for by in [&friend, &known, &stranger] {
                let made = on_user_id(kind, by, user_id, second);
                offer(Some(user_id), &made);
                offer(Some(user_id), &forged(&made, 1));
                offer(Some(user_id), &hinted(&made, 1));
                offer(Some(user_id), &hinted(&made, 2));
            }
        }
        let kind = SignatureType::CertificationRevocation;
        for by in [&owner, &friend, &stranger] {
            offer(Some(user_id), &on_user_id(kind, by, user_id, 9));
        }
    }
    // The owner has certified the friend, and somebody says so of the other one.
    let says = |on: &openpgp::Cert, changed: u8| {
        let (user_id, key) = (on.userids().next().unwrap(), on.primary_key().key());
        let user_id = user_id.userid();
        let made = builder(SignatureType::PositiveCertification, 1);
        let made = made.sign_userid_binding(&mut signer(&owner), key, user_id).unwrap();
        let said = packet(Tag::SIGNATURE, &forged(&body(&made), changed));
        Cert::parse(&[on.to_vec().unwrap(), said].concat()).unwrap()
    };
    let revoker = Cert::parse(&revoker.to_vec().unwrap()).unwrap();
    let issuers = [says(&friend, 0), says(&known, 1), revoker].map(judged);
    Pool { base, offers, revocations, issuers }
}

/// The places of the certifications that a certificate has, by the issuer.
fn by_issuer(cert: &Cert) -> BTreeMap<KeyId, Vec<usize>> {
    let mut by = BTreeMap::new();
    let signatures = cert.packets().filter(|packet| packet.tag == Tag::SIGNATURE);
    for (place, packet) in signatures.enumerate() {
        let Some(signature) = talaria_cert::Signature::parse(packet.body) else { continue };
        for (issuer, _) in signature.issuers() {
            by.entry(issuer).or_insert_with(Vec::new).push(place);
        }
    }
    by
}

#[test]
fn certifications_of_keys_that_the_owner_certified_are_served_first() {
    let whole = POOL.offers.iter().fold(POOL.base.clone(), |all, offer| all.union(offer));
    let stored = verdicts(&[&whole], Verification::Full).remove(0);
    let issuers = || POOL.issuers.to_vec();
    let [friend, known, _] = POOL.issuers.each_ref().map(|(cert, _)| cert.fingerprint().key_id());
    let judged = whole.certified(&stored, usize::MAX, &mut issuers());
    assert!(judged.contains(&Verdict::Certified) && !judged.contains(&Verdict::Mutual));
    // Some were verified before, or all.
    let half: Vec<Verdict> = stored
        .iter()
        .zip(&judged)
        .enumerate()
        .map(|(n, (old, new))| if n % 2 == 0 { *old } else { *new })
        .collect();
    let certified = judged.iter().filter(|verdict| verdict.is_certified()).count();
    for before in [&stored, &half, &judged] {
        let ranked = whole.certified(before, 3, &mut issuers());
        let by = by_issuer(&whole);
        let has = |id, verdict| by[&id].iter().any(|&place| ranked[place] == verdict);
        assert!(has(friend, Verdict::Mutual) && !has(friend, Verdict::Certified));
        assert!(has(known, Verdict::Certified) && !has(known, Verdict::Mutual));
        assert_eq!(ranked.iter().filter(|verdict| verdict.is_certified()).count(), certified);
        for (most, others) in [(4, false), (8, false), (1000, true)] {
            let serving = Serving {
                third_party: ThirdParty::Verified,
                foreign_signatures: 2 * DESIGNATED_MAX + most,
                attributes: false,
            };
            let served = by_issuer(&whole.served(&ranked, serving).unwrap());
            assert_eq!(served[&friend].len(), most.min(8), "{served:?}");
            assert_eq!(served.contains_key(&known), others, "{served:?}");
        }
    }
}

#[test]
fn finding_out_whom_the_owner_certified_is_a_part_of_the_cost() {
    let owner = key("Owner");
    let user_id = owner.userids().next().unwrap().userid().clone();
    let certify = |by: &openpgp::Cert, on: &openpgp::Cert| {
        let (user_id, key) = (on.userids().next().unwrap(), on.primary_key().key());
        let made = builder(SignatureType::PositiveCertification, 1);
        body(&made.sign_userid_binding(&mut signer(by), key, user_id.userid()).unwrap())
    };
    let friends: Vec<openpgp::Cert> = (0..8).map(|number| key(&format!("{number}"))).collect();
    let made = friends.iter().flat_map(|friend| packet(Tag::SIGNATURE, &certify(friend, &owner)));
    let whole = Cert::parse(&owner.to_vec().unwrap()).unwrap();
    let name = packet(Tag::USER_ID, user_id.value());
    let head = packet(Tag::PUBLIC_KEY, whole.packets().next().unwrap().body);
    let made = [head, name, made.collect()].concat();
    let whole = whole.union(&Cert::parse(&made).unwrap());
    // The same with what the owner seems to have signed.
    let issuers = |claims: u8| -> Vec<(Cert, Vec<Verdict>)> {
        let with_claims = friends.iter().map(|friend| {
            let made = certify(&owner, friend);
            // The friends have no subkeys, so what follows is on their user ID.
            let claims = (1..=claims).flat_map(|n| packet(Tag::SIGNATURE, &forged(&made, n)));
            Cert::parse(&friend.to_vec().unwrap().into_iter().chain(claims).collect::<Vec<u8>>())
        });
        with_claims.map(|cert| judged(cert.unwrap())).collect()
    };
    let judged = verdicts(&[&whole], Verification::Full).remove(0);
    let limits = Limits { foreign_signatures: 4, ..Limits::default() };
    let needed = |allowed, mut issuers: Vec<(Cert, Vec<Verdict>)>| {
        let mut work = Work::of(allowed);
        whole.within(&judged, &limits, NOW, &mut work, &mut issuers).unwrap();
        work.needed().as_nanos()
    };
    // Beside what reading the certificates takes.
    let verifying = |claims| {
        let issuers = issuers(claims);
        let bytes: usize = issuers.iter().map(|(cert, _)| cert.as_bytes().len()).sum();
        needed(Duration::MAX, issuers) - 2 * bytes as u128
    };
    let [none, one, four, many] = [0, 1, 4, 30].map(verifying);
    assert!(one > none);
    // At most four on a user ID are tried.
    assert_eq!(four - none, 4 * (one - none));
    assert_eq!(many, four);
    let issuers = issuers(30);
    let all = needed(Duration::MAX, issuers.clone());
    let within = |nanoseconds| Duration::from_nanos(u64::try_from(nanoseconds).unwrap());
    assert!(needed(within(all), issuers.clone()) > all);
    assert_eq!(needed(within(all * 4), issuers), all);
}

static POOL: LazyLock<Pool> = LazyLock::new(pool);

fn keep(cert: &Cert, limits: &Limits) -> Cert {
    let judged = verdicts(&[cert], Verification::Full).remove(0);
    let mut work = Work::UNBOUNDED;
    let kept = cert.within(&judged, limits, NOW, &mut work, &mut POOL.issuers.to_vec());
    kept.map_or_else(|| cert.clone(), |(kept, _)| kept)
}

fn any_limits() -> impl Strategy<Value = Limits> {
    let counts = (8usize..14, 0usize..6, 0usize..4, 0usize..14, 1usize..4, 12usize..60);
    counts.prop_map(|counts| Limits {
        own_signatures: counts.0,
        bad_signatures: counts.1,
        signatures_per_signer: counts.2,
        foreign_signatures: counts.3,
        variants: counts.4,
        hint_bytes: counts.5,
        ..Limits::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn what_is_kept_is_a_function_of_what_was_offered(
        parts in prop::collection::vec(prop::sample::select(vec![0u8, 0, 1, 2, 3, 4, 7]), POOL.offers.len()),
        limits in any_limits(),
    ) {
        let offered = |bit: u8| {
            let chosen = POOL.offers.iter().zip(&parts).filter(|(_, part)| **part & bit != 0);
            chosen.fold(POOL.base.clone(), |all, (offer, _)| all.union(offer))
        };
        let [a, b, c] = [1, 2, 4].map(offered);
        let keep = |cert: &Cert| keep(cert, &limits);
        let all = keep(&a.union(&b).union(&c));
        prop_assert_eq!(&keep(&keep(&keep(&a).union(&b)).union(&c)), &all);
        prop_assert_eq!(&keep(&keep(&keep(&c).union(&a)).union(&b)), &all);
        prop_assert_eq!(&keep(&a.union(&keep(&b.union(&keep(&c))))), &all);
        // Forged revocations in the name of the revoker displace no genuine one.
        let is_kept = |offer: &Cert| all.union(offer) == all;
        let genuine = POOL.revocations.iter().filter(|at| parts[**at] != 0);
        let (kept, lost): (Vec<usize>, Vec<usize>) =
            genuine.partition(|at| is_kept(&POOL.offers[**at]));
        prop_assert!(kept.len() >= DESIGNATED_MAX.min(kept.len() + lost.len()), "{kept:?} {lost:?}");
    }
}
