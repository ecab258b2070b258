//! Small signed documents of a repository: tombstones, protections, leases, plans and commits, and
//! what readers say of packs.

use std::sync::Arc;

use talaria_cert::{parse_timestamp, timestamp};
use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use crate::backend::{Backend, Object, read_object};
use crate::document::{self, Document, DocumentStanding, verifier};
use crate::epoch::{Sealing, Use};
use crate::error::{BackupError, Result};
use crate::id::{Id, Identifiers, Kind, RepositoryId, from_hex, in_folder, to_hex};
use crate::repository::{Keys, Repository, SIGNED_BYTES_MAX, random};
use crate::text::Lines;

/// The lines of every such document after its repository.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Header {
    /// Without it, somebody else could sign the same text before and take its name.
    pub(crate) nonce: [u8; 16],
    /// Seconds since 1970.
    pub(crate) time: u32,
}

impl Header {
    /// The header of a new document.
    pub(crate) fn new(time: u32) -> Result<Self> {
        let mut nonce = [0; 16];
        random(&mut nonce)?;
        Ok(Self { nonce, time })
    }

    /// The start of a document.
    pub(crate) fn text(&self, domain: &str, repository: RepositoryId) -> String {
        let (nonce, time) = (to_hex(&self.nonce), timestamp(self.time));
        format!("{domain} 1\nrepository {repository}\nnonce {nonce}\ntime {time}\n")
    }

    pub(crate) fn read(lines: &mut Lines<'_>) -> Result<Self> {
        let nonce = from_hex(lines.one("nonce")?);
        let nonce = nonce.ok_or_else(|| lines.damaged("its nonce is invalid"))?;
        let time = parse_timestamp(lines.one("time")?);
        Ok(Self { nonce, time: time.ok_or_else(|| lines.damaged("its time is invalid"))? })
    }
}

/// The maximum number of documents in a folder.
const DOCUMENTS_MAX: usize = 100_000;

/// A document whose name is the identifier of its text.
pub(crate) struct Signed {
    pub(crate) id: Id,
    /// The name of the object.
    pub(crate) name: String,
    document: Document,
}

impl Signed {
    /// The text.
    pub(crate) fn text(&self) -> &[u8] {
        &self.document.text
    }

    /// Whose word the document is, if certificates may sign it for which `may_sign` is true.
    pub(crate) fn standing(&self, may_sign: impl Fn(&Fingerprint) -> bool) -> DocumentStanding {
        DocumentStanding::of(&self.document.signatures, may_sign)
    }

    /// The signer, if a certificate signed for which `may_sign` is true, and was not revoked as
    /// compromised.
    pub(crate) fn signer(&self, may_sign: impl Fn(&Fingerprint) -> bool) -> Option<Fingerprint> {
        match self.standing(may_sign) {
            DocumentStanding::Good(signer) | DocumentStanding::Past(signer, _) => Some(signer),
            DocumentStanding::Doubtful(..)
            | DocumentStanding::Unsigned
            | DocumentStanding::Foreign(_) => None,
        }
    }
}

/// Writes documents.
pub(crate) struct DocumentWriter {
    backend: Arc<dyn Backend>,
    identifiers: Identifiers,
    sealing: Sealing,
}

impl DocumentWriter {
    pub(crate) fn new(repository: &Repository, keys: &Keys, now: u32) -> Result<Self> {
        Ok(Self {
            backend: Arc::clone(repository.backend()),
            identifiers: keys.identifiers.clone(),
            sealing: repository.sealing(Use::Index, now)?,
        })
    }

    /// Writes a document, which is durable when this returns.
    pub(crate) fn write(
        &self,
        folder: &str,
        text: &str,
        signer: Option<&mut SigningKey>,
        now: u32,
    ) -> Result<Id> {
        let id = self.identifiers.of(Kind::Document, text.as_bytes());
        let name = format!("{folder}/{id}");
        let sealed = self.sealing.seal(&name, text.as_bytes(), signer, now)?;
        if sealed.len() as u64 > SIGNED_BYTES_MAX {
            return Err(BackupError::Refused(format!(
                "a document for {folder} would have more than {SIGNED_BYTES_MAX} bytes"
            )));
        }
        self.backend.put(&name, &[&sealed])?;
        self.backend.sync()?;
        Ok(id)
    }
}

impl Repository {
    /// Writes a document, which is durable when this returns.
    pub(crate) fn write_signed(
        &self,
        keys: &Keys,
        folder: &str,
        text: &str,
        signer: Option<&mut SigningKey>,
        now: u32,
    ) -> Result<Id> {
        DocumentWriter::new(self, keys, now)?.write(folder, text, signer, now)
    }

    /// Calls `each` with every document of a folder that opens. Returns the ones that do not, or
    /// that `each` refuses.
    ///
    /// A document that is deleted meanwhile is left out.
    pub(crate) fn read_signed(
        &self,
        keys: &Keys,
        folder: &str,
        now: u32,
        each: &mut dyn FnMut(&Signed) -> Result<()>,
    ) -> Result<Vec<BackupError>> {
        let objects = self.backend().list(folder)?;
        if objects.len() > DOCUMENTS_MAX {
            return Err(BackupError::damaged(
                folder,
                format!("it has more than {DOCUMENTS_MAX} documents"),
            ));
        }
        self.read_objects(keys, folder, objects, now, each)
    }

    /// Like [`Self::read_signed`], for some of the objects in the folder.
    pub(crate) fn read_objects(
        &self,
        keys: &Keys,
        folder: &str,
        objects: Vec<Object>,
        now: u32,
        each: &mut dyn FnMut(&Signed) -> Result<()>,
    ) -> Result<Vec<BackupError>> {
        let verifier = verifier(self.certs(), now);
        let mut secrets = keys.index_secrets();
        let mut unreadable = Vec::new();
        for object in objects {
            let name = object.name;
            let Some(id) = in_folder::<Id>(folder, &name) else { continue };
            let damaged = |why: &str| BackupError::damaged(&*name, why);
            let read = read_object(&**self.backend(), &name, SIGNED_BYTES_MAX, |bytes| {
                let document = document::open(&name, bytes, &mut secrets, &verifier)?;
                if keys.identifiers.of(Kind::Document, &document.text) != id {
                    return Err(damaged("its name is not the identifier of its content"));
                }
                let mut profiles = self.config().epochs.iter().map(|epoch| epoch.profile.packets());
                if !profiles.any(|packets| packets == document.profile) {
                    return Err(damaged("no epoch has packets like its own"));
                }
                Ok(document)
            });
            let read = read.and_then(|document| each(&Signed { id, name: name.clone(), document }));
            match read {
                Ok(()) | Err(BackupError::Missing { .. }) => {}
                Err(error @ BackupError::Storage { .. }) => return Err(error),
                Err(error) => unreadable.push(error),
            }
        }
        Ok(unreadable)
    }
}
