//! Tokens: positions in the change log of a store, as text for programs to keep.

use std::fmt;
use std::str::FromStr;

use talaria_store::{ChangeNumber, Store};

use crate::error::Error;

/// A position in the change log of a store: the name of the store and a change number.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Token {
    store: String,
    number: ChangeNumber,
}

impl Token {
    /// The end of the change log.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    pub fn now(store: &Store) -> Result<Self, Error> {
        Ok(Self { store: store.name()?, number: store.log().last()? })
    }

    /// The change number.
    ///
    /// # Errors
    ///
    /// [`Error::Token`] if the token belongs to another store.
    pub fn number_in(&self, store: &Store) -> Result<ChangeNumber, Error> {
        if store.name()? == self.store {
            return Ok(self.number);
        }
        Err(Error::Token { path: store.path().to_owned() })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.store, self.number)
    }
}

/// The reason why a text is no token.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a token is STORE:NUMBER")]
pub struct TokenError;

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let (store, number) = text.split_once(':').ok_or(TokenError)?;
        let number = number.parse().map_err(|_| TokenError)?;
        Ok(Self { store: store.to_owned(), number })
    }
}
