//! Whose word counts: what the user has said about the owners of certificates.
//!
//! Anybody can make a certificate with any address. So an address names a signer, an author or an
//! owner only if the certificate is confirmed: by a certification of the user's own keys, or of
//! people whom the user trusts to certify. Everything that does not need the user's knowledge
//! counts for nothing here: the only certificate for an address, a default policy, the trust model
//! that accepts every certificate. [`Stores::signers`] and [`Stores::signer`] decide this, and
//! nothing else does.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use talaria_cert::{Addressee, Fingerprint, UserIdContent, UserIdSummary, Validity};
use talaria_message::openpgp;
use talaria_message::read_cert;
use talaria_store::{Binding, CertId, Certifiers, Order, Query, Row, Store, StoreError, TrustView};
use talaria_trust::Level;
use talaria_trust::tofu::{Policy, strictest};

use crate::error::Error;
use crate::parsed::described;
use crate::stores::{Opened, Stores};
use crate::tofu::bindings_of;

/// The maximum number of certificates of one [`Confirmation`] that are looked at, unless it is the
/// best one.
const CLAIMANTS_MAX: usize = 50;
/// The number of certificates of a listing that are looked up one by one.
const LOOKUPS: u32 = 32;

/// What the user has said about whose a certificate is, from the worst to the best.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Confirmation {
    /// The user has called it bad (`talaria tofu policy CERT bad`).
    Bad,
    /// Nothing that counts.
    Missing,
    /// The user has called it good (`talaria tofu policy CERT good`).
    Good,
    /// It is the user's own, or fully valid in the web of trust of the user's keys.
    Certified,
}

/// A certificate with a name that was searched for.
pub(crate) struct Claimant {
    pub(crate) cert: openpgp::Cert,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) confirmation: Confirmation,
    /// Whether the certificate can be used at all, apart from its owner.
    validity: Validity,
}

impl Claimant {
    /// The claimant in a list of candidates, with the reason why its word does not count.
    fn described(&self) -> String {
        let why = match (self.confirmation, self.validity) {
            (Confirmation::Bad, _) => " (you called it bad)",
            (_, Validity::Revoked) => " (revoked)",
            (_, Validity::Expired) => " (expired)",
            (_, Validity::Invalid) => " (invalid)",
            (_, Validity::Valid) => "",
        };
        format!("{}{why}", described(&self.cert))
    }

    /// Whether the user could confirm it.
    fn is_open(&self) -> bool {
        self.confirmation > Confirmation::Bad && self.validity == Validity::Valid
    }
}

/// Answers questions about confirmations at one time: from the decisions in the first store, and
/// from the results of the web of trust that it keeps up to date.
pub struct Confirmations<'s> {
    first: &'s Store,
    /// `None` if the store has no trust root.
    web: Option<TrustView>,
    /// The bindings that the user has decided about.
    decided: HashMap<Fingerprint, Vec<Binding>>,
    certifiers: RefCell<Option<Certifiers<'s>>>,
    /// The certificates of a long listing that may have a fully valid user ID.
    candidates: OnceCell<HashSet<CertId>>,
    /// The number of certificates that were looked up one by one.
    asked: Cell<u32>,
    now: u32,
}

impl<'s> Confirmations<'s> {
    fn new(first: &'s Store, now: u32) -> Result<Self, StoreError> {
        let mut decided: HashMap<Fingerprint, Vec<Binding>> = HashMap::new();
        for binding in first.tofu().decisions()? {
            decided.entry(binding.fingerprint).or_default().push(binding);
        }
        let web = first.web().rules()?.map(|_| first.web().at(now.into())).transpose()?;
        Ok(Self {
            first,
            web,
            decided,
            certifiers: RefCell::default(),
            candidates: OnceCell::new(),
            asked: Cell::new(0),
            now,
        })
    }

