//! The cost of a hostile message before its key is known, and the information in the answers.

use std::io::{self, Cursor, Read};
use std::process::Command;
use std::time::{Duration, Instant};

use talaria_message::Rules;
use talaria_message::openpgp::Cert;
use talaria_message::openpgp::cert::CipherSuite;
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::{self};
use talaria_message::{
    Cost, DecryptOptions, EncryptOptions, MessageError, OpenedBy, Opener, Profile, ReadLimits,
    Recipients, Release, Secrets, decrypt, encrypt,
};

use crate::common::{NOW, Parties, generate, no_certs, password_secrets};

const PLAIN: &[u8] = b"attack at dawn, and bring the ladders";

fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc0 | tag, 0xff];
    packet.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    packet.extend_from_slice(body);
    packet
}

/// A version 4 session key packet for a passphrase, with Argon2: `t` passes over 2 to the power of
/// `m` KiB.
fn argon2(t: u8, m: u8, salt: u8) -> Vec<u8> {
    let mut body = vec![4, 9, 4];
    body.extend([salt; 16]);
    body.extend([t, 4, m]);
    packet(3, &body)
}

fn sealed(passwords: &[&str], profile: Profile) -> Vec<u8> {
    let mut recipients = Recipients::default();
    passwords.iter().for_each(|password| recipients.add_password(Password::from(*password)));
    seal(&recipients, profile)
}

fn seal(recipients: &Recipients, profile: Profile) -> Vec<u8> {
    let mut options = EncryptOptions::default();
    options.profile = Some(profile);
    let mut sealed = Vec::new();
    encrypt(Cursor::new(PLAIN), &mut sealed, recipients, &mut [], &options, NOW).unwrap();
    sealed
}

/// The content and what opened it.
fn open(
    sealed: &mut (dyn Read + Send),
    secrets: &mut Secrets,
    limits: ReadLimits,
    streamed: bool,
) -> Result<(Vec<u8>, OpenedBy), MessageError> {
    let mut plain = Vec::new();
    let spool = || Err(io::Error::other("no message here is that long"));
    let checked = Release::Checked { spool: &spool, again: None };
    let release = if streamed { Release::Streamed } else { checked };
    let mut options = DecryptOptions::new(release);
    options.limits = limits;
    options.threads = 1;
    let done = decrypt(sealed, &mut plain, secrets, &no_certs(), options)?;
    Ok((plain, done.by))
}

fn is_too_dear(error: &MessageError) -> bool {
    matches!(error, MessageError::OverLimit { what: Cost::Argon2, .. })
}

/// One packet with 16 passes over 2 GiB took 32 CPU seconds, sixteen with 255 two hours. gpg 2.2
/// has no Argon2; sq and rsop write one pass over 2 GiB, which opens.
#[test]
fn a_message_with_expensive_argon2_is_refused_at_once() {
    let right = sealed(&["right"], Profile::Rfc9580);
    for (t, m) in [(16, 21), (255, 21), (1, 22), (1, 31), (255, 16)] {
        let hostile: Vec<u8> = (0..16).flat_map(|salt| argon2(t, m, salt)).collect();
        let started = Instant::now();
        let alone = [&hostile[..], &packet(18, &[[1].as_slice(), &[7; 60]].concat())].concat();
        let limits = ReadLimits::default();
        let refused = open(&mut &alone[..], &mut password_secrets("right"), limits, true);
        let refused = refused.unwrap_err();
        assert!(is_too_dear(&refused), "{t} {m}: {refused:?}");
        // Cheap packets are tried first, so expensive packets cannot hide them.
        let hidden = [&hostile[..15 * hostile.len() / 16], &right].concat();
        let opened = open(&mut &hidden[..], &mut password_secrets("right"), limits, true).unwrap();
        assert_eq!(opened, (PLAIN.to_vec(), OpenedBy::Password(0)));
        assert!(started.elapsed() < Duration::from_secs(30), "{t} {m}");
    }
}

/// Each try of a packet with a passphrase counts.
#[test]
fn the_argon2_limit_covers_all_tries_together() {
    let right = sealed(&["right"], Profile::Rfc9580);
    let secrets = || Secrets {
        passwords: ["one", "two", "right"].map(Password::from).to_vec(),
        ..Secrets::default()
    };
    // Three passes over 64 MiB each.
    for (argon2_mib, opens) in [(3 * 192, true), (3 * 192 - 1, false), (0, false)] {
        let mut limits = ReadLimits::default();
        limits.argon2_mib = argon2_mib;
        match open(&mut &right[..], &mut secrets(), limits, true) {
            Ok((plain, by)) => {
                assert!(opens && plain == PLAIN && by == OpenedBy::Password(2), "{argon2_mib}");
            }
            Err(error) => assert!(!opens && is_too_dear(&error), "{argon2_mib}: {error:?}"),
        }
    }
}

/// In version 4, one wrong passphrase in 128 unwraps to a plausible session key. Before, the
/// message was then reported as changed.
#[test]
fn each_of_several_passphrases_opens_the_message() {
    for profile in [Profile::LibrePgp, Profile::Rfc9580, Profile::Rfc4880] {
        let right = sealed(&["right"], profile);
        let mut opener = Opener::new(Vec::new(), vec![Password::from("right")]);
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for number in 0..1500 {
            // AES-256, and the passphrase hashed once: cheap to try.
            let mut body = vec![4, 9, 0, 8];
            for _ in 0..33 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                body.push(random.to_be_bytes()[0]);
            }
            let message = [packet(3, &body), right.clone()].concat();
            let opened = opener.open(&message, &no_certs());
            assert_eq!(opened.unwrap().0, PLAIN, "{profile:?} {number}");
        }
    }
}

