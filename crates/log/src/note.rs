//! Signed notes, checkpoints and cosignatures in their text form (C2SP signed-note,
//! tlog-checkpoint, tlog-cosignature).
//!
//! Only what a log needs: Ed25519, checkpoints without extension lines, and lines of signatures in
//! one form. Reading refuses every text that writing does not give.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer as _, SigningKey};
use talaria_cert::hex::Lower;
use talaria_cert::{Ed25519Key, sha256};

use crate::bytes::Malformed;
use crate::name::EntryId;

/// Longest name of a key, in bytes.
pub const KEY_NAME_BYTES_MAX: usize = 255;
/// Most lines of signatures of a note.
pub const NOTE_LINES_MAX: usize = 64;
/// Longest note, in bytes.
pub const NOTE_BYTES_MAX: usize = 32_768;
/// The largest time and size in a note.
pub(crate) const NUMBER_MAX: u64 = (1 << 63) - 1;

/// The start of a line with a signature.
const DASH: &str = "\u{2014} ";
const PRIVATE: &str = "PRIVATE+KEY+";

/// The kinds of signatures on a note.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum NoteKind {
    /// On the text of the note: the checkpointer.
    Plain,
    /// On the text and a time (cosignature/v1): witnesses, and the checkpointer.
    Timed,
}

impl NoteKind {
    /// The byte of the kind in key IDs and keys.
    fn byte(self) -> u8 {
        match self {
            Self::Plain => 1,
            Self::Timed => 4,
        }
    }
}

/// A text is no key for notes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("expected a key for notes: NAME+ID+BASE64")]
pub struct NotANoteKey;

/// A public key for notes: its name, its kind and the Ed25519 key. The text form is that of
/// `golang.org/x/mod/sumdb/note`.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct NoteKey {
    /// The name.
    pub name: String,
    /// The kind of its signatures.
    pub kind: NoteKind,
    /// The Ed25519 key.
    pub key: [u8; 32],
}

/// Whether a text can name a key: 1 to [`KEY_NAME_BYTES_MAX`] bytes without spaces, control
/// characters and `+`.
pub(crate) fn is_key_name(name: &str) -> bool {
    let is_odd = |one: char| one.is_whitespace() || one.is_control() || one == '+';
    (1..=KEY_NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(is_odd)
}

impl NoteKey {
    /// The key ID in lines of signatures.
    #[must_use]
    pub fn id(&self) -> [u8; 4] {
        let hash = sha256(&[self.name.as_bytes(), b"\n", &[self.kind.byte()], &self.key]);
        [hash[0], hash[1], hash[2], hash[3]]
    }

    /// Whether the line is by this key and holds for a note with this text, and its time; 0 for a
    /// plain signature. `None` if it is by another key or does not hold.
    #[must_use]
    pub fn verify(&self, text: &str, line: &NoteLine) -> Option<u64> {
        if line.name != self.name || line.id != self.id() {
            return None;
        }
        let key = Ed25519Key::from_bytes(&self.key)?;
        match self.kind {
            NoteKind::Plain => {
                let signed = line.signature[..].try_into().ok()?;
                key.verifies(text.as_bytes(), signed).then_some(0)
            }
            NoteKind::Timed => {
                let (time, signed) = line.signature.split_first_chunk::<8>()?;
                let time = Some(u64::from_be_bytes(*time)).filter(|time| *time <= NUMBER_MAX)?;
                key.verifies(&timed(text, time), signed.try_into().ok()?).then_some(time)
            }
        }
    }
}

impl std::str::FromStr for NoteKey {
    type Err = NotANoteKey;

    fn from_str(text: &str) -> Result<Self, NotANoteKey> {
        let (name, kind, id, key) = parts(text).ok_or(NotANoteKey)?;
        let key = Self { name: name.to_owned(), kind, key };
        if Lower(&key.id()).to_string() == id { Ok(key) } else { Err(NotANoteKey) }
    }
}

/// Name, kind, key ID and key of a text form. Names have no `+`, but base64 does.
fn parts(text: &str) -> Option<(&str, NoteKind, &str, [u8; 32])> {
    let (name, rest) = text.split_once('+')?;
    let (id, key) = rest.split_once('+')?;
    let bytes = STANDARD.decode(key).ok()?;
    let (&kind, key) = bytes.split_first()?;
    let kind = [NoteKind::Plain, NoteKind::Timed].into_iter().find(|one| one.byte() == kind)?;
    is_key_name(name).then_some((name, kind, id, key.try_into().ok()?))
}

impl fmt::Display for NoteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&[self.kind.byte()], &self.key[..]].concat();
        write!(f, "{}+{}+{}", self.name, Lower(&self.id()), STANDARD.encode(bytes))
    }
}

