//! The ground for everything that talaria writes to files: files that appear whole, folders and
//! their locks.
//!
//! A file that must be there wholly or not at all is a [`NewFile`]. [`replace`] writes a small one
//! at once. A file that grows or changes in place is a [`WrittenFile`]. Names are changed by
//! [`rename`], [`rename_to_free`], [`remove`] and [`make_folder`], and are on disk after
//! [`sync_folder`].
//!
//! Each of these steps goes through [`take`], so that a simulator of disks sees it and can make it
//! fail ([`watch`]). SQLite has steps of its own.
//!
//! Content that must wait is in a [`TemporaryFile`]. [`duplicate`] opens a file that the caller of a program has opened already.
//!
//! ```
//! use std::io::Write as _;
//! use talaria_disk::{NewFile, Readers};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("letter");
//! let mut file = NewFile::beginning(&path)?;
//! file.write_all(b"Dear Bob")?;
//! // Nobody sees it yet.
//! assert!(!path.exists());
//! file.keep(Readers::Owner)?;
//! assert_eq!(std::fs::read(&path)?, b"Dear Bob");
//! # Ok::<_, std::io::Error>(())
//! ```

mod descriptor;
mod folder;
mod name;
mod new_file;
mod step;
mod temporary;
mod written;

pub use descriptor::duplicate;
pub use folder::{
    FolderLock, create_folder, make_folder, open_lock, remove, remove_if_there, rename,
    rename_to_free, sync_folder, try_sync_folder,
};
pub use name::{beside, folder_of};
pub use new_file::{NewFile, Readers, TEMPORARY, replace};
pub use step::{FileStep, Witness, take, watch};
pub use temporary::TemporaryFile;
pub use written::{WrittenFile, sync_file};
