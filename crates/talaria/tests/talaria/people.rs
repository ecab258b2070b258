//! Recipients and signers as another program chooses them: by name, with what the user has said of
//! their certificates.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use talaria::cert::ErrorKind;
use talaria::message::openpgp::cert::CertBuilder;
use talaria::message::openpgp::packet::signature::SignatureBuilder;
use talaria::message::openpgp::serialize::SerializeInto as _;
use talaria::message::openpgp::types::{KeyFlags, ReasonForRevocation, SignatureType};
use talaria::message::openpgp::{Cert, Packet};
use talaria::message::{
    EncryptOptions, Outcome, Rules, SignatureReport, SigningKey, Verifier, encrypt, signing_key,
};
use talaria::store::{Access, Binding, Order, Query};
use talaria::tofu::{bindings_of, observe};
use talaria::trust_models::Level;
use talaria::trust_models::tofu::Policy;
use talaria::{
    Accepted, Belief, Doubt, Error, FoundRecipients, ImportOptions, Input, Judge, Monitor, OwnKeys,
    RecipientOptions, RequiredSigners, SignerBeliefs, Stores, Trust, TrustModel, ValidityReason,
    encrypted_to, import, lookup, unlocker,
};

/// A program with a store.
struct Program {
    folder: tempfile::TempDir,
    now: u32,
}

impl Program {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let program =
            Self { folder: tempfile::tempdir().unwrap(), now: u32::try_from(now).unwrap() };
        program.open(Access::Create);
        program
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("certs.db")
    }

    fn open(&self, access: Access) -> Stores {
        Stores::open(&[self.path()], access, self.now).unwrap()
    }

    fn add(&self, cert: &Cert) {
        let file = self.folder.path().join("added.pgp");
        std::fs::write(&file, cert.to_vec().unwrap()).unwrap();
        let stop = AtomicBool::new(false);
        let mut monitor = Monitor { report: &mut |_| {}, stop: &stop };
        let mut stores = self.open(Access::Write);
        let options = ImportOptions::new(self.now);
        import(stores.writable().unwrap(), &[Input::Path(file)], options, &mut monitor).unwrap();
    }

    /// A certificate in the store.
    fn meet(&self, user_id: &str) -> Cert {
        let cert = generate(user_id);
        self.add(&cert);
        cert
    }

    fn row(&self, cert: &Cert) -> talaria::store::Row {
        let mut rows = Vec::new();
        let query = [name(cert)];
        self.open(Access::Read)
            .visit(&query, Order::Insertion, self.now, |_, row| {
                rows.push(row);
                Ok(std::ops::ControlFlow::Continue(()))
            })
            .unwrap();
        rows.retain(|row| row.summary.fingerprint().to_string() == cert.fingerprint().to_hex());
        rows.remove(0)
    }

    fn call(&self, cert: &Cert, policy: Policy) {
        let bindings = bindings_of(&self.row(cert), self.now).into_iter();
        let decided: Vec<Binding> = bindings.map(|binding| Binding { policy, ..binding }).collect();
        self.open(Access::Write).writable().unwrap().tofu_mut().set_bindings(&decided).unwrap();
    }

    fn trust(&self, cert: &Cert, level: Level) {
        let owner = [(self.row(cert).summary.fingerprint(), level as u8)];
        let mut stores = self.open(Access::Write);
        stores.writable().unwrap().web_mut().set_ownertrust(&owner, self.now.into()).unwrap();
    }

    fn find(&self, names: &[Query], accepted: Accepted, model: TrustModel) -> FoundRecipients {
        let trust = Trust::default().with_model(model);
        let options = RecipientOptions { trust, accepted, ..RecipientOptions::default() };
        self.open(Access::Read).recipients(names, &options, self.now).unwrap()
    }

    /// The report on a signature by `cert`, and the beliefs about its signer.
    fn verify<'p>(
        &'p self,
        cert: &Cert,
        model: TrustModel,
    ) -> (SignatureReport, SignerBeliefs<'p>) {
        let signature = signer(cert, self.now).sign(b"data", self.now).unwrap();
        let trust = Trust::default().with_model(model);
        let beliefs = SignerBeliefs::new(trust, self.now, || Some(self.open(Access::Read)));
        let lookup = lookup(Some(self.open(Access::Read)), Vec::new(), self.now);
        let verifier =
            Verifier::new(lookup, Rules::default(), self.now).with_distrust(beliefs.distrust());
        let report = verifier.detached(&signature, &mut &b"data"[..]).unwrap().remove(0);
        drop(verifier);
        (report, beliefs)
    }

    /// The numbers of signatures and encryptions that TOFU has seen of a certificate.
    fn seen(&self, cert: &Cert) -> (u64, u64) {
        let stores = self.open(Access::Read);
        let store = &stores.iter().next().unwrap().store;
        let judge = Judge::new(store, TrustModel::Tofu, Policy::Auto, false, self.now).unwrap();
        let row = self.row(cert);
        let reasons = judge.reasons(&row, &judge.judge(&row).unwrap()).unwrap().concat();
        let mut counts = reasons.iter().filter_map(|reason| match reason {
            ValidityReason::Seen { signatures, encryptions } => {
                Some((signatures.count, encryptions.count))
            }
            _ => None,
        });
        counts.next_back().unwrap()
    }
}

