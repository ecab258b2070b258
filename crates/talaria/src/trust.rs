//! The validity of certificates: whether they belong to the addresses they name, by the chosen
//! trust model.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;

use talaria_cert::address::gnupg_name;
use talaria_cert::{
    Addressee, Cert, Fingerprint, Handle, KeyId, PacketRef, Signature, Tag, UserIdContent, Validity,
};
use talaria_gnupg::TofuStatistics;
use talaria_store::{
    Binding, CertId, CertIssuer, Certifications, Certifier, Certifiers, Row, Store, StoreError,
    TrustView,
};
use talaria_trust::Level;
use talaria_trust::flow::{self, Flow};
use talaria_trust::tofu::{self, Decision, Evidence, History, Policy, Rivals};

/// The trust models that decide whom a certificate belongs to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TrustModel {
    /// The web of trust.
    #[default]
    Pgp,
    /// Trust on first use.
    Tofu,
    /// Both: a negative verdict of either model decides, otherwise the better of the two verdicts.
    TofuPgp,
    /// The owner trust of a certificate, set by the user, is its validity.
    Direct,
    /// Every certificate is accepted; no validity is computed.
    Always,
    /// The web of trust as a flow network, as in Sequoia.
    Wot,
}

impl TrustModel {
    /// All trust models.
    pub const ALL: [Self; 6] =
        [Self::Pgp, Self::Tofu, Self::TofuPgp, Self::Direct, Self::Always, Self::Wot];

    /// The name of the model, as in gpg's option `--trust-model`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pgp => "pgp",
            Self::Tofu => "tofu",
            Self::TofuPgp => "tofu+pgp",
            Self::Direct => "direct",
            Self::Always => "always",
            Self::Wot => "wot",
        }
    }

    /// Whether the model uses TOFU data.
    #[must_use]
    pub fn is_tofu(self) -> bool {
        matches!(self, Self::Tofu | Self::TofuPgp)
    }
}

impl fmt::Display for TrustModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for TrustModel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|model| model.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|model| model.name()).collect();
            format!("a trust model is one of {}", names.join(", "))
        })
    }
}

/// The validity of a certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Judged {
    /// The validity of the certificate: that of its best user ID.
    pub level: Level,
    /// The validity of its user IDs and attributes, in canonical order.
    pub user_ids: Vec<JudgedId>,
}

/// The validity of a user ID.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct JudgedId {
    /// The level of validity.
    pub level: Level,
    /// The TOFU decision, in a model that uses TOFU.
    pub tofu: Option<Decision>,
    /// Whether the computation ended early because the certifications are too many. The level may
    /// be too low then, and is never too high.
    pub cut_off: bool,
}

/// A reason for the validity of a user ID.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ValidityReason {
    /// The certificate is the user's own.
    Own,
    /// The owner trust, in a model that uses nothing else.
    Owner(Level),
    /// An introducer has certified the user ID, and the certification was needed. There may be more
    /// of them.
    Certified {
        /// The certificate of the introducer.
        by: Fingerprint,
        /// The primary user ID of the introducer.
        name: Option<Vec<u8>>,
        /// The owner trust of the introducer.
        trust: Level,
        /// The time of the certification, in seconds since 1970.
        created: u32,
    },
    /// The amount of trust that flows to the user ID, of 120.
    Flow(u32),
    /// The user's TOFU policy for the binding.
    Decided(Policy),
    /// One of the user's own keys certified the binding.
    CertifiedByOwn,
    /// The history of the binding: signatures by it, and messages to it.
    Seen {
        /// The signatures that were verified.
        signatures: History,
        /// The messages that were encrypted.
        encryptions: History,
    },
    /// Another certificate has the same address.
    Conflict(Fingerprint),
    /// This number of further certificates have the same address.
    MoreConflicts(usize),
    /// The computation ended early because the certifications are too many: there may be more
    /// trust.
    CutOff,
}

/// The maximum number of pairs of certificates that one judge looks at for mutual certifications.
/// Others count as not mutual, which makes a conflict.
const MUTUAL_MAX: usize = 2000;
/// The maximum number of conflicts that are reasons for the validity of one user ID. The others are
/// counted.
const CONFLICTS_MAX: usize = 10;

