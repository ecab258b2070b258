//! Tokens that the server does not store: their subject, their expiry time, and a code over both
//! that only this store can make.
//!
//! A token proves that its bearer received the answer to an upload, or the mail. It does not prove
//! that its subject is unchanged; the server looks that up when the token is used.

use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use talaria_cert::{Address, Fingerprint};

use crate::clock;
use crate::config::Settings;

/// Goes first into every code: the secret of the store may come to be used for something else.
const CONTEXT: &[u8] = b"talaria token 2\0";

/// Bytes of a code (HMAC-SHA-256).
const CODE_BYTES: usize = 32;

/// Characters of a token that is looked at.
const TOKEN_CHARS_MAX: usize = 1024;

/// The purpose of a token.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Token {
    /// For the uploader of a certificate: requests mails to its addresses.
    Upload(Fingerprint),
    /// For the reader of mail to an address: confirms the address.
    Confirm(Link),
    /// For the reader of mail to a confirmed address: withdraws confirmations of that certificate.
    Manage(Link),
}

/// The subject of a link in a mail.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Link {
    pub(crate) fingerprint: Fingerprint,
    /// The address that the mail went to.
    pub(crate) email: Address,
    /// The generation of links in which it was made: when the address is confirmed or taken back, a
    /// new one begins, and the links of those before have ended.
    pub(crate) generation: u32,
}

/// Why a token is not taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum TokenError {
    /// It was not made here, or is damaged.
    #[error("it is incomplete, or from another server")]
    Unknown,
    /// It was, and its time is over.
    #[error("it has expired")]
    Expired,
    /// The address was confirmed or taken back since.
    #[error("it was used, or the address was taken back")]
    Ended,
}

/// Makes and reads the tokens of a server.
#[derive(Clone)]
pub(crate) struct Tokens {
    settings: Settings,
    /// A secret of the store.
    secret: Arc<[u8]>,
}

impl Tokens {
    pub(crate) fn new(settings: Settings, secret: Vec<u8>) -> Self {
        Self { settings, secret: secret.into() }
    }

    /// The token as text, for the time that the settings give it.
    pub(crate) fn seal(&self, token: &Token) -> String {
        let seconds = u32::try_from(self.settings.load().vks.token_s).unwrap_or(u32::MAX);
        token.seal(&self.secret, clock::now().saturating_add(seconds))
    }

    /// Reads a token that was made here.
    pub(crate) fn open(&self, text: &str) -> Result<Token, TokenError> {
        Token::open(text, &self.secret, clock::now())
    }
}

