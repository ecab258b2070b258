//! Views: the data sets that gossip peers derive from certificates.
//!
//! The store keeps every packet. Keyservers that gossip compare digests of the packets they keep.
//! Each keyserver program keeps packets by rules of its own, so each program has its own view of
//! our store. `docs/formats/views.md` describes the rules.

mod hockeypuck;

use std::str::FromStr;

use hockeypuck::Release;

use crate::cert::{Cert, sks_digest};
use crate::packet::PacketRef;
use crate::verdict::Verdict;

/// A data set that gossip peers reconcile: a selection of packets of our certificates.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum View {
    /// Every packet, as SKS keeps them.
    Sks,
    /// The packets that Hockeypuck 2.2.1 to 2.3.3 keep.
    Hockeypuck23,
    /// The packets that Hockeypuck 2.1 keeps: it announces the filters of SKS, and cannot read some
    /// packets.
    Hockeypuck21,
    /// The packets that Hockeypuck 2.4 keeps. Certificates whose primary key has a post-quantum
    /// algorithm are left out, since their signatures cannot be checked here.
    Hockeypuck24,
}

/// The name is not that of a [`View`].
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown view \"{name}\"; the views are {}", View::ALL.map(View::name).join(", "))]
pub struct UnknownView {
    /// The requested name.
    pub name: String,
}

impl View {
    /// All views, by number.
    pub const ALL: [Self; 4] =
        [Self::Sks, Self::Hockeypuck23, Self::Hockeypuck21, Self::Hockeypuck24];

    /// The number of the view in a store. It never changes.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Sks => 0,
            Self::Hockeypuck23 => 1,
            Self::Hockeypuck21 => 2,
            Self::Hockeypuck24 => 3,
        }
    }

    /// The view with a number of [`Self::number`].
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The name of the view in configuration files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sks => "sks",
            Self::Hockeypuck23 => "hockeypuck-2.3",
            Self::Hockeypuck21 => "hockeypuck-2.1",
            Self::Hockeypuck24 => "hockeypuck-2.4",
        }
    }

    /// The filter names that peers of this view send in the handshake, in the order in which they
    /// compare them.
    #[must_use]
    pub fn filters(self) -> &'static str {
        match self {
            Self::Sks | Self::Hockeypuck21 => "yminsky.dedup,yminsky.merge",
            Self::Hockeypuck23 => {
                "drop:UAT,drop:hardRevokedCruft,drop:implausible,drop:invalidSelfSig,\
                 drop:structuralMartian,drop:unbound,drop:unparseable,\
                 schema:application/pgp-keys,versions:34,yminsky.dedup,yminsky.merge"
            }
            Self::Hockeypuck24 => {
                "drop:UAT,drop:hardRevokedCruft,drop:implausible,drop:invalidSelfSig,\
                 drop:oldSlhdsaSelfSig,drop:structuralMartian,drop:unbound,drop:unparseable,\
                 schema:application/pgp-keys,versions:3+4+6+rfc9980,yminsky.dedup,yminsky.merge"
            }
        }
    }

    /// Whether the digest of a certificate costs a verification of its signatures by the peer's own
    /// rules.
    #[must_use]
    pub fn verifies(self) -> bool {
        matches!(self, Self::Hockeypuck23 | Self::Hockeypuck24)
    }

    /// The digest of a certificate in this view. `None` if the view leaves the certificate out.
    ///
    /// `verdicts` are those on all signatures of `cert`, in canonical packet order.
    #[must_use]
    pub fn digest(self, cert: &Cert, verdicts: &[Verdict]) -> Option<[u8; 16]> {
        match self.kept(cert, verdicts)? {
            Kept::All => Some(cert.sks_digest()),
            Kept::These(kept) => Some(digest_of(cert, &kept)),
        }
    }

    /// The certificate with the packets of this view. `None` if the view leaves the certificate
    /// out.
    #[must_use]
    pub fn cert(self, cert: &Cert, verdicts: &[Verdict]) -> Option<Cert> {
        match self.kept(cert, verdicts)? {
            Kept::All => Some(cert.clone()),
            Kept::These(kept) => Some(cert.retain(|at, _| kept[at])),
        }
    }

    /// The packets of this view. `None` if the view leaves the certificate out.
    fn kept(self, cert: &Cert, verdicts: &[Verdict]) -> Option<Kept> {
        let kept = match self {
            Self::Sks => return Some(Kept::All),
            Self::Hockeypuck23 => hockeypuck::kept(cert, verdicts, Release::V2_3)?,
            Self::Hockeypuck24 => hockeypuck::kept(cert, verdicts, Release::V2_4)?,
            Self::Hockeypuck21 => hockeypuck::kept_by_2_1(cert)?,
        };
        Some(Kept::These(kept))
    }
}

/// The packets of a certificate that a view keeps.
enum Kept {
    All,
    /// One `bool` for each packet.
    These(Vec<bool>),
}

/// The digest over the kept packets of a certificate.
fn digest_of(cert: &Cert, kept: &[bool]) -> [u8; 16] {
    let packets = cert.packets().zip(kept);
    let packets: Vec<PacketRef<'_>> =
        packets.filter_map(|(packet, kept)| kept.then_some(packet)).collect();
    sks_digest(packets)
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
        assert_eq!(View::from_number(4), None);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_names() {
        let error = "hagrid".parse::<View>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown view \"hagrid\"; the views are sks, hockeypuck-2.3, hockeypuck-2.1, \
             hockeypuck-2.4"
        );
    }
}