/// Computes the validity of certificates in a store at a given time, without writing to the store.
pub struct Judge<'s> {
    store: &'s Store,
    model: TrustModel,
    default_policy: Policy,
    now: u32,
    web: TrustView,
    /// Addressees in more than one certificate, if most certificates will be judged.
    shared: Option<HashSet<Handle>>,
    /// The recorded bindings, by addressee.
    recorded: HashMap<Addressee, Vec<Binding>>,
    own: OnceCell<Own>,
    rivals: RefCell<HashMap<Addressee, Arc<Rivals>>>,
    /// The number of pairs that may still be looked at for mutual certifications.
    mutual_left: Cell<usize>,
    flow: OnceCell<RefCell<Flow<Certifications<'s>>>>,
    certifiers: RefCell<Option<Certifiers<'s>>>,
    /// A cache of certificates as issuers of certifications.
    issuers: RefCell<HashMap<Fingerprint, Option<Rc<CertIssuer>>>>,
}

/// The user's own certificates.
#[derive(Default)]
struct Own {
    fingerprints: Vec<Fingerprint>,
    /// The certificates that the user's own ones may have certified.
    named: HashSet<CertId>,
    /// The trust roots: all certificates with owner trust, and its amount.
    roots: Vec<(CertId, u8)>,
}