    /// The confirmation of each user ID of a certificate. Those of an expired or revoked
    /// certificate are missing. This costs one look-up by number, and no verification.
    ///
    /// # Errors
    ///
    /// Errors of reading the first store.
    pub fn of_user_ids(&self, opened: &Opened, row: &Row) -> Result<Vec<Confirmation>, StoreError> {
        let summary = &row.summary;
        let valid = Validity::Valid;
        let is_usable = summary.validity(self.now) == valid;
        let levels =
            if is_usable && self.is_candidate(row)? { self.levels(opened, row)? } else { None };
        let decided = self.decided.get(&summary.fingerprint()).map_or(&[][..], Vec::as_slice);
        let of = |(at, user_id): (usize, &UserIdSummary)| {
            let policy = match &user_id.content {
                UserIdContent::Text(text) if !decided.is_empty() => {
                    policy_of(decided, &Addressee::of_user_id(text))
                }
                _ => Policy::Auto,
            };
            let level = levels.as_ref().map_or(Level::Unknown, |levels| levels[at]);
            match policy {
                Policy::Bad => Confirmation::Bad,
                // A signature that somebody else may have moved here confirms nothing.
                _ if level >= Level::Full
                    && user_id.validity(self.now) == valid
                    && user_id.weak.is_none() =>
                {
                    Confirmation::Certified
                }
                Policy::Good => Confirmation::Good,
                _ => Confirmation::Missing,
            }
        };
        Ok(summary.user_ids.iter().enumerate().map(of).collect())
    }

    /// Whether a certificate in a listing may have a fully valid user ID. After a few look-ups, one
    /// pass finds all of them.
    fn is_candidate(&self, row: &Row) -> Result<bool, StoreError> {
        let Some(web) = &self.web else { return Ok(false) };
        let asked = self.asked.get();
        if asked < LOOKUPS {
            self.asked.set(asked + 1);
            return Ok(true);
        }
        if let Some(candidates) = self.candidates.get() {
            return Ok(candidates.contains(&row.id));
        }
        let candidates = web.candidates(self.first)?;
        Ok(self.candidates.get_or_init(|| candidates).contains(&row.id))
    }

    /// The validity of each user ID in the web of trust; `None` if there is no result.
    fn levels(&self, opened: &Opened, row: &Row) -> Result<Option<Vec<Level>>, StoreError> {
        let Some(web) = &self.web else { return Ok(None) };
        if !std::ptr::eq(&raw const opened.store, self.first) {
            return Ok(None);
        }
        let levels = web.standing(self.first, row.id)?.map(|standing| standing.levels);
        Ok(levels.filter(|levels| levels.len() == row.summary.user_ids.len()))
    }

    /// What is confirmed of the user IDs of a certificate that are meant.
    fn of(&self, opened: &Opened, row: &Row, meant: Meant<'_>) -> Result<Confirmation, StoreError> {
        let recorded = self.decided.get(&row.summary.fingerprint()).map_or(&[][..], Vec::as_slice);
        let decided = decided(recorded, row, meant, self.now);
        if decided == Policy::Bad {
            return Ok(Confirmation::Bad);
        }
        if self.is_certified(opened, row, meant)? {
            return Ok(Confirmation::Certified);
        }
        Ok(if decided == Policy::Good { Confirmation::Good } else { Confirmation::Missing })
    }

    /// Whether the user's keys, or people whom the user trusts to certify, have certified one of
    /// the user IDs.
    fn is_certified(
        &self,
        opened: &Opened,
        row: &Row,
        meant: Meant<'_>,
    ) -> Result<bool, StoreError> {
        let user_ids = &row.summary.user_ids;
        let counts = |at: usize| {
            let gone = [Validity::Invalid, Validity::Revoked];
            user_ids.get(at).is_some_and(|user_id| {
                !gone.contains(&user_id.validity(self.now))
                    && matches!(&user_id.content, UserIdContent::Text(text) if meant.is_none_or(|is| is(text)))
            })
        };
        let Some(levels) = self.levels(opened, row)? else { return Ok(false) };
        if levels.iter().enumerate().any(|(at, level)| *level >= Level::Full && counts(at)) {
            return Ok(true);
        }
        // The web of trust has no result for an expired or revoked certificate. If a key of the
        // user's certified it, it still is the one with the name, and no stranger's takes its
        // place.
        if !matches!(row.summary.validity(self.now), Validity::Expired | Validity::Revoked) {
            return Ok(false);
        }
        let mut certifiers = self.certifiers.borrow_mut();
        let found = match &mut *certifiers {
            Some(certifiers) => certifiers.of(row.id)?,
            none => none.insert(self.first.web().certifiers(self.now.into())?).of(row.id)?,
        };
        Ok(found.iter().any(|one| one.introducer.level == Level::Ultimate && counts(one.user_id)))
    }
}

/// The user IDs that a question is about, by their texts; `None` for the whole certificate.
type Meant<'m> = Option<&'m dyn Fn(&[u8]) -> bool>;

