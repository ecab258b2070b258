//! What a peer's set of certificates consists of.
//!
//! The store keeps every packet. Keyservers that gossip compare digests, and a digest is that of what
//! the peer keeps: each kind of software has its own rules, so each has its own view of our store.
//! The rules are written down in `docs/formats/views.md`.

mod hockeypuck;

use std::str::FromStr;

use crate::cert::sks_digest;
use crate::verify::Verdict;
use crate::{Cert, PacketRef};

/// A data set that gossip peers reconcile: which packets of our certificates are in it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum View {
    /// Every packet, as SKS has it.
    Sks,
    /// What Hockeypuck 2.2.1 to 2.3.3 keep.
    Hockeypuck23,
}

/// A name that is not that of a [`View`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("no view is called \"{name}\"; there are {}", View::ALL.map(View::name).join(" and "))]
pub struct UnknownView {
    /// What was asked for.
    pub name: String,
}

impl View {
    /// All of them, by number.
    pub const ALL: [Self; 2] = [Self::Sks, Self::Hockeypuck23];

    /// The number under which a store remembers the view. It never changes.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Sks => 0,
            Self::Hockeypuck23 => 1,
        }
    }

    /// Reads what [`Self::number`] gave.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name under which the view is configured.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sks => "sks",
            Self::Hockeypuck23 => "hockeypuck-2.3",
        }
    }

    /// What peers of this view call it in the handshake, in the order in which they compare it.
    #[must_use]
    pub fn filters(self) -> &'static str {
        match self {
            Self::Sks => "yminsky.dedup,yminsky.merge",
            Self::Hockeypuck23 => {
                "drop:UAT,drop:hardRevokedCruft,drop:implausible,drop:invalidSelfSig,\
                 drop:structuralMartian,drop:unbound,drop:unparseable,\
                 schema:application/pgp-keys,versions:34,yminsky.dedup,yminsky.merge"
            }
        }
    }

    /// The digest of a certificate as this view has it, `None` if the view leaves it out.
    ///
    /// `verdicts` are those on all signatures of `cert`, in canonical packet order.
    #[must_use]
    pub fn digest(self, cert: &Cert, verdicts: &[Verdict]) -> Option<[u8; 16]> {
        match self {
            Self::Sks => Some(cert.sks_digest()),
            Self::Hockeypuck23 => {
                let kept = hockeypuck::kept(cert, verdicts)?;
                let packets = cert.packets().zip(kept);
                let packets: Vec<PacketRef<'_>> =
                    packets.filter_map(|(packet, kept)| kept.then_some(packet)).collect();
                Some(sks_digest(packets))
            }
        }
    }

    /// The packets of a certificate that this view has, `None` if the view leaves it out.
    #[must_use]
    pub fn cert(self, cert: &Cert, verdicts: &[Verdict]) -> Option<Cert> {
        match self {
            Self::Sks => Some(cert.clone()),
            Self::Hockeypuck23 => {
                let kept = hockeypuck::kept(cert, verdicts)?;
                Some(cert.retain(|at, _| kept[at]))
            }
        }
    }
}

impl FromStr for View {
    type Err = UnknownView;

    fn from_str(name: &str) -> Result<Self, UnknownView> {
        let found = Self::ALL.into_iter().find(|view| view.name() == name);
        found.ok_or_else(|| UnknownView { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_read_back() {
        for view in View::ALL {
            assert_eq!(View::from_number(view.number()), Some(view));
            assert_eq!(view.name().parse(), Ok(view));
            let mut tokens: Vec<&str> = view.filters().split(',').collect();
            let as_written = tokens.clone();
            tokens.sort_unstable();
            assert_eq!(tokens, as_written, "peers compare the sorted list as text");
        }
        assert_eq!(View::from_number(2), None);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_names_there_are() {
        let error = "hagrid".parse::<View>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no view is called \"hagrid\"; there are sks and hockeypuck-2.3"
        );
    }
}
