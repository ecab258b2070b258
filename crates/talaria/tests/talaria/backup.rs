//! Backup repositories as another program uses them: whose they are, and whether the backups are
//! recent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use talaria::backup::{
    Authority, Change, Client, ClientError, ClientOptions, CreateOptions, Drill, EpochProfile,
    Folder, Grouping, Id, InitOptions, Notice, ReadFrom, Rehearsed, Retention, Role, SnapshotName,
    ToForget, counting,
};
use talaria::cert::ErrorKind;
use talaria::message::make::{GenerateOptions, Protection, generate};
use talaria::message::openpgp::{Cert, Fingerprint};
use talaria::message::{Rules, Secrets, SigningKey, decryption_keys, signing_key};

/// 2026-11-22.
const NOW: u32 = 1_795_381_506;
const DAY: u32 = 86_400;

/// A new key of somebody, made long before [`NOW`].
fn person(name: &str) -> Cert {
    let mut options = GenerateOptions::default();
    options.user_ids = vec![format!("{name} <{name}@example.org>")];
    generate(&options, &Protection::Unprotected, NOW - 100 * DAY).unwrap().cert
}

fn signer(cert: &Cert) -> SigningKey {
    signing_key(cert, Rules::default(), NOW, &mut |_, _| None).unwrap()
}

/// A folder with repositories, files to back up, and the record of a machine.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(machine.path("files")).unwrap();
        std::fs::write(machine.path("files/letter"), "Dear Bob").unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a repository of somebody, which another machine remembers.
    fn init(&self, place: &str, owner: &Cert) {
        let readers = std::slice::from_ref(owner);
        let options = InitOptions { owner, readers, profile: EpochProfile::Rfc9580, signed: true };
        let backend = Arc::new(Folder::new(self.path(place)));
        let other = self.path("other machine");
        Client::init(
            backend,
            (&other, || place.into()),
            &options,
            &mut signer(owner),
            NOW - 50 * DAY,
        )
        .unwrap();
    }

    /// Opens the repository in a place as somebody who expects an owner and heads.
    fn open_expecting(
        &self,
        place: &str,
        user: &Cert,
        (owner, heads): (Option<Fingerprint>, &[Id]),
    ) -> (Result<Client, ClientError>, Vec<Notice>) {
        let keys = decryption_keys([user], |_, _| None);
        let options = ClientOptions {
            backend: Arc::new(Folder::new(self.path(place))),
            place: place.into(),
            state: &self.path("state"),
            owner,
            heads,
            read_from: ReadFrom::Storage,
            known: &mut |_| None,
            own: vec![user.clone()],
            secrets: Secrets { keys, ..Secrets::default() },
        };
        let mut notices = Vec::new();
        (Client::open(options, NOW, &mut |notice| notices.push(notice)), notices)
    }

    fn open(&self, place: &str, user: &Cert) -> (Result<Client, ClientError>, Vec<Notice>) {
        self.open_expecting(place, user, (None, &[]))
    }

    /// A snapshot that the user makes at a time. Returns its identifier.
    fn back_up(&self, client: &mut Client, host: &str, user: &Cert, time: u32) -> Id {
        let options = CreateOptions {
            paths: vec![self.path("files")],
            host: host.into(),
            threads: 1,
            ..CreateOptions::default()
        };
        let Client { repository, keys, state, .. } = client;
        let (name, progress) = (user.fingerprint(), Arc::default());
        let by = Some((&name, signer(user)));
        repository.create(keys, by, state, &options, &progress, time).unwrap().id
    }
}

/// Fails for what must not be told.
#[expect(clippy::needless_pass_by_value, reason = "it is called with notices")]
fn silent(notice: Notice) {
    panic!("{notice}");
}

#[test]
fn a_first_use_is_told_once_and_another_owner_is_refused() {
    let (machine, alice, mallory) = (Machine::new(), person("alice"), person("mallory"));
    machine.init("repository", &alice);
    let (client, notices) = machine.open("repository", &alice);
    client.unwrap();
    assert!(
        matches!(&notices[..], [Notice::FirstUse { owner }] if *owner == alice.fingerprint()),
        "{notices:?}"
    );
    let (client, notices) = machine.open("repository", &alice);
    client.unwrap();
    assert!(notices.is_empty(), "{notices:?}");
    // Mallory can read no repository of Alice, and is no reason to forget it.
    let (refused, _) = machine.open("repository", &mallory);
    assert_eq!(refused.err().unwrap().kind(), ErrorKind::NotFound);
    // She puts one of her own in its place, which Alice can read.
    std::fs::remove_dir_all(machine.path("repository")).unwrap();
    machine.init("repository", &mallory);
    let (client, _) =
        machine.open_expecting("repository", &mallory, (Some(mallory.fingerprint()), &[]));
    client.unwrap().change(&Change::AddReader(&alice), &mut signer(&mallory), NOW).unwrap();
    let named = (Some(alice.fingerprint()), &[][..]);
    let (refused, notices) = machine.open_expecting("repository", &alice, named);
    let said = refused.err().unwrap();
    assert_eq!(said.kind(), ErrorKind::Refused);
    assert!(said.to_string().contains("belongs to") && notices.is_empty(), "{said}");
    // Nor does the place go from one known repository to another without a word of the user.
    std::fs::remove_dir_all(machine.path("repository")).unwrap();
    machine.init("repository", &alice);
    let (refused, _) = machine.open("repository", &alice);
    let said = refused.err().unwrap();
    assert!(said.to_string().contains("somebody may have replaced it"), "{said}");
    let (missing, _) = machine.open("nothing", &alice);
    assert!(matches!(missing, Err(ClientError::NoRepository { place }) if place == "nothing"));
}

