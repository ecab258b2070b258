//! A file system of a few megabytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A small file system, unmounted at the end.
pub(crate) struct Disk {
    pub(crate) at: PathBuf,
}

impl Disk {
    /// `None`, with a notice, where mounting is not permitted.
    pub(crate) fn mount(at: PathBuf, bytes: u32) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let size = format!("size={bytes}");
        if mount(&["-t", "tmpfs", "-o", &size, "tmpfs"], &at) {
            return Some(Self { at });
        }
        talaria_needs::left_out("the right to mount");
        None
    }

    pub(crate) fn read_only(&self) {
        assert!(mount(&["-o", "remount,ro"], &self.at));
    }

    pub(crate) fn writable(&self) {
        assert!(mount(&["-o", "remount,rw"], &self.at));
    }

    /// Takes away what [`Self::fill`] has written. A program that another test has just started may
    /// have a copy of its open file for a moment, so the file is cut first.
    pub(crate) fn free(&self) {
        let filler = self.at.join("filler");
        if filler.exists() {
            fs::File::create(&filler).unwrap();
            fs::remove_file(&filler).unwrap();
        }
    }

    /// Fills the disk except for `left` bytes.
    pub(crate) fn fill(&self, left: usize) {
        self.free();
        let filler = self.at.join("filler");
        let mut bytes = vec![0; 64 << 20];
        // Writes until the disk is full, then frees some bytes.
        let written = loop {
            match fs::write(&filler, &bytes) {
                Ok(()) => break bytes.len(),
                Err(_) => {
                    bytes.truncate(usize::try_from(fs::metadata(&filler).unwrap().len()).unwrap());
                }
            }
        };
        let file = fs::OpenOptions::new().write(true).open(&filler).unwrap();
        file.set_len(written.saturating_sub(left) as u64).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.at).status();
    }
}

/// A file or folder that has a second place, until this value is dropped.
pub(crate) struct Mount(PathBuf);

impl Mount {
    /// `None`, with a notice, where mounting is not permitted.
    pub(crate) fn bind(from: &Path, at: &Path) -> Option<Self> {
        if mount(&["--bind", from.to_str().unwrap()], at) {
            return Some(Self(at.to_owned()));
        }
        talaria_needs::left_out("the right to mount");
        None
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn mount(args: &[&str], at: &Path) -> bool {
    let status = Command::new("mount").args(args).arg(at).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
