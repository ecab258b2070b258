//! Parts of fields in an index: counts, values and sets of identities.

use crate::bytes::{Fields, Malformed};
use crate::name::EntryId;
use crate::value::{VALUE_BYTES_MAX, Value};

pub(super) fn write_count(count: usize, out: &mut Vec<u8>) {
    out.extend((count as u64).to_be_bytes());
}

pub(super) fn write_optional(value: Option<&Value>, out: &mut Vec<u8>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        let start = out.len();
        out.extend([0; 4]);
        value.write(out);
        let length = u32::try_from(out.len() - start - 4).expect("a value has at most 64 KiB");
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
}

pub(super) fn optional<'a>(fields: &mut Fields<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    match fields.u8()? {
        0 => Ok(None),
        _ => fields.part(4, VALUE_BYTES_MAX, "value").map(Some),
    }
}

pub(super) fn read_optional(fields: &mut Fields<'_>) -> Result<Option<Value>, Malformed> {
    optional(fields)?.map(Value::read).transpose()
}

pub(super) fn write_set<'a>(
    ids: impl IntoIterator<Item = &'a EntryId, IntoIter: ExactSizeIterator>,
    out: &mut Vec<u8>,
) {
    let ids = ids.into_iter();
    write_count(ids.len(), out);
    ids.for_each(|id| out.extend(id.0));
}

pub(super) fn read_set<T: FromIterator<EntryId>>(fields: &mut Fields<'_>) -> Result<T, Malformed> {
    let count = fields.u64()?;
    (0..count).map(|_| fields.id()).collect()
}
