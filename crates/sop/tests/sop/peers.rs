//! Exchange with other Stateless OpenPGP programs in both directions.
//!
//! The table has the features and deviations of each program; everything else holds for all of
//! them. A peer that is not in `PATH`, or has an unknown version, is skipped by name. Debian has
//! `sqop`; for the others, `go install github.com/ProtonMail/gosop@latest` and `cargo install
//! rsop`.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::common::{Desk, Ran, SOP, changed, peer};

/// The specification of keys and messages.
#[derive(Clone, Copy, PartialEq)]
enum Spec {
    /// Keys of version 4, messages in CFB mode.
    Rfc4880,
    /// Keys of version 6, messages in AEAD mode.
    Rfc9580,
}
use Spec::{Rfc4880, Rfc9580};

/// A program, with its profiles by name; one without a name has no option for it.
struct Peer {
    name: &'static str,
    /// Profiles of `generate-key`. Each program reads its own keys.
    keys: &'static [(Spec, &'static str)],
    /// Profiles of `encrypt`.
    messages: &'static [(Spec, &'static str)],
    quirks: &'static [Quirk],
}

/// Deviations of a peer.
#[derive(Clone, Copy, PartialEq)]
enum Quirk {
    /// Does not know a signed message when it armors one.
    ArmorsNoSigned,
    /// Does not clearsign with Ed448, which its profile `security` has.
    ClearsignsNoEd448,
    /// Does not sign the last line end of clearsigned text.
    DropsLineEnd,
    /// Writes a line end after a signed message without armor, which makes the message unreadable
    /// for all programs.
    EndsWithLineEnd,
    /// Encrypts only to the password if there are also certificates.
    ForgetsCerts,
    /// Writes clearsigned text with its original line ends.
    KeepsLineEnds,
    /// Also writes the unsigned line end before the signature of clearsigned text.
    LeavesLineEnd,
    /// Writes fingerprints in lower case.
    LowerCase,
    /// Verifications have the fingerprint of the certificate in place of that of the key.
    NamesNoSubkey,
    /// Supports session keys only for CFB messages.
    NoAeadSessionKeys,
    /// Fails without a reason if a key is locked.
    SaysNotLocked,
    /// Writes clearsigned text with the signed line ends.
    ShowsSignedLineEnds,
    /// Writes text messages with their internal line ends.
    ShowsInnerLineEnds,
    /// Signs white space at the end of clearsigned lines, so that all programs find the signature
    /// bad.
    SignsTrailingSpace,
}

const OURS: Peer = Peer {
    name: SOP,
    keys: &[(Rfc4880, "rfc4880"), (Rfc9580, "rfc9580")],
    messages: &[(Rfc4880, "rfc4880"), (Rfc9580, "rfc9580")],
    quirks: &[],
};

const PEERS: [Peer; 3] = [
    // Sequoia in Debian 12: 0.27.3.
    Peer {
        name: "sqop",
        keys: &[(Rfc4880, "")],
        messages: &[(Rfc4880, "")],
        quirks: &[
            Quirk::ArmorsNoSigned,
            Quirk::DropsLineEnd,
            Quirk::KeepsLineEnds,
            Quirk::LeavesLineEnd,
            Quirk::ShowsInnerLineEnds,
        ],
    },
    // GopenPGP, 1.1.0.
    Peer {
        name: "gosop",
        keys: &[
            (Rfc4880, "default"),
            (Rfc4880, "compatibility"),
            (Rfc9580, "performance"),
            (Rfc9580, "security"),
        ],
        messages: &[(Rfc4880, "compatibility"), (Rfc9580, "performance")],
        quirks: &[
            Quirk::ClearsignsNoEd448,
            Quirk::EndsWithLineEnd,
            Quirk::ForgetsCerts,
            Quirk::NamesNoSubkey,
            Quirk::ShowsInnerLineEnds,
        ],
    },
    // rPGP, 0.12.0. Its profile `security` has the algorithms of RFC 9980, which talaria-sop does
    // not support.
    Peer {
        name: "rsop",
        keys: &[(Rfc4880, "default"), (Rfc4880, "rfc4880"), (Rfc9580, "performance")],
        messages: &[(Rfc4880, "rfc4880"), (Rfc9580, "rfc9580")],
        quirks: &[
            Quirk::LowerCase,
            Quirk::NoAeadSessionKeys,
            Quirk::SaysNotLocked,
            Quirk::ShowsInnerLineEnds,
            Quirk::ShowsSignedLineEnds,
            Quirk::SignsTrailingSpace,
        ],
    },
];