/// A secret key for notes. It is wiped when it is dropped.
pub struct NoteSecret {
    name: String,
    kind: NoteKind,
    key: SigningKey,
}

impl NoteSecret {
    /// The key with these 32 secret bytes. `None` if the name is none.
    #[must_use]
    pub fn new(name: &str, kind: NoteKind, seed: &[u8; 32]) -> Option<Self> {
        let key = SigningKey::from_bytes(seed);
        is_key_name(name).then(|| Self { name: name.to_owned(), kind, key })
    }

    /// The same key under another name, as the name of a checkpointer follows from its log.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Self> {
        Self::new(name, self.kind, self.key.as_bytes())
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> NoteKey {
        self.public_as(self.kind)
    }

    fn public_as(&self, kind: NoteKind) -> NoteKey {
        NoteKey { name: self.name.clone(), kind, key: self.key.verifying_key().to_bytes() }
    }

    /// Signs the text of a note.
    #[must_use]
    pub fn sign(&self, text: &str) -> NoteLine {
        let signature = self.key.sign(text.as_bytes()).to_bytes().to_vec();
        let id = self.public_as(NoteKind::Plain).id();
        NoteLine { name: self.name.clone(), id, signature }
    }

    /// Signs the text of a note with a time in seconds since 1970.
    #[must_use]
    pub fn cosign(&self, text: &str, time: u64) -> NoteLine {
        let signed = self.key.sign(&timed(text, time)).to_bytes();
        let signature = [&time.to_be_bytes()[..], &signed].concat();
        let id = self.public_as(NoteKind::Timed).id();
        NoteLine { name: self.name.clone(), id, signature }
    }

    /// The text form, which is secret.
    #[must_use]
    pub fn to_text(&self) -> String {
        let bytes = [&[self.kind.byte()], &self.key.as_bytes()[..]].concat();
        format!("{PRIVATE}{}+{}+{}", self.name, Lower(&self.public().id()), STANDARD.encode(bytes))
    }
}

impl std::str::FromStr for NoteSecret {
    type Err = NotANoteKey;

    fn from_str(text: &str) -> Result<Self, NotANoteKey> {
        let found = text.strip_prefix(PRIVATE).and_then(parts).ok_or(NotANoteKey)?;
        let (name, kind, id, seed) = found;
        let secret = Self::new(name, kind, &seed)
            .filter(|secret| Lower(&secret.public().id()).to_string() == id);
        secret.ok_or(NotANoteKey)
    }
}

/// The message of a cosignature.
fn timed(text: &str, time: u64) -> Vec<u8> {
    format!("cosignature/v1\ntime {time}\n{text}").into_bytes()
}

/// One signature on a note.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NoteLine {
    /// The name of the key.
    pub name: String,
    /// The key ID.
    pub id: [u8; 4],
    /// The signature; in front of it the time, if it has one.
    pub signature: Vec<u8>,
}

impl NoteLine {
    /// The lines of a text that has nothing else. Each ends with a line feed.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it is not such a text, or has more than [`NOTE_LINES_MAX`] lines.
    pub fn read_all(text: &str) -> Result<Vec<Self>, Malformed> {
        const WRONG: Malformed = Malformed::Field("signature of a note");
        let mut lines = Vec::new();
        for line in text.split_inclusive('\n') {
            if lines.len() == NOTE_LINES_MAX {
                let limit = NOTE_LINES_MAX as u64;
                return Err(Malformed::Limit { what: "note", found: limit + 1, limit });
            }
            lines.push(line.strip_suffix('\n').and_then(Self::read).ok_or(WRONG)?);
        }
        Ok(lines)
    }

