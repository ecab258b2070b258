//! The validity of certificates equals that of the real gpg on the same keyrings, and
//! trust records can be exchanged in both directions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::program::Program;
use rusqlite::Connection;
use talaria::cert::address::gnupg_name;
use talaria::cert::{Cert, Fingerprint};
use talaria::message::openpgp::cert::CertBuilder;
use talaria::message::openpgp::serialize::MarshalInto as _;
use talaria::trust_models::Level;
use talaria::trust_models::tofu::{self, Evidence, Policy, Rivals, decide};

const DEBIAN: &str = "/usr/share/keyrings/debian-keyring.gpg";
const ARCH: &str = "/usr/share/keyrings/archlinux.gpg";

/// A GnuPG home and its gpg.
struct Gpg {
    program: PathBuf,
    home: PathBuf,
}

impl Gpg {
    /// `None` with a notice if there is no gpg.
    fn new(program: &Program, name: &str) -> Option<Self> {
        Self::at(talaria_needs::found(talaria_needs::peer("gpg"), "gpg")?, program, name)
    }

    /// GnuPG 2.4, which `scripts/gnupg-2.4` puts beside the installed one.
    fn new_2_4(program: &Program, name: &str) -> Option<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Self::at(root.join("target/peers/gnupg-2.4/gpg"), program, name)
    }

    fn at(gpg: PathBuf, program: &Program, name: &str) -> Option<Self> {
        if Command::new(&gpg).arg("--version").output().is_err() {
            talaria_needs::left_out(if gpg.is_absolute() { "gpg 2.4" } else { "gpg" });
            return None;
        }
        let home = program.path(name);
        fs::create_dir(&home).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&home, private).unwrap();
        Some(Self { program: gpg, home })
    }

    fn path(&self, name: &str) -> String {
        self.home.join(name).to_str().unwrap().to_owned()
    }

    fn home(&self) -> &str {
        self.home.to_str().unwrap()
    }

    fn run(&self, args: &[&str]) -> String {
        let output = Command::new(&self.program)
            .args(["--homedir", self.home(), "--batch", "--quiet", "--no-auto-check-trustdb"])
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn list(&self, model: &str) -> String {
        self.run(&["--trust-model", model, "--list-keys", "--with-colons"])
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        // Making keys starts an agent.
        if self.home.join("private-keys-v1.d").exists() {
            let _ =
                Command::new("gpgconf").args(["--homedir", self.home(), "--kill", "all"]).output();
        }
    }
}

/// A listing by talaria. Not every user ID is UTF-8.
fn list(program: &Program, args: &[&str]) -> String {
    let output = program.run(&[&["list", "--with-colons"], args].concat());
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A certificate in a listing.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Listed {
    letter: String,
    user_ids: Vec<ListedId>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct ListedId {
    letter: String,
    hash: String,
    /// The address of the TOFU binding; `None` for an attribute.
    address: Option<Vec<u8>>,
    /// The text in the listing, which here sorts like the user ID.
    text: String,
    /// Key IDs of its certifiers.
    signers: BTreeSet<String>,
}

/// Certificates by fingerprint, their user IDs in canonical order.
type Listing = BTreeMap<String, Listed>;

fn parse(listing: &str) -> Listing {
    let mut parsed = Listing::new();
    let (mut letter, mut current) = (String::new(), None::<String>);
    for line in listing.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        match fields[0] {
            "pub" => {
                fields[1].clone_into(&mut letter);
                current = None;
            }
            "fpr" if current.is_none() => {
                current = Some(fields[9].to_owned());
                let listed = Listed { letter: letter.clone(), user_ids: Vec::new() };
                assert!(parsed.insert(fields[9].to_owned(), listed).is_none());
            }
            kind @ ("uid" | "uat") => {
                let text = fields[9].replace("\\x3a", ":");
                let address = (kind == "uid").then(|| gnupg_name(text.as_bytes()));
                parsed.get_mut(current.as_ref().unwrap()).unwrap().user_ids.push(ListedId {
                    letter: fields[1].to_owned(),
                    hash: fields[7].to_owned(),
                    address,
                    text,
                    signers: BTreeSet::new(),
                });
            }
            "sig" if ["10", "11", "12", "13"].iter().any(|class| fields[10].starts_with(class)) => {
                let user_ids = &mut parsed.get_mut(current.as_ref().unwrap()).unwrap().user_ids;
                if let Some(user_id) = user_ids.last_mut() {
                    user_id.signers.insert(fields[4].to_owned());
                }
            }
            _ => {}
        }
    }
    for listed in parsed.values_mut() {
        listed.user_ids.sort_by(|a, b| {
            (a.address.is_none(), &a.text, &a.hash).cmp(&(b.address.is_none(), &b.text, &b.hash))
        });
    }
    parsed
}

/// The validity letters of certificates, and of their user IDs by hash.
fn letters(listing: &Listing) -> BTreeMap<(String, String), String> {
    let mut letters = BTreeMap::new();
    for (fingerprint, listed) in listing {
        letters.insert((fingerprint.clone(), String::new()), listed.letter.clone());
        for user_id in &listed.user_ids {
            letters.insert((fingerprint.clone(), user_id.hash.clone()), user_id.letter.clone());
        }
    }
    letters
}

fn assert_same(theirs: &Listing, ours: &Listing, what: &str) {
    let (theirs, ours) = (letters(theirs), letters(ours));
    let names: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    let differences: Vec<_> = names
        .into_iter()
        .filter(|name| theirs.get(name) != ours.get(name))
        .map(|name| (name, theirs.get(name), ours.get(name)))
        .collect();
    assert!(differences.is_empty(), "{what}: {} differ: {differences:#?}", differences.len());
}

fn level(letter: &str) -> Level {
    let found = Level::ALL.into_iter().find(|level| letter == level.letter().to_string());
    found.unwrap_or_default()
}

/// The validity that gpg computes for certificates with one address, in its second listing. It
/// deviates from gpg's own rules in two ways:
///
/// - If another user ID follows the one with the address in a keyblock, gpg treats the certificate
///   as certified by anybody (`cross_sigs`: its loop ends with a node that looks like a signature
///   it has found).
/// - gpg keeps the first result for a binding until a later binding conflicts with it. A binding
///   that is good because an own key certified it is never checked for conflicts.
struct Conflicts<'a> {
    /// The bindings in the order in which gpg recorded them: fingerprint and address.
    bindings: Vec<(String, Vec<u8>)>,
    /// Those of one address, by their place in that list.
    bound: HashMap<Vec<u8>, Vec<usize>>,
    signed: &'a Listing,
    /// Own keys.
    own: Vec<String>,
    policies: Vec<Option<Policy>>,
}

