//! Output files, under power cuts.

use std::io::Write as _;
use std::path::Path;

use talaria_disk::{NewFile, Readers, TEMPORARY};

use super::scenario::{Done, Scenario, files_of, text};
use crate::numbers::Numbers;

/// A file that is written, and replaced.
pub(super) struct Output;

impl Output {
    const NAME: &str = "out";

    fn content(number: usize) -> Vec<u8> {
        let mut numbers = Numbers::new(number as u64);
        (0..3000 - number * 700).map(|_| numbers.draw().to_le_bytes()[0]).collect()
    }
}

impl Scenario for Output {
    fn operations(&self) -> usize {
        3
    }

    fn operate(&mut self, root: &Path, number: usize) -> Done {
        let path = root.join(Self::NAME);
        let write = || {
            let mut file = match number {
                // A complete file can have its name although the sync of the folder failed.
                0 if !path.exists() => NewFile::beginning(&path)?,
                _ => NewFile::replacing(&path)?,
            };
            Self::content(number).chunks(600).try_for_each(|part| file.write_all(part))?;
            file.keep(if number == 1 { Readers::Owner } else { Readers::Usual })
        };
        write().map_err(|error: std::io::Error| text(error))
    }

    fn look(&self, root: &Path, done: usize, is_running: bool) -> Done {
        let mut files = files_of(root)?;
        let out = files.remove(Self::NAME);
        let before = done.checked_sub(1).map(Self::content);
        let running = is_running.then(|| Self::content(done));
        if out != before && (running.is_none() || out != running) {
            let length = out.map(|out| out.len());
            return Err(format!("the output is none that was written completely: {length:?}"));
        }
        // A complete file has a temporary name for one renaming.
        let is_possible = |(name, content): (&String, &Vec<u8>)| {
            name.starts_with(TEMPORARY) && Some(content) == running.as_ref()
        };
        if files.iter().all(is_possible) {
            return Ok(());
        }
        Err(format!("other files are there: {:?}", files.keys()))
    }

    fn go_on(&self, root: &Path) -> Done {
        Self.operate(root, 1)
    }
}