    /// The lines of the answer of a witness, or of a whole note, which has its text in front of
    /// them. None if they are malformed.
    pub(crate) fn read_answer(text: &str) -> Vec<Self> {
        let lines = text.split_inclusive('\n').filter(|line| line.starts_with(DASH));
        Self::read_all(&lines.collect::<String>()).unwrap_or_default()
    }

    fn read(line: &str) -> Option<Self> {
        let (name, bytes) = line.strip_prefix(DASH)?.split_once(' ')?;
        let bytes = STANDARD.decode(bytes).ok()?;
        let (id, signature) = bytes.split_first_chunk::<4>()?;
        let fits = is_key_name(name) && matches!(signature.len(), 64 | 72);
        fits.then(|| Self { name: name.to_owned(), id: *id, signature: signature.to_vec() })
    }
}

impl fmt::Display for NoteLine {
    /// Writes the line with its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.id[..], &self.signature].concat();
        writeln!(f, "{DASH}{} {}", self.name, STANDARD.encode(bytes))
    }
}

/// The text of a checkpoint: a tree of a log.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct TreeHead {
    /// The name of the log.
    pub origin: String,
    /// The number of leaves.
    pub size: u64,
    /// The root.
    pub root: [u8; 32],
}

impl TreeHead {
    /// The root in base64, as in the note.
    #[must_use]
    pub fn root_text(&self) -> String {
        STANDARD.encode(self.root)
    }
}

impl fmt::Display for TreeHead {
    /// Writes the text that is signed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n{}", self.origin, self.size, STANDARD.encode(self.root))
    }
}

/// A checkpoint as a signed note.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    /// The tree.
    pub head: TreeHead,
    /// The signatures.
    pub lines: Vec<NoteLine>,
}

impl Note {
    /// Reads a checkpoint with at least one signature and without extension lines.
    ///
    /// # Errors
    ///
    /// [`Malformed`] for every text that writing a note does not give.
    pub fn read(text: &str) -> Result<Self, Malformed> {
        const WRONG: Malformed = Malformed::Field("note");
        if text.len() > NOTE_BYTES_MAX {
            let (found, limit) = (text.len() as u64, NOTE_BYTES_MAX as u64);
            return Err(Malformed::Limit { what: "note", found, limit });
        }
        let (head, lines) = text.split_once("\n\n").ok_or(WRONG)?;
        let [origin, size, root] = head.split('\n').collect::<Vec<_>>()[..] else {
            return Err(WRONG);
        };
        let head = TreeHead {
            origin: Some(origin).filter(|name| is_key_name(name)).ok_or(WRONG)?.to_owned(),
            size: number(size).ok_or(WRONG)?,
            root: hash(root).ok_or(WRONG)?,
        };
        let lines = NoteLine::read_all(lines)?;
        if lines.is_empty() { Err(WRONG) } else { Ok(Self { head, lines }) }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.head)?;
        self.lines.iter().try_for_each(|line| line.fmt(f))
    }
}

/// A decimal number without leading zeroes, up to [`NUMBER_MAX`].
pub(crate) fn number(text: &str) -> Option<u64> {
    let number = text.parse::<u64>().ok().filter(|number| *number <= NUMBER_MAX)?;
    (number.to_string() == text).then_some(number)
}

/// A hash in base64.
pub(crate) fn hash(text: &str) -> Option<[u8; 32]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// A hash as a line of text.
pub(crate) fn hash_line(hash: &[u8; 32]) -> String {
    format!("{}\n", STANDARD.encode(hash))
}

