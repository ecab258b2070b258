//! The algorithms of a message, chosen as gpg does by the preferences of all recipients.

use crate::algorithm;

/// The preferences of a recipient, or of the user, by numbers of algorithms.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Preferred {
    pub(crate) ciphers: Vec<u8>,
    pub(crate) digests: Vec<u8>,
    pub(crate) compressions: Vec<u8>,
}

/// 3DES and SHA-1, which every recipient accepts at last, and no compression, which nobody refuses.
const TRIPLE_DES: u8 = 2;
const SHA1: u8 = 2;
const UNCOMPRESSED: u8 = 0;
const ZIP: u8 = 1;

/// The cipher for all recipients: the one that is wanted, or else the first of `personal` that they
/// accept, or else the one that they prefer.
pub(crate) fn cipher(all: &[Preferred], wanted: Option<u8>, personal: &[u8]) -> Option<u8> {
    let lists = all.iter().map(|one| with_last(&one.ciphers, TRIPLE_DES));
    choose(lists, wanted, personal, |number| matches!(number, 1..=4 | 7..=13))
}

/// The digest of a signature for all recipients, chosen as [`cipher()`] does: one of so many bytes,
/// if that is given.
pub(crate) fn digest(
    all: &[Preferred],
    wanted: Option<u8>,
    personal: &[u8],
    bytes: Option<usize>,
) -> Option<u8> {
    let lists = all.iter().map(|one| with_last(&one.digests, SHA1));
    choose(lists, wanted, personal, |number| match algorithm::digest_bytes(number) {
        0 => false,
        found => bytes.is_none_or(|bytes| bytes == found),
    })
}

/// The compression for all recipients, chosen as [`cipher()`] does.
pub(crate) fn compression(all: &[Preferred], wanted: Option<u8>, personal: &[u8]) -> Option<u8> {
    let lists = all.iter().map(|one| {
        let list = &one.compressions[..];
        with_last(if list.is_empty() { &[ZIP] } else { list }, UNCOMPRESSED)
    });
    choose(lists, wanted, personal, |number| number <= 3)
}

/// A list with the algorithm that is always in it, at its end if the list does not name it.
fn with_last(list: &[u8], last: u8) -> Vec<u8> {
    let mut list = list.to_vec();
    if !list.contains(&last) {
        list.push(last);
    }
    list
}

/// The first of `wanted` and `personal` that is in all lists, or else the one with the smallest sum
/// of places in them, the lowest number first.
fn choose(
    lists: impl Iterator<Item = Vec<u8>>,
    wanted: Option<u8>,
    personal: &[u8],
    is_known: impl Fn(u8) -> bool,
) -> Option<u8> {
    let mut scores = [0_u32; 256];
    let mut is_common = [true; 256];
    for list in lists {
        for (place, number) in list.iter().enumerate() {
            let place = u32::try_from(place).unwrap_or(u32::MAX - 1) + 1;
            let score = &mut scores[usize::from(*number)];
            *score = score.saturating_add(place).min(0xffff);
        }
        for number in 0..=u8::MAX {
            is_common[usize::from(number)] &= list.contains(&number);
        }
    }
    let is_possible = |number: &u8| is_common[usize::from(*number)] && is_known(*number);
    let personal = personal.iter().copied();
    wanted.into_iter().chain(personal).find(is_possible).or_else(|| {
        let all = (0..=u8::MAX).filter(|number| scores[usize::from(*number)] > 0);
        all.filter(is_possible).min_by_key(|number| scores[usize::from(*number)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ciphers: &[u8], compressions: &[u8]) -> Preferred {
        let (ciphers, compressions) = (ciphers.to_vec(), compressions.to_vec());
        Preferred { ciphers, digests: vec![10, 9, 8], compressions }
    }

    #[test]
    fn algorithms_are_chosen_as_gpg_chooses_them() {
        let gnupg = of(&[9, 8, 7, 2], &[2, 3, 1]);
        let none = of(&[], &[]);
        for (all, ciphers, compressions) in [
            (vec![gnupg.clone()], Some(9), Some(2)),
            (vec![none.clone()], Some(2), Some(1)),
            (vec![gnupg.clone(), none], Some(2), Some(1)),
            (vec![gnupg.clone(), of(&[7, 9], &[0])], Some(9), Some(0)),
            (vec![gnupg.clone(), of(&[7], &[1, 2])], Some(7), Some(2)),
            (vec![of(&[10, 9], &[7])], Some(10), Some(0)),
            (vec![of(&[9, 7], &[1]), of(&[7, 9], &[2])], Some(7), Some(0)),
        ] {
            assert_eq!(
                (cipher(&all, None, &[]), compression(&all, None, &[])),
                (ciphers, compressions)
            );
        }
        let one = std::slice::from_ref(&gnupg);
        assert_eq!(cipher(one, Some(7), &[8]), Some(7));
        assert_eq!(cipher(one, None, &[10, 8, 7]), Some(8));
        assert_eq!(cipher(one, Some(10), &[]), Some(9));
        assert_eq!(cipher(&[of(&[9], &[])], Some(7), &[]), Some(9));
        assert_eq!(compression(one, Some(0), &[]), Some(0));
        assert_eq!(digest(one, None, &[], None), Some(10));
        assert_eq!(digest(one, None, &[8, 9], Some(48)), Some(9));
        assert_eq!(digest(&[Preferred::default(), gnupg], None, &[], None), Some(2));
    }
}