impl<'a> Conflicts<'a> {
    fn new(gpg: &Gpg, signed: &'a Listing, owners: &str) -> Self {
        let connection = Connection::open(gpg.path("tofu.db")).unwrap();
        let sql = "SELECT fingerprint, CAST(email AS BLOB) FROM bindings ORDER BY oid";
        let bindings: Vec<(String, Vec<u8>)> = connection
            .prepare(sql)
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let mut bound: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
        for (at, (_, address)) in bindings.iter().enumerate() {
            bound.entry(address.clone()).or_default().push(at);
        }
        let own = owners.lines().filter_map(|line| line.strip_suffix(":6:"));
        let own = own.map(str::to_owned).collect();
        let policies = vec![None; bindings.len()];
        let mut conflicts = Self { bindings, bound, signed, own, policies };
        conflicts.list_twice();
        conflicts
    }

    fn list_twice(&mut self) {
        let mut is_in_conflict = vec![false; self.bindings.len()];
        for listing in 0..2 {
            for at in 0..self.bindings.len() {
                if self.policies[at].is_some() && !is_in_conflict[at] {
                    continue;
                }
                let known = if listing == 0 { at + 1 } else { self.bindings.len() };
                let rivals = self.rivals(at, known);
                let policy = match &rivals {
                    None => Policy::Good,
                    Some(rivals) if rivals.is_empty() => Policy::Auto,
                    Some(_) => Policy::Ask,
                };
                self.policies[at] = Some(policy);
                is_in_conflict[at] = policy == Policy::Ask;
                for rival in rivals.unwrap_or_default() {
                    if self.policies[rival] != Some(Policy::Ask) {
                        (self.policies[rival], is_in_conflict[rival]) = (None, true);
                    }
                }
            }
        }
    }

    /// The certificate, the certifiers of its first user ID with the address, and whether another
    /// user ID follows.
    fn user_id(&self, at: usize) -> (&str, &BTreeSet<String>, bool) {
        let (fingerprint, address) = &self.bindings[at];
        let user_ids = &self.signed[fingerprint].user_ids;
        let of = |id: &ListedId| id.address.as_ref() == Some(address);
        let place = user_ids.iter().position(of).unwrap();
        (fingerprint, &user_ids[place].signers, place + 1 < user_ids.len())
    }

    /// The bindings among the first `known` ones that conflict with a binding; `None` if it is good
    /// anyway.
    fn rivals(&self, at: usize, known: usize) -> Option<Vec<usize>> {
        let (fingerprint, signers, _) = self.user_id(at);
        let own = |own: &String| own == fingerprint || signers.contains(&own[24..]);
        if self.own.iter().any(own) {
            return None;
        }
        let all = &self.bound[&self.bindings[at].1];
        let mut others: Vec<usize> =
            all.iter().copied().filter(|&other| other != at && other < known).collect();
        others.sort_by_key(|&other| &self.bindings[other].0);
        let names: Vec<_> = others.iter().map(|&other| binary(&self.bindings[other].0)).collect();
        let own = binary(fingerprint);
        let list = Rivals::new(names.iter().copied().chain([own]).map(|name| (name, true)));
        let places: Vec<usize> = std::iter::once(at).chain(others.iter().copied()).collect();
        let place = |at: usize| list.place(binary(&self.bindings[at].0)).unwrap();
        let certified = |signer: usize, signee: usize| {
            let (_, signers, follows) = self.user_id(signee);
            follows || signers.contains(&self.bindings[signer].0[24..])
        };
        let pairs = places.iter().flat_map(|one| places.iter().map(move |other| (*one, *other)));
        let pairs = pairs.filter(|(one, other)| one != other);
        let mutual = pairs.filter(|&(one, other)| certified(one, other) && certified(other, one));
        let mutual: Vec<_> = mutual.map(|(one, other)| (place(one), place(other))).collect();
        let rivals = Arc::new(list.with_mutual(mutual));
        let decision = decide(Policy::Auto, Evidence::default(), own, || rivals);
        let conflicts: Vec<Fingerprint> = decision.conflicts.iter().collect();
        let rivals = others.iter().zip(names).filter(|(_, name)| conflicts.contains(name));
        Some(rivals.map(|(&other, _)| other).collect())
    }