/// A certificate with its secret keys, made an hour ago.
fn generate(user_id: &str) -> Cert {
    let made = SystemTime::now() - Duration::from_secs(3600);
    let builder = CertBuilder::general_purpose(Some(user_id)).set_creation_time(made);
    builder.generate().unwrap().0
}

fn name(cert: &Cert) -> Query {
    cert.fingerprint().to_hex().parse().unwrap()
}

fn address(text: &str) -> [Query; 1] {
    [text.parse().unwrap()]
}

fn signer(cert: &Cert, now: u32) -> SigningKey {
    signing_key(cert, Rules::default(), now, &mut |_, _| None).unwrap()
}

fn primary(cert: &Cert) -> talaria::message::openpgp::crypto::KeyPair {
    let key = cert.primary_key().key().clone().parts_into_secret().unwrap();
    key.into_keypair().unwrap()
}

fn refusal<T>(result: Result<T, impl Into<Error>>) -> Error {
    result.err().expect("it must be refused").into()
}

#[test]
fn an_unconfirmed_recipient_comes_with_its_validity_and_is_refused_on_request() {
    let program = Program::new();
    let bob = program.meet("Bob <bob@example.org>");
    let named = address("bob@example.org");
    let without_root =
        program.open(Access::Read).recipients(&named, &RecipientOptions::default(), program.now);
    assert_eq!(without_root.unwrap().certificates[0].doubt(), Some(Doubt::NoTrustRoot));

    let found = program.find(&named, Accepted::Doubtful, TrustModel::Pgp);
    let one = &found.certificates[0];
    assert_eq!(one.certificate, bob.fingerprint());
    assert_eq!(one.belief, Some(Belief { level: Level::Unknown, model: TrustModel::Pgp }));
    assert_eq!(one.doubt(), Some(Doubt::Validity(Level::Unknown)));
    let (mut sealed, options) = (Vec::new(), EncryptOptions::default());
    encrypt(&b"text"[..], &mut sealed, &found.keys.unwrap(), &mut [], &options, program.now)
        .unwrap();

    let refused = program.find(&named, Accepted::Confirmed, TrustModel::Pgp).keys.err().unwrap();
    assert_eq!(refused.name, bob.fingerprint().to_hex());
    let why = Error::from(refused);
    assert_eq!(why.kind(), ErrorKind::NotFound);
    assert!(
        matches!(&why, Error::Doubtful { query, doubt: Doubt::Validity(Level::Unknown), .. } if query == "bob@example.org"),
        "{why:?}"
    );

    program.trust(&bob, Level::Ultimate);
    let found = program.find(&named, Accepted::Confirmed, TrustModel::Pgp);
    assert!(found.certificates[0].doubt().is_none() && found.keys.is_ok());
}

/// The validity of another address of the certificate does not help.
#[test]
fn only_the_address_by_which_a_recipient_was_named_counts() {
    let program = Program::new();
    let made = SystemTime::now() - Duration::from_secs(3600);
    let two = ["<carol@example.org>", "<boss@example.org>"];
    let builder = two.into_iter().fold(CertBuilder::new(), CertBuilder::add_userid);
    let builder = builder.set_creation_time(made).add_transport_encryption_subkey();
    let (carol, own) = (builder.generate().unwrap().0, program.meet("<me@example.org>"));
    program.add(&carol);
    program.trust(&own, Level::Ultimate);
    let mut stores = program.open(Access::Write);
    let rules = Rules::default();
    let what = stores.certifiable("carol@example.org", &[], rules, program.now).unwrap();
    let says = talaria::message::make::CertifyOptions::default();
    stores.certify(&what, &own, &says, || Ok(Box::new(primary(&own))), program.now).unwrap();
    let confirmed = |name| program.find(&address(name), Accepted::Confirmed, TrustModel::Pgp).keys;
    assert!(confirmed("carol@example.org").is_ok());
    assert!(matches!(refusal(confirmed("boss@example.org")), Error::Doubtful { .. }));
}