#[test]
fn an_old_state_that_lacks_an_expected_snapshot_is_refused() {
    let (machine, alice) = (Machine::new(), person("alice"));
    machine.init("repository", &alice);
    let mut client = machine.open("repository", &alice).0.unwrap();
    let first = machine.back_up(&mut client, "alpha", &alice, NOW - DAY);
    let head = machine.back_up(&mut client, "alpha", &alice, NOW);
    let expecting = |heads: &[Id]| machine.open_expecting("repository", &alice, (None, heads)).0;
    expecting(&[first, head]).unwrap();
    std::fs::remove_file(machine.path(&format!("repository/snapshots/{head}"))).unwrap();
    let refused = expecting(&[first, head]).err().unwrap();
    assert!(matches!(refused, ClientError::HeadMissing { head: missing } if missing == head));
    assert_eq!(refused.kind(), ErrorKind::Store);
    // The record of this machine shows it, too.
    let mut notices = Vec::new();
    let (listed, wrong) = client.snapshots(NOW, &mut |notice| notices.push(notice)).unwrap();
    assert_eq!((listed.len(), wrong.len()), (1, 1));
    assert!(matches!(&notices[..], [Notice::Irregular(_)]), "{notices:?}");
}

#[test]
fn a_stale_client_and_one_from_the_future_are_reported() {
    let (machine, alice, bob) = (Machine::new(), person("alice"), person("bob"));
    machine.init("repository", &alice);
    let mut client = machine.open("repository", &alice).0.unwrap();
    assert!(matches!(
        client.health(NOW, &mut silent).unwrap().require_snapshots(DAY),
        Err(ClientError::Stale { clients, .. }) if clients.is_empty()
    ));
    client.change(&Change::AddClient(&bob), &mut signer(&alice), NOW - 9 * DAY).unwrap();
    machine.back_up(&mut client, "alpha", &alice, NOW - 3 * DAY);
    machine.back_up(&mut client, "beta", &bob, NOW - 2 * DAY);
    let stale = |client: &mut Client, limit| match client.health(NOW, &mut silent) {
        Ok(health) => match health.require_snapshots(limit) {
            Err(ClientError::Stale { mut clients, age_max_s }) => {
                assert_eq!(age_max_s, limit);
                clients.sort();
                clients.join(" ")
            }
            other => other.map(|()| "none".to_owned()).unwrap(),
        },
        Err(error) => panic!("{error}"),
    };
    assert_eq!(stale(&mut client, 4 * DAY), "none");
    assert_eq!(stale(&mut client, 2 * DAY), "alpha");
    assert_eq!(stale(&mut client, DAY), "alpha beta");
    // Who has stolen the key of Bob cannot silence the alarm by a snapshot from the future.
    let (listed, _) = client.snapshots(NOW, &mut silent).unwrap();
    let last = listed.iter().find(|one| one.snapshot.host == b"beta").unwrap();
    let mut ahead = last.snapshot.clone();
    (ahead.number, ahead.previous, ahead.time) = (2, Some(last.id), NOW + 10 * DAY);
    let Client { repository, keys, .. } = &client;
    repository.write_snapshot(keys, &ahead, Some(&mut signer(&bob)), NOW).unwrap();
    assert_eq!(stale(&mut client, 2 * DAY), "alpha");
    assert_eq!(stale(&mut client, DAY), "alpha beta");
    let health = client.health(NOW, &mut silent).unwrap();
    let beta = health.clients.iter().find(|one| one.host == "beta").unwrap();
    assert_eq!((beta.snapshots, beta.ahead, beta.age(NOW)), (2, 1, Some(2 * DAY)));
    // A fresh one does.
    machine.back_up(&mut client, "alpha", &alice, NOW - 60);
    assert_eq!(stale(&mut client, DAY), "beta");
}

