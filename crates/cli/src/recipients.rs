//! Recipients of what a command encrypts: certificates in the store, and what is known about whose
//! they are.

use talaria::cert::day;
use talaria::message::Recipients;
use talaria::message::openpgp::Fingerprint;
use talaria::status::{self, Unfit};
use talaria::store::{Access, Query};
use talaria::trust_models::Level;
use talaria::{
    Accepted, Doubt, Error, FoundRecipient, RecipientOptions, RefusedRecipient, encrypted_to,
};

use crate::context::Context;
use crate::error::CliError;
use crate::hints::message::renewal;
use crate::query::parse_query;
use crate::signatures::StatusFile;
use crate::terminal::Paint;
use crate::trust::{TrustArgs, record};

/// The recipients on a command line.
#[derive(Debug, clap::Args)]
pub(crate) struct RecipientArgs {
    /// Recipient: a fingerprint, a key ID, or the whole address or text of a user ID (can be
    /// repeated)
    #[arg(long, short, visible_short_alias = 'r', visible_alias = "recipient", value_name = "CERT", value_parser = parse_query)]
    to: Vec<Query>,
    /// Refuse recipients whose identity is not confirmed
    #[arg(long)]
    trusted_only: bool,
    #[command(flatten)]
    trust: TrustArgs,
}

impl RecipientArgs {
    /// Whether no certificate is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.to.is_empty()
    }

    /// The keys to encrypt to, and the fingerprints of the certificates. Warns about recipients
    /// whose identity is not confirmed.
    pub(crate) fn find(
        &self,
        report: &mut StatusFile,
        cx: &Context,
    ) -> Result<(Recipients, Vec<Fingerprint>), CliError> {
        if self.to.is_empty() {
            return Ok((Recipients::default(), Vec::new()));
        }
        let accepted = if self.trusted_only { Accepted::Confirmed } else { Accepted::Doubtful };
        let trust = self.trust.settings();
        let options = RecipientOptions { rules: cx.rules(), trust, accepted };
        let found = cx.stores(Access::Read)?.recipients(&self.to, &options, cx.now)?;
        found.certificates.iter().for_each(|recipient| tell_weak(recipient, cx));
        if !self.trusted_only {
            found.certificates.iter().for_each(|recipient| warn(recipient, cx));
        }
        let keys = match found.keys {
            Ok(keys) => keys,
            Err(refused) => {
                report.lines(&status::invalid_recipient(Unfit::of(&refused.why), &refused.name))?;
                return Err(with_commands(refused));
            }
        };
        Ok((keys, found.certificates.into_iter().map(|one| one.certificate).collect()))
    }

    /// Notes that something was encrypted to the certificates.
    pub(crate) fn encrypted_to(
        &self,
        certificates: &[Fingerprint],
        cx: &Context,
    ) -> Result<(), CliError> {
        record(encrypted_to(certificates, self.trust.settings(), cx.now), cx)
    }
}

/// The error of a recipient that was not found or is not accepted, with the commands that say more
/// about a doubt.
fn with_commands(refused: RefusedRecipient) -> CliError {
    let RefusedRecipient { name, why: error } = refused;
    match *error {
        Error::Doubtful { .. } => {
            let more =
                format!("`talaria trust path {name}` and `talaria tofu info {name}` say more");
            CliError::With { error, more }
        }
        error => error.into(),
    }
}

/// Tells that the owner of a certificate should renew its self-signatures.
fn tell_weak(recipient: &FoundRecipient, cx: &Context) {
    let FoundRecipient { query, certificate, weak: Some(weak), .. } = recipient else { return };
    cx.status(format_args!(
        "{}: the key of {query} is bound by signatures with {} only, of {}. Its owner should renew \
         them: {}",
        Paint::stderr().doubtful("Note"),
        weak.hash_name(),
        day(weak.made),
        renewal(&certificate.to_hex()),
    ));
}

/// Warns of a certificate whose validity is known and too low.
fn warn(recipient: &FoundRecipient, cx: &Context) {
    let FoundRecipient { query, certificate, .. } = recipient;
    if let Some(doubt @ Doubt::Validity(level)) = recipient.doubt()
        && level != Level::Never
    {
        cx.status(format_args!(
            "{}: cannot confirm that this certificate belongs to {query} ({doubt}).\n  Compare the \
             fingerprint with them, then run:\n  talaria certify {}",
            Paint::stderr().doubtful("Warning"),
            certificate.to_hex()
        ));
    }
}