/// The librepgp profile writes GnuPG's packets.
#[test]
fn librepgp_passphrase_packets_have_version_5() {
    let message = sealed(&["one", "two"], Profile::LibrePgp);
    let packets = talaria_message::inspect(&mut &message[..]).unwrap();
    let version = |packet: &talaria_message::PacketInfo| packet.fields[0].1.clone();
    assert_eq!(packets.iter().map(|p| p.tag).collect::<Vec<_>>(), [3, 3, 20]);
    assert_eq!(version(&packets[0]), "5");
    for password in ["one", "two"] {
        let mut secrets = password_secrets(password);
        let opened = open(&mut &message[..], &mut secrets, ReadLimits::default(), true).unwrap();
        assert_eq!(opened.0, PLAIN);
    }
}

fn rsa() -> Cert {
    generate("<rsa@example.org>", openpgp::Profile::RFC4880, CipherSuite::RSA2k)
}

/// A client that lets a service decrypt chosen messages learns only that they do not open: not
/// whether the session key was unwrapped, nor whether the two repeated bytes match, nor whether the
/// content looks like packets.
#[test]
fn a_failed_decryption_reveals_nothing_about_the_cause() {
    let parties = Parties { certs: vec![Parties::new().certs[0].clone(), rsa()], v6: false };
    for cert in &parties.certs {
        for profile in [Profile::Rfc4880, Profile::Rfc9580] {
            let mut recipients = Recipients::default();
            recipients.add(cert, Rules::default(), &mut |_| None, NOW).unwrap();
            let message = seal(&recipients, profile);
            let wrapped = usize::from(message[1]) + 2;
            let wrapped = if message[1] < 192 {
                wrapped
            } else {
                3 + 192 + usize::from(message[2]) + ((usize::from(message[1]) - 192) << 8)
            };
            // The encrypted session key, and everything after the version and algorithm fields of
            // the encrypted packet.
            let body = wrapped + 2 + if profile == Profile::Rfc4880 { 1 } else { 4 };
            let places = (wrapped - 30..wrapped).chain(body..message.len());
            let mut opened = 0;
            for at in places {
                let mut changed = message.clone();
                changed[at] ^= 0x21;
                for streamed in [true, false] {
                    let limits = ReadLimits::default();
                    let mut secrets = parties.secrets();
                    match open(&mut &changed[..], &mut secrets, limits, streamed) {
                        Err(MessageError::Unopened { .. }) => {}
                        // With an authenticated number of chunks, the first chunk was right.
                        Err(MessageError::Tampered("the end is missing or was modified"))
                            if profile == Profile::Rfc9580 && at >= message.len() - 16 => {}
                        Ok(_) => opened += 1,
                        Err(other) => panic!("{profile:?} {at} {streamed}: {other:?}"),
                    }
                }
            }
            assert_eq!(opened, 0);
        }
    }
}

/// Peak memory of this process, in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// An endless sequence of packets before a message, generated while it is read.
struct Junk {
    packet: Vec<u8>,
    at: usize,
    left: usize,
}

impl Read for Junk {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.at == self.packet.len() && self.left > 0 {
            (self.at, self.left) = (0, self.left - 1);
        }
        let read = (&self.packet[self.at..]).read(buf)?;
        self.at += read;
        Ok(read)
    }
}

/// Before, 300 MB of fake session key packets took as much memory; gpg uses 5 MB.
#[test]
fn junk_of_300_mb_before_a_message_needs_less_than_64_mb() {
    for kind in ["version 9", "RSA", "passphrase", "marker", "small", "opener"] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "opening::read_junk_in_a_separate_process", "--ignored"]);
        let output = child.env("TALARIA_JUNK", kind).output().unwrap();
        assert!(output.status.success(), "{kind}: {output:?}");
    }
}

#[test]
#[ignore = "the other half of junk_of_300_mb_before_a_message_needs_less_than_64_mb"]
fn read_junk_in_a_separate_process() {
    const BYTES: usize = 300 << 20;
    let kind = std::env::var("TALARIA_JUNK").unwrap();
    let rsa = |bytes: u16| {
        let bits = (bytes * 8).to_be_bytes();
        [&[3, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], &bits, &vec![0xff; bytes.into()]].concat()
    };
    let packet = match &*kind {
        "version 9" => packet(1, &vec![9; 60_000]),
        "RSA" | "opener" => packet(1, &rsa(8000)),
        "passphrase" => packet(3, &[[4, 9, 0, 8].as_slice(), &vec![7; 60_000]].concat()),
        "marker" => packet(10, &vec![7; 60_000]),
        "small" => packet(1, &[9]),
        other => panic!("{other}"),
    };
    if kind == "opener" {
        let right = sealed(&["right"], Profile::Rfc4880);
        let mut opener = Opener::new(Vec::new(), vec![Password::from("right")]);
        for number in 0..100_u32 {
            // As many packets as are read, different ones each time.
            let mut message = packet.repeat(400);
            message.extend(self::packet(1, &number.to_be_bytes()));
            message.extend_from_slice(&right);
            assert_eq!(opener.open(&message, &no_certs()).unwrap().0, PLAIN);
        }
    } else {
        let left = BYTES / packet.len();
        let mut junk = Junk { at: packet.len(), packet, left };
        let mut secrets = password_secrets("right");
        assert!(open(&mut junk, &mut secrets, ReadLimits::default(), true).is_err());
    }
    let peak = peak_kib();
    assert!(peak < 64 << 10, "{kind}: {peak} KiB");
}
