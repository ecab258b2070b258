//! The recipients' preferences among the safe algorithms (RFC 9580, sections 5.2.3.14 to 5.2.3.17).

use sequoia_openpgp::types::{CompressionAlgorithm, HashAlgorithm, SymmetricAlgorithm};

use crate::algorithm::Cipher;
use crate::compression::Compression;

/// The ciphers used for encryption, the strongest first.
const CIPHERS: [(Cipher, SymmetricAlgorithm); 3] = [
    (Cipher::Aes256, SymmetricAlgorithm::AES256),
    (Cipher::Aes192, SymmetricAlgorithm::AES192),
    (Cipher::Aes128, SymmetricAlgorithm::AES128),
];
/// The digests used for signatures, the cheapest first: SHA2-256 has instructions of its own in
/// most processors, and SHA2-512 takes more than twice the time there.
const DIGESTS: [HashAlgorithm; 3] =
    [HashAlgorithm::SHA256, HashAlgorithm::SHA384, HashAlgorithm::SHA512];
/// The compression algorithms, the fastest to read first.
const COMPRESSIONS: [(Compression, CompressionAlgorithm); 3] = [
    (Compression::Zlib(6), CompressionAlgorithm::Zlib),
    (Compression::Zip(6), CompressionAlgorithm::Zip),
    (Compression::Bzip2(6), CompressionAlgorithm::BZip2),
];

/// A ranking of choices by several recipients, each with a preference list. As in GnuPG, the sum of
/// the positions decides among the choices that are in all lists.
#[derive(Clone, Debug)]
struct Ranking<const N: usize>([Option<usize>; N]);

impl<const N: usize> Default for Ranking<N> {
    fn default() -> Self {
        Self([Some(0); N])
    }
}

impl<const N: usize> Ranking<N> {
    /// Adds the list of a recipient. A recipient without a list has no preference.
    fn add<C, A: PartialEq>(&mut self, choices: &[(C, A); N], list: Option<&[A]>) {
        let Some(list) = list else { return };
        for (sum, (_, choice)) in self.0.iter_mut().zip(choices) {
            let place = list.iter().position(|listed| listed == choice);
            *sum = sum.zip(place).map(|(sum, place)| sum + place);
        }
    }

    /// The best choice that is in all lists and fulfils `good`; the first of equal ones.
    fn best<C: Copy, A>(&self, choices: &[(C, A); N], good: impl Fn(C) -> bool) -> Option<C> {
        let ranked = self.0.iter().zip(choices).filter(|(_, (choice, _))| good(*choice));
        ranked
            .filter_map(|(sum, (choice, _))| Some((sum.as_ref()?, *choice)))
            .min_by_key(|(sum, _)| **sum)
            .map(|(_, choice)| choice)
    }
}

/// The preferences of all recipients of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preferences {
    ciphers: Ranking<3>,
    /// The digests of [`DIGESTS`] that are in all lists; `None` without a list.
    digests: Option<Vec<HashAlgorithm>>,
    compressions: Ranking<3>,
}

impl Preferences {
    /// Adds the preference lists of a recipient.
    pub(crate) fn add(
        &mut self,
        ciphers: Option<&[SymmetricAlgorithm]>,
        digests: Option<&[HashAlgorithm]>,
        compressions: Option<&[CompressionAlgorithm]>,
    ) {
        self.ciphers.add(&CIPHERS, ciphers);
        if let Some(listed) = digests {
            let common = self.digests.get_or_insert_with(|| DIGESTS.to_vec());
            common.retain(|digest| listed.contains(digest));
        }
        self.compressions.add(&COMPRESSIONS, compressions);
    }

    /// The preferred cipher; AES-128, which every implementation must support, if the lists have no
    /// cipher in common.
    pub(crate) fn cipher(&self) -> Cipher {
        self.ciphers.best(&CIPHERS, |_| true).unwrap_or(Cipher::Aes128)
    }

