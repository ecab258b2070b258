//! The recipients of a message: certificates in the stores that are found by name, and how far it
//! is confirmed whose they are.

use talaria_cert::{Rules, Weak};
use talaria_message::{Recipients, openpgp};
use talaria_store::{Event, Query};
use talaria_trust::Level;

use crate::belief::{Belief, Doubt, Trust};
use crate::believed::InUse;
use crate::error::Error;
use crate::messages::Recipient;
use crate::parsed::stored_fingerprint;
use crate::stores::Stores;
use crate::tofu::Sight;

/// The recipients that a caller accepts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Accepted {
    /// All whom the user has not called bad. [`FoundRecipient::doubt`] says what is not confirmed.
    #[default]
    Doubtful,
    /// Only those that are confirmed.
    Confirmed,
}

/// How recipients are found and judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecipientOptions {
    /// The rules by which certificates count.
    pub rules: Rules,
    /// The trust settings.
    pub trust: Trust,
    /// The recipients that are accepted.
    pub accepted: Accepted,
}

/// A certificate that was found as a recipient.
#[derive(Clone, Debug)]
pub struct FoundRecipient {
    /// The name by which it was found.
    pub query: Query,
    /// Its fingerprint.
    pub certificate: openpgp::Fingerprint,
    /// The weakest self-signature that its keys need, if that has a broken hash function. Its owner
    /// should renew it.
    pub weak: Option<Weak>,
    /// Its validity; `None` if the store has no trust root. If the name is an address or a user ID,
    /// the validity of that one.
    pub belief: Option<Belief>,
}

impl FoundRecipient {
    /// The reason why it is not confirmed that the certificate belongs to its name, if it is not.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        Doubt::about(self.belief)
    }
}

/// The result of [`Stores::recipients`].
pub struct FoundRecipients {
    /// The certificates that were found, in the order of the names.
    pub certificates: Vec<FoundRecipient>,
    /// The keys to encrypt to. There are none if one of the recipients is refused.
    pub keys: Result<Recipients, RefusedRecipient>,
}

/// A recipient that was not found or is not accepted, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct RefusedRecipient {
    /// The name of the recipient, or the fingerprint of the certificate that was found.
    pub name: String,
    /// The reason.
    #[source]
    pub why: Box<Error>,
}

impl From<RefusedRecipient> for Error {
    fn from(refused: RefusedRecipient) -> Self {
        *refused.why
    }
}

impl Stores {
    /// The recipients with these names, each as by [`Self::recipient`], as of `now` in seconds
    /// since 1970. One whom the user, or a rule of the trust model, has decided against is refused
    /// in any case.
    ///
    /// Encrypting to an address, if the certificate is confirmed to belong to it:
    ///
    /// ```
    /// # use std::sync::atomic::AtomicBool;
    /// # use talaria::message::openpgp::cert::CertBuilder;
    /// # use talaria::message::openpgp::serialize::SerializeInto as _;
    /// # use talaria::store::Access;
    /// # use talaria::{ImportOptions, Input, Monitor, Stores, import};
    /// use talaria::cert::ErrorKind;
    /// use talaria::message::{EncryptOptions, encrypt};
    /// use talaria::{Accepted, RecipientOptions};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let folder = tempfile::tempdir()?;
    /// # let now = u32::try_from(std::time::UNIX_EPOCH.elapsed()?.as_secs())?;
    /// # let (bob, _) = CertBuilder::general_purpose(Some("<bob@example.org>")).generate()?;
    /// # let file = folder.path().join("bob.pgp");
    /// # std::fs::write(&file, bob.to_vec()?)?;
    /// # let path = folder.path().join("certs.db");
    /// # let mut stores = Stores::open(&[path], Access::Create, now)?;
    /// # let stop = AtomicBool::new(false);
    /// # let monitor = &mut Monitor { report: &mut |_| {}, stop: &stop };
    /// # import(stores.writable()?, &[Input::Path(file)], ImportOptions::new(now), monitor)?;
    /// let bob = ["bob@example.org".parse()?];
    /// let options = RecipientOptions { accepted: Accepted::Confirmed, ..Default::default() };
    /// let found = stores.recipients(&bob, &options, now)?;
    /// let refused = found.keys.err().ok_or("nobody has certified the certificate")?;
    /// assert_eq!(refused.to_string(), format!(
    ///     "cannot confirm that {} belongs to bob@example.org (the store has no trust root)",
    ///     refused.name,
    /// ));
    ///
    /// // After a certification by the user's own key, or with a fingerprint that was compared:
    /// let found = stores.recipients(&bob, &RecipientOptions::default(), now)?;
    /// let (mut sealed, options) = (Vec::new(), EncryptOptions::default());
    /// encrypt(&b"text"[..], &mut sealed, &found.keys?, &mut [], &options, now)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of reading the stores. The reason why a recipient is refused is in the result:
    /// [`Error::Doubtful`], [`Error::Distrusted`], or an error of [`Self::recipient`].
    pub fn recipients(
        &self,
        names: &[Query],
        options: &RecipientOptions,
        now: u32,
    ) -> Result<FoundRecipients, Error> {
        let refused = |name: String, why: Error| RefusedRecipient { name, why: Box::new(why) };
        let mut keys = Recipients::default();
        let mut certificates = Vec::with_capacity(names.len());
        for query in names {
            let added = self.recipient(query, options.rules, now).and_then(|recipient| {
                let Recipient { cert, judge } = recipient;
                let weak = keys.add_judged(&cert, judge, now)?;
                Ok((cert.fingerprint(), weak))
            });
            match added {
                Ok((certificate, weak)) => {
                    let query = query.clone();
                    certificates.push(FoundRecipient { query, certificate, weak, belief: None });
                }
                Err(why) => {
                    let keys = Err(refused(query.to_string(), why));
                    return Ok(FoundRecipients { certificates, keys });
                }
            }
        }
        let used = certificates.iter().map(|FoundRecipient { certificate, query, .. }| {
            InUse::chosen(stored_fingerprint(certificate), query)
        });
        let beliefs = self.beliefs(&used.collect::<Vec<_>>(), options.trust, now)?;
        for (recipient, belief) in certificates.iter_mut().zip(beliefs) {
            recipient.belief = belief;
        }
        let unacceptable = certificates.iter().find_map(|recipient| {
            let (name, query) = (recipient.certificate.to_hex(), recipient.query.to_string());
            let why = match (recipient.doubt()?, options.accepted) {
                (Doubt::Validity(Level::Never), _) => Error::Distrusted { name: name.clone() },
                (doubt, Accepted::Confirmed) => {
                    Error::Doubtful { name: name.clone(), query, doubt }
                }
                (_, Accepted::Doubtful) => return None,
            };
            Some(refused(name, why))
        });
        Ok(FoundRecipients { certificates, keys: unacceptable.map_or(Ok(keys), Err) })
    }
}

/// What TOFU records when a message has been encrypted to certificates at `now`, in seconds since
/// 1970, for [`crate::tofu::observe`]: nothing unless `trust` has a TOFU model.
#[must_use]
pub fn encrypted_to(certificates: &[openpgp::Fingerprint], trust: Trust, now: u32) -> Vec<Sight> {
    if !trust.model().is_tofu() {
        return Vec::new();
    }
    let sight =
        |fingerprint| Sight { fingerprint, addressee: None, event: Event::Encrypted(now.into()) };
    certificates.iter().filter_map(stored_fingerprint).map(sight).collect()
}
