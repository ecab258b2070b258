//! Bundles: chunks with the contents of several small files, one after the other.
//!
//! A bundle ends after a file whose content says so, so that the same files in the same order give
//! the same bundles, also where files were added or removed before them.

use crate::id::{Id, Identifiers, Kind};

/// Contents of at most this many bytes are joined to bundles; longer ones have chunks of their own.
pub(crate) const BUNDLED_MAX: usize = 128 << 10;
/// The minimum length of a bundle, except for the last of a run.
const BUNDLE_MIN: usize = 64 << 10;
/// The maximum length of a bundle.
const BUNDLE_MAX: usize = 1 << 20;
/// The mean length of a bundle beyond its minimum: a file ends the bundle with the probability of
/// its length divided by this.
const BUNDLE_MEAN: u64 = 384 << 10;

/// The place of the content of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct InBundle {
    /// The number of the bundle in this run.
    pub(crate) bundle: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// Whether a bundle ends after a file of this content, if it is long enough.
pub(crate) fn ends_bundle(identifiers: &Identifiers, content: &[u8]) -> bool {
    let Id(hash) = identifiers.of(Kind::Data, content);
    let start = hash[..8].try_into().expect("a hash is longer");
    let limit = (u64::MAX / BUNDLE_MEAN).saturating_mul(content.len() as u64);
    u64::from_be_bytes(start) < limit
}

/// Joins contents to bundles.
#[derive(Default)]
pub(crate) struct Bundler {
    open: Vec<u8>,
    /// The number of the open bundle.
    number: u64,
}

/// A complete bundle with its number.
pub(crate) type Bundle = (u64, Vec<u8>);

impl Bundler {
    /// Appends the content of a file. Returns its place, and the bundles that are complete: one
    /// that had no room for it, and the one that it ends.
    pub(crate) fn push(&mut self, content: &[u8], ends: bool) -> (InBundle, [Option<Bundle>; 2]) {
        assert!(content.len() <= BUNDLED_MAX, "longer contents have their own chunks");
        let full = if self.open.len() + content.len() > BUNDLE_MAX { self.close() } else { None };
        let (bundle, offset) = (self.number, self.open.len() as u64);
        self.open.extend_from_slice(content);
        let ended = if ends && self.open.len() >= BUNDLE_MIN { self.close() } else { None };
        (InBundle { bundle, offset, length: content.len() as u64 }, [full, ended])
    }

    /// Completes the open bundle.
    pub(crate) fn close(&mut self) -> Option<Bundle> {
        let bundle = (self.number, std::mem::take(&mut self.open));
        (!bundle.1.is_empty()).then(|| {
            self.number += 1;
            bundle
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zeroize::Zeroizing;

    use super::*;
    use crate::id::{GroupSecret, RepositoryId};

    fn bundles(files: &[Vec<u8>]) -> (Vec<Vec<u8>>, Vec<InBundle>) {
        let ids = Identifiers::new(&GroupSecret(Zeroizing::new([1; 32])), RepositoryId([2; 16]));
        let (mut bundler, mut bundles, mut places) = (Bundler::default(), Vec::new(), Vec::new());
        for file in files {
            let (place, done) = bundler.push(file, ends_bundle(&ids, file));
            bundles.extend(done.into_iter().flatten());
            places.push(place);
        }
        bundles.extend(bundler.close());
        assert!(bundles.iter().map(|(number, _)| *number).eq(0..bundles.len() as u64));
        (bundles.into_iter().map(|(_, bundle)| bundle).collect(), places)
    }

    fn files(count: u32) -> Vec<Vec<u8>> {
        let length = |n: u32| [600, 5_000, 40_000, BUNDLED_MAX][n as usize % 4];
        (0..count).map(|n| n.to_be_bytes().into_iter().cycle().take(length(n)).collect()).collect()
    }

    #[test]
    fn every_file_is_where_its_place_says() {
        let files = files(400);
        let (bundles, places) = bundles(&files);
        for (file, InBundle { bundle, offset, length }) in files.iter().zip(places) {
            let at = usize::try_from(offset).unwrap();
            let bundle = &bundles[usize::try_from(bundle).unwrap()];
            assert_eq!(&bundle[at..at + usize::try_from(length).unwrap()], file);
        }
        let last = bundles.len() - 1;
        assert!(
            bundles[..last].iter().all(|bundle| (BUNDLE_MIN..=BUNDLE_MAX).contains(&bundle.len()))
        );
        assert!((25..80).contains(&bundles.len()), "{}", bundles.len());
    }

    #[test]
    fn a_new_file_changes_few_bundles() {
        let files = files(400);
        let before: BTreeSet<_> = bundles(&files).0.into_iter().collect();
        let mut more = files.clone();
        more.insert(150, vec![b'+'; 3000]);
        let after = bundles(&more).0;
        let new = after.iter().filter(|bundle| !before.contains(*bundle)).count();
        assert!((1..=6).contains(&new), "{new} of {}", after.len());
    }
}
