//! How a command gets into a repository.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use talaria::message::openpgp::{Cert, Fingerprint};
use talaria::message::{Secrets, SigningKey};
use talaria::store::Access;
use talaria_backup::{
    BackupError, DocumentStanding, Expected, Id, Keys, LocalCopies, Repository, Role, State,
};

use super::option::{parse_fingerprint, parse_id};
use super::place::{is_remote, open_place, place_name};
use super::session::Session;
use crate::context::Context;
use crate::error::CliError;
use crate::folders::data_folder;
use crate::keys::{KeyArgs, certificate};
use crate::passphrase::PassphraseArgs;
use crate::shell::shell_word;
use crate::terminal::Paint;

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
    pub(super) fn open(&self, place: &Path, cx: &Context) -> Result<Session, CliError> {
        self.open_with(place, is_remote(place), cx)
    }

    /// Like [`Self::open`], and everything is read from the storage itself, even if this machine
    /// has copies.
    pub(super) fn open_storage(&self, place: &Path, cx: &Context) -> Result<Session, CliError> {
        self.open_with(place, false, cx)
    }

    fn open_with(&self, place: &Path, copies: bool, cx: &Context) -> Result<Session, CliError> {
        let mut backend = open_place(place)?;
        let id = Repository::id_in(&*backend).map_err(|error| match error {
            BackupError::Missing { .. } => CliError::Missing(format!(
                "{} is not a backup repository; to make one: talaria backup --repo {} init",
                place.display(),
                shell_word(place)
            )),
            error => error.into(),
        })?;
        let folder = self.state_folder()?;
        let name = place_name(place);
        // A user who gives the owner's fingerprint knows which repository to expect.
        if self.owner.is_none() {
            State::check_place(&folder, &name, id)?;
        }
        let mut state = State::open(&folder, id)?;
        if copies {
            backend = Arc::new(LocalCopies::new(backend, state.folder().join("copies")));
        }
        let first_use = state.expected.owner.is_none();
        let owner = self.owner.clone().or_else(|| state.expected.owner.clone());
        let expected = Expected { owner, configuration: state.expected.configuration };
        let stores = cx.stores(Access::Read).ok();
        let mut known = |fingerprint: &Fingerprint| {
            let stores = stores.as_ref()?;
            let found = stores.parsed(&fingerprint.to_hex().parse().ok()?, cx.now).ok()?;
            found.into_iter().find(|cert| cert.fingerprint() == *fingerprint)
        };
        let mut repository = Repository::open(backend, &expected, &mut known, cx.now)?;
        repository.set_scratch(state.scratch());
        State::remember_place(&folder, &name, id)?;
        let owner = repository.config().owner.clone();
        if first_use && self.owner.is_none() {
            cx.status(format_args!(
                "First use of this repository here. Its owner is {}.\n  If that is not the owner you expect, somebody \
                 has replaced the repository.",
                owner.to_hex()
            ));
        }
        if let DocumentStanding::Doubtful(signer, why) = repository.standing() {
            let warning = Paint::stderr().doubtful("Warning");
            cx.status(format_args!(
                "{warning}: the configuration of the repository is signed by {}, and {why}.",
                signer.to_hex()
            ));
        }
        let own = self.keys.certs(cx)?;
        let keys = self.unlock(&repository, &own, cx)?;
        for missing in keys.missing() {
            let warning = Paint::stderr().doubtful("Warning");
            cx.status(format_args!("{warning}: {missing}"));
        }
        state.remember(&owner, repository.config().number, &talaria_backup::Heads::new())?;
        let session = Session { repository, state, keys, own };
        session.expect(&self.expect_head, cx)?;
        Ok(session)
    }

    fn unlock(
        &self,
        repository: &Repository,
        own: &[Cert],
        cx: &Context,
    ) -> Result<Keys, CliError> {
        let given = self.passphrase.given()?;
        let (keys, elsewhere) = self.keys.decryption(&given, cx)?;
        let mut secrets = Secrets { keys, elsewhere, ..Secrets::default() };
        let mut recipients: Vec<Fingerprint> = own.iter().map(Cert::fingerprint).collect();
        if secrets.elsewhere.is_some() {
            // The agent knows which of these it has.
            let config = repository.config();
            recipients.extend(config.readers.iter().chain(&config.clients).cloned());
        }
        Ok(repository.unlock(&mut secrets, &recipients)?)
    }

    /// The key that signs, which must have a role: the one called `wanted`, or the only one of the
    /// user.
    pub(super) fn signer(
        &self,
        wanted: Option<&str>,
        session: &Session,
        role: Role,
        cx: &Context,
    ) -> Result<(SigningKey, Cert), CliError> {
        let config = session.repository.config();
        let may = |name: &Fingerprint| config.has_role(name, role);
        let what = format!("has the role \"{}\" in", role.name());
        self.signer_who(wanted, session, &may, &what, cx)
    }

    /// The signer of new snapshots; none in a repository without signatures, unless a key is
    /// `wanted`.
    pub(super) fn client(
        &self,
        wanted: Option<&str>,
        session: &Session,
        cx: &Context,
    ) -> Result<(Option<Fingerprint>, Option<SigningKey>), CliError> {
        if !session.repository.config().signed && wanted.is_none() {
            return Ok((None, None));
        }
        let (signer, cert) = self.signer(wanted, session, Role::Create, cx)?;
        Ok((Some(cert.fingerprint()), Some(signer)))
    }

    /// As [`Self::signer`], for a key of somebody who reads the repository.
    pub(super) fn reader_signer(
        &self,
        wanted: Option<&str>,
        session: &Session,
        cx: &Context,
    ) -> Result<(SigningKey, Cert), CliError> {
        let config = session.repository.config();
        let may = |name: &Fingerprint| config.readers.contains(name) || config.owner == *name;
        self.signer_who(wanted, session, &may, "is a reader of", cx)
    }

    fn signer_who(
        &self,
        wanted: Option<&str>,
        session: &Session,
        may: &dyn Fn(&Fingerprint) -> bool,
        what: &str,
        cx: &Context,
    ) -> Result<(SigningKey, Cert), CliError> {
        let given = self.passphrase.given()?;
        let name = if let Some(name) = wanted {
            name.to_owned()
        } else {
            let able = session.own.iter().filter(|cert| may(&cert.fingerprint()));
            let able: Vec<&Cert> = able.collect();
            match able[..] {
                [cert] => cert.fingerprint().to_hex(),
                [] => {
                    return Err(CliError::Missing(format!(
                        "none of your keys {what} this repository; its owner is {}",
                        session.repository.config().owner.to_hex()
                    )));
                }
                ref many => {
                    return Err(CliError::WhichSigner {
                        can: "do this here",
                        candidates: many.iter().map(|cert| talaria::described(cert)).collect(),
                    });
                }
            }
        };
        let signer = self.keys.signers(&[name], &given, cx)?.remove(0);
        let cert = certificate(&signer, &session.own, cx)?;
        Ok((signer, cert))
    }
}