impl<'s> Judge<'s> {
    /// A judge of certificates in `store` at `now`, in seconds since 1970. Set `all` if most of the
    /// certificates will be judged.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    pub fn new(
        store: &'s Store,
        model: TrustModel,
        default_policy: Policy,
        all: bool,
        now: u32,
    ) -> Result<Self, StoreError> {
        let web = match model {
            TrustModel::Pgp | TrustModel::TofuPgp => store.web().at(now.into())?,
            _ => TrustView::default(),
        };
        let shared =
            (all && model.is_tofu()).then(|| store.candidates().shared_addresses()).transpose()?;
        let mut recorded: HashMap<Addressee, Vec<Binding>> = HashMap::new();
        if model.is_tofu() {
            for binding in store.tofu().bindings()? {
                let addressee = Addressee::of_gnupg_name(&binding.email);
                recorded.entry(addressee).or_default().push(binding);
            }
        }
        Ok(Self {
            store,
            model,
            default_policy,
            now,
            web,
            shared,
            recorded,
            own: OnceCell::new(),
            rivals: RefCell::default(),
            mutual_left: Cell::new(MUTUAL_MAX),
            flow: OnceCell::new(),
            certifiers: RefCell::default(),
            issuers: RefCell::default(),
        })
    }

    /// Whether this judge judges the certificates of `store`.
    #[must_use]
    pub fn is_of(&self, store: &Store) -> bool {
        std::ptr::eq(self.store, store)
    }

    /// The history of the user IDs of a certificate, for those judged with TOFU.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    pub fn tofu_statistics(
        &self,
        row: &Row,
        judged: &Judged,
    ) -> Result<Vec<Option<TofuStatistics>>, StoreError> {
        let fingerprint = row.summary.fingerprint();
        let numbers = |history: History| {
            let History { count, first, last, days } = history;
            (count, first, last, days)
        };
        let user_ids = row.summary.user_ids.iter().zip(&judged.user_ids);
        user_ids
            .map(|(user_id, judged)| match (&user_id.content, &judged.tofu) {
                (UserIdContent::Text(text), Some(decision)) => {
                    let (signatures, encryptions) =
                        self.store.tofu().history(fingerprint, &gnupg_name(text))?;
                    Ok(Some(TofuStatistics {
                        policy: decision.policy.name(),
                        ask: decision.policy == Policy::Ask,
                        amount: tofu::amount(signatures, encryptions),
                        signatures: numbers(signatures),
                        encryptions: numbers(encryptions),
                    }))
                }
                _ => Ok(None),
            })
            .collect()
    }

    /// The trust model.
    #[must_use]
    pub fn model(&self) -> TrustModel {
        self.model
    }

    /// The validity of a certificate of the store. Its summary must be of the same time as the
    /// judge.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    pub fn judge(&self, row: &Row) -> Result<Judged, StoreError> {
        let summary = &row.summary;
        let count = summary.user_ids.len();
        let alike = |level| Judged {
            level,
            user_ids: vec![JudgedId { level, tofu: None, cut_off: false }; count],
        };
        let web = match self.model {
            TrustModel::Always => return Ok(alike(Level::Unknown)),
            TrustModel::Direct => {
                let owner = self.store.web().ownertrust(summary.fingerprint())?;
                return Ok(alike(owner.and_then(Level::from_number).unwrap_or_default()));
            }
            TrustModel::Wot => return self.flow(row),
            TrustModel::Tofu => None,
            TrustModel::Pgp | TrustModel::TofuPgp => self.web.standing(self.store, row.id)?,
        };
        let mut judged = alike(Level::Unknown);
        if let Some(standing) = web.filter(|standing| standing.levels.len() == count) {
            judged.level = standing.level();
            for (user_id, level) in judged.user_ids.iter_mut().zip(standing.levels) {
                user_id.level = level;
            }
        }
        if self.model.is_tofu() {
            let mut bindings = Vec::with_capacity(count);
            for (at, user_id) in summary.user_ids.iter().enumerate() {
                let UserIdContent::Text(text) = &user_id.content else {
                    judged.user_ids[at].level = Level::Never;
                    continue;
                };
                if user_id.validity(self.now) == Validity::Revoked {
                    continue;
                }
                let decision = self.binding(row, text)?;
                let level = decision.level(self.default_policy);
                let over = user_id.validity(self.now) == Validity::Expired;
                bindings.push((!over).then_some(level));
                judged.user_ids[at].level = level.combine(judged.user_ids[at].level);
                judged.user_ids[at].cut_off = decision.conflicts.cut_off();
                judged.user_ids[at].tofu = Some(decision);
            }
            judged.level = tofu::best(bindings).combine(judged.level);
        }
        Ok(judged)
    }

    /// The reasons for the validity of each user ID of a certificate. Negative reasons come first.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    pub fn reasons(
        &self,
        row: &Row,
        judged: &Judged,
    ) -> Result<Vec<Vec<ValidityReason>>, StoreError> {
        let mut reasons = vec![Vec::new(); judged.user_ids.len()];
        for ((reasons, judged), user_id) in
            reasons.iter_mut().zip(&judged.user_ids).zip(&row.summary.user_ids)
        {
            if let (UserIdContent::Text(text), Some(decision)) = (&user_id.content, &judged.tofu) {
                reasons.extend(self.bound(row, text, decision)?);
            }
        }
        let alike = |reason: ValidityReason| vec![vec![reason]; judged.user_ids.len()];
        match self.model {
            TrustModel::Always | TrustModel::Tofu => {}
            _ if judged.level == Level::Ultimate => return Ok(alike(ValidityReason::Own)),
            TrustModel::Direct => return Ok(alike(ValidityReason::Owner(judged.level))),
            TrustModel::Wot => {
                for (at, reasons) in reasons.iter_mut().enumerate() {
                    let found = self.paths(row, at)?;
                    let amount = found.amount();
                    reasons.extend((amount > 0).then_some(ValidityReason::Flow(amount)));
                    reasons.extend(found.cut_off.then_some(ValidityReason::CutOff));
                }
            }
            TrustModel::Pgp | TrustModel::TofuPgp => {
                for certifier in self.certified(row.id)? {
                    let trust = certifier.introducer.level;
                    let counts = matches!(trust, Level::Marginal | Level::Full | Level::Ultimate);
                    let Some(reasons) = reasons.get_mut(certifier.user_id).filter(|_| counts)
                    else {
                        continue;
                    };
                    let Some(by) = self.store.row_by_id(certifier.cert)? else { continue };
                    reasons.push(ValidityReason::Certified {
                        by: by.summary.fingerprint(),
                        name: by.summary.primary_user_id().map(<[u8]>::to_vec),
                        trust,
                        created: certifier.created.seconds(),
                    });
                }
            }
        }
        Ok(reasons)
    }

    /// The introducers whose certifications decided the validity of a certificate.
    fn certified(&self, id: CertId) -> Result<Vec<Certifier>, StoreError> {
        let mut certifiers = self.certifiers.borrow_mut();
        match &mut *certifiers {
            Some(certifiers) => certifiers.that_decided(id),
            none => none.insert(self.store.web().certifiers(self.now.into())?).that_decided(id),
        }
    }

    /// The reasons for the TOFU decision on a binding.
    fn bound(
        &self,
        row: &Row,
        user_id: &[u8],
        decision: &Decision,
    ) -> Result<Vec<ValidityReason>, StoreError> {
        let fingerprint = row.summary.fingerprint();
        let mut reasons = conflict_reasons(decision);
        match self.recorded_policy(fingerprint, &Addressee::of_user_id(user_id)) {
            Policy::Auto if decision.own => reasons.push(ValidityReason::Own),
            Policy::Auto if decision.policy == Policy::Good => {
                reasons.push(ValidityReason::CertifiedByOwn);
            }
            Policy::Auto => {}
            decided => reasons.push(ValidityReason::Decided(decided)),
        }
        let (signatures, encryptions) =
            self.store.tofu().history(fingerprint, &gnupg_name(user_id))?;
        if !decision.own {
            reasons.push(ValidityReason::Seen { signatures, encryptions });
        }
        Ok(reasons)
    }

    /// The user's policy for a binding, under any spelling of its address.
    fn recorded_policy(&self, fingerprint: Fingerprint, addressee: &Addressee) -> Policy {
        let recorded = self.recorded.get(addressee).map_or(&[][..], Vec::as_slice);
        let found = recorded.iter().filter(|binding| binding.fingerprint == fingerprint);
        tofu::strictest(found.map(|binding| binding.policy))
    }

    /// The validity of a certificate by flow in the network of certifications.
    fn flow(&self, row: &Row) -> Result<Judged, StoreError> {
        let own = self.own()?;
        let mut judged = Judged { level: Level::Unknown, user_ids: Vec::new() };
        for at in 0..row.summary.user_ids.len() {
            let mut cut_off = false;
            let level = if own.fingerprints.contains(&row.summary.fingerprint()) {
                Level::Ultimate
            } else {
                let found = self.paths(row, at)?;
                cut_off = found.cut_off;
                flow::level(found.amount())
            };
            judged.level = judged.level.max(level);
            judged.user_ids.push(JudgedId { level, tofu: None, cut_off });
        }
        Ok(judged)
    }

    /// The paths over which trust flows to a user ID of a certificate; `user_id` is its index in
    /// the summary. Trust roots are certificates with owner trust: ultimate and full ones for the
    /// whole amount, marginal ones for a third.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    pub fn paths(&self, row: &Row, user_id: usize) -> Result<flow::Found<CertId>, StoreError> {
        let summary = &row.summary;
        let none = flow::Found { paths: Vec::new(), cut_off: false };
        let Some(found) = summary.user_ids.get(user_id) else { return Ok(none) };
        let valid = Validity::Valid;
        if summary.validity(self.now) != valid || found.validity(self.now) != valid {
            return Ok(none);
        }
        let text = match &found.content {
            UserIdContent::Text(text) => &text[..],
            UserIdContent::Attribute { .. } => &[],
        };
        let roots = &self.own()?.roots;
        let flow = self.flow.get_or_init(|| {
            let network = Certifications::new(self.store, self.now.into());
            RefCell::new(Flow::new(network, roots.clone()))
        });
        flow.borrow_mut().paths((row.id, user_id, text))
    }

    /// The TOFU decision on a user ID of a certificate.
    fn binding(&self, row: &Row, user_id: &[u8]) -> Result<Decision, StoreError> {
        let fingerprint = row.summary.fingerprint();
        let addressee = Addressee::of_user_id(user_id);
        let own = self.own()?;
        let mut known = Evidence { own: own.fingerprints.contains(&fingerprint), certified: false };
        if !known.own && own.named.contains(&row.id) {
            known.certified = self.is_certified(fingerprint, &addressee, own)?;
        }
        let policy = self.recorded_policy(fingerprint, &addressee);
        let mut failed = None;
        let decision = tofu::decide(policy, known, fingerprint, || {
            self.rivals(fingerprint, &addressee).unwrap_or_else(|error| {
                failed = Some(error);
                Arc::default()
            })
        });
        failed.map_or(Ok(decision), Err)
    }

    /// The certificates for an address, `cert` among them: those in the store, and those of
    /// recorded bindings. All decisions about the address share the list.
    fn rivals(&self, cert: Fingerprint, addressee: &Addressee) -> Result<Arc<Rivals>, StoreError> {
        if let Some(rivals) = self.rivals.borrow().get(addressee)
            && rivals.place(cert).is_some()
        {
            return Ok(Arc::clone(rivals));
        }
        let recorded = self.recorded.get(addressee).map_or(&[][..], Vec::as_slice);
        let mut certs: Vec<(Fingerprint, bool)> =
            recorded.iter().map(|binding| (binding.fingerprint, true)).collect();
        let handle = Handle::of_addressee(addressee);
        if self.shared.as_ref().is_none_or(|shared| shared.contains(&handle)) {
            for id in self.store.candidates().with_addressee(addressee)? {
                certs.extend(self.rival(id, addressee)?);
            }
        }
        certs.push((cert, false));
        let mut rivals = Rivals::new(certs);
        if rivals.fingerprints().len() > 1 {
            let (pairs, cut_off) = self.mutual(&rivals, addressee)?;
            rivals = rivals.with_mutual(pairs);
            rivals.cut_off = cut_off;
        }
        let rivals = Arc::new(rivals);
        self.rivals.borrow_mut().insert(addressee.clone(), Arc::clone(&rivals));
        Ok(rivals)
    }

    /// The pairs of certificates that have certified each other for an address, and whether some
    /// were not looked at because they are too many. Only pairs whose signatures name each other
    /// are looked at, so the cost is that of the signatures.
    fn mutual(
        &self,
        rivals: &Rivals,
        addressee: &Addressee,
    ) -> Result<(Vec<(usize, usize)>, bool), StoreError> {
        let certs: Vec<Fingerprint> = rivals.fingerprints().collect();
        let mut named: HashMap<KeyId, Vec<usize>> = HashMap::new();
        for (place, cert) in certs.iter().enumerate() {
            named.entry(cert.key_id()).or_default().push(place);
        }
        // Pairs of an issuer and a certificate, as the signatures claim.
        let mut claimed: HashSet<(usize, usize)> = HashSet::new();
        for (to, cert) in certs.iter().enumerate() {
            let Some(stored) = self.store.get(*cert)? else { continue };
            for issuer in claimed_issuers(&stored.cert, addressee) {
                let issuers = named.get(&issuer).into_iter().flatten();
                claimed.extend(issuers.filter(|from| **from != to).map(|from| (*from, to)));
            }
        }
        let mut pairs: Vec<(usize, usize)> = claimed.iter().copied().collect();
        pairs.retain(|&(one, other)| one < other && claimed.contains(&(other, one)));
        pairs.sort_unstable();
        let mut mutual = Vec::new();
        for (one, other) in pairs {
            let left = self.mutual_left.get();
            if left == 0 {
                return Ok((mutual, true));
            }
            self.mutual_left.set(left - 1);
            if self.has_certified(certs[one], certs[other], addressee)?
                && self.has_certified(certs[other], certs[one], addressee)?
            {
                mutual.push((one, other));
            }
        }
        Ok((mutual, false))
    }

    /// The fingerprint of a certificate with a user ID that names `addressee`, as a rival of
    /// others. A revoked user ID does not count. An expired user ID counts only while its
    /// certificate is valid.
    fn rival(
        &self,
        id: CertId,
        addressee: &Addressee,
    ) -> Result<Option<(Fingerprint, bool)>, StoreError> {
        let Some(row) = self.store.row_by_id(id)? else { return Ok(None) };
        let summary =
            self.store.current(row, talaria_cert::Rules::Standard, self.now.into())?.summary;
        let usable = summary.validity(self.now) == Validity::Valid;
        let has = summary.user_ids.iter().any(|user_id| match &user_id.content {
            UserIdContent::Text(text) => {
                let counts = match user_id.validity(self.now) {
                    Validity::Revoked => false,
                    Validity::Expired => usable,
                    Validity::Invalid | Validity::Valid => true,
                };
                counts && Addressee::of_user_id(text) == *addressee
            }
            UserIdContent::Attribute { .. } => false,
        });
        Ok(has.then(|| (summary.fingerprint(), true)))
    }

    fn own(&self) -> Result<&Own, StoreError> {
        if let Some(own) = self.own.get() {
            return Ok(own);
        }
        let (mut fingerprints, mut roots) = (Vec::new(), Vec::new());
        for (fingerprint, value) in self.store.web().ownertrusts()? {
            let amount = match Level::from_number(value) {
                Some(Level::Ultimate) => {
                    fingerprints.push(fingerprint);
                    flow::FULL
                }
                Some(Level::Full) => flow::FULL,
                Some(Level::Marginal) => flow::PARTIAL,
                _ => continue,
            };
            roots.extend(self.store.row(fingerprint)?.map(|row| (row.id, amount)));
        }
        let ids: Vec<KeyId> = fingerprints.iter().map(Fingerprint::key_id).collect();
        let named = self.store.candidates().named_by(&ids)?;
        Ok(self.own.get_or_init(|| Own { fingerprints, named, roots }))
    }

    fn is_certified(
        &self,
        fingerprint: Fingerprint,
        addressee: &Addressee,
        own: &Own,
    ) -> Result<bool, StoreError> {
        for &issuer in &own.fingerprints {
            if self.has_certified(issuer, fingerprint, addressee)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_certified(
        &self,
        issuer: Fingerprint,
        fingerprint: Fingerprint,
        addressee: &Addressee,
    ) -> Result<bool, StoreError> {
        let (Some(issuer), Some(cert)) = (self.issuer(issuer)?, self.store.get(fingerprint)?)
        else {
            return Ok(false);
        };
        Ok(issuer.has_certified(&cert.cert, addressee))
    }

    fn issuer(&self, fingerprint: Fingerprint) -> Result<Option<Rc<CertIssuer>>, StoreError> {
        if let Some(issuer) = self.issuers.borrow().get(&fingerprint) {
            return Ok(issuer.clone());
        }
        let stored = self.store.get(fingerprint)?;
        let issuer = stored.map(|stored| Rc::new(CertIssuer::new(stored.cert)));
        self.issuers.borrow_mut().insert(fingerprint, issuer.clone());
        Ok(issuer)
    }
}

/// The conflicts of a binding, at most as many as are shown.
fn conflict_reasons(decision: &Decision) -> Vec<ValidityReason> {
    let mut conflicts = decision.conflicts.iter();
    let shown = conflicts.by_ref().take(CONFLICTS_MAX).map(ValidityReason::Conflict);
    let mut reasons: Vec<ValidityReason> = shown.collect();
    let more = conflicts.count();
    reasons.extend((more > 0).then_some(ValidityReason::MoreConflicts(more)));
    reasons.extend(decision.conflicts.cut_off().then_some(ValidityReason::CutOff));
    reasons
}

/// The reasons against the validity of a user ID that every listing of it shows.
#[must_use]
pub fn doubts(judged: &JudgedId) -> Vec<ValidityReason> {
    match &judged.tofu {
        Some(decision) => conflict_reasons(decision),
        None => judged.cut_off.then_some(ValidityReason::CutOff).into_iter().collect(),
    }
}

/// The issuers of the certifications on the first user ID with the identity `addressee`, as they
/// claim.
fn claimed_issuers<'c>(
    cert: &'c Cert,
    addressee: &'c Addressee,
) -> impl Iterator<Item = KeyId> + 'c {
    let is_it = |packet: &PacketRef<'_>| {
        packet.tag == Tag::USER_ID && Addressee::of_user_id(packet.body) == *addressee
    };
    let signatures = cert.packets().skip_while(move |packet| !is_it(packet)).skip(1);
    let signatures = signatures.take_while(|packet| packet.tag == Tag::SIGNATURE);
    signatures.filter_map(|packet| Signature::parse(packet.body)?.issuer)
}
