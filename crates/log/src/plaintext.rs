//! Encrypted fields: what stands inside the ciphertext, and inside the message with the key of an
//! epoch. It says where it belongs.

use talaria_cert::sha256;
use zeroize::Zeroizing;

use crate::bytes::{Fields, Malformed, write_part};
use crate::encrypted::{Encrypted, READERS_MAX, Unreadable, WrappedKey};
use crate::genesis::Pattern;
use crate::name::{EntryId, KEY_NAME_BYTES, KeyName, ObjectId};
use crate::value::Value;

const KEY_MAGIC: [u8; 5] = *b"TLGK\x01";
const VALUE_MAGIC: [u8; 5] = *b"TLGV\x01";

/// The place of an epoch, which is inside its message with the key.
#[derive(Clone, Copy)]
pub(crate) struct EpochPlace<'a> {
    pub(crate) log: EntryId,
    pub(crate) object: ObjectId,
    pub(crate) fields: &'a Pattern,
    pub(crate) author: KeyName,
}

impl EpochPlace<'_> {
    /// The content of the message with a key, and its hash.
    pub(crate) fn content(&self, key: &[u8; 32]) -> (Zeroizing<Vec<u8>>, [u8; 32]) {
        // Enough for all of it, so that no copy of the key stays behind.
        let mut out = Zeroizing::new(Vec::with_capacity(512));
        self.write(&mut out);
        out.extend(key);
        let hash = sha256(&[&out]);
        (out, hash)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(KEY_MAGIC);
        out.extend(self.log.0);
        out.extend(self.object.0);
        self.fields.write(out);
        out.extend(self.author.to_bytes());
    }

    /// The key in the content of a message for this place.
    pub(crate) fn key(&self, content: &[u8]) -> Result<Zeroizing<[u8; 32]>, Unreadable> {
        let mut place = Vec::new();
        self.write(&mut place);
        let key = content
            .strip_prefix(&place[..])
            .ok_or(Unreadable::Epoch("its key was made for another place"))?;
        let key = key.try_into().map_err(|_| Unreadable::Epoch("it has no key"))?;
        Ok(Zeroizing::new(key))
    }
}

/// The place of a value, which is inside the ciphertext in front of it.
#[derive(Clone, Copy)]
pub(crate) struct ValuePlace<'a> {
    pub(crate) log: EntryId,
    pub(crate) object: ObjectId,
    pub(crate) field: &'a str,
    pub(crate) author: KeyName,
    pub(crate) epoch: EntryId,
}

impl ValuePlace<'_> {
    /// The plaintext with a value.
    pub(crate) fn plain(&self, value: &Value) -> Vec<u8> {
        let mut out = VALUE_MAGIC.to_vec();
        out.extend(self.log.0);
        out.extend(self.object.0);
        write_part(&mut out, 2, self.field.as_bytes());
        out.extend(self.author.to_bytes());
        out.extend(self.epoch.0);
        value.write(&mut out);
        out
    }

    /// The value in a plaintext for this place.
    pub(crate) fn value(&self, plain: &[u8]) -> Result<Value, Unreadable> {
        let mut fields = Fields(plain);
        let mut parts = || {
            if fields.array()? != VALUE_MAGIC {
                return Err(Malformed::Field("start of an encrypted value"));
            }
            let log = fields.id()?;
            let object = fields.object()?;
            let field = fields.part(2, usize::from(u16::MAX), "field")?;
            let author = fields.take(KEY_NAME_BYTES)?;
            let epoch = fields.id()?;
            Ok((log, object, field, author, epoch))
        };
        let (log, object, field, author, epoch) = parts().map_err(|_| Unreadable::NoValue)?;
        let same = [
            ("log", log == self.log),
            ("object", object == self.object),
            ("field", field == self.field.as_bytes()),
            ("author", author == self.author.to_bytes()),
            ("epoch", epoch == self.epoch),
        ];
        if let Some((what, _)) = same.iter().find(|(_, is_same)| !is_same) {
            return Err(Unreadable::Moved(what));
        }
        match Value::read(fields.0) {
            Ok(Value::Committed(_) | Value::Encrypted(_)) | Err(_) => Err(Unreadable::NoValue),
            Ok(value) => Ok(value),
        }
    }
}

/// Any bytes as what stands in entries, or inside a ciphertext: what is read is written the same
/// again. For fuzzing, where nobody has the key.
///
/// # Panics
///
/// If bytes are read as something else than they are.
#[doc(hidden)]
pub fn check_encrypted(bytes: &[u8]) {
    if let Ok(key) = WrappedKey::read(bytes) {
        let mut out = Vec::new();
        key.write(&mut out);
        assert_eq!(out, bytes);
        assert!((1..=READERS_MAX).contains(&key.readers().len()));
    }
    if let Ok(value) = Encrypted::read(&mut Fields(bytes)) {
        let mut out = Vec::new();
        value.write(&mut out);
        assert_eq!(out, bytes);
    }
    let author = KeyName::from_bytes(&[6; KEY_NAME_BYTES]).expect("it is one");
    let (log, object) = (EntryId([1; 32]), ObjectId([2; 32]));
    let pattern = Pattern::new("a*").expect("it is one");
    let place = EpochPlace { log, object, fields: &pattern, author };
    if let Ok(key) = place.key(bytes) {
        assert_eq!(**place.content(&key).0, *bytes);
    }
    let place = ValuePlace { log, object, field: "ab", author, epoch: EntryId([3; 32]) };
    if let Ok(value) = place.value(bytes) {
        assert_eq!(place.plain(&value), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(field: &str) -> ValuePlace<'_> {
        let author = KeyName::from_bytes(&[6; KEY_NAME_BYTES]).unwrap();
        let (log, object, epoch) = (EntryId([1; 32]), ObjectId([2; 32]), EntryId([3; 32]));
        ValuePlace { log, object, field, author, epoch }
    }

    proptest! {
        /// No bytes are read as a value of a place, or a key, that are not written the same.
        #[test]
        fn bytes_are_read_as_what_they_are(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            check_encrypted(&bytes);
            let value = place("ab").plain(&Value::Bytes(bytes.clone()));
            check_encrypted(&value);
            check_encrypted(&[&b"\xc1\x0a\x03\0\0\0\0\0\0\0\x01\x01\xd2\x02\x02\x09"[..], &bytes].concat());
        }

        /// A changed byte of a plaintext is another place, another value, or nothing.
        #[test]
        fn a_changed_plaintext_is_no_value_of_its_place(
            field in "[a-zä]{1,20}",
            text: String,
            at: prop::sample::Index,
            flip in 1u8..,
        ) {
            let (place, value) = (place(&field), Value::String(text));
            let mut plain = place.plain(&value);
            prop_assert_eq!(place.value(&plain), Ok(value.clone()));
            let at = at.index(plain.len());
            plain[at] ^= flip;
            let before = plain.len() - value.bytes() - 1;
            match place.value(&plain) {
                Ok(other) => prop_assert!(at >= before && other != value),
                Err(Unreadable::Moved(_)) => prop_assert!(at < before),
                Err(why) => prop_assert_eq!(why, Unreadable::NoValue),
            }
        }
    }
}
