//! How the user wants the validity of keys to be computed.

/// A trust model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Model {
    /// The one of the trust database.
    Auto,
    Pgp,
    Classic,
    Always,
}

/// How validity is computed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Web {
    pub(crate) model: Model,
    /// The number of certifications by fully and by marginally trusted keys that a key needs, and
    /// the longest chain.
    pub(crate) completes: i32,
    pub(crate) marginals: i32,
    pub(crate) depth: i32,
    /// The trust database is computed again when it is stale.
    pub(crate) checks: bool,
}
