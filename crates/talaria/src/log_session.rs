//! What a program does with a log in the name of a person: writing as an author, making a log,
//! granting and revoking rights.

use std::path::Path;

use talaria_log::{
    Action, Certificate, ChainName, EntryId, Genesis, Grant, Honoured, KeyName, Log, LogError,
    LogFolder, Maker, MergeRule, NewCheckpointer, NoteKey, ObjectId, Operations, Pattern, Target,
};
use talaria_message::openpgp::{Cert, Fingerprint};
use talaria_message::{Rules, SigningKey, read_cert};
use talaria_store::Query;

use crate::error::Error;
use crate::keys::questions::names;
use crate::parsed::described;
use crate::stores::Stores;

/// An author of a log, ready to sign entries.
pub struct LogAuthor {
    cert: Cert,
    key: SigningKey,
    chain: ChainName,
}

impl LogAuthor {
    /// The author with the signing key `key` of the certificate `cert`.
    ///
    /// # Errors
    ///
    /// [`Error::LogKeyVersion`].
    pub fn new(cert: Cert, key: SigningKey) -> Result<Self, Error> {
        let chain = chain_of(&cert, &key)?;
        Ok(Self { cert, key, chain })
    }

    /// The certificate of the author.
    #[must_use]
    pub fn cert(&self) -> &Cert {
        &self.cert
    }

    /// Signs entries as this author.
    pub fn maker(&mut self) -> Maker<'_> {
        Maker { chain: self.chain, key: &mut self.key }
    }

    /// Writes one operation on the log itself.
    ///
    /// # Errors
    ///
    /// [`Error::Log`].
    pub fn put(&mut self, log: &LogFolder, action: Action, now_ms: u64) -> Result<EntryId, Error> {
        Ok(log.put_action(&mut self.maker(), action, now_ms)?)
    }
}

/// The chain of the entries that `key` signs for the owner of `cert` in a folder.
pub(crate) fn chain_of(cert: &Cert, key: &SigningKey) -> Result<ChainName, Error> {
    let named = |fingerprint: &Fingerprint| {
        let name = || cert.fingerprint().to_hex();
        KeyName::of_openpgp(fingerprint).ok_or_else(|| Error::LogKeyVersion { name: name() })
    };
    let author = named(&cert.fingerprint())?;
    let subkey = named(&key.public().fingerprint())?;
    // A folder has its instance.
    Ok(ChainName { author, subkey, instance: [0; 16] })
}

/// The part of a certificate that a log stores, if it may sign at `now`, in seconds since 1970.
///
/// # Errors
///
/// [`Error::Log`].
pub fn log_certificate(cert: &Cert, now: u32) -> Result<Certificate, Error> {
    Ok(Certificate::of_signer(cert, now).map_err(LogError::from)?)
}

impl Stores {
    /// The part of a certificate that a log needs of somebody who gets rights: the only one whose
    /// word counts as that of `query`, if it may sign and no designated revoker has revoked it.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::signer`] and [`Self::refuse_revoked`]; [`Error::Log`].
    pub fn log_member(&self, query: &Query, rules: Rules, now: u32) -> Result<Certificate, Error> {
        let cert = self.signer(query, now)?;
        self.refuse_revoked(&cert, rules, now)?;
        log_certificate(&cert, now)
    }
}

/// The only author of a log whom `query` names exactly.
///
/// # Errors
///
/// [`Error::NoAuthor`]; [`Error::Ambiguous`].
pub fn log_author(log: &Log, query: &Query) -> Result<KeyName, Error> {
    let mut found: Vec<(KeyName, String)> = Vec::new();
    let exact = query.exact();
    for certificate in log.certificates() {
        let Ok(cert) = read_cert(certificate.as_bytes()) else { continue };
        let is_named = exact.as_ref().is_some_and(|query| names(query, &cert));
        if is_named && found.iter().all(|(name, _)| *name != certificate.name()) {
            found.push((certificate.name(), described(&cert)));
        }
    }
    match &found[..] {
        [(name, _)] => Ok(*name),
        [] => Err(Error::NoAuthor { query: query.to_string() }),
        _ => Err(Error::Ambiguous {
            query: query.to_string(),
            candidates: found.into_iter().map(|(_, described)| described).collect(),
        }),
    }
}

/// The terms of a new log, which hold for ever.
pub struct NewLog<'n> {
    /// The owners; the first signs the log.
    pub owners: Vec<Certificate>,
    /// The number of owners who must agree on a grant, a revocation or a choice.
    pub threshold: u8,
    /// The merge rules of fields; the first pattern that matches counts.
    pub rules: Vec<(Pattern, MergeRule)>,
    /// The checkpointer, without whom the log has no checkpoints.
    pub checkpointer: Option<NewCheckpointer<'n>>,
}