/// The user's decision about the user IDs of a certificate that are meant: good, bad, or
/// [`Policy::Auto`]. A certificate as a whole is bad if the user has called one of its addresses
/// bad and none good. Its owner cannot change that with further or revoked user IDs.
fn decided(recorded: &[Binding], row: &Row, meant: Meant<'_>, now: u32) -> Policy {
    if recorded.iter().all(|binding| binding.policy == Policy::Auto) {
        return Policy::Auto;
    }
    let Some(is_meant) = meant else { return as_a_whole(recorded) };
    let meant = bindings_of(row, now).into_iter().filter(|one| is_meant(&one.user_id));
    joined(meant.map(|one| policy_of(recorded, &Addressee::of_gnupg_name(&one.email))))
}

/// The user's decision about a certificate as a whole, from those about its addresses.
fn as_a_whole(recorded: &[Binding]) -> Policy {
    joined(recorded.iter().map(|binding| binding.policy))
}

fn joined(policies: impl Iterator<Item = Policy>) -> Policy {
    let policies: Vec<Policy> = policies.collect();
    match (policies.contains(&Policy::Good), policies.contains(&Policy::Bad)) {
        (true, false) => Policy::Good,
        (false, true) => Policy::Bad,
        _ => Policy::Auto,
    }
}

/// The user's decision about an address, under any spelling of it.
fn policy_of(recorded: &[Binding], addressee: &Addressee) -> Policy {
    let same = recorded.iter().filter(|one| Addressee::of_gnupg_name(&one.email) == *addressee);
    strictest(same.map(|binding| binding.policy))
}

impl Stores {
    /// The certificates whose word counts as that of `query`, a key or the whole address or text of
    /// a user ID. A key names its certificate. Of the certificates with an address or user ID,
    /// those that are [`Confirmation::Certified`] count, and nothing else makes an address
    /// somebody's.
    ///
    /// # Errors
    ///
    /// [`Error::Unconfirmed`] if no certificate with the address is confirmed; [`Error::NotFound`];
    /// [`Error::Inexact`] for a partial match; [`Error::Ambiguous`] for a key ID of several
    /// certificates; errors of reading the stores.
    pub fn signers(&self, query: &Query, now: u32) -> Result<Vec<openpgp::Fingerprint>, Error> {
        Ok(self.whose_word(query, now)?.iter().map(|one| one.cert.fingerprint()).collect())
    }

    /// The only certificate of [`Self::signers`], for somebody who gets rights.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::signers`]; [`Error::Ambiguous`] if several are confirmed;
    /// [`Error::Distrusted`].
    pub fn signer(&self, query: &Query, now: u32) -> Result<openpgp::Cert, Error> {
        let mut found = self.whose_word(query, now)?;
        match (found.pop(), found.len()) {
            (Some(one), 0) if one.confirmation == Confirmation::Bad => {
                Err(Error::Distrusted { name: described(&one.cert) })
            }
            (Some(one), 0) => Ok(one.cert),
            (last, _) => Err(Error::Ambiguous {
                query: query.to_string(),
                candidates: found.iter().chain(&last).map(|one| described(&one.cert)).collect(),
            }),
        }
    }

    /// Decides whose word counts as that of `query`. At least one claimant is returned.
    fn whose_word(&self, query: &Query, now: u32) -> Result<Vec<Claimant>, Error> {
        // Anybody can generate a key with the same short key ID as another key.
        let is_weak = matches!(query, Query::ShortKeyId(_));
        let mut claimants = if is_weak { Vec::new() } else { self.claimants(query, now)? };
        if claimants.is_empty() {
            return Err(self.inexact(query, now));
        }
        if !query.exact().is_some_and(|exact| is_name(&exact)) {
            return match claimants.len() {
                1 => Ok(claimants),
                _ => Err(Error::Ambiguous {
                    query: query.to_string(),
                    candidates: claimants.iter().map(|one| described(&one.cert)).collect(),
                }),
            };
        }
        if claimants.iter().all(|one| one.confirmation < Confirmation::Certified) {
            // Those that the user could confirm come first.
            claimants.sort_by_key(|one| !one.is_open());
            let open = claimants.first().filter(|one| one.is_open());
            return Err(Error::Unconfirmed {
                query: query.to_string(),
                open: open.map(|one| one.cert.fingerprint().to_hex()),
                candidates: claimants.iter().map(Claimant::described).collect(),
            });
        }
        claimants.retain(|one| one.confirmation == Confirmation::Certified);
        Ok(claimants)
    }

