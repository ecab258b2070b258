//! Reports on signatures: for people, as JSON, and as GnuPG's status lines.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use talaria::message::openpgp::Fingerprint;
use talaria::message::openpgp::crypto::Password;
use talaria::message::{
    Facts, Lookup, NotAccepted, NotCounted, Outcome, SignatureReport, SigningKey,
};
use talaria::status::{self, Unfit};
use talaria::store::{Access, Query};
use talaria::trust_models::Level;
use talaria::{Belief, Error, RequiredSigners, TrustModel, day};

use crate::context::Context;
use crate::error::CliError;
use crate::keys::KeyArgs;
use crate::render::printable;
use crate::terminal::{Paint, Painted};

/// The destination of status lines.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct StatusArgs {
    /// Write gpg's status lines (`GOODSIG`, `SIG_CREATED`, …) to file descriptor N
    #[arg(long, value_name = "N")]
    status_fd: Option<i32>,
}

impl StatusArgs {
    pub(crate) fn open(&self) -> Result<StatusFile, CliError> {
        let Some(number) = self.status_fd else { return Ok(StatusFile(None)) };
        let named = |source| Error::Io {
            action: "write",
            name: format!("file descriptor {number}"),
            source,
        };
        let file = talaria_disk::duplicate(number).map_err(named)?;
        Ok(StatusFile(Some(file)))
    }
}

/// An open descriptor for status lines, or none.
pub(crate) struct StatusFile(Option<File>);

impl StatusFile {
    /// Whether status lines are wanted.
    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Writes status lines about an error before the error is passed on.
    pub(crate) fn on_error<T>(
        &mut self,
        result: Result<T, CliError>,
        lines: impl FnOnce(&CliError) -> Vec<String>,
    ) -> Result<T, CliError> {
        if let Err(error) = &result {
            self.lines(&lines(error))?;
        }
        result
    }

    pub(crate) fn lines(&mut self, lines: &[String]) -> Result<(), CliError> {
        if let Some(file) = &mut self.0 {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            file.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}

/// GnuPG's code for the reason why a key is not used.
pub(crate) fn unfit(error: &CliError) -> Unfit {
    match error {
        CliError::Operation(error) => Unfit::of(error),
        _ => Unfit::Other,
    }
}

/// The keys called `names`, ready to sign. Errors are reported in status lines.
pub(crate) fn signers(
    names: &[String],
    given: &[Password],
    keys: &KeyArgs,
    report: &mut StatusFile,
    cx: &Context,
) -> Result<Vec<SigningKey>, CliError> {
    report.on_error(keys.signers(names, given, cx), |error| {
        status::invalid_signer(unfit(error), &names.join(" "))
    })
}

/// The fingerprints of signing keys.
pub(crate) fn fingerprints(signers: &[SigningKey]) -> Vec<String> {
    signers.iter().map(|signer| signer.public().fingerprint().to_hex()).collect()
}

/// Reports the outcome of signatures, and the reason if their document is not accepted.
pub(crate) fn report(
    signatures: &[SignatureReport],
    beliefs: &[Option<Belief>],
    decision: &Result<Facts, NotAccepted>,
    cx: &Context,
) {
    if cx.json {
        return;
    }
    let paint = Paint::stderr();
    for (signature, belief) in signatures.iter().zip(beliefs) {
        for line in lines(signature, *belief, paint) {
            cx.status(format_args!("{line}"));
        }
    }
    if let Err(why) = decision {
        cx.status(format_args!("{}: {why}", paint.bad("Not accepted")));
        if let NotAccepted::Missing { missing, .. } = why {
            // A signer with a name has many certificates.
            let named = missing.iter().filter(|signer| signer.name.is_none());
            let certs = named.flat_map(|signer| &signer.any_of);
            for signer in certs.filter_map(|signer| described(signer, cx)) {
                cx.status(format_args!("  Expected: {signer}"));
            }
        }
    }
}

/// The fingerprint and the user ID of a certificate, if it is in the store.
fn described(signer: &Fingerprint, cx: &Context) -> Option<String> {
    let query: Query = signer.to_hex().parse().ok()?;
    let certs = cx.stores(Access::Read).ok()?.parsed(&query, cx.now).ok()?;
    certs.first().map(talaria::described)
}

/// Warns about text around a message that is no part of the message.
pub(crate) fn report_apart(bytes: u64, cx: &Context) {
    if bytes > 0 {
        cx.status(format_args!(
            "{}: {bytes} bytes around the signed message are not signed and were not written.",
            Paint::stderr().doubtful("Warning")
        ));
    }
}

/// Required signers.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct SignerArgs {
    /// Require a good signature by this certificate: a fingerprint, or the whole address or user ID
    /// of a certificate that you have confirmed (see `talaria certify`) (can be repeated). Without
    /// that signature nothing is written
    #[arg(long = "signer", value_name = "CERT")]
    signers: Vec<String>,
    /// Require a good signature by a certificate in FILE, a certificate or keyring; no store is
    /// needed (can be repeated)
    #[arg(long = "signer-file", value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl SignerArgs {
    /// Finds the required signers.
    pub(crate) fn find(&self, cx: &Context) -> Result<RequiredSigners, CliError> {
        let names = self.signers.iter().map(|name| name.parse()).collect::<Result<Vec<Query>, _>>();
        let names = names.map_err(Error::from)?;
        let needs_store = names.iter().any(RequiredSigners::needs_store);
        let stores = needs_store.then(|| cx.stores(Access::Read)).transpose()?;
        Ok(RequiredSigners::find(&names, &self.files, stores.as_ref(), cx.now)?)
    }
}

/// A function that finds certificates: those of required signers from files, and those in the
/// stores. Without files there must be a store if `needs_store`.
pub(crate) fn lookup(
    required: &RequiredSigners,
    needs_store: bool,
    cx: &Context,
) -> Result<Lookup<'static>, CliError> {
    let stores = match cx.stores(Access::Read) {
        Ok(stores) => Some(stores),
        Err(error) if needs_store && required.given.is_empty() => return Err(error),
        // Signatures of others are then reported without a key.
        Err(_) => None,
    };
    Ok(required.lookup(stores, cx.now))
}