#[test]
fn a_certificate_called_bad_is_refused_as_recipient_and_signer() {
    let program = Program::new();
    let (good, bad) = (program.meet("<alice@example.org>"), program.meet("<eve@example.org>"));
    program.call(&bad, Policy::Bad);
    for model in TrustModel::ALL {
        for named in [name(&bad), address("eve@example.org")[0].clone()] {
            let found = program.find(&[name(&good), named], Accepted::Doubtful, model);
            assert_eq!(refusal(found.keys).kind(), ErrorKind::UnusableKey, "{model}");
        }
        let (report, beliefs) = program.verify(&bad, model);
        assert_eq!(report.outcome, Outcome::Distrusted, "{model}");
        assert!(beliefs.of(&[report]).unwrap()[0].is_some_and(Belief::is_never), "{model}");
        assert_eq!(program.verify(&good, model).0.outcome, Outcome::Good, "{model}");
    }
}

#[test]
fn tofu_records_encryptions_and_verifications() {
    let program = Program::new();
    let alice = program.meet("<alice@example.org>");
    let record = |seen| {
        observe(program.open(Access::Write).writable().unwrap(), seen, program.now).unwrap();
    };
    assert_eq!(program.seen(&alice), (0, 0));
    let tofu = Trust::default().with_model(TrustModel::Tofu);
    record(encrypted_to(&[alice.fingerprint()], tofu, program.now));
    assert_eq!(program.seen(&alice), (0, 1));
    let (report, beliefs) = program.verify(&alice, TrustModel::Tofu);
    let reports = [report];
    record(beliefs.seen(&reports));
    assert_eq!(program.seen(&alice), (1, 1));
    let believed = beliefs.of(&reports).unwrap()[0].unwrap();
    assert_eq!(believed, Belief { level: Level::Marginal, model: TrustModel::Tofu });
    assert!(believed.is_enough());
    // Another certificate for a known address makes both doubtful.
    let mallory = program.meet("<alice@example.org>");
    for cert in [&alice, &mallory] {
        let (report, beliefs) = program.verify(cert, TrustModel::Tofu);
        let believed = beliefs.of(&[report]).unwrap()[0].unwrap();
        assert_eq!(believed.level, Level::Undefined);
    }
    // Other models record nothing.
    assert!(encrypted_to(&[alice.fingerprint()], Trust::default(), program.now).is_empty());
    let (report, beliefs) = program.verify(&alice, TrustModel::Pgp);
    assert!(beliefs.seen(&[report]).is_empty());
}

/// Anybody can add the key of somebody else to his certificate as a subkey.
#[test]
fn a_signer_has_no_validity_of_a_certificate_that_took_in_its_key() {
    let program = Program::new();
    let alice = program.meet("<alice@example.org>");
    let mallory = generate("<mallory@example.org>");
    let key = alice.primary_key().key().clone().parts_into_public().role_into_subordinate();
    let flags = KeyFlags::empty().set_transport_encryption();
    let builder = SignatureBuilder::new(SignatureType::SubkeyBinding).set_key_flags(flags).unwrap();
    let binding = key.bind(&mut primary(&mallory), &mallory, builder).unwrap();
    let taken = [Packet::from(key), Packet::from(binding)];
    let mallory = mallory.insert_packets(taken).unwrap().0;
    program.add(&mallory);
    program.trust(&mallory, Level::Ultimate);
    let both = program.open(Access::Read).parsed(&name(&alice), program.now).unwrap();
    assert_eq!(both.last().unwrap().fingerprint(), mallory.fingerprint());
    let (report, beliefs) = program.verify(&alice, TrustModel::Pgp);
    assert_eq!(report.signer.as_ref().unwrap().certificate, alice.fingerprint().to_hex());
    let believed = beliefs.of(&[report]).unwrap()[0].unwrap();
    assert_eq!(believed.level, Level::Unknown);
}

/// No key is locked here.
fn unasked(key: &talaria::LockedKey<'_>) -> Option<talaria::message::openpgp::crypto::Password> {
    panic!("{key:?}")
}