fn profile(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("--profile={name}") }
}

/// Keys and certificates, by name and options.
static MADE: Mutex<BTreeMap<String, [Vec<u8>; 2]>> = Mutex::new(BTreeMap::new());

/// A peer that is installed.
struct Program {
    peer: &'static Peer,
    path: String,
}

impl Program {
    fn ours() -> Self {
        Self { peer: &OURS, path: SOP.to_owned() }
    }

    fn theirs() -> Vec<Self> {
        let found = |it: &Peer| {
            let what = if it.name == "sqop" { it.name } else { "another SOP program" };
            talaria_needs::found(peer(it.name), what)
        };
        PEERS.iter().filter_map(|it| Some(Self { peer: it, path: found(it)? })).collect()
    }

    fn has(&self, quirk: Quirk) -> bool {
        self.peer.quirks.contains(&quirk)
    }

    fn reads(&self, spec: Spec) -> bool {
        self.peer.keys.iter().any(|&(theirs, _)| theirs == spec)
    }

    fn start(&self, desk: &Desk, line: &str, input: impl AsRef<[u8]>) -> Ran {
        desk.run(&self.path, &line.split_whitespace().collect::<Vec<_>>(), input)
    }

    #[track_caller]
    fn run(&self, desk: &Desk, line: &str, input: impl AsRef<[u8]>) -> Vec<u8> {
        let ran = self.start(desk, line, input);
        assert_eq!(ran.code, 0, "{} {line}: {}", self.peer.name, ran.err);
        ran.out
    }

    /// Makes a key of each profile that `other` reads, and returns their names.
    fn parties(&self, desk: &Desk, other: &Self, options: &[&str]) -> Vec<String> {
        let whose = if self.path == SOP { "ours" } else { self.peer.name };
        let known = self.peer.keys.iter().filter(|(spec, _)| other.reads(*spec));
        let party = |&(_, named): &(Spec, &str)| {
            let name = format!("{whose}-{named}");
            let profile = profile(named);
            let options = [&profile.split_whitespace().collect::<Vec<_>>(), options].concat();
            // Some programs need seconds to generate a key, so all tests share the keys.
            let mut made = MADE.lock().unwrap();
            let [key, cert] = made.entry(format!("{name} {options:?}")).or_insert_with(|| {
                desk.party_by(&self.path, &name, &options);
                [".key", ".cert"].map(|kind| desk.get(&format!("{name}{kind}")))
            });
            desk.put(&format!("{name}.key"), key);
            desk.put(&format!("{name}.cert"), cert);
            name
        };
        known.map(party).collect()
    }

    /// The profiles of `encrypt` that `other` reads.
    fn profiles(&self, other: &Self) -> Vec<String> {
        let known = self.peer.messages.iter().filter(|(spec, _)| other.reads(*spec));
        known.map(|&(_, name)| profile(name)).collect()
    }

    /// The expected output of text signed with `--as`.
    fn shows(&self, text: &[u8], mode: &str) -> Vec<u8> {
        let mut text = String::from_utf8(text.to_vec()).unwrap();
        let inner = mode == "text" && self.has(Quirk::ShowsInnerLineEnds);
        if inner || mode == "clearsigned" && self.has(Quirk::ShowsSignedLineEnds) {
            text = text.replace('\n', "\r\n");
        }
        if mode == "clearsigned" && self.has(Quirk::LeavesLineEnd) {
            text.push('\n');
        }
        text.into_bytes()
    }

