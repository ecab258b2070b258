//! GnuPG's TOFU database: the keys that were seen with each e-mail address, the user's decisions
//! about them, and the counts of signatures and encryptions.
//!
//! Two layouts are read, the file `tofu.db` and the folder `tofu.d` of GnuPG 2.1.10 to 2.1.14; the
//! file is written. Both are described in `docs/formats/gnupg-tofu.md`. What follows from the rows
//! (which keys conflict, how much a history counts) is not worked out here.

mod database;
mod read;
mod write;

pub use self::database::{
    TOFU_ROWS_MAX, TOFU_TEXT_BYTES_MAX, TofuBinding, TofuDatabase, TofuPolicy, TofuSignature,
};
pub use self::read::{is_tofudb, read_tofudb};
pub use self::write::{IfExists, write_tofudb};

#[cfg(test)]
mod tests;