#[test]
fn a_signer_is_chosen_only_if_it_is_clear_who_it_is() {
    let program = Program::new();
    let (one, other) = (generate("<alice@example.org>"), generate("<alice@example.org>"));
    let stores = program.open(Access::Read);
    let keys = |certs: &[&Cert]| {
        let certs = certs.iter().map(|&cert| cert.clone()).collect();
        OwnKeys::new(certs, Some(&stores), Rules::default(), program.now).unwrap()
    };
    let alice = ["alice@example.org".to_owned()];
    let chosen = |certs: &[&Cert]| {
        let signers = keys(certs).signers(&alice, unasked)?;
        Ok::<_, Error>(signers.iter().map(|key| key.public().fingerprint()).collect::<Vec<_>>())
    };
    let of = |cert: &Cert| vec![signer(cert, program.now).public().fingerprint()];
    assert_eq!(chosen(&[&one]).unwrap(), of(&one));
    match refusal(chosen(&[&one, &other])) {
        Error::Ambiguous { query, candidates } => {
            assert_eq!((&query, candidates.len()), (&alice[0], 2));
            assert!(candidates[1].starts_with(&other.fingerprint().to_hex()), "{candidates:?}");
        }
        error => panic!("{error:?}"),
    }
    let many = refusal(keys(&[&one, &other]).only_signer(unasked));
    assert!(
        matches!(&many, Error::WhichSigner { can: "sign", candidates } if candidates.len() == 2)
    );
    assert_eq!(many.kind(), ErrorKind::Ambiguous);
    assert!(matches!(refusal(chosen(&[])), Error::NoKey { .. }));
    assert!(matches!(refusal(keys(&[]).only_signer(unasked)), Error::NoSigner));
    assert!(matches!(refusal(keys(&[]).certifier(None, unasked)), Error::NoCertifier));

    // An old key that has expired is left out.
    let made = SystemTime::now() - Duration::from_secs(7200);
    let old = CertBuilder::general_purpose(Some("<alice@example.org>")).set_creation_time(made);
    let old = old.set_validity_period(Duration::from_secs(3600)).generate().unwrap().0;
    assert_eq!(chosen(&[&old, &one]).unwrap(), of(&one));
    assert!(keys(&[&old, &one]).only_signer(unasked).is_ok());

    // A revocation that only the store knows counts.
    let revocation = one
        .revoke(&mut primary(&one), ReasonForRevocation::KeyCompromised, b"it was stolen")
        .unwrap();
    program.add(&one.clone().insert_packets(revocation).unwrap().0);
    assert_eq!(refusal(chosen(&[&one])).kind(), ErrorKind::UnusableKey);
    assert_eq!(chosen(&[&one, &other]).unwrap(), of(&other));
}

#[test]
fn a_typed_passphrase_is_tried_on_the_next_key_before_the_user_is_asked() {
    let (one, other) = (generate("<a@example.org>"), generate("<b@example.org>"));
    let mut asked = Vec::new();
    let certs = [one.clone(), other.clone()];
    let mut unlock = unlocker(vec!["given".into()], &certs, |key: &talaria::LockedKey<'_>| {
        asked.push((key.owner.map(str::to_owned), key.again));
        Some(["wrong", "typed"][usize::from(key.again)].into())
    });
    let key = |cert: &Cert| cert.primary_key().key().clone().role_into_unspecified();
    let (first, second) = (key(&one), key(&other));
    for (count, expected) in [Some("given"), Some("wrong"), Some("typed")].into_iter().enumerate() {
        assert_eq!(unlock(count, first.parts_as_public()), expected.map(Into::into));
    }
    assert_eq!(unlock(2, second.parts_as_public()), Some("typed".into()));
    drop(unlock);
    let owner = Some("<a@example.org>".to_owned());
    assert_eq!(asked, [(owner.clone(), false), (owner, true)]);
}

#[test]
fn a_required_signer_is_a_fingerprint_or_a_confirmed_name() {
    let program = Program::new();
    let alice = program.meet("<alice@example.org>");
    let stores = program.open(Access::Read);
    let find = |names: &[Query], stores| RequiredSigners::find(names, &[], stores, program.now);
    assert!(find(&[], None).unwrap().expected.is_none());
    assert!(!RequiredSigners::needs_store(&name(&alice)));
    let by_fingerprint = find(&[name(&alice)], None).unwrap();
    let report = program.verify(&alice, TrustModel::Pgp).0;
    assert_eq!(by_fingerprint.found(&[report]).collect::<Vec<_>>(), [&alice.fingerprint()]);
    let by_address = address("alice@example.org");
    assert!(RequiredSigners::needs_store(&by_address[0]));
    assert_eq!(refusal(find(&by_address, None)).kind(), ErrorKind::NotFound);
    assert_eq!(refusal(find(&by_address, Some(&stores))).kind(), ErrorKind::Unconfirmed);
    program.trust(&alice, Level::Ultimate);
    let confirmed = find(&by_address, Some(&stores)).unwrap().expected.unwrap();
    assert_eq!(confirmed, [alice.fingerprint().into()]);
    // A file is enough by itself.
    let file = program.folder.path().join("alice.pgp");
    std::fs::write(&file, alice.to_vec().unwrap()).unwrap();
    let from_file = RequiredSigners::find(&[], &[file], None, program.now).unwrap();
    assert_eq!(from_file.expected.unwrap(), [alice.fingerprint().into()]);
    assert_eq!(from_file.given.len(), 1);
}
