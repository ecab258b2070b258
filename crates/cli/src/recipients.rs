//! Recipients of what a command encrypts: certificates in the store, and what is known about whose
//! they are.

use talaria::message::Recipients;
use talaria::status::{self, Unfit};
use talaria::store::{Access, Query};

use crate::context::Context;
use crate::error::CliError;
use crate::hints::message::renewal;
use crate::query::parse_query;
use crate::signatures::{StatusFile, unfit};
use crate::terminal::Paint;
use crate::trust::{Named, TrustArgs};

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
    ) -> Result<(Recipients, Vec<String>), CliError> {
        let mut recipients = Recipients::default();
        let mut names = Vec::new();
        if self.to.is_empty() {
            return Ok((recipients, names));
        }
        let stores = cx.stores(Access::Read)?;
        for query in &self.to {
            let found = stores.recipient(query, cx.rules(), cx.now).map_err(CliError::from);
            let cert = found.and_then(|cert| {
                let mut look_up = |issuer: &_| stores.having(issuer, cx.now);
                let weak = recipients.add(&cert, cx.rules(), &mut look_up, cx.now)?;
                Ok((cert, weak))
            });
            let (cert, weak) = report.on_error(cert, |error| {
                status::invalid_recipient(unfit(error), &query.to_string())
            })?;
            if let Some(weak) = weak {
                let note = Paint::stderr().doubtful("Note").to_string();
                cx.status(format_args!(
                    "{note}: the key of {query} is bound by signatures with {} only, of {}. Its \
                     owner should renew them: {}",
                    weak.hash_name(),
                    talaria::cert::day(weak.made),
                    renewal(&cert.fingerprint().to_hex()),
                ));
            }
            names.push(cert.fingerprint().to_hex());
        }
        drop(stores);
        let chosen = names.iter().zip(&self.to).map(|(name, query)| Named::chosen(name, query));
        let beliefs = self.trust.of_recipients(chosen, cx)?;
        for ((name, query), belief) in names.iter().zip(&self.to).zip(beliefs) {
            let why = match belief {
                Some(belief) if belief.is_enough() => continue,
                Some(belief) if belief.is_never() => {
                    report.lines(&status::invalid_recipient(Unfit::Untrusted, name))?;
                    return Err(talaria::Error::Distrusted { name: name.clone() }.into());
                }
                Some(belief) => format!("validity: {}", belief.level.name()),
                None => "the store has no trust root".to_owned(),
            };
            if self.trusted_only {
                report.lines(&status::invalid_recipient(Unfit::Untrusted, name))?;
                return Err(CliError::Missing(format!(
                    "cannot confirm that {name} belongs to {query} ({why}); `talaria trust path {name}` \
                     and `talaria tofu info {name}` say more"
                )));
            }
            if belief.is_some() {
                let warning = Paint::stderr().doubtful("Warning").to_string();
                cx.status(format_args!(
                    "{warning}: cannot confirm that this certificate belongs to {query} ({why}).\n  \
                     Compare the fingerprint with them, then run:\n  talaria certify {name}"
                ));
            }
        }
        Ok((recipients, names))
    }

    /// Notes that something was encrypted to the certificates.
    pub(crate) fn encrypted_to(&self, names: &[String], cx: &Context) -> Result<(), CliError> {
        self.trust.encrypted_to(names, cx)
    }
}
