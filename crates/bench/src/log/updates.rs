//! The updates that are measured.

use talaria_log::{Edit, Update, Value};

/// Objects of the updates, and fields of each: those of `loop.c`.
pub(super) const OBJECTS: usize = 10;

pub(super) const FIELDS: usize = 100;

/// The value of an update: 64 characters.
pub(super) fn value(number: usize) -> String {
    format!("{number:064}")
}

pub(super) fn update(number: usize) -> Update {
    Update {
        object: format!("object-{}", number % OBJECTS),
        edit: Edit::Put(
            format!("field-{}", number / OBJECTS % FIELDS),
            Value::String(value(number)),
        ),
    }
}
