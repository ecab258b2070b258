//! The digests of a document, computed together.

use talaria_cert::Hasher;

/// The digests of a document, by number (RFC 9580, section 9.5).
#[derive(Default)]
pub(crate) struct Digests {
    hashers: Vec<(u8, Hasher)>,
    /// The document was not hashed as a whole, so no signature on it can be good.
    pub(crate) is_cut: bool,
}

impl Digests {
    /// Adds a digest. One that is unknown is left out.
    pub(crate) fn enable(&mut self, number: u8) {
        if !self.has(number)
            && crate::algorithm::is_known_digest(number)
            && let Some(hasher) = Hasher::checked(number)
        {
            self.hashers.push((number, hasher));
        }
    }

    /// Whether a digest is computed.
    pub(crate) fn has(&self, number: u8) -> bool {
        self.hashers.iter().any(|(known, _)| *known == number)
    }

    /// Adds a piece of the document.
    pub(crate) fn update(&mut self, data: &[u8]) {
        self.hashers.iter_mut().for_each(|(_, hasher)| hasher.update(data));
    }

    /// A digest of the document so far, to which the signature adds its fields.
    pub(crate) fn get(&self, number: u8) -> Option<Hasher> {
        self.hashers.iter().find(|(known, _)| *known == number).map(|(_, hasher)| hasher.clone())
    }
}
