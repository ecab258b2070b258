//! Keys on an OpenPGP card, used through gpg-agent. These tests run only if the environment names a
//! card.
//!
//! `TALARIA_TEST_CARD` is the GnuPG home for an inserted card, with a certificate whose keys for
//! signing and decryption are on the card; `TALARIA_TEST_CARD_PIN` is its PIN. The tests use up one
//! of the three tries, and the right PIN restores it.

use std::fs;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::program::Program;

const TEXT: &str = "attack at dawn\n";

/// There is only one card, so tests take turns.
static TURN: Mutex<()> = Mutex::new(());

/// A card, the name of its certificate, and a home for talaria.
struct Card {
    program: Program,
    home: String,
    name: String,
    _turn: MutexGuard<'static, ()>,
}

impl Card {
    /// The inserted card, if any, with its certificate in a store.
    fn inserted() -> Option<Self> {
        let given = |name: &str| std::env::var(name).ok();
        let (Some(home), Some(pin)) = (given("TALARIA_TEST_CARD"), given("TALARIA_TEST_CARD_PIN"))
        else {
            talaria_needs::left_out("a card");
            return None;
        };
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut card = Self { program: Program::new(), home, name: String::new(), _turn: turn };
        fs::write(card.program.path("pin"), pin).unwrap();
        let listed = card.gpg_ok("--list-secret-keys --with-colons");
        // The serial number of a card has its own field.
        let mut on_card = listed.lines().skip_while(|line| {
            let fields: Vec<_> = line.split(':').collect();
            fields[0] != "sec" || fields.get(14).is_none_or(|serial| serial.len() != 32)
        });
        let fingerprint = on_card.find_map(|line| line.strip_prefix("fpr:::::::::"));
        let fingerprint = fingerprint.expect("a key on the card");
        card.name.push_str(fingerprint.trim_end_matches(':'));
        fs::write(card.program.path("plain"), TEXT).unwrap();
        fs::write(card.program.path("wrong"), "wrong-pin").unwrap();
        fs::write(card.program.path("wrong-too"), "also-wrong").unwrap();
        card.gpg_ok(&format!("--output cert --export {}", card.name));
        card.talaria_ok("import cert");
        Some(card)
    }

    fn gpg(&self, words: &str) -> Output {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--quiet", "--yes", "--trust-model", "always"]);
        command.args(["--pinentry-mode", "loopback", "--passphrase-file", "pin"]);
        command.args(words.split(' ')).env("GNUPGHOME", &self.home);
        command.current_dir(self.program.path("")).output().unwrap()
    }

    fn gpg_ok(&self, words: &str) -> String {
        let output = self.gpg(words);
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn talaria(&self, words: &str) -> Output {
        let args: Vec<&str> = words.split(' ').collect();
        let mut command = self.program.command(&args);
        command.env("GNUPGHOME", &self.home).current_dir(self.program.path(""));
        command.output().unwrap()
    }

    fn talaria_ok(&self, words: &str) -> String {
        let output = self.talaria(words);
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The number of remaining tries for the PIN.
    fn tries_left(&self) -> u32 {
        let status = self.gpg_ok("--card-status --with-colons");
        let tries = status.lines().find_map(|line| line.strip_prefix("pinretry:")).unwrap();
        tries.split(':').next().unwrap().parse().unwrap()
    }

    /// Makes the card ask for its PIN again.
    fn forget(&self) {
        let mut command = Command::new("gpg-connect-agent");
        command.args(["SCD RESET", "/bye"]).env("GNUPGHOME", &self.home);
        assert!(command.output().unwrap().status.success());
    }
}

#[test]
fn a_card_signs_and_decrypts() {
    let Some(card) = Card::inserted() else { return };
    let (name, with) = (&card.name, "--gpg-agent --passphrase-file pin");
    for (form, check) in
        [("", "--verify s plain"), (" --inline", "--verify s"), (" --cleartext", "--verify s")]
    {
        card.talaria_ok(&format!("sign plain --with {name} -o s {with}{form}"));
        card.gpg_ok(check);
        fs::remove_file(card.program.path("s")).unwrap();
    }
    card.gpg_ok(&format!("--output m --recipient {name} --encrypt plain"));
    assert_eq!(card.talaria_ok(&format!("decrypt m {with}")), TEXT);
    card.talaria_ok(&format!("encrypt plain --to {name} --sign-with {name} -o n {with}"));
    assert_eq!(card.gpg_ok("--decrypt n"), TEXT);
    assert_eq!(card.talaria_ok(&format!("decrypt n {with}")), TEXT);
}

#[test]
fn several_wrong_pins_use_up_one_try() {
    let Some(card) = Card::inserted() else { return };
    card.forget();
    assert_eq!(card.tries_left(), 3);
    let sign = format!("sign plain --with {} -o s --gpg-agent --passphrase-file", card.name);
    let output = card.talaria(&format!("{sign} wrong --passphrase-file wrong-too"));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("the number of remaining tries"), "{said}");
    assert_eq!(card.tries_left(), 2);
    card.talaria_ok(&format!("{sign} pin"));
    assert_eq!(card.tries_left(), 3);
}
