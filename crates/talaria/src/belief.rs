//! The settings by which a user believes that certificates belong to their addresses, and the
//! result of such a question.

use std::fmt;

use talaria_store::{Store, StoreError};
use talaria_trust::Level;
use talaria_trust::tofu::Policy;

use crate::trust::{Judge, TrustModel};

/// The trust settings of a user.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Trust {
    /// The trust model that the user named. With `None` it is the web of trust, and only where the
    /// store has one.
    pub model: Option<TrustModel>,
    /// The TOFU policy for addresses without a decision.
    pub tofu_default_policy: Policy,
}

impl Trust {
    /// The trust model; the web of trust by default.
    #[must_use]
    pub fn model(self) -> TrustModel {
        self.model.unwrap_or_default()
    }

    /// The same settings with another trust model.
    #[must_use]
    pub fn with_model(self, model: TrustModel) -> Self {
        Self { model: Some(model), ..self }
    }

    /// A judge of the certificates in `store` at `now`, in seconds since 1970. Set `all` if most of
    /// the certificates will be judged.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    pub fn judge(self, store: &Store, all: bool, now: u32) -> Result<Judge<'_>, StoreError> {
        Judge::new(store, self.model(), self.tofu_default_policy, all, now)
    }
}

/// The validity of a certificate, with the trust model that computed it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Belief {
    /// The validity.
    pub level: Level,
    /// The trust model.
    pub model: TrustModel,
}

impl Belief {
    /// Whether the validity is sufficient, as in GnuPG: at least marginal, or anything but
    /// [`Level::Never`] if every certificate is accepted.
    #[must_use]
    pub fn is_enough(self) -> bool {
        !self.is_never() && (self.model == TrustModel::Always || self.level >= Level::Marginal)
    }

    /// Whether the user, or a rule of the trust model, has decided against the certificate.
    #[must_use]
    pub fn is_never(self) -> bool {
        self.level == Level::Never
    }
}

/// The reason why it is not confirmed that a certificate belongs to a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Doubt {
    /// The store has no trust root, so that no validity is known.
    NoTrustRoot,
    /// The validity is too low.
    Validity(Level),
}

impl Doubt {
    /// The doubt about a certificate with this validity; `None` if it is confirmed.
    #[must_use]
    pub fn about(belief: Option<Belief>) -> Option<Self> {
        match belief {
            Some(belief) if belief.is_enough() => None,
            Some(belief) => Some(Self::Validity(belief.level)),
            None => Some(Self::NoTrustRoot),
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTrustRoot => f.write_str("the store has no trust root"),
            Self::Validity(level) => write!(f, "validity: {}", level.name()),
        }
    }
}
