//! Whether everybody who should can still open the repository.

use std::collections::BTreeSet;

use talaria_message::openpgp::Fingerprint;
use talaria_message::{Message, MessageKind};

use crate::backend::is_of_one_object;
use crate::check::checked::Checked;
use crate::epoch::{cert_name, group_name, key_name};
use crate::error::{BackupError, Result};
use crate::repository::{CERT_BYTES_MAX, Repository};

impl Repository {
    /// Looks for the key messages and certificates of all readers, clients and signers: the key in
    /// the drawer is not used for years. Their content is encrypted to others, so of it only the
    /// form is looked at.
    pub(super) fn check_people(&self, checked: &mut Checked) -> Result<()> {
        let config = self.config();
        let names = |folder: &str| -> Result<BTreeSet<String>> {
            Ok(self.backend().list(folder)?.into_iter().map(|object| object.name).collect())
        };
        let (keys, certs) = (names("keys")?, names("certs")?);
        for person in config.readers.iter().chain(&config.clients) {
            let who = person.to_hex();
            let kind = if config.readers.contains(person) { "reader" } else { "client" };
            let mut wanted = vec![(
                group_name(person),
                format!("without it, the {kind} {who} cannot open the repository"),
            )];
            for epoch in config.epochs.iter().filter(|epoch| epoch.keys.is_some()) {
                let number = epoch.number;
                wanted.push((
                    key_name(number, person),
                    format!(
                        "without it, the {kind} {who} cannot open what was stored in epoch {number}"
                    ),
                ));
            }
            for (name, without) in wanted {
                if let Some(what) = self.key_problem(&name, &keys)? {
                    checked.add(name, format!("{what}; {without}"));
                }
            }
        }
        let signers = config.signers.keys().chain([&config.owner]);
        let people: BTreeSet<&Fingerprint> =
            config.readers.iter().chain(&config.clients).chain(signers).collect();
        let of_people = "a machine that has no copy of it cannot verify what its owner signed";
        let of_epochs = "nobody can encrypt to the key of the epoch";
        let epochs = config.epochs.iter().filter_map(|epoch| epoch.keys.as_ref());
        let epochs = epochs.flat_map(|(data, index)| [(data, of_epochs), (index, of_epochs)]);
        for (cert, without) in people.into_iter().map(|cert| (cert, of_people)).chain(epochs) {
            let name = cert_name(cert);
            if !certs.contains(&name) {
                checked.add(name, format!("it is missing; without it, {without}"));
            }
        }
        Ok(())
    }

    /// What is wrong with a key message, as far as somebody can tell who cannot open it.
    fn key_problem(&self, name: &str, there: &BTreeSet<String>) -> Result<Option<String>> {
        if !there.contains(name) {
            return Ok(Some("it is missing".into()));
        }
        let bytes = match self.backend().get(name, CERT_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(BackupError::Missing { .. }) => return Ok(Some("it is missing".into())),
            Err(error) if error.is_of_storage() && !is_of_one_object(&**self.backend(), &error) => {
                return Err(error);
            }
            Err(error) => return Ok(Some(error.to_string())),
        };
        Ok(match Message::new(&bytes[..]) {
            Ok(message) if message.kind() == MessageKind::Encrypted => None,
            Ok(_) => Some("it is not encrypted".into()),
            Err(error) => Some(error.to_string()),
        })
    }
}