/// The name of a log in its checkpoints, and of its checkpointer.
#[must_use]
pub fn origin(log: EntryId) -> String {
    format!("talaria.example/log/{log}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the documentation of golang.org/x/mod/sumdb/note.
    #[test]
    fn the_note_of_the_go_package_is_signed_alike() {
        let secret: NoteSecret =
            "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
                .parse()
                .unwrap();
        let text = "If you think cryptography is the answer to your problem,\n\
                    then you don't know what your problem is.\n";
        let public = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
        assert_eq!(secret.public().to_string(), public);
        assert_eq!(public.parse(), Ok(secret.public()));
        let line = secret.sign(text);
        assert_eq!(
            line.to_string(),
            "\u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
        );
        assert_eq!(secret.public().verify(text, &line), Some(0));
        assert_eq!(secret.public().verify("another text\n", &line), None);
    }

    /// Made with golang.org/x/mod/sumdb/note and github.com/transparency-dev/formats/note, version
    /// 0.1.1.
    #[test]
    fn a_checkpoint_with_a_cosignature_made_by_go_holds() {
        let note = include_str!("../tests/log/go-checkpoint.txt");
        let read = Note::read(note).unwrap();
        assert_eq!(read.to_string(), note);
        assert_eq!((read.head.size, &read.head.origin[..]), (7, "example.com/log"));
        let log: NoteKey = include_str!("../tests/log/go-log.vkey").trim().parse().unwrap();
        let witness: NoteKey = include_str!("../tests/log/go-witness.vkey").trim().parse().unwrap();
        let text = read.head.to_string();
        assert_eq!((log.kind, witness.kind), (NoteKind::Plain, NoteKind::Timed));
        assert_eq!(log.verify(&text, &read.lines[0]), Some(0));
        let time = witness.verify(&text, &read.lines[1]).unwrap();
        assert!(time > 1_700_000_000, "{time}");
        // The lines are not exchanged, and a time is signed too.
        assert_eq!(log.verify(&text, &read.lines[1]), None);
        let mut later = read.lines[1].clone();
        later.signature[7] ^= 1;
        assert_eq!(witness.verify(&text, &later), None);
    }

    #[test]
    fn a_note_has_one_form() {
        let secret = NoteSecret::new("a.example/x", NoteKind::Plain, &[7; 32]).unwrap();
        let head = TreeHead { origin: "a.example/x".to_owned(), size: 10, root: [9; 32] };
        let lines = vec![secret.sign(&head.to_string()), secret.cosign(&head.to_string(), 5)];
        let note = Note { head, lines };
        let text = note.to_string();
        assert_eq!(Note::read(&text), Ok(note));
        let timed = NoteKey { kind: NoteKind::Timed, ..secret.public() };
        let read = Note::read(&text).unwrap();
        assert_eq!(timed.verify(&read.head.to_string(), &read.lines[1]), Some(5));
        for (from, to) in [
            ("\n10\n", "\n010\n"),
            ("\n10\n", "\n+10\n"),
            ("\n10\n", "\n10\nextension\n"),
            ("\n10\n", "\n9223372036854775808\n"),
            ("a.example/x\n", "a example/x\n"),
            ("\u{2014} a", "- a"),
            ("\n\n", "\n\n\n"),
            ("=\n\u{2014}", "=\n\n\u{2014}"),
            ("a.example/x ", "a.example/x  "),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text, "{from:?}");
            assert!(Note::read(&changed).is_err(), "{from:?} {to:?}");
        }
        assert!(Note::read(&text[..text.len() - 1]).is_err());
        assert!(Note::read(text.split_once("\n\n").unwrap().0).is_err());
        assert!(
            Note::read(&format!("{text}{}", text.split_once("\n\n").unwrap().1.repeat(40)))
                .is_err()
        );
    }

    #[test]
    fn keys_are_read_back_and_a_wrong_id_is_refused() {
        let secret = NoteSecret::new("w.example", NoteKind::Timed, &[1; 32]).unwrap();
        let text = secret.to_text();
        let again: NoteSecret = text.parse().unwrap();
        assert_eq!(again.public(), secret.public());
        let public = secret.public().to_string();
        assert_eq!(public.parse(), Ok(secret.public()));
        assert_eq!(public.replace("w.example", "x.example").parse::<NoteKey>(), Err(NotANoteKey));
        assert!(text.replace("w.example", "x.example").parse::<NoteSecret>().is_err());
        for wrong in ["", "a", "a+b", "a+00000000+", "w.example+zz+AAAA"] {
            assert!(wrong.parse::<NoteKey>().is_err() && wrong.parse::<NoteSecret>().is_err());
        }
        for name in ["", "a b", "a+b", "a\u{3000}b", "a\nb", &"x".repeat(256)] {
            assert!(NoteSecret::new(name, NoteKind::Plain, &[1; 32]).is_none(), "{name:?}");
        }
    }
}
