//! An open repository, and the user's place in it.

use talaria::message::openpgp::{Cert, Fingerprint};
use talaria_backup::{
    BackupError, DocumentStanding, Id, Irregularity, Keys, Listed, Reader, Repository, State,
    heads, irregularities, select,
};

use super::words::standing_in_words;
use crate::context::Context;
use crate::error::CliError;
use crate::terminal::Paint;

/// An open repository, and the user's place in it.
pub(super) struct Session {
    pub(super) repository: Repository,
    pub(super) state: State,
    pub(super) keys: Keys,
    /// The certificates of the user's secret keys.
    pub(super) own: Vec<Cert>,
}

impl Session {
    /// Refuses a repository that lacks one of these snapshots: somebody has put back an old state.
    /// A snapshot that somebody with the right to do so has forgotten is not missing.
    pub(super) fn expect(&self, heads: &[Id], cx: &Context) -> Result<(), CliError> {
        if heads.is_empty() {
            return Ok(());
        }
        let (listed, forgotten, _) = self.repository.survey(&self.keys, cx.now)?;
        let is_there = |head: &Id| {
            let is_it = |one: &Listed| one.id == *head && one.standing.counts();
            forgotten.contains(head) || listed.iter().any(is_it)
        };
        match heads.iter().find(|head| !is_there(head)) {
            None => Ok(()),
            Some(head) => Err(BackupError::Damaged {
                name: "the repository".into(),
                why: format!(
                    "the expected snapshot {head} is missing; somebody may have put back an old state"
                ),
            }
            .into()),
        }
    }

    /// All snapshots, oldest first. Says what is wrong with them, and remembers the newest of each
    /// client.
    pub(super) fn snapshots(
        &mut self,
        cx: &Context,
    ) -> Result<(Vec<Listed>, Vec<Irregularity>), CliError> {
        let (listed, forgotten, unreadable) = self.repository.survey(&self.keys, cx.now)?;
        let warning = Paint::stderr().doubtful("Warning");
        for error in &unreadable {
            cx.status(format_args!("{warning}: {error}"));
        }
        let wrong = irregularities(&listed, &forgotten, &self.state.heads);
        for irregularity in &wrong {
            cx.status(format_args!("{warning}: {irregularity}."));
        }
        let config = self.repository.config();
        self.state.remember(&config.owner, config.number, &heads(&listed))?;
        Ok((listed, wrong))
    }
}

impl Session {
    /// The snapshot with this name, and a reader of the repository.
    pub(super) fn read(
        &mut self,
        name: &str,
        client: Option<&Fingerprint>,
        cx: &Context,
    ) -> Result<(Listed, Reader), CliError> {
        let (listed, _) = self.snapshots(cx)?;
        let listed = select(&listed, name, client)?.clone();
        let warning = Paint::stderr().doubtful("Warning");
        if !matches!(listed.standing, DocumentStanding::Good(_) | DocumentStanding::Past(..)) {
            let standing = standing_in_words(&listed.standing);
            cx.status(format_args!("{warning}: snapshot {} is {standing}.", listed.id));
        }
        Ok((listed, self.reader(cx)?))
    }

    /// A reader of the repository. Says which indexes cannot be read.
    pub(super) fn reader(&self, cx: &Context) -> Result<Reader, CliError> {
        let (reader, unreadable) = self.repository.reader(&self.keys, cx.now)?;
        for error in unreadable {
            cx.status(format_args!("{}: {error}", Paint::stderr().doubtful("Warning")));
        }
        Ok(reader)
    }
}
