//! The number of certificates that have a word. Asking the index costs as much as a small search,
//! so the answers are remembered for some seconds: searches tend to repeat the same names.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use talaria_cert::{Query, user_id};
use talaria_store::{Store, StoreError};

/// The time for which an answer holds. A server takes some ten thousand certificates in it.
const FRESH: Duration = Duration::from_secs(10);

/// Words that are remembered, and the bytes of each: strangers choose both. If there are more
/// words, all are forgotten.
const WORDS_MAX: usize = 4096;
const WORD_BYTES_MAX: usize = 64;

/// Certificates with each of the words of a search, counted together, up to which the search is
/// short. The index looks at each of them at most once, in some 30 ns.
const CERTS_MAX: u32 = 16_000;

/// Words of a search, above which its cost is not estimated.
const SEARCH_WORDS_MAX: usize = 4;

/// The frequencies that are remembered, by the form that all spellings of a word share.
#[derive(Debug, Default)]
pub(crate) struct Frequencies(Mutex<HashMap<String, Entry>>);

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// One more than [`CERTS_MAX`] stands for any higher number.
    certs: u32,
    at: Instant,
}

/// The words of a search in the form that their spellings share. `None` if the cost of the search
/// is not estimated.
fn forms(query: &Query) -> Option<Vec<String>> {
    let Query::Spelled(words) = query else { return None };
    let form = |word: &Vec<String>| {
        Some(user_id::shared_form(word.first()?)).filter(|form| form.len() <= WORD_BYTES_MAX)
    };
    if words.len() > SEARCH_WORDS_MAX { None } else { words.iter().map(form).collect() }
}

impl Frequencies {
    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock()
    }

    /// The number of certificates with a word, if it is known.
    fn known(&self, form: &str) -> Option<u32> {
        let entry = self.entries().get(form).copied();
        entry.filter(|entry| entry.at.elapsed() < FRESH).map(|entry| entry.certs)
    }

    /// Whether a search is known to be short, because its words are rare.
    pub(crate) fn are_low(&self, query: &Query) -> bool {
        let certs = forms(query)
            .and_then(|forms| forms.iter().map(|form| self.known(form)).sum::<Option<u32>>());
        certs.is_some_and(|certs| certs <= CERTS_MAX)
    }

    /// Asks the index for the words of a search whose frequencies are not known.
    pub(crate) fn learn(&self, store: &Store, query: &Query) -> Result<(), StoreError> {
        for form in forms(query).unwrap_or_default() {
            if self.known(&form).is_some() {
                continue;
            }
            let Some(certs) = store.word_frequency(&form, CERTS_MAX + 1)? else { return Ok(()) };
            let mut entries = self.entries();
            if entries.len() >= WORDS_MAX {
                entries.clear();
            }
            entries.insert(form, Entry { certs, at: Instant::now() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use talaria_cert::{Cert, Verification};

    use super::*;

    fn spelled(text: &str) -> Query {
        Query::Spelled(user_id::words(text).map(|word| vec![word]).collect())
    }

    /// A primary key that nobody has signed, and a user ID.
    fn bare(number: u32, user_id: &str) -> Cert {
        let mut body = vec![4];
        body.extend(number.to_be_bytes());
        // RSA with a number of 32 bits.
        body.extend([1, 0, 32, 0x80, 0, 0, 1, 0, 17, 1, 0, 1]);
        let packet =
            |tag: u8, body: &[u8]| [&[tag, u8::try_from(body.len()).unwrap()], body].concat();
        Cert::parse(&[packet(0xc6, &body), packet(0xcd, user_id.as_bytes())].concat()).unwrap()
    }

    #[test]
    fn a_search_is_short_if_its_words_are_known_to_be_rare() {
        let mut store = Store::in_memory(Path::new("memory")).unwrap();
        let certs = (0..17_000_u32).map(|number| bare(number, "common")).collect();
        store.ingest(certs, Verification::Deferred, 1_760_000_000_u32.into()).unwrap();
        let certs = (20_000..20_100_u32).map(|number| bare(number, "rare")).collect();
        store.ingest(certs, Verification::Deferred, 1_760_000_000_u32.into()).unwrap();
        while store.operator_mut().tidy().unwrap() {}
        let frequencies = Frequencies::default();
        let (rare, common) = ("rare", "common");
        let both = format!("{rare} {common}");
        let frequency = |word: &str| store.word_frequency(word, 16_500).unwrap();
        assert_eq!(["nobody", rare, common].map(frequency), [Some(0), Some(100), Some(16_500)]);
        assert!(!frequencies.are_low(&spelled(rare)), "nobody has asked yet");
        for text in [rare, common] {
            frequencies.learn(&store, &spelled(text)).unwrap();
        }
        assert!(frequencies.are_low(&spelled(rare)));
        assert!(!frequencies.are_low(&spelled(common)));
        assert!(!frequencies.are_low(&spelled(&both)));
        assert!(frequencies.are_low(&spelled(&format!("{rare} {rare}"))));
        assert!(!frequencies.are_low(&spelled(&format!("{rare} unknown"))));
        assert!(!frequencies.are_low(&spelled(&[rare; SEARCH_WORDS_MAX + 1].join(" "))));
        // The memory is bounded.
        for number in 0..WORDS_MAX {
            frequencies.learn(&store, &spelled(&format!("word{number}"))).unwrap();
        }
        assert!(frequencies.0.lock().len() <= WORDS_MAX);
        let long = spelled(&"a".repeat(8000));
        frequencies.learn(&store, &long).unwrap();
        assert!(frequencies.are_low(&long), "its spellings are one letter");
        let long = spelled(&"b".repeat(8000));
        frequencies.learn(&store, &long).unwrap();
        assert!(!frequencies.are_low(&long));
        assert!(frequencies.entries().keys().all(|word| word.len() <= WORD_BYTES_MAX));
    }
}
