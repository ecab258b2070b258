//! How a command gets into a repository.

use std::path::{Path, PathBuf};

use talaria::backup::{Authority, Client, ClientError, ClientOptions, Id, ReadFrom, Role};
use talaria::message::openpgp::{Cert, Fingerprint};
use talaria::message::{Secrets, SigningKey};
use talaria::store::Access;

use super::notices::teller;
use super::option::{parse_fingerprint, parse_id};
use super::place::{is_remote, open_place, place_name};
use crate::context::Context;
use crate::error::CliError;
use crate::folders::data_folder;
use crate::keys::{KeyArgs, certificate};
use crate::passphrase::PassphraseArgs;
use crate::shell::shell_word;

/// How a command gets into a repository.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AccessArgs {
    /// Fingerprint of the expected owner of the repository
    #[arg(long, value_name = "FINGERPRINT", value_parser = parse_fingerprint)]
    pub(super) owner: Option<Fingerprint>,
    /// Folder of this machine's records of repositories [default: in the XDG data folder]
    #[arg(long, env = "TALARIA_BACKUP_STATE", value_name = "FOLDER")]
    pub(super) state: Option<PathBuf>,
    /// Identifier of a snapshot that must be there, as `list --json` gives it, so that an old state
    /// of the repository is noticed (can be repeated)
    #[arg(long, value_name = "ID", value_parser = parse_id)]
    pub(super) expect_head: Vec<Id>,
    #[command(flatten)]
    pub(super) keys: KeyArgs,
    #[command(flatten)]
    pub(super) passphrase: PassphraseArgs,
}

impl AccessArgs {
    /// The folder of the state of all repositories.
    pub(super) fn state_folder(&self) -> Result<PathBuf, CliError> {
        let default = || data_folder().map(|folder| folder.join("backup"));
        let folder = self.state.clone().or_else(default);
        folder.ok_or(CliError::NoHome { what: "what is known of the repository" })
    }

    /// Opens the repository in `place`, and decrypts its keys.
    pub(super) fn open(&self, place: &Path, cx: &Context) -> Result<Client, CliError> {
        let read_from = if is_remote(place) { ReadFrom::LocalCopies } else { ReadFrom::Storage };
        self.open_with(place, read_from, cx)
    }

    /// Like [`Self::open`], and everything is read from the storage itself, even if this machine
    /// has copies.
    pub(super) fn open_storage(&self, place: &Path, cx: &Context) -> Result<Client, CliError> {
        self.open_with(place, ReadFrom::Storage, cx)
    }

    fn open_with(
        &self,
        place: &Path,
        read_from: ReadFrom,
        cx: &Context,
    ) -> Result<Client, CliError> {
        let backend = open_place(place)?;
        let stores = cx.stores(Access::Read).ok();
        let mut known = |fingerprint: &Fingerprint| {
            let stores = stores.as_ref()?;
            let found = stores.parsed(&fingerprint.to_hex().parse().ok()?, cx.now).ok()?;
            found.into_iter().find(|cert| cert.fingerprint() == *fingerprint)
        };
        let (keys, elsewhere) = self.keys.decryption(&self.passphrase.given()?, cx)?;
        let options = ClientOptions {
            backend,
            place: place_name(place),
            state: &self.state_folder()?,
            owner: self.owner.clone(),
            heads: &self.expect_head,
            read_from,
            known: &mut known,
            own: self.keys.certs(cx)?,
            secrets: Secrets { keys, elsewhere, ..Secrets::default() },
        };
        Client::open(options, cx.now, &mut teller(cx)).map_err(|error| match error {
            ClientError::NoRepository { .. } => CliError::Missing(format!(
                "{} is not a backup repository; to make one: talaria backup --repo {} init",
                place.display(),
                shell_word(place)
            )),
            error => error.into(),
        })
    }

    /// The key that signs, which must have an authority: the one called `wanted`, or the only one
    /// of the user.
    pub(super) fn signer(
        &self,
        wanted: Option<&str>,
        session: &Client,
        authority: Authority,
        cx: &Context,
    ) -> Result<(SigningKey, Cert), CliError> {
        // At another time, the keys of the user may not be usable, which would say less.
        session.repository.check_clock(cx.now)?;
        let given = self.passphrase.given()?;
        let name = match wanted {
            Some(name) => name.to_owned(),
            None => session.holder(authority)?.fingerprint().to_hex(),
        };
        let signer = self.keys.signers(&[name], &given, cx)?.remove(0);
        let cert = certificate(&signer, &session.own, cx)?;
        Ok((signer, cert))
    }

    /// The signer of new snapshots; none in a repository without signatures, unless a key is
    /// `wanted`.
    pub(super) fn creator(
        &self,
        wanted: Option<&str>,
        session: &Client,
        cx: &Context,
    ) -> Result<(Option<Fingerprint>, Option<SigningKey>), CliError> {
        if !session.repository.config().signed && wanted.is_none() {
            return Ok((None, None));
        }
        let (signer, cert) = self.signer(wanted, session, Authority::Role(Role::Create), cx)?;
        Ok((Some(cert.fingerprint()), Some(signer)))
    }
}
