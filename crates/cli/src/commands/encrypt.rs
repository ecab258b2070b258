//! `talaria encrypt`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::message::openpgp::Fingerprint;
use talaria::message::{Aead, ArmorWriter, Compression, EncryptOptions, Label, Profile, encrypt};
use talaria::status;

use crate::context::Context;
use crate::error::CliError;
use crate::files::{Source, watched};
use crate::keys::KeyArgs;
use crate::output::OutputArgs;
use crate::passphrase::{self, PassphraseArgs};
use crate::recipients::RecipientArgs;
use crate::signatures::{StatusArgs, fingerprints, signers};

/// Encrypt a file
///
/// Encrypts FILE (or standard input) to certificates in the store, to a passphrase, or both, and
/// signs it if --sign-with is given.
///
/// The message format follows what the recipients' certificates announce: RFC 9580, the AEAD packet
/// of GnuPG, or RFC 4880. Messages for a passphrase alone use RFC 9580 with Argon2, which talaria,
/// sq 1.0 and rsop read and GnuPG does not: choose --profile compatible for GnuPG.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// File to encrypt [default: standard input]
    #[arg(value_name = "FILE")]
    input: Option<PathBuf>,
    #[command(flatten)]
    recipients: RecipientArgs,
    /// Encrypt with a passphrase
    #[arg(long, short = 'c')]
    symmetric: bool,
    #[command(flatten)]
    passphrase: PassphraseArgs,
    /// Also sign, with this key (can be repeated)
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Vec<String>,
    #[command(flatten)]
    keys: KeyArgs,
    /// Message format, whatever the recipients announce
    #[arg(long, value_enum)]
    profile: Option<ProfileArg>,
    /// AEAD mode for RFC 9580 [default: gcm if all recipients support it]
    #[arg(long, value_enum)]
    aead: Option<AeadArg>,
    #[command(flatten)]
    compress: CompressArgs,
    #[command(flatten)]
    status: StatusArgs,
    /// Write ASCII armor
    #[arg(long, short)]
    armor: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Specifications that messages can follow.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ProfileArg {
    /// RFC 9580: AEAD (version 2 packets)
    Rfc9580,
    /// RFC 4880: readable by every OpenPGP program (same as `compatible`)
    #[value(alias = "compatible")]
    Rfc4880,
    /// LibrePGP: the AEAD packet of GnuPG 2.3 and RNP
    Librepgp,
}

impl From<ProfileArg> for Profile {
    fn from(profile: ProfileArg) -> Self {
        match profile {
            ProfileArg::Rfc9580 => Self::Rfc9580,
            ProfileArg::Rfc4880 => Self::Rfc4880,
            ProfileArg::Librepgp => Self::LibrePgp,
        }
    }
}

/// AEAD modes for encryption.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum AeadArg {
    /// The fastest
    Gcm,
    /// Supported by every implementation of RFC 9580
    Ocb,
}

/// Options of compression.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CompressArgs {
    /// Compress with zip, zlib or bzip2 at a level from 1 to 9; `auto` compresses if a sample
    /// shrinks [default: no compression]
    #[arg(long, value_names = ["ALGORITHM", "LEVEL"], num_args = 1..=2)]
    compress: Vec<String>,
}

impl CompressArgs {
    pub(crate) fn parsed(&self) -> Result<Compression, CliError> {
        let usage = |text: String| Err(CliError::Usage(text));
        let level = match self.compress.get(1).map(|level| (level, level.parse::<u32>())) {
            None => 6,
            Some((_, Ok(level @ 1..=9))) => level,
            // The second value may be the file, not a level.
            Some((level, _)) => {
                return usage(format!(
                    "{level} is no level of compression, which is from 1 to 9; name the file before \
                     --compress, or behind --"
                ));
            }
        };
        Ok(match self.compress.first().map(String::as_str) {
            None | Some("none") => Compression::None,
            Some("auto") => Compression::Auto,
            Some("zip") => Compression::Zip(level),
            Some("zlib") => Compression::Zlib(level),
            Some("bzip2") => Compression::Bzip2(level),
            Some(other) => {
                return usage(format!("{other} is not one of zip, zlib, bzip2, auto, none"));
            }
        })
    }
}

impl Args {
    /// Checks that the AEAD mode belongs to the profile.
    fn check_mode(&self) -> Result<(), CliError> {
        let why = match (self.profile, self.aead) {
            (Some(ProfileArg::Rfc4880), Some(_)) => {
                "--profile rfc4880 has no AEAD: leave --aead out"
            }
            (Some(ProfileArg::Librepgp), Some(AeadArg::Gcm)) => {
                "--profile librepgp has OCB only: --aead ocb, or leave it out"
            }
            _ => return Ok(()),
        };
        Err(CliError::Usage(why.into()))
    }
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    args.check_mode()?;
    let compression = args.compress.parsed()?;
    let mut report = args.status.open()?;
    // Look at the files first: a recipient, a key or a passphrase is no use without them.
    args.output.check(args.input.as_deref())?;
    let source = Source::open(args.input.as_deref())?;
    let (mut recipients, certificates) = args.recipients.find(&mut report, cx)?;
    let given = args.passphrase.given()?;
    if args.symmetric {
        if given.is_empty() {
            recipients.add_password(passphrase::ask_new("New passphrase")?);
        }
        given.iter().for_each(|password| recipients.add_password(password.clone()));
    }
    if recipients.is_empty() {
        return Err(CliError::Usage(
            "name a recipient with --to CERT, or give a passphrase with --symmetric".into(),
        ));
    }
    // With --symmetric the passphrases are those of the message, not of the signing keys.
    let unlocking = if args.symmetric { Vec::new() } else { given };
    let mut signers = signers(&args.sign_with, &unlocking, &args.keys, &mut report, cx)?;
    let mut options = EncryptOptions::default();
    options.profile = args.profile.map(Into::into);
    options.aead = args.aead.map(|aead| match aead {
        AeadArg::Gcm => Aead::Gcm,
        AeadArg::Ocb => Aead::Ocb,
    });
    options.compression = compression;
    options.size = source.size;
    let mut target = args.output.open(!args.armor)?;
    let unfinished = target.unfinished();
    let encrypted = watched(cx, source.size, &unfinished, |watch| {
        let input = source.watched(watch);
        if args.armor {
            let mut armor = ArmorWriter::new(&mut target, Label::Message)?;
            let encrypted =
                encrypt(input, &mut armor, &recipients, &mut signers, &options, cx.now)?;
            armor.finish()?.flush()?;
            Ok(encrypted)
        } else {
            Ok(encrypt(input, &mut target, &recipients, &mut signers, &options, cx.now)?)
        }
    })?;
    target.keep(false)?;
    report.lines(&status::encrypted(&encrypted, &signers, cx.now))?;
    args.recipients.encrypted_to(&certificates, cx)?;
    let names: Vec<String> = certificates.iter().map(Fingerprint::to_hex).collect();
    let json = serde_json::json!({
        "action": "encrypt", "output": args.output.path, "recipients": names,
        "passphrases": recipients.passwords(), "signed_by": fingerprints(&signers),
        "cipher": encrypted.cipher.to_string(), "aead": encrypted.aead.map(|aead| aead.to_string()),
    });
    cx.report(args.output.content(), &json)?;
    Ok(ExitCode::SUCCESS)
}