    /// The certificates that `query` names exactly: by key, or by the whole address or text of a
    /// user ID that is bound by its owner and not revoked.
    pub(crate) fn claimants(&self, query: &Query, now: u32) -> Result<Vec<Claimant>, Error> {
        let (Some(exact), Some(first)) = (query.exact(), self.iter().next()) else {
            return Ok(Vec::new());
        };
        let mut confirmations = Confirmations::new(&first.store, now)?;
        if let Query::Fingerprint(_) = exact {
            // It names one certificate, confirmed or not: only whether it was called bad matters.
            confirmations.web = None;
        }
        let by_name = is_name(&exact);
        let is_meant = |text: &[u8]| exact.names_text(text);
        let meant: Meant<'_> = if by_name { Some(&is_meant) } else { None };
        let mut found: Vec<(Fingerprint, Confirmation, Validity)> = Vec::new();
        let visited =
            self.visit(std::slice::from_ref(&exact), Order::Insertion, now, |opened, row| {
                let names = row.summary.user_ids.iter().any(|user_id| match &user_id.content {
                    UserIdContent::Text(text) => {
                        let gone = [Validity::Invalid, Validity::Revoked];
                        exact.names_text(text) && !gone.contains(&user_id.validity(now))
                    }
                    UserIdContent::Attribute { .. } => false,
                });
                if names || !by_name {
                    let confirmation = confirmations.of(opened, &row, meant)?;
                    let alike = found.iter().filter(|(_, other, _)| *other == confirmation).count();
                    // Strangers cannot displace a confirmed one by their number.
                    if confirmation > Confirmation::Missing || alike < CLAIMANTS_MAX {
                        let validity = row.summary.validity(now);
                        found.push((row.summary.fingerprint(), confirmation, validity));
                    }
                }
                Ok(ControlFlow::Continue(()))
            });
        match visited {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let mut claimants = Vec::with_capacity(found.len());
        for (fingerprint, confirmation, validity) in found {
            if let Some(cert) = self.cert(fingerprint)?
                && let Ok(cert) = read_cert(cert.as_bytes())
            {
                claimants.push(Claimant { cert, fingerprint, confirmation, validity });
            }
        }
        Ok(claimants)
    }

    /// What the user has said about whose certificates are, at `now`. `None` without a store.
    ///
    /// # Errors
    ///
    /// Errors of reading the first store.
    pub fn confirmations(&self, now: u32) -> Result<Option<Confirmations<'_>>, Error> {
        let first = self.iter().next().map(|first| Confirmations::new(&first.store, now));
        Ok(first.transpose()?)
    }

    /// Whether the user has called the certificate with this fingerprint bad, as a whole.
    ///
    /// # Errors
    ///
    /// [`Error::Query`] if it is no fingerprint; errors of reading the first store.
    pub(crate) fn is_bad_certificate(&self, fingerprint: &str) -> Result<bool, Error> {
        let query: Query = fingerprint.parse()?;
        let Some(first) = self.iter().next() else { return Ok(false) };
        let Query::Fingerprint(bytes) = query else { return Ok(false) };
        let recorded = first.store.tofu().decisions()?;
        let of_it = recorded.into_iter().filter(|one| one.fingerprint.as_bytes() == bytes);
        Ok(as_a_whole(&of_it.collect::<Vec<_>>()) == Policy::Bad)
    }

    /// Whether the user has called a certificate bad: for `addressee`, or as a whole. The decision
    /// holds in every trust model.
    ///
    /// # Errors
    ///
    /// Errors of reading the first store.
    pub fn is_called_bad(
        &self,
        row: &Row,
        addressee: Option<&Addressee>,
        now: u32,
    ) -> Result<bool, Error> {
        let Some(first) = self.iter().next() else { return Ok(false) };
        let is_meant =
            |text: &[u8]| addressee.is_some_and(|wanted| Addressee::of_user_id(text) == *wanted);
        let meant: Meant<'_> = if addressee.is_some() { Some(&is_meant) } else { None };
        let recorded = first.store.tofu().bindings_with(row.summary.fingerprint())?;
        Ok(decided(&recorded, row, meant, now) == Policy::Bad)
    }
}

/// Whether an exact search is by user ID, which anybody can write.
fn is_name(exact: &Query) -> bool {
    matches!(exact, Query::Email(_) | Query::Exact(_) | Query::Identity(_))
}