    /// Time, key and certificate of each signature in the verifications of this program.
    fn facts(&self, lines: &[u8]) -> Vec<[String; 3]> {
        let fact = |line: &str| {
            let mut words = line.split(' ').map(str::to_owned);
            let [time, key, cert] = [(); 3].map(|()| words.next().unwrap());
            if self.has(Quirk::LowerCase) {
                return [time, key.to_uppercase(), cert.to_uppercase()];
            }
            [time, key, cert]
        };
        let mut facts: Vec<_> = String::from_utf8_lossy(lines).lines().map(fact).collect();
        facts.sort();
        facts
    }
}

/// talaria-sop and another program, with keys of both that both read.
struct Pair<'a> {
    desk: &'a Desk,
    maker: &'a Program,
    reader: &'a Program,
    keys: &'a [String],
}

impl Pair<'_> {
    #[track_caller]
    fn make(&self, line: &str, input: impl AsRef<[u8]>) -> Vec<u8> {
        self.maker.run(self.desk, line, input)
    }

    #[track_caller]
    fn read(&self, line: &str, input: impl AsRef<[u8]>) -> Vec<u8> {
        self.reader.run(self.desk, line, input)
    }

    fn have(&self, quirk: Quirk) -> bool {
        self.maker.has(quirk) || self.reader.has(quirk)
    }

    /// The number of signatures in the reader's file `verified`.
    fn verified(&self) -> usize {
        self.reader.facts(&self.desk.take("verified")).len()
    }
}

/// `BEFORE NAME AFTER` for each name.
fn each(names: &[String], before: &str, after: &str) -> String {
    names.iter().map(|name| format!("{before}{name}{after} ")).collect()
}