/// The status lines about required signers with a good signature.
pub(crate) fn found(required: &RequiredSigners, reports: &[SignatureReport]) -> Vec<String> {
    status::signed_by(required.found(reports).map(Fingerprint::to_hex))
}

/// The decision on a document, as JSON.
pub(crate) fn json_decision(decision: &Result<Facts, NotAccepted>) -> serde_json::Value {
    serde_json::json!({
        "accepted": decision.is_ok(),
        "refused": decision.as_ref().err().map(ToString::to_string),
    })
}

/// A signature in words: the outcome and the details.
pub(crate) fn lines(report: &SignatureReport, belief: Option<Belief>, paint: Paint) -> Vec<String> {
    let name = report.signer.as_ref().and_then(|signer| signer.user_id.as_deref());
    let name = name.map(|name| printable(name.as_bytes())).filter(|name| !name.is_empty());
    let key = match (&report.signer, &report.issuer) {
        (Some(signer), _) => Some(signer.certificate.clone()),
        (None, Some(issuer)) => Some(
            issuer
                .fingerprint
                .map_or_else(|| issuer.key_id.to_string(), |fingerprint| fingerprint.to_string()),
        ),
        (None, None) => None,
    };
    let who = name.clone().or_else(|| key.clone()).unwrap_or_else(|| "an unnamed key".to_owned());
    let who = paint.strong(who);
    let made = match (&key, &name) {
        (Some(key), Some(_)) => format!("  made on {} by {key}", day(report.created)),
        _ => format!("  made on {}", day(report.created)),
    };
    match &report.outcome {
        Outcome::Good | Outcome::Distrusted => {
            let good = match report.outcome {
                Outcome::Good => paint.good("Good signature"),
                _ => paint.bad("Signature"),
            };
            let mut lines = vec![format!("{good} from {who} ({})", identity(belief, paint)), made];
            if let Some(later @ NotCounted::BoundLater(_)) = &report.since {
                lines.push(format!("  {}: {later}", paint.doubtful("note")));
            } else if let Some(since) = &report.since {
                lines.push(format!("  {}: since then, {since}", paint.doubtful("warning")));
            }
            lines
        }
        Outcome::Bad => {
            let bad = paint.bad("BAD signature");
            vec![format!("{bad} from {who}: it does not match this document"), made]
        }
        Outcome::NoKey => {
            let cannot = paint.doubtful("Cannot check");
            let first =
                format!("{cannot} the signature from {who}: its certificate is not in the store");
            let get = key.map(|key| {
                format!("  To get it: talaria import --keyserver hkps://keys.openpgp.org {key}")
            });
            [first, made].into_iter().chain(get).collect()
        }
        Outcome::NotCounted(why) => {
            let invalid = paint.bad("does not count");
            vec![format!("The signature from {who} {invalid}: {why}"), made]
        }
        Outcome::Unchecked(why) => {
            let cannot = paint.doubtful("Cannot check");
            vec![format!("{cannot} the signature from {who}: {why}")]
        }
    }
}

/// The identity of a signer in words. A good signature alone does not confirm the identity.
fn identity(belief: Option<Belief>, paint: Paint) -> Painted<&'static str> {
    let Some(Belief { level, model }) = belief else {
        return paint.doubtful("identity not confirmed: the store has no trust root");
    };
    match level {
        Level::Never => {
            paint.bad("DO NOT RELY ON IT: you marked this certificate as not to be trusted")
        }
        _ if model == TrustModel::Always => {
            paint.doubtful("identity not checked: the trust model is `always`")
        }
        Level::Ultimate => paint.good("your own key"),
        Level::Full => paint.good("identity confirmed"),
        Level::Marginal if model.is_tofu() => {
            paint.doubtful("identity plausible: the address has no other certificate")
        }
        Level::Marginal => {
            paint.doubtful("identity partly confirmed: not enough certifications that you trust")
        }
        Level::Expired => {
            paint.doubtful("identity no longer confirmed: the confirmation has expired")
        }
        Level::Undefined if model.is_tofu() => {
            paint.bad("identity in doubt: see `talaria tofu conflicts`")
        }
        Level::Unknown | Level::Undefined if model == TrustModel::Direct => {
            paint.doubtful("identity not confirmed: you have not said that you trust it")
        }
        Level::Unknown | Level::Undefined => {
            paint.doubtful("identity not confirmed: nobody you trust certified this key")
        }
    }
}

/// A signature as JSON.
pub(crate) fn json(report: &SignatureReport, belief: Option<Belief>) -> serde_json::Value {
    serde_json::json!({
        "outcome": report.outcome.name(),
        "why": report.outcome.why(),
        "since": report.since.as_ref().map(ToString::to_string),
        "certificate": report.signer.as_ref().map(|signer| &signer.certificate),
        "key": report.signer.as_ref().map(|signer| &signer.key),
        "user_id": report.signer.as_ref().and_then(|signer| signer.user_id.as_ref()),
        "issuer": report.issuer.as_ref().map(|issuer| issuer.key_id.to_string()),
        "created": report.created,
        "expires": (report.expires != 0).then_some(report.expires),
        "type": report.kind,
        "version": report.version,
        "algorithm": report.algorithm,
        "hash": report.hash,
        "trust": belief.map(|belief| belief.level.name()),
    })
}