    /// The listing of talaria in model tofu, with gpg's mistakes added, and the number of affected
    /// user IDs.
    fn tofu(&self, ours: &Listing) -> (Listing, usize) {
        let (mut predicted, mut count) = (ours.clone(), 0);
        for (fingerprint, listed) in &mut predicted {
            let mut changed = false;
            for user_id in &mut listed.user_ids {
                let Some(address) = user_id.address.as_ref().filter(|_| user_id.letter == "q")
                else {
                    continue;
                };
                let mut all = self.bound[address].iter();
                let at = all.find(|&&at| self.bindings[at].0 == *fingerprint).unwrap();
                if self.policies[*at] == Some(Policy::Auto) {
                    user_id.letter = Policy::Auto.level().letter().to_string();
                    (changed, count) = (true, count + 1);
                }
            }
            if changed && listed.letter != "r" && listed.letter != "e" {
                listed.letter = best(listed).letter().to_string();
            }
        }
        (predicted, count)
    }
}

fn binary(name: &str) -> Fingerprint {
    let bytes = (0..40).step_by(2).map(|at| u8::from_str_radix(&name[at..at + 2], 16).unwrap());
    Fingerprint::V4(bytes.collect::<Vec<u8>>().try_into().unwrap())
}

/// The level of a certificate from the levels of its bindings.
fn best(listed: &Listed) -> Level {
    let bindings = listed.user_ids.iter().filter(|id| id.address.is_some() && id.letter != "r");
    tofu::best(bindings.map(|id| Some(level(&id.letter)).filter(|_| id.letter != "e")))
}

/// The combined result of both models.
fn combined(tofu: &Listing, pgp: &Listing) -> Listing {
    let mut combined = tofu.clone();
    for (fingerprint, listed) in &mut combined {
        let web = &pgp[fingerprint];
        let known = |letter: &str| letter != "r" && letter != "e";
        if known(&listed.letter) {
            let both = best(listed).combine(level(&web.letter));
            listed.letter = both.letter().to_string();
        }
        for (user_id, web) in listed.user_ids.iter_mut().zip(&web.user_ids) {
            assert_eq!(user_id.hash, web.hash);
            if known(&user_id.letter) {
                let both = level(&user_id.letter).combine(level(&web.letter));
                user_id.letter = both.letter().to_string();
            }
        }
    }
    combined
}

/// Numbers from a seed (`SplitMix64` by Steele, Lea and Flood).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ mixed >> 31) % end as u64).unwrap()
    }
}

/// The certificates that certified more than five others and are neither revoked nor expired.
fn certifiers(signed: &Listing) -> Vec<String> {
    let certified = |who: &str| {
        let by = |listed: &Listed| listed.user_ids.iter().any(|id| id.signers.contains(&who[24..]));
        signed.values().filter(|listed| by(listed)).count()
    };
    let usable = signed.iter().filter(|(name, listed)| name.len() == 40 && listed.letter == "-");
    usable.map(|(name, _)| name).filter(|name| certified(name) > 5).cloned().collect()
}

/// Owner trust values: numbers of ultimately trusted owners, who certified others, and of fully and
/// marginally
fn owners(seed: u64, signed: &Listing, counts: [usize; 3]) -> String {
    let mut draw = Draw(seed);
    let (mut own, mut text) = (certifiers(signed), String::new());
    let mut rest: Vec<String> = signed.keys().filter(|name| name.len() == 40).cloned().collect();
    for (value, count) in [6, 5, 4].into_iter().zip(counts) {
        for _ in 0..count {
            let from = if value == 6 { &mut own } else { &mut rest };
            let owner = from.swap_remove(draw.below(from.len()));
            text.push_str(&format!("{owner}:{value}:\n"));
            rest.retain(|other| *other != owner);
        }
    }
    text
}

/// Compares on a keyring for each seed: the web of trust for all seeds, first use for `first_use`
/// of them. Returns the number of user IDs affected by gpg's mistake.
fn compare(
    ring: &str,
    release: &str,
    seeds: &[(u64, [usize; 3])],
    first_use: usize,
) -> Option<usize> {
    let program = Program::new();
    let gpg = match release {
        "2.2" => Gpg::new(&program, "gnupg")?,
        _ => Gpg::new_2_4(&program, "gnupg")?,
    };
    if !Path::new(ring).exists() {
        talaria_needs::left_out(ring);
        return None;
    }
    program.ok(&["import", ring]);
    program.ok(&["export", "--to-gnupg", gpg.home()]);
    let signed = parse(&list(&program, &["--with-sigs"]));
    assert!(signed.len() > 100);
    let mut mistaken = 0;
    for (at, &(seed, counts)) in seeds.iter().enumerate() {
        // Both start from empty databases.
        let owned = Program::new();
        fs::copy(program.store(), owned.store()).unwrap();
        for name in ["trustdb.gpg", "tofu.db"] {
            let _ = fs::remove_file(gpg.path(name));
        }
        let text = owned.path("owners.txt");
        let owners = owners(seed, &signed, counts);
        fs::write(&text, &owners).unwrap();
        owned.ok(&["trust", "import-ownertrust", text.to_str().unwrap()]);
        // The stricter release is the default.
        assert!(owned.ok(&["trust", "rules"]).contains("GnuPG 2.4"));
        owned.ok(&["trust", "rules", "--gnupg", release]);
        gpg.run(&["--import-ownertrust", text.to_str().unwrap()]);
        gpg.run(&["--check-trustdb"]);
        let theirs = |model: &str| parse(&gpg.list(model));
        let policy = format!("gnupg-{release}");
        let ours =
            |model: &str| parse(&list(&owned, &["--policy", &policy, "--trust-model", model]));
        let pgp = ours("pgp");
        let reached = |listed: &&Listed| ["f", "m", "q"].contains(&listed.letter.as_str());
        assert!(pgp.values().filter(reached).count() > 2, "nobody is reached with seed {seed}");
        assert_same(&theirs("pgp"), &pgp, &format!("{ring}, seed {seed}, pgp"));
        assert_same(&theirs("direct"), &ours("direct"), &format!("{ring}, seed {seed}, direct"));
        if at >= first_use {
            continue;
        }
        // The first listing records bindings one by one, and finds only conflicts with earlier
        // ones.
        gpg.list("tofu");
        let conflicts = Conflicts::new(&gpg, &signed, &owners);
        let ours_tofu = ours("tofu");
        let (tofu, count) = conflicts.tofu(&ours_tofu);
        mistaken += count;
        assert_same(&theirs("tofu"), &tofu, &format!("{ring}, seed {seed}, tofu"));
        let what = format!("{ring}, seed {seed}, tofu+pgp");
        assert_same(&combined(&ours_tofu, &pgp), &ours("tofu+pgp"), &what);
        assert_same(&theirs("tofu+pgp"), &combined(&tofu, &pgp), &what);
        owned.assert_clean();
    }
    Some(mistaken)
}