#[test]
fn a_drill_counts_if_it_was_good_and_is_recent() {
    let (machine, alice) = (Machine::new(), person("alice"));
    machine.init("repository", &alice);
    let mut client = machine.open("repository", &alice).0.unwrap();
    machine.back_up(&mut client, "alpha", &alice, NOW - 10 * DAY);
    let last = |client: &mut Client, limit| {
        let health = client.health(NOW, &mut silent).unwrap();
        match health.require_drills(limit) {
            Err(ClientError::Undrilled { drills, .. }) => drills.join(", "),
            other => other.map(|()| "good".to_owned()).unwrap(),
        }
    };
    assert_eq!(last(&mut client, 30 * DAY), "alpha never");
    let (listed, _) = client.snapshots(NOW, &mut silent).unwrap();
    let drill = |time, failed| Drill {
        reader: alice.fingerprint(),
        time,
        host: b"alpha".to_vec(),
        snapshot: SnapshotName::of(&listed[0]),
        sample: 100,
        read: Rehearsed { failed, ..Rehearsed::default() },
    };
    let record = |client: &Client, drill: &Drill| {
        client.repository.record_drill(&client.keys, drill, &mut signer(&alice)).unwrap();
    };
    record(&client, &drill(NOW - 5 * DAY, 0));
    // One from the future counts for nothing.
    record(&client, &drill(NOW + DAY, 0));
    assert_eq!(last(&mut client, 30 * DAY), "good");
    assert_eq!(last(&mut client, 4 * DAY), "alpha 5 days ago");
    record(&client, &drill(NOW - 3 * DAY, 2));
    assert_eq!(last(&mut client, 30 * DAY), "alpha 3 days ago (failed)");
}

#[test]
fn one_of_the_keys_of_the_user_signs_for_a_role() {
    let (machine, alice, bob) = (Machine::new(), person("alice"), person("bob"));
    machine.init("repository", &alice);
    let mut client = machine.open("repository", &alice).0.unwrap();
    client.change(&Change::AddReader(&bob), &mut signer(&alice), NOW).unwrap();
    let prune = Authority::Role(Role::Prune);
    client.own = vec![bob.clone()];
    assert_eq!(client.holder(Authority::Read).unwrap().fingerprint(), bob.fingerprint());
    let refused = client.holder(prune).err().unwrap();
    let owner = alice.fingerprint().to_hex();
    let said = format!(
        "none of your keys has the role \"prune\" in this repository; its owner is {owner}"
    );
    assert_eq!((refused.kind(), refused.to_string()), (ErrorKind::NotFound, said));
    client.own = vec![bob.clone(), alice.clone()];
    assert_eq!(client.holder(prune).unwrap().fingerprint(), alice.fingerprint());
    let (name, mut key) = (alice.fingerprint(), signer(&alice));
    let roles = [Role::Prune].into();
    client.set_roles(&bob.fingerprint(), roles, (&name, &mut key), NOW).unwrap();
    let refused = client.holder(prune).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Ambiguous);
    assert!(matches!(refused, ClientError::WhichSigner { candidates } if candidates.len() == 2
            && candidates[0].ends_with("bob <bob@example.org>")));
    // A name stands for a reader or client, or for nobody.
    let none = || Ok::<_, ClientError>(Vec::new());
    let member = |name: &str| client.member(&name.parse().unwrap(), none);
    assert_eq!(member(&bob.fingerprint().to_hex()).unwrap(), bob.fingerprint());
    assert!(matches!(member("bob@example.org"), Err(ClientError::NotMember { .. })));
    let found = || Ok::<_, ClientError>(vec![person("carol").fingerprint(), bob.fingerprint()]);
    let bobs = client.member(&"bob@example.org".parse().unwrap(), found);
    assert_eq!(bobs.unwrap(), bob.fingerprint());
}

#[test]
fn a_plan_to_forget_names_snapshots_and_changes_nothing() {
    let (machine, alice) = (Machine::new(), person("alice"));
    machine.init("repository", &alice);
    let mut client = machine.open("repository", &alice).0.unwrap();
    let ids: Vec<Id> = (1..=4)
        .map(|day| machine.back_up(&mut client, "alpha", &alice, NOW - (5 - day) * DAY))
        .collect();
    let grouping = Grouping { host: true, paths: true, tags: false };
    let mut plan =
        |wanted: ToForget<'_>| client.plan_forget(wanted, None, NOW, &mut silent).unwrap();
    let last = |last| Retention { last, ..Retention::default() };
    let two = plan(ToForget::Unkept(&last(2), grouping));
    assert_eq!(two.ids(), ids[..2].iter().copied().collect());
    two.refuse_halving().unwrap();
    let three = plan(ToForget::Unkept(&last(1), grouping)).refuse_halving().unwrap_err();
    assert_eq!(three.kind(), ErrorKind::Refused);
    assert!(matches!(three, ClientError::Halved { client } if client == Some(alice.fingerprint())));
    let named = plan(ToForget::Named(&[ids[3].to_string()]));
    assert_eq!((named.ids(), named.fates.len()), ([ids[3]].into(), 0));
    // A snapshot that cannot be read needs its whole identifier.
    let path = |id| machine.path(&format!("repository/snapshots/{id}"));
    std::fs::write(path(ids[0]), b"damaged").unwrap();
    let mut told = 0;
    let whole = [ids[0].to_string()];
    let plan = client.plan_forget(ToForget::Named(&whole), None, NOW, &mut |_| told += 1).unwrap();
    assert_eq!(plan.ids(), [ids[0]].into());
    assert!(told > 0);
    assert_eq!(counting(&plan.listed, Some(&alice.fingerprint())).count(), 3);
    assert!(path(ids[0]).exists() && Path::exists(&path(ids[3])));
}