impl Token {
    /// The token as text, which holds until `expires` (seconds since 1970).
    fn seal(&self, secret: &[u8], expires: u32) -> String {
        let (kind, fingerprint, link) = match self {
            Self::Upload(fingerprint) => (b'u', fingerprint, None),
            Self::Confirm(link) => (b'c', &link.fingerprint, Some(link)),
            Self::Manage(link) => (b'm', &link.fingerprint, Some(link)),
        };
        let mut bytes = vec![kind];
        bytes.extend(expires.to_be_bytes());
        bytes.extend(fingerprint.to_stored());
        if let Some(link) = link {
            bytes.extend(link.generation.to_be_bytes());
            bytes.extend(link.email.as_bytes());
        }
        let mut context = hmac::Context::with_key(&key(secret));
        context.update(CONTEXT);
        context.update(&bytes);
        bytes.extend(context.sign().as_ref());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads [`Self::seal`] at `now` (seconds since 1970).
    fn open(text: &str, secret: &[u8], now: u32) -> Result<Self, TokenError> {
        if text.len() > TOKEN_CHARS_MAX {
            return Err(TokenError::Unknown);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Unknown)?;
        let (bytes, code) = bytes.split_last_chunk::<CODE_BYTES>().ok_or(TokenError::Unknown)?;
        // Takes as long for any wrong code.
        hmac::verify(&key(secret), &[CONTEXT, bytes].concat(), code)
            .map_err(|_| TokenError::Unknown)?;
        Self::parse(bytes, now)
    }

    /// Parses the part that the code covers, after the code was verified.
    fn parse(bytes: &[u8], now: u32) -> Result<Self, TokenError> {
        let (&kind, rest) = bytes.split_first().ok_or(TokenError::Unknown)?;
        let (expires, rest) = rest.split_first_chunk::<4>().ok_or(TokenError::Unknown)?;
        let (fingerprint, rest) = Fingerprint::from_stored(rest).ok_or(TokenError::Unknown)?;
        if now >= u32::from_be_bytes(*expires) {
            return Err(TokenError::Expired);
        }
        let link = || {
            let (generation, email) = rest.split_first_chunk::<4>()?;
            let email = Address::of_mailbox(email)?;
            Some(Link { fingerprint, email, generation: u32::from_be_bytes(*generation) })
        };
        match kind {
            b'u' => Some(Self::Upload(fingerprint)),
            b'c' => link().map(Self::Confirm),
            b'm' => link().map(Self::Manage),
            _ => None,
        }
        .ok_or(TokenError::Unknown)
    }
}

fn key(secret: &[u8]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"a secret of a store";
    const FINGERPRINT: Fingerprint = Fingerprint::V4([7; 20]);

    fn link(fingerprint: Fingerprint, email: &str, generation: u32) -> Link {
        Link { fingerprint, email: email.parse().unwrap(), generation }
    }

    fn all() -> [Token; 4] {
        [
            Token::Upload(FINGERPRINT),
            Token::Confirm(link(FINGERPRINT, "alice@example.org", 0)),
            Token::Manage(link(FINGERPRINT, "alice@example.org", u32::MAX)),
            Token::Confirm(link(Fingerprint::V6([9; 32]), "ü@example.org", 7)),
        ]
    }

    #[test]
    fn a_token_is_valid_until_it_expires() {
        for token in all() {
            let text = token.seal(SECRET, 1000);
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
            assert_eq!(Token::open(&text, SECRET, 0), Ok(token.clone()));
            assert_eq!(Token::open(&text, SECRET, 999), Ok(token));
            assert_eq!(Token::open(&text, SECRET, 1000), Err(TokenError::Expired));
        }
    }

    #[test]
    fn no_bit_of_a_token_can_be_changed() {
        for token in all() {
            let bytes = URL_SAFE_NO_PAD.decode(token.seal(SECRET, 1000)).unwrap();
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut changed = bytes.clone();
                    changed[at] ^= 1 << bit;
                    let text = URL_SAFE_NO_PAD.encode(changed);
                    assert_eq!(Token::open(&text, SECRET, 0), Err(TokenError::Unknown));
                }
            }
        }
    }

    #[test]
    fn a_token_of_another_store_is_refused() {
        let text = all()[1].seal(b"another secret", 1000);
        assert_eq!(Token::open(&text, SECRET, 0), Err(TokenError::Unknown));
        let text = all()[1].seal(SECRET, 1000);
        for wrong in ["", "x", "§", &text[1..], &text[..text.len() - 1], &text.repeat(20)] {
            assert_eq!(Token::open(wrong, SECRET, 0), Err(TokenError::Unknown), "{wrong}");
        }
    }

    #[test]
    fn a_token_of_one_kind_is_refused_as_another() {
        let kinds: Vec<_> = all().iter().map(|token| token.seal(SECRET, 1000)).collect();
        for (at, text) in kinds.iter().enumerate() {
            let opened = Token::open(text, SECRET, 0).unwrap();
            assert_eq!(opened, all()[at]);
        }
        // The authenticated data include the kind: a code for an upload is not valid for a
        // confirmation.
        let mut bytes = URL_SAFE_NO_PAD.decode(&kinds[0]).unwrap();
        bytes[0] = b'm';
        let text = URL_SAFE_NO_PAD.encode(bytes);
        assert_eq!(Token::open(&text, SECRET, 0), Err(TokenError::Unknown));
    }
}