#[test]
fn user_ids_of_the_arch_keyring_have_the_validity_that_gpg_computes() {
    let seeds = [(1, [1, 10, 10]), (2, [2, 10, 10]), (3, [3, 10, 10])];
    let seeds = &seeds[..talaria_needs::short_or_full(1, seeds.len())];
    if let Some(mistaken) = compare(ARCH, "2.2", seeds, seeds.len()) {
        assert!(mistaken > 0, "gpg makes no mistakes any more: the rules for them can go");
    }
}

#[test]
fn user_ids_of_the_debian_keyring_have_the_validity_that_gpg_computes() {
    let seeds = [1, 2, 3].map(|seed| (seed, [3, 60, 137]));
    compare(DEBIAN, "2.2", &seeds[..talaria_needs::short_or_full(1, seeds.len())], 1);
}

/// Hundreds of letters differ from those of 2.2, because certifications with SHA-1 do not count.
#[test]
fn user_ids_of_the_debian_keyring_have_the_validity_of_gpg_2_4() {
    compare(DEBIAN, "2.4", &[(1, [3, 60, 137])], 0);
}

/// The entries of a list of owners.
fn entries(list: &str) -> BTreeSet<&str> {
    list.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn owner_trust_is_exchanged_with_gpg() {
    let program = Program::new();
    let Some(gpg) = Gpg::new(&program, "gnupg") else { return };
    let text: String =
        (2..7).map(|value| format!("{}:{value}:\n", format!("{value}A").repeat(20))).collect();
    let from = program.path("from.txt");
    fs::write(&from, &text).unwrap();
    program.ok(&["trust", "import-ownertrust", from.to_str().unwrap()]);
    let file = program.path("owners.txt");
    let file = file.to_str().unwrap();
    program.ok(&["trust", "export-ownertrust", "--output", file]);
    gpg.run(&["--import-ownertrust", file]);
    assert_eq!(entries(&gpg.run(&["--export-ownertrust"])), entries(&text));
    let other = Program::new();
    other.ok(&["trust", "import-ownertrust", &gpg.path("trustdb.gpg")]);
    let same = [&program, &other].map(|program| program.ok(&["trust", "export-ownertrust"]));
    assert_eq!(entries(&same[0]), entries(&text));
    assert_eq!(same[0], same[1]);
}

/// Makes keys with gpg, and returns their fingerprints; `None` with a notice if it cannot.
fn make_keys<const N: usize>(gpg: &Gpg, user_ids: [&str; N]) -> Option<[String; N]> {
    for user_id in user_ids {
        gpg.run(&["--passphrase", "", "--quick-gen-key", user_id, "ed25519", "sign"]);
    }
    let listing = gpg.run(&["--list-keys", "--with-colons"]);
    let made: Vec<String> = listing
        .lines()
        .filter_map(|line| line.strip_prefix("fpr:::::::::"))
        .map(|rest| rest.trim_end_matches(':').to_owned())
        .collect();
    // gpg treats all of them as its user's own keys.
    let _ = fs::remove_file(gpg.path("trustdb.gpg"));
    let made = made.try_into().ok();
    if made.is_none() {
        talaria_needs::left_out("gpg that makes keys");
    }
    made
}

#[test]
fn a_trust_path_names_the_certifiers() {
    let program = Program::new();
    let Some(gpg) = Gpg::new(&program, "gnupg") else { return };
    let user_ids =
        ["Alice <alice@example.org>", "Bob <bob@example.org>", "Carol <carol@example.org>"];
    let Some([alice, bob, carol]) = make_keys(&gpg, user_ids) else { return };
    gpg.run(&["--yes", "--local-user", &alice, "--quick-sign-key", &bob]);
    gpg.run(&["--yes", "--local-user", &bob, "--quick-sign-key", &carol]);
    let _ = fs::remove_file(gpg.path("trustdb.gpg"));
    program.ok(&["import", gpg.home()]);
    assert!(program.fails(&["trust", "path", &carol], 1).contains("No authentication path leads"));
    program.ok(&["trust", "set", &alice, "ultimate"]);
    program.fails(&["trust", "path", &carol], 1);
    program.ok(&["trust", "set", &bob, "full"]);
    let path = program.ok(&["trust", "path", &carol]);
    let lines: Vec<&str> = path.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), 4, "{path}");
    assert_eq!(lines[0], "[  full   ] Carol <carol@example.org>");
    let step = |who: &str, user_id: &str, trust| format!("{who} {user_id} [{trust}] certified on ");
    assert!(
        lines[1].starts_with(&format!("  {}", step(&alice, user_ids[0], "ultimate"))),
        "{path}"
    );
    assert!(lines[2].starts_with(&format!("    {}", step(&bob, user_ids[1], "full"))), "{path}");
    assert_eq!(lines[3], format!("      {carol}"));
    let json = program.ok(&["--json", "trust", "path", &carol]);
    assert!(json.contains(&alice) && json.contains(&bob) && json.contains(&carol), "{json}");
    program.assert_clean();
}