impl NewLog<'_> {
    /// Makes the log in `folder`, which is empty or does not exist. Returns the key of the
    /// checkpointer too, if the log has one. The same owner may be named several times.
    ///
    /// # Errors
    ///
    /// [`Error::LogThreshold`]; [`Error::Log`]; [`Error::Witness`].
    pub fn make(
        self,
        folder: &Path,
        maker: &mut Maker<'_>,
        now_ms: u64,
    ) -> Result<(LogFolder, Option<NoteKey>), Error> {
        let mut owners: Vec<Certificate> = Vec::with_capacity(self.owners.len());
        for owner in self.owners {
            if owners.iter().all(|other| other.name() != owner.name()) {
                owners.push(owner);
            }
        }
        if self.threshold == 0 || usize::from(self.threshold) > owners.len() {
            return Err(Error::LogThreshold { owners: owners.len() });
        }
        let mut genesis = Genesis::new(owners, self.threshold);
        genesis.allow_keys_of_owners();
        genesis.rules = self.rules;
        let mut sign = |genesis| -> Result<_, Error> {
            Ok(maker.begin(genesis, now_ms).map_err(LogError::from)?)
        };
        match self.checkpointer {
            Some(checkpointer) => {
                let (log, key) = checkpointer.create_log(folder, genesis, sign)?;
                Ok((log, Some(key)))
            }
            None => Ok((LogFolder::create(folder, &sign(genesis)?)?, None)),
        }
    }
}

/// A grant to write.
pub struct NewGrant<'n> {
    /// The certificate of the author.
    pub certificate: Certificate,
    /// The name or the identity of the object that may be changed; `None` for all.
    pub object: Option<&'n str>,
    /// The fields that may be changed.
    pub fields: Pattern,
    /// The operations that are allowed.
    pub operations: Operations,
    /// The end, in milliseconds since 1970; 0 for none.
    pub ends_ms: u64,
}

impl NewGrant<'_> {
    /// Writes the grant. Returns the identity of the entry, and the number of other owners whose
    /// approval it still needs.
    ///
    /// # Errors
    ///
    /// [`Error::LogAlgorithm`]; [`Error::Log`].
    pub fn put(
        self,
        log: &LogFolder,
        maker: &mut Maker<'_>,
        now_ms: u64,
    ) -> Result<(EntryId, u8), Error> {
        let Self { certificate, object, fields, operations, ends_ms } = self;
        let is_allowed = log.read(|log| {
            let allowed = &log.genesis().algorithms;
            certificate.algorithms().any(|algorithm| allowed.contains(&algorithm))
        })?;
        if !is_allowed {
            return Err(Error::LogAlgorithm { name: certificate.name().to_string() });
        }
        let object = match object {
            Some(name) => log.read(|log| log.find_object(name))?.map_err(LogError::from)?,
            None => ObjectId::NONE,
        };
        let grant = Grant { certificate, object, fields, operations, ends_ms };
        let entry = log.put_action(maker, Action::Grant(Box::new(grant)), now_ms)?;
        Ok((entry, approvals_missing(log)?))
    }
}

/// The grant of a log with this identity.
#[must_use]
pub fn log_grant(log: &Log, identity: &str) -> Option<EntryId> {
    let id = identity.parse::<EntryId>().ok()?;
    log.grants().any(|(grant, _, _)| grant == id).then_some(id)
}

/// What is left of an author, a key or a grant that a revocation ends.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Revoked {
    /// The identity of the revocation.
    pub entry: EntryId,
    /// The number of devices whose entries count up to a last one.
    pub devices: usize,
    /// The number of owners whose approval it still needs.
    pub approvals_missing: u8,
}

/// Ends a grant, a key or an author. `honoured` says what counts of it.
///
/// # Errors
///
/// [`Error::Log`], also for a reason that is not 0 to 3.
pub fn log_revoke(
    log: &LogFolder,
    maker: &mut Maker<'_>,
    target: Target,
    honoured: &Honoured,
    reason: u8,
    now_ms: u64,
) -> Result<Revoked, Error> {
    let revocation = log.read(|log| log.revocation(target, honoured, reason))?;
    let revocation = revocation.map_err(LogError::from)?;
    let devices = revocation.heads.len();
    let entry = log.put_action(maker, Action::Revoke(revocation), now_ms)?;
    Ok(Revoked { entry, devices, approvals_missing: approvals_missing(log)? })
}

fn approvals_missing(log: &LogFolder) -> Result<u8, Error> {
    Ok(log.read(|log| log.genesis().threshold.saturating_sub(1))?)
}