    /// The number of the cheapest digest of at least `bytes` bytes that is in all lists of the
    /// recipients; `None` without a list.
    ///
    /// The order of a list does not matter: the strength of a digest depends on the signer's key.
    /// If the lists have none in common, it is SHA2-256, which every implementation must support
    /// (RFC 9580, section 9.5).
    pub(crate) fn digest(&self, bytes: usize) -> Option<u8> {
        let common = self.digests.as_ref()?.iter().chain([&HashAlgorithm::SHA256]);
        common.map(|digest| u8::from(*digest)).find(|number| digest_bytes(*number) >= bytes)
    }

    /// The preferred compression; none if the lists have no algorithm in common.
    pub(crate) fn compression(&self) -> Compression {
        self.compressions.best(&COMPRESSIONS, |_| true).unwrap_or(Compression::None)
    }
}

/// The length in bytes of SHA2-256, SHA2-384 or SHA2-512, by the number of the digest.
pub(crate) fn digest_bytes(number: u8) -> usize {
    match number {
        8 => 32,
        9 => 48,
        _ => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SymmetricAlgorithm as S;

    fn cipher(lists: &[&[S]]) -> Cipher {
        let mut preferences = Preferences::default();
        lists.iter().for_each(|list| preferences.add(Some(list), None, None));
        preferences.cipher()
    }

    #[test]
    fn the_common_preference_is_chosen_if_it_is_safe() {
        assert_eq!(cipher(&[]), Cipher::Aes256);
        assert_eq!(cipher(&[&[S::AES192, S::AES256]]), Cipher::Aes192);
        assert_eq!(cipher(&[&[S::AES256, S::AES192], &[S::AES192]]), Cipher::Aes192);
        // Two lists that differ in their order: the stronger cipher wins.
        assert_eq!(cipher(&[&[S::AES256, S::AES128], &[S::AES128, S::AES256]]), Cipher::Aes256);
        // Obsolete ciphers are never used, whatever their position.
        assert_eq!(cipher(&[&[S::Twofish, S::Camellia256, S::AES256]]), Cipher::Aes256);
        assert_eq!(cipher(&[&[S::Twofish, S::Camellia256]]), Cipher::Aes128);
        assert_eq!(cipher(&[&[]]), Cipher::Aes128);
    }

    #[test]
    fn the_digest_is_the_cheapest_that_all_recipients_list_and_the_key_allows() {
        use HashAlgorithm as H;
        let chosen = |lists: &[&[H]], bytes| {
            let mut preferences = Preferences::default();
            lists.iter().for_each(|list| preferences.add(None, Some(list), None));
            preferences.digest(bytes)
        };
        // The list of gpg.
        let gnupg = [H::SHA512, H::SHA384, H::SHA256, H::SHA224, H::SHA1];
        assert_eq!([32, 48, 64].map(|bytes| chosen(&[&gnupg], bytes)), [8, 9, 10].map(Some));
        assert_eq!(chosen(&[&gnupg, &[H::SHA384, H::SHA512]], 32), Some(9));
        assert_eq!(chosen(&[&gnupg, &[H::SHA512]], 32), Some(10));
        // Nothing in common, or nothing safe: the digest that all programs have.
        assert_eq!(chosen(&[&[H::SHA384], &[H::SHA512]], 32), Some(8));
        assert_eq!(chosen(&[&[H::MD5, H::SHA1]], 32), Some(8));
        assert_eq!(chosen(&[&[H::SHA1, H::SHA256]], 64), None);
        assert_eq!(chosen(&[], 32), None);
    }

    #[test]
    fn the_common_compression_is_chosen() {
        let mut preferences = Preferences::default();
        preferences.add(None, None, Some(&[CompressionAlgorithm::Zip]));
        assert_eq!(preferences.compression(), Compression::Zip(6));
        preferences.add(None, None, Some(&[CompressionAlgorithm::Uncompressed]));
        assert_eq!(preferences.compression(), Compression::None);
    }
}