#[test]
fn a_tofu_conflict_is_shown_and_gpg_reads_the_decision() {
    let program = Program::new();
    let Some(gpg) = Gpg::new(&program, "gnupg") else { return };
    let user_ids =
        ["Alice <alice@example.org>", "Mallory <alice@example.org>", "Carol <carol@example.org>"];
    let Some([alice, mallory, carol]) = make_keys(&gpg, user_ids) else { return };
    let theirs = |gpg: &Gpg| letters(&parse(&gpg.list("tofu")));
    let ours = |program: &Program| letters(&parse(&list(program, &["--trust-model", "tofu"])));
    theirs(&gpg);
    program.ok(&["import", gpg.home()]);
    program.ok(&["tofu", "import", &gpg.path("tofu.db")]);
    assert_eq!(ours(&program), theirs(&gpg));
    let mut both = [alice.clone(), mallory.clone()];
    both.sort();
    let conflicts = program.ok(&["tofu", "conflicts"]);
    let lines: Vec<&str> = conflicts.lines().collect();
    assert_eq!(lines[0], "alice@example.org");
    assert_eq!([lines[1].trim(), lines[4].trim()], [&both[0], &both[1]]);
    // The conflict shows the names and the history of each certificate for the decision.
    for (name, seen) in [(lines[2], lines[3]), (lines[5], lines[6])] {
        assert!(name.contains("<alice@example.org>"), "{conflicts}");
        assert!(seen.contains("usable, made on ") && seen.contains("seen"), "{conflicts}");
    }
    let info = program.ok(&["tofu", "info", &mallory]);
    assert!(info.contains("policy ask, trust undefined"), "{info}");
    assert!(info.contains(&format!("conflict: the same address is in {alice}")), "{info}");
    let info = program.ok(&["tofu", "info", &carol]);
    assert!(info.contains("policy auto, trust marginal"), "{info}");

    program.ok(&["tofu", "policy", &alice, "good"]);
    program.ok(&["tofu", "policy", &mallory, "bad", "--email", "alice@example.org"]);
    program.fails(&["tofu", "policy", &mallory, "bad", "--email", "nobody@example.org"], 1);
    assert_eq!(program.ok(&["tofu", "conflicts"]), "");
    let decided = ours(&program);
    let letter = |who: &String| decided[&(who.clone(), String::new())].as_str();
    assert_eq!([&alice, &mallory, &carol].map(letter), ["f", "n", "m"]);

    // gpg continues with the decision, and talaria reads gpg's later changes.
    let database = gpg.path("tofu.db");
    program.fails(&["tofu", "export", &database], 5);
    program.ok(&["tofu", "export", "--overwrite", &database]);
    assert_eq!(theirs(&gpg), decided);
    gpg.run(&["--tofu-policy", "auto", &mallory]);
    let other = Program::new();
    other.ok(&["import", gpg.home()]);
    other.ok(&["tofu", "import", &database]);
    assert_eq!(ours(&other), theirs(&gpg));
    program.assert_clean();
    other.assert_clean();
}