/// Runs `test` with each peer, in both directions.
fn both_ways(test: impl Fn(&Pair<'_>)) {
    both_ways_with(&[], test);
}

fn both_ways_with(options: &[&str], test: impl Fn(&Pair<'_>)) {
    let ours = Program::ours();
    for theirs in Program::theirs() {
        let desk = &Desk::new();
        desk.put("password", "correct horse");
        let mut keys = ours.parties(desk, &theirs, options);
        keys.extend(theirs.parties(desk, &ours, options));
        test(&Pair { desk, maker: &ours, reader: &theirs, keys: &keys });
        test(&Pair { desk, maker: &theirs, reader: &ours, keys: &keys });
    }
}

/// Data longer than one part of a packet.
fn long() -> Vec<u8> {
    (0..700_000u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect()
}

#[test]
fn all_programs_read_keys_and_certificates() {
    both_ways(|pair| {
        for name in pair.keys {
            let key = pair.desk.get(&format!("{name}.key"));
            let one = pair.make("extract-cert --no-armor", &key);
            assert_eq!(one, pair.read("extract-cert --no-armor", &key), "{name}");
            let armored = pair.make("extract-cert", &key);
            assert!(armored.starts_with(b"-----BEGIN PGP PUBLIC KEY BLOCK-----"), "{name}");
            assert_eq!(one, pair.read("dearmor", &armored), "{name}");
        }
    });
}

#[test]
fn all_programs_read_encrypted_messages() {
    both_ways(|pair| {
        // From and to each program, and to all of them together, in both versions if both are
        // supported.
        let groups = pair.keys.iter().map(std::slice::from_ref).chain([pair.keys]);
        for to in groups {
            let sign = each(to, "--sign-with=", ".key");
            let verify = each(to, "--verify-with=", ".cert");
            let certs = each(to, "", ".cert");
            for profile in pair.maker.profiles(pair.reader) {
                for armor in ["", "--no-armor"] {
                    let line = format!("encrypt {profile} {armor} {sign} {certs}");
                    let sealed = pair.make(&line, long());
                    assert_eq!(
                        sealed.starts_with(b"-----BEGIN PGP MESSAGE-----"),
                        armor.is_empty()
                    );
                    for key in to {
                        let open = format!("{verify} --verifications-out=verified {key}.key");
                        assert!(pair.read(&format!("decrypt {open}"), &sealed) == long(), "{line}");
                        assert_eq!(pair.verified(), to.len(), "{line}");
                    }
                }
            }
        }
    });
}

#[test]
fn all_programs_read_messages_with_a_password() {
    both_ways(|pair| {
        for profile in pair.maker.profiles(pair.reader) {
            for (options, data) in [("", vec![]), ("", long()), ("--no-armor", long())] {
                let line = format!("encrypt {profile} {options} --with-password=password");
                let sealed = pair.make(&line, &data);
                assert!(pair.read("decrypt --with-password=password", &sealed) == data, "{line}");
            }
            let line = format!("encrypt {profile} --as=text --with-password=password");
            let sealed = pair.make(&line, "one\ntwo\n");
            let shown = pair.read("decrypt --with-password=password", &sealed);
            assert_eq!(shown, pair.reader.shows(b"one\ntwo\n", "text"), "{line}");
            // A certificate beside the password.
            if pair.maker.has(Quirk::ForgetsCerts) {
                continue;
            }
            let name = &pair.keys[0];
            let line = format!("encrypt {profile} --with-password=password {name}.cert");
            let sealed = pair.make(&line, "text");
            for with in ["--with-password=password", &format!("{name}.key")] {
                assert_eq!(pair.read(&format!("decrypt {with}"), &sealed), b"text", "{line}");
            }
        }
    });
}

#[test]
fn messages_without_a_profile_suit_their_recipients() {
    let ours = Program::ours();
    for theirs in Program::theirs() {
        let desk = Desk::new();
        desk.party("ours", "rfc9580");
        // One of the recipients has not announced RFC 9580.
        desk.party_by(&theirs.path, "theirs", &[]);
        let sealed = desk.sop("encrypt theirs.cert ours.cert", "text").ok();
        assert_eq!(theirs.run(&desk, "decrypt theirs.key", &sealed), b"text");
        assert_eq!(ours.run(&desk, "decrypt ours.key", &sealed), b"text");
    }
}

#[test]
fn one_message_can_be_read_by_all_programs() {
    let programs: Vec<_> = [Program::ours()].into_iter().chain(Program::theirs()).collect();
    for spec in [Rfc4880, Rfc9580] {
        let desk = Desk::new();
        let programs: Vec<_> = programs.iter().filter(|it| it.reads(spec)).collect();
        let profile_of = |profiles: &[(Spec, &str)]| {
            profile(profiles.iter().find(|(theirs, _)| *theirs == spec).unwrap().1)
        };
        let name = |at: usize| format!("program{at}");
        for (at, program) in programs.iter().enumerate() {
            let profile = profile_of(program.peer.keys);
            let options: Vec<&str> = profile.split_whitespace().collect();
            desk.party_by(&program.path, &name(at), &options);
        }
        let names: Vec<_> = (0..programs.len()).map(name).collect();
        let (certs, verify) = (each(&names, "", ".cert"), each(&names, "--verify-with=", ".cert"));
        for (at, maker) in programs.iter().enumerate() {
            let profile = profile_of(maker.peer.messages);
            let line = format!("encrypt {profile} --sign-with={}.key {certs}", name(at));
            let sealed = maker.run(&desk, &line, "text");
            for (at, reader) in programs.iter().enumerate() {
                let open = format!("{verify} --verifications-out=verified {}.key", name(at));
                assert_eq!(reader.run(&desk, &format!("decrypt {open}"), &sealed), b"text");
                assert_eq!(reader.facts(&desk.take("verified")).len(), 1);
            }
        }
    }
}

#[test]
fn all_programs_read_messages_with_session_keys() {
    both_ways(|pair| {
        let profiles = pair.maker.profiles(pair.reader);
        for (name, profile) in pair.keys.iter().flat_map(|it| profiles.iter().map(move |p| (it, p)))
        {
            let line = format!("encrypt --no-armor {profile} {name}.cert");
            let sealed = pair.make(&line, "text");
            if aead(&sealed) && pair.have(Quirk::NoAeadSessionKeys) {
                continue;
            }
            let tell = format!("decrypt --session-key-out=session {name}.key");
            for (teller, user) in [(pair.maker, pair.reader), (pair.reader, pair.maker)] {
                assert_eq!(teller.run(pair.desk, &tell, &sealed), b"text", "{line}");
                let opened = user.run(pair.desk, "decrypt --with-session-key=session", &sealed);
                assert_eq!(opened, b"text", "{line}");
                pair.desk.take("session");
            }
        }
    });
}

/// Whether a message to a key is in AEAD mode: then its first packet has version 6, else 3.
fn aead(sealed: &[u8]) -> bool {
    // After the tag and a length of one byte or two.
    let version = if sealed[1] < 192 { sealed[2] } else { sealed[3] };
    assert!([3, 6].contains(&version), "{version}");
    version == 6
}

#[test]
fn all_programs_unlock_keys() {
    both_ways_with(&["--with-key-password=password"], |pair| {
        let unlock = "--with-key-password=password";
        let profiles = pair.maker.profiles(pair.reader);
        for name in pair.keys {
            for profile in &profiles {
                let line = format!("encrypt {profile} {unlock} --sign-with={name}.key {name}.cert");
                let sealed = pair.make(&line, "text");
                let verify = format!("--verify-with={name}.cert --verifications-out=verified");
                let opened = pair.read(&format!("decrypt {verify} {unlock} {name}.key"), &sealed);
                assert_eq!(opened, b"text", "{line}");
                assert_eq!(pair.verified(), 1, "{line}");
                // KEY_IS_PROTECTED.
                let code = if pair.reader.has(Quirk::SaysNotLocked) { 1 } else { 67 };
                pair.reader.start(pair.desk, &format!("decrypt {name}.key"), &sealed).fails(code);
            }
        }
        for name in pair.keys {
            pair.desk.put("sig", pair.make(&format!("sign {unlock} {name}.key"), "text"));
            pair.read(&format!("verify sig {name}.cert"), "text");
        }
    });
}

#[test]
fn all_programs_verify_detached_signatures() {
    both_ways(|pair| {
        let (keys, certs) = (each(pair.keys, "", ".key"), each(pair.keys, "", ".cert"));
        let text = b"one\r\ntwo  \nthree".to_vec();
        for (options, data) in [("", long()), ("--no-armor", vec![]), ("--as=text", text)] {
            pair.desk.put("sig", pair.make(&format!("sign {options} {keys}"), &data));
            let verify = format!("verify sig {certs}");
            let [mut theirs, mut ours] = [pair.reader, pair.maker]
                .map(|program| program.facts(&program.run(pair.desk, &verify, &data)));
            if pair.have(Quirk::NamesNoSubkey) {
                for facts in [&mut theirs, &mut ours] {
                    facts.iter_mut().for_each(|[_, key, _]| key.clear());
                    facts.sort();
                }
            }
            // All programs report the same time, key and certificate.
            assert_eq!(theirs.len(), pair.keys.len());
            assert_eq!(theirs, ours);
            // NO_SIGNATURE.
            let other = [&data[..], b"!"].concat();
            assert_eq!(pair.reader.start(pair.desk, &verify, other).code, 3, "{options}");
        }
        // Line ends are not significant in text.
        pair.desk.put("sig", pair.make(&format!("sign --as=text {keys}"), "one\ntwo\n"));
        pair.read(&format!("verify sig {certs}"), "one\r\ntwo\r\n");
    });
}

#[test]
fn all_programs_verify_inline_signatures() {
    both_ways(|pair| {
        let text = b"- dashes\nFrom me\n\nlast".to_vec();
        for (mode, armor, data) in [
            ("binary", "", long()),
            ("binary", "--no-armor", long()),
            ("text", "", text.clone()),
            ("text", "--no-armor", text.clone()),
            ("clearsigned", "", text),
        ] {
            let mut names = pair.keys.to_vec();
            if mode == "clearsigned" && pair.maker.has(Quirk::ClearsignsNoEd448) {
                names.retain(|name| !name.ends_with("-security"));
            }
            let (keys, certs) = (each(&names, "", ".key"), each(&names, "", ".cert"));
            let line = format!("inline-sign {armor} --as={mode} {keys}");
            let mut signed = pair.make(&line, &data);
            if !armor.is_empty() && pair.maker.has(Quirk::EndsWithLineEnd) {
                assert_eq!(signed.pop(), Some(b'\n'));
            }
            let verify = format!("inline-verify {certs}");
            let told = format!("inline-verify --verifications-out=verified {certs}");
            let shown = pair.read(&told, &signed);
            let expected = if mode == "binary" { data } else { pair.reader.shows(&data, mode) };
            assert!(shown == expected, "{line}");
            assert_eq!(pair.verified(), names.len(), "{line}");
            let detached = pair.read("inline-detach --signatures-out=sigs", &signed);
            assert!(detached == expected, "{line}");
            if mode != "clearsigned" || !pair.reader.has(Quirk::LeavesLineEnd) {
                let verified = pair.make(&format!("verify sigs {certs}"), &detached);
                assert_eq!(pair.maker.facts(&verified).len(), names.len(), "{line}");
            }
            pair.desk.take("sigs");
            // The change is within the data, not within a signature.
            if mode == "binary" && armor.is_empty() {
                let ran = pair.reader.start(pair.desk, &verify, changed(&signed));
                assert_ne!(ran.code, 0, "{line}");
            }
        }
    });
}

#[test]
fn all_programs_show_signed_texts_alike() {
    both_ways(|pair| {
        let name = &pair.keys[0];
        for text in
            ["", "\n", "one", "one\n", "one\n\n", "one  \ntwo\t\n", "one\r\ntwo\r\n", "größer\n"]
        {
            let signed = pair.make(&format!("inline-sign --as=clearsigned {name}.key"), text);
            let verify = format!("inline-verify {name}.cert");
            if text.contains("  ") && pair.maker.has(Quirk::SignsTrailingSpace) {
                continue;
            }
            // White space at the end of lines is neither signed nor written.
            let blank: &[char] = if pair.reader.has(Quirk::KeepsLineEnds) {
                &[' ', '\t']
            } else {
                &[' ', '\t', '\r']
            };
            let lines: Vec<_> = text.split('\n').map(|line| line.trim_end_matches(blank)).collect();
            let mut expected = lines.join("\n");
            if pair.maker.has(Quirk::DropsLineEnd) && expected.ends_with('\n') {
                expected.pop();
            }
            let expected = pair.reader.shows(expected.as_bytes(), "clearsigned");
            let shown = pair.read(&verify, &signed);
            assert_eq!(shown, expected, "{text:?} by {}", pair.maker.peer.name);
        }
    });
}

#[test]
fn all_programs_read_armor() {
    both_ways(|pair| {
        let name = &pair.keys[0];
        let key = pair.desk.sop("dearmor", pair.desk.get(&format!("{name}.key"))).ok();
        let cert = pair.desk.sop("dearmor", pair.desk.get(&format!("{name}.cert"))).ok();
        let signature = pair.make(&format!("sign --no-armor {name}.key"), "text");
        let encrypted = pair.make(&format!("encrypt --no-armor {name}.cert"), "text");
        let signed = pair.desk.sop(&format!("inline-sign --no-armor {name}.key"), "text").ok();
        for (data, label) in [
            (key, "PRIVATE KEY BLOCK"),
            (cert, "PUBLIC KEY BLOCK"),
            (signature, "SIGNATURE"),
            (encrypted, "MESSAGE"),
            (signed, "MESSAGE (signed)"),
        ] {
            if label == "MESSAGE (signed)" && pair.maker.has(Quirk::ArmorsNoSigned) {
                continue;
            }
            let armored = pair.make("armor", &data);
            let label = format!("-----BEGIN PGP {}-----", label.trim_end_matches(" (signed)"));
            assert!(armored.starts_with(label.as_bytes()), "{label}");
            assert_eq!(pair.read("dearmor", &armored), data, "{label}");
            // Armored input is not changed.
            assert_eq!(pair.read("dearmor", pair.make("armor", &armored)), data, "{label}");
        }
    });
}
