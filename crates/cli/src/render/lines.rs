//! The renderer for the rows of a listing, and gpg's colon format.

use std::cell::OnceCell;
use std::collections::HashMap;

use talaria::cert::{Gnupg, KeyId, Signature, Tag};
use talaria::gnupg::{Colons, write_cert as write_colons, write_cert_with_signatures};
use talaria::store::{Row, Stored};
use talaria::trust_models::Level;
use talaria::{Confirmation, Confirmations, Judge, Judged, Opened, Stores, ValidityReason};

use crate::terminal::Paint;

/// A renderer for the rows of a listing, with the data that is not in the summary.
pub(crate) struct Lines<'a> {
    stores: &'a Stores,
    pub(super) now: u32,
    pub(super) paint: Paint,
    pub(super) keygrips: bool,
    pub(super) signatures: bool,
    pub(super) judge: Option<Judge<'a>>,
    with_reasons: bool,
    tofu_info: bool,
    gnupg: Gnupg,
    /// Primary user IDs of the issuers of signatures, by key ID.
    makers: HashMap<KeyId, Option<Vec<u8>>>,
    /// Who has confirmed whose the certificates are, once a listing has asked.
    confirmations: OnceCell<Option<Confirmations<'a>>>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(stores: &'a Stores, now: u32, keygrips: bool, signatures: bool) -> Self {
        let (judge, makers) = (None, HashMap::new());
        let (with_reasons, tofu_info) = (false, false);
        let (gnupg, paint) = (Gnupg::default(), Paint::stdout());
        Self {
            stores,
            now,
            paint,
            keygrips,
            signatures,
            judge,
            with_reasons,
            tofu_info,
            gnupg,
            makers,
            confirmations: OnceCell::new(),
        }
    }

    /// The confirmation of each user ID of a certificate.
    pub(super) fn confirmations(
        &self,
        opened: &Opened,
        row: &Row,
    ) -> Result<Vec<Confirmation>, talaria::Error> {
        if self.confirmations.get().is_none() {
            let _ = self.confirmations.set(self.stores.confirmations(self.now)?);
        }
        let all = self.confirmations.get().and_then(Option::as_ref);
        match all {
            Some(all) => Ok(all.of_user_ids(opened, row)?),
            None => Ok(Vec::new()),
        }
    }

    /// Adds the validity of certificates, as this judge of the first store computes it.
    pub(crate) fn judged(self, judge: Judge<'a>) -> Self {
        Self { judge: Some(judge), ..self }
    }

    /// Adds the reasons for the validity.
    pub(crate) fn with_reasons(self, with_reasons: bool) -> Self {
        Self { with_reasons, ..self }
    }

    /// Selects the GnuPG release for the colon format.
    pub(crate) fn following(self, gnupg: Gnupg) -> Self {
        Self { gnupg, ..self }
    }

    /// Adds TOFU statistics to the colon format.
    pub(crate) fn with_tofu_info(self, tofu_info: bool) -> Self {
        Self { tofu_info, ..self }
    }

    /// Whether a certificate shares an address with another one, without a decision by the user.
    pub(crate) fn has_conflict(&self, opened: &Opened, row: &Row) -> Result<bool, talaria::Error> {
        let judged = self.judge(opened, row)?;
        let decisions = judged.iter().flat_map(|judged| &judged.user_ids);
        let mut decisions = decisions.filter_map(|user_id| user_id.tofu.as_ref());
        Ok(decisions.any(|decision| !decision.conflicts.is_empty()))
    }

    /// The reasons for the validity, if the listing shows them.
    pub(super) fn reasons(
        &self,
        row: &Row,
        judged: Option<&Judged>,
    ) -> Result<Vec<Vec<ValidityReason>>, talaria::Error> {
        match (&self.judge, judged) {
            (Some(judge), Some(judged)) if self.with_reasons => Ok(judge.reasons(row, judged)?),
            _ => Ok(Vec::new()),
        }
    }

    /// The validity of a certificate, if the listing shows it.
    pub(super) fn judge(
        &self,
        opened: &Opened,
        row: &Row,
    ) -> Result<Option<Judged>, talaria::Error> {
        let judge = self.judge.as_ref().filter(|judge| judge.is_of(&opened.store));
        Ok(judge.map(|judge| judge.judge(row)).transpose()?)
    }

    /// The whole certificate, if the listing needs more than the summary.
    pub(super) fn stored(
        &self,
        opened: &Opened,
        row: &Row,
    ) -> Result<Option<Stored>, talaria::Error> {
        let needed = self.keygrips || self.signatures;
        Ok(if needed { opened.store.stored(row.id)? } else { None })
    }

    /// Looks up the issuer of a signature in all stores, once per listing.
    pub(super) fn maker(&mut self, id: KeyId) -> Result<Option<Vec<u8>>, talaria::Error> {
        if let Some(known) = self.makers.get(&id) {
            return Ok(known.clone());
        }
        let mut name = None;
        for opened in self.stores.iter() {
            if let Some(holder) = opened.store.holder(id)? {
                name = Some(holder.primary_user_id().unwrap_or_default().to_vec());
                break;
            }
        }
        self.makers.insert(id, name.clone());
        Ok(name)
    }

    /// A certificate in gpg's colon format.
    pub(crate) fn colons(
        &mut self,
        out: &mut Vec<u8>,
        opened: &Opened,
        row: &Row,
    ) -> Result<(), talaria::Error> {
        let ownertrust = opened.store.web().ownertrust(row.summary.fingerprint())?;
        let judged = self.judge(opened, row)?;
        let letter = |level: Level| u8::try_from(level.letter()).unwrap_or(b'-');
        let letters: Option<(u8, Vec<u8>)> = judged.as_ref().map(|judged| {
            let user_ids = judged.user_ids.iter().map(|id| letter(id.level)).collect();
            (letter(judged.level), user_ids)
        });
        let tofu = match (&self.judge, &judged) {
            (Some(judge), Some(judged)) if self.tofu_info => {
                Some(judge.tofu_statistics(row, judged)?)
            }
            _ => None,
        };
        let options = Colons {
            ownertrust,
            keygrips: None,
            trust: letters.as_ref().map(|(key, user_ids)| (*key, &user_ids[..])),
            tofu: tofu.as_deref(),
            gnupg: self.gnupg,
        };
        let Some(stored) = self.stored(opened, row)? else {
            write_colons(out, &row.summary, &options, self.now);
            return Ok(());
        };
        let keygrips: Option<Vec<_>> =
            self.keygrips.then(|| stored.cert.keys().map(|key| key.keygrip()).collect());
        let options = Colons { keygrips: keygrips.as_deref(), ..options };
        if !self.signatures {
            write_colons(out, &row.summary, &options, self.now);
            return Ok(());
        }
        for packet in stored.cert.packets().filter(|packet| packet.tag == Tag::SIGNATURE) {
            if let Some(id) = Signature::parse(packet.body).and_then(|s| s.issuer) {
                self.maker(id)?;
            }
        }
        let makers = &self.makers;
        write_cert_with_signatures(out, &stored.cert, &row.summary, &options, self.now, |id| {
            makers.get(&id).and_then(|name| name.as_deref())
        });
        Ok(())
    }
}