#[test]
fn trust_shows_reasons_and_lists_conflicts_first() {
    let program = Program::new();
    let Some(gpg) = Gpg::new(&program, "gnupg") else { return };
    let user_ids = [
        "Alice <alice@example.org>",
        "Bob <bob@example.org>",
        "Mallory <bob@example.org>",
        "Carol <carol@example.org>",
    ];
    let Some([alice, bob, mallory, carol]) = make_keys(&gpg, user_ids) else { return };
    gpg.run(&["--yes", "--local-user", &alice, "--quick-sign-key", &carol]);
    let _ = fs::remove_file(gpg.path("trustdb.gpg"));
    program.ok(&["import", gpg.home()]);
    program.ok(&["trust", "set", &alice, "ultimate"]);
    // Fingerprints and reasons, in the order of the listing.
    let listed = |args: &[&str]| -> Vec<(String, Vec<String>)> {
        let text = program.ok(&[&["list", "--with-trust"], args].concat());
        let certs = text.split("\n\n").filter(|cert| !cert.is_empty());
        certs
            .map(|cert| {
                let lines: Vec<&str> = cert.lines().collect();
                let reasons = lines[3..].iter().map(|line| line.trim().to_owned()).collect();
                (lines[1].trim().to_owned(), reasons)
            })
            .collect()
    };
    let web = listed(&[]);
    let of = |all: &[(String, Vec<String>)], who: &String| {
        all.iter().find(|(fingerprint, _)| fingerprint == who).unwrap().1.clone()
    };
    assert_eq!(of(&web, &alice), ["your own"]);
    assert_eq!(of(&web, &bob), [""; 0]);
    let certified = &of(&web, &carol)[0];
    let wanted = format!("certified by {alice} Alice <alice@example.org> [ultimate] on ");
    assert!(certified.starts_with(&wanted), "{certified}");

    let document = program.path("document");
    fs::write(&document, "text").unwrap();
    let (document, signature) = (document.to_str().unwrap(), gpg.path("sig"));
    gpg.run(&["--yes", "-o", &signature, "-u", &carol, "--detach-sign", document]);
    let tofu = ["--trust-model", "tofu"];
    let verify = ["verify", "--signature", &signature, document];
    program.ok(&[&verify[..], &tofu].concat());
    let first_use = listed(&tofu);
    let order: Vec<&str> = first_use.iter().map(|(fingerprint, _)| &fingerprint[..]).collect();
    assert_eq!(BTreeSet::from([&order[0], &order[1]]), BTreeSet::from([&&bob[..], &&mallory[..]]));
    assert_eq!(order.len(), 4);
    let conflict = format!("conflict: the same address is in {mallory}");
    assert_eq!(of(&first_use, &bob), [conflict, "not seen in use".to_owned()]);
    assert_eq!(of(&first_use, &alice), ["your own"]);
    let reasons = of(&first_use, &carol);
    assert_eq!(reasons[0], "certified by a key of yours");
    assert!(reasons[1].starts_with("seen: 1 signature on 20"), "{reasons:?}");

    program.ok(&["tofu", "policy", &mallory, "bad"]);
    let decided = of(&listed(&tofu), &mallory);
    assert_eq!(decided, ["you decided: bad", "not seen in use"]);
    let json = program.ok(&["--json", "list", "--with-trust", "--trust-model", "tofu", &mallory]);
    assert!(json.contains(r#""reasons":["you decided: bad","not seen in use"]"#), "{json}");
    assert_eq!(of(&listed(&["--trust-model", "direct"]), &bob), ["you trust its owner: unknown"]);
    assert_eq!(of(&listed(&["--trust-model", "wot"]), &alice), ["your own"]);
    assert_eq!(of(&listed(&["--trust-model", "wot"]), &carol), ["120 of 120 flows to it"]);
}

#[test]
fn what_the_user_called_bad_is_refused_where_gpg_refuses_it() {
    let program = Program::new();
    let Some(gpg) = Gpg::new(&program, "gnupg") else { return };
    let user_ids = ["Bob <bob@example.org>", "Mallory <bob@example.org>"];
    let Some([bob, mallory]) = make_keys(&gpg, user_ids) else { return };
    let document = program.path("document");
    fs::write(&document, "text").unwrap();
    let (document, sealed) = (document.to_str().unwrap(), program.path("sealed"));
    let sealed = sealed.to_str().unwrap();
    let signature = |who: &str| gpg.path(&format!("{who}.sig"));
    for who in [&bob, &mallory] {
        gpg.run(&["-o", &signature(who), "-u", who, "--detach-sign", document]);
    }
    for who in [&bob, &mallory] {
        gpg.run(&["--passphrase", "", "--quick-add-key", who, "cv25519", "encr"]);
    }
    // They are strangers from here on.
    let _ = fs::remove_file(gpg.path("trustdb.gpg"));
    program.ok(&["import", gpg.home()]);
    let gpg_accepts = |args: &[&str]| {
        let mut command = Command::new(&gpg.program);
        command.args(["--homedir", gpg.home(), "--batch", "--yes", "--quiet"]).args(args);
        command.stderr(Stdio::null()).stdout(Stdio::null()).status().unwrap().success()
    };
    let accepts = |args: &[&str]| {
        let output = program.run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {said}");
        assert!(!said.contains("talaria certify"), "{args:?}: {said}");
        output.status.success()
    };
    let verifies = |model: &str, who: &str| {
        let theirs = gpg_accepts(&["--trust-model", model, "--verify", &signature(who), document]);
        let ours = accepts(&["verify", "--trust-model", model, &signature(who), document]);
        (ours, theirs)
    };
    let encrypts = |model: &str, to: &str| {
        let args = ["--trust-model", model, "-o", sealed, "-r", to, "-e", document];
        let theirs = gpg_accepts(&args);
        let ours = ["encrypt", "--trust-model", model, "-o", sealed, "--overwrite", "-r", to];
        (accepts(&[&ours[..], &[document]].concat()), theirs)
    };
    let decide = |who: &str, policy: &str| {
        gpg.run(&["--trust-model", "tofu", "--tofu-policy", policy, who]);
        program.ok(&["tofu", "policy", who, policy]);
    };
    decide(&bob, "good");
    decide(&mallory, "bad");
    for model in ["tofu", "tofu+pgp"] {
        assert_eq!(verifies(model, &bob), (true, true), "{model}");
        assert_eq!(verifies(model, &mallory), (false, false), "{model}");
        assert_eq!(encrypts(model, &mallory), (false, false), "{model}");
        // The decisions choose among the certificates with the address. Which one gpg tries depends
        // on their order.
        assert!(encrypts(model, "bob@example.org").0, "{model}");
    }
    // A decision is one of the user's, so here it holds in every model.
    for model in ["pgp", "direct", "wot", "always"] {
        assert!(!verifies(model, &mallory).0 && !encrypts(model, &mallory).0, "{model}");
    }
    decide(&mallory, "auto");
    let owners = program.path("owners");
    fs::write(&owners, format!("{mallory}:3:\n")).unwrap();
    gpg.run(&["--import-ownertrust", owners.to_str().unwrap()]);
    program.ok(&["trust", "set", &mallory, "never"]);
    assert_eq!(verifies("direct", &mallory), (false, false));
    assert_eq!(encrypts("direct", &mallory), (false, false));
    // In the web of trust, it says how the owner certifies, and nothing about the owner's own
    // certificate.
    assert_eq!(verifies("pgp", &mallory), (true, true));
}

#[test]
fn a_signature_by_a_bad_certificate_is_refused_and_releases_nothing() {
    let program = Program::new();
    program.ok(&["key", "generate", "--no-passphrase", "Me <me@example.org>"]);
    let mallory = Program::new();
    mallory.ok(&["key", "generate", "--no-passphrase", "Mallory <mallory@example.org>"]);
    fs::write(program.path("text"), "pay\n").unwrap();
    let at = |name: &str| program.path(name).to_str().unwrap().to_owned();
    mallory.ok(&["export", "-o", &at("mallory.pgp")]);
    mallory.ok(&["sign", "--inline", &at("text"), "-o", &at("signed")]);
    program.ok(&["import", &at("mallory.pgp")]);
    mallory.ok(&["import", &{
        program.ok(&["export", "me@example.org", "-o", &at("me.pgp")]);
        at("me.pgp")
    }]);
    let seal = ["encrypt", "-r", "me@example.org", "-u", "mallory@example.org"];
    mallory.ok(&[&seal[..], &[&at("text"), "-o", &at("sealed")]].concat());
    program.ok(&["verify", &at("signed"), "-o", "-"]);
    program.ok(&["tofu", "policy", "mallory@example.org", "bad"]);
    let lines = ["--status-fd", "1"];
    for args in [["verify", "signed"], ["decrypt", "sealed"]] {
        let output =
            program.run(&[&[args[0], &at(args[1]), "-o", &at("out")], &lines[..]].concat());
        let (out, said) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(!program.path("out").exists());
        // gpg's lines: the signature is good, and nobody should trust it.
        assert!(out.contains("GOODSIG") && out.contains("TRUST_NEVER"), "{out}");
        assert!(said.contains("DO NOT RELY ON IT") && !said.contains("Good signature"), "{said}");
    }
    let json = program.run(&["--json", "verify", &at("signed")]);
    let json = String::from_utf8_lossy(&json.stdout).into_owned();
    assert!(json.contains(r#""outcome":"distrusted""#), "{json}");
    assert!(json.contains(r#""accepted":false"#), "{json}");
    // Without the decision it is accepted again.
    program.ok(&["tofu", "policy", "mallory@example.org", "auto"]);
    program.ok(&["verify", &at("signed")]);
}

/// A ring of certificates of one address costs what each of them costs, and the output does not
/// grow with their square.
#[test]
fn many_certificates_of_one_address_share_their_conflicts() {
    const COUNT: usize = 200;
    let program = Program::new();
    let of = |number: usize| {
        let user_id = format!("Number {number} <shared@example.org>");
        let (cert, _) = CertBuilder::new().add_userid(user_id).generate().unwrap();
        Cert::parse(&cert.to_vec().unwrap()).unwrap()
    };
    let certs: Vec<_> = (0..COUNT).map(of).collect();
    let ring = program.ring("ring.pgp", &certs);
    program.ok(&["import", ring.to_str().unwrap()]);
    let tofu = ["--trust-model", "tofu", "--with-trust"];
    let listed = program.ok(&[&["list"], &tofu[..]].concat());
    assert_eq!(listed.matches("conflict: the same address is in").count(), 10 * COUNT);
    assert_eq!(listed.matches("and in 189 more certificates").count(), COUNT);
    let json = program.ok(&[&["--json", "list"], &tofu[..]].concat());
    assert_eq!(json.matches(r#""conflicts_left_out":99"#).count(), COUNT);
    let conflicts = program.ok(&["--json", "tofu", "conflicts"]);
    let conflicts: serde_json::Value = serde_json::from_str(&conflicts).unwrap();
    assert_eq!(conflicts["certificates"].as_array().unwrap().len(), COUNT);
}

#[test]
fn a_signature_counts_for_the_address_of_its_signer_as_in_gpg() {
    let program = Program::new();
    let Some(gpg) = Gpg::new(&program, "gnupg") else { return };
    let Some([alice]) = make_keys(&gpg, ["Alice <alice@example.org>"]) else { return };
    gpg.run(&["--passphrase", "", "--quick-add-uid", &alice, "Alice <alice@example.net>"]);
    let document = program.path("document");
    fs::write(&document, "text").unwrap();
    let (document, signature) = (document.to_str().unwrap(), gpg.path("sig"));
    let sender = ["--sender", "alice@example.net", "--detach-sign"];
    gpg.run(&[&["--yes", "-o", &signature, "-u", &alice], &sender[..], &[document]].concat());
    let _ = fs::remove_file(gpg.path("trustdb.gpg"));
    program.ok(&["import", gpg.home()]);
    gpg.run(&["--trust-model", "tofu", "--verify", &signature, document]);
    let verify = ["verify", "--trust-model", "tofu", "--signature", &signature, document];
    program.ok(&verify);
    // The number of signatures seen for each address.
    let ours: BTreeMap<String, u64> = program
        .ok(&["--json", "tofu", "info", &alice])
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|info| {
            let count = info["signatures"]["count"].as_u64().unwrap();
            (tofu_address(info["user_id"].as_str().unwrap()), count)
        })
        .collect();
    let theirs = Connection::open(gpg.path("tofu.db")).unwrap();
    let mut rows = theirs
        .prepare(
            "SELECT email, (SELECT count(*) FROM signatures WHERE binding = bindings.oid) \
             FROM bindings",
        )
        .unwrap();
    let theirs: BTreeMap<String, u64> = rows
        .query_map((), |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(theirs.get("alice@example.net"), Some(&1), "{theirs:?}");
    for (address, count) in &ours {
        assert_eq!(theirs.get(address).copied().unwrap_or_default(), *count, "{address}");
    }
    assert_eq!(ours.values().sum::<u64>(), 1, "{ours:?}");
}

fn tofu_address(user_id: &str) -> String {
    String::from_utf8(gnupg_name(user_id.as_bytes())).unwrap()
}

#[test]
fn concurrent_records_of_signatures_lose_nothing() {
    const EACH: usize = 10;
    let program = Program::new();
    let Some(gpg) = Gpg::new(&program, "gnupg") else { return };
    let user_ids = ["Alice <alice@example.org>", "Bob <bob@example.org>"];
    let Some([alice, bob]) = make_keys(&gpg, user_ids) else { return };
    program.ok(&["import", gpg.home()]);
    let mut commands = Vec::new();
    for at in 0..2 * EACH {
        let document = program.path(&format!("document-{at}"));
        fs::write(&document, at.to_string()).unwrap();
        let (document, signature) = (document.to_str().unwrap(), gpg.path(&format!("sig-{at}")));
        let signer = if at % 2 == 0 { &alice } else { &bob };
        gpg.run(&["-o", &signature, "-u", signer, "--detach-sign", document]);
        let verify = ["verify", "--trust-model", "tofu", "--signature", &signature, document];
        commands.push(program.command(&verify));
    }
    // All processes run concurrently; some have to wait for others.
    let children: Vec<_> = commands.iter_mut().map(|command| command.spawn().unwrap()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    for who in [&alice, &bob] {
        let info = program.ok(&["--json", "tofu", "info", who]);
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        assert_eq!(info["signatures"]["count"], EACH, "{info}");
    }
    program.assert_clean();
}

#[test]
fn options_override_the_configuration() {
    let program = Program::new();
    let Some(gpg) = Gpg::new(&program, "gnupg") else { return };
    let user_ids = ["Alice <alice@example.org>", "Mallory <alice@example.org>"];
    let Some([alice, _]) = make_keys(&gpg, user_ids) else { return };
    program.ok(&["import", gpg.home()]);
    let config = program.path("config.toml");
    let list = |text: &str, args: &[&str]| {
        fs::write(&config, text).unwrap();
        let mut command = program.command(&["list", "--with-colons", &alice]);
        command.args(args).env("TALARIA_CONFIG", &config).output().unwrap()
    };
    let letter = |text: &str, args: &[&str]| {
        let output = list(text, args);
        assert!(output.status.success(), "{output:?}");
        let listing = String::from_utf8(output.stdout).unwrap();
        listing.lines().find_map(|line| line.strip_prefix("pub:")).unwrap()[..1].to_owned()
    };
    assert_eq!(letter("", &[]), "-");
    assert_eq!(letter("trust-model = \"tofu\"", &[]), "q");
    assert_eq!(letter("trust-model = \"tofu\"", &["--trust-model", "pgp"]), "-");
    let said = |text: &str| {
        let output = list(text, &[]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("config.toml"), "{said}");
        said
    };
    assert!(said("trust-model = \"tufo\"").contains("one of pgp, tofu"));
    assert!(said("trust-model = tofu").contains("line 1"));
    assert!(said("color = \"red\"").contains("unknown setting color"));
    fs::remove_file(&config).unwrap();
    let mut missing = program.command(&["list"]);
    let output = missing.env("TALARIA_CONFIG", &config).output().unwrap();
    assert_eq!(output.status.code(), Some(3));

    // The path of the store can be in the configuration, too.
    let home = program.path("home");
    fs::create_dir_all(home.join(".config/talaria")).unwrap();
    let text = format!("store = {:?}", program.store().to_str().unwrap());
    fs::write(home.join(".config/talaria/config.toml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_talaria"));
    command.env_remove("TALARIA_CONFIG").env_remove("XDG_CONFIG_HOME").env_remove("TALARIA_STORE");
    let output = command.env("HOME", &home).args(["list", &alice]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// The trust data in a store.
fn recorded(program: &Program) -> (String, String) {
    let trust = program.ok(&["trust", "export-ownertrust"]);
    (trust, list(program, &["--trust-model", "tofu"]))
}

#[test]
fn unreadable_input_is_reported_and_changes_nothing() {
    let program = Program::new();
    let Some(gpg) = Gpg::new(&program, "gnupg") else { return };
    let user_ids = ["Alice <alice@example.org>", "Mallory <alice@example.org>"];
    let Some([alice, mallory]) = make_keys(&gpg, user_ids) else { return };
    let owners = program.path("owners.txt");
    fs::write(&owners, format!("{alice}:6:\n")).unwrap();
    gpg.run(&["--import-ownertrust", owners.to_str().unwrap()]);
    gpg.list("tofu");
    program.ok(&["import", gpg.home()]);
    program.ok(&["tofu", "policy", &mallory, "bad"]);
    let before = recorded(&program);
    let cut = |name: &str, bytes: usize| fs::read(gpg.path(name)).unwrap()[..bytes].to_vec();
    let mut odd = fs::read(gpg.path("trustdb.gpg")).unwrap();
    let (last, short) = (odd.len() / 40 - 1, odd.len() - 13);
    let record = odd.chunks(40).position(|record| record[0] == 12).unwrap();
    odd[40 * record] = 99;
    let (import_owners, import_tofu) = (["trust", "import-ownertrust"], ["tofu", "import"]);
    for (name, bytes, command, expected) in [
        ("cut.db", cut("tofu.db", 5000), import_tofu, "offset 5000".to_owned()),
        (
            "cut.gpg",
            cut("trustdb.gpg", short),
            import_owners,
            format!("offset {}: record {last}", 40 * last),
        ),
        ("odd.gpg", odd, import_owners, format!("record {record}")),
        (
            "cut.txt",
            format!("{alice}:6:\n{}", &mallory[..30]).into_bytes(),
            import_owners,
            "line 2".to_owned(),
        ),
        (
            "odd.txt",
            format!("# fine\n{mallory}:5:\n{alice}:many:\n").into_bytes(),
            import_owners,
            "line 3".to_owned(),
        ),
    ] {
        let path = program.path(name);
        fs::write(&path, &bytes).unwrap();
        let said = program.fails(&[&command[..], &[path.to_str().unwrap()]].concat(), 3);
        assert!(said.contains(name) && said.contains(&expected), "{said}");
        assert!(fs::read(&path).unwrap() == bytes, "{name} was written");
        assert_eq!(recorded(&program), before, "{name}");
    }
    program.assert_clean();
}
