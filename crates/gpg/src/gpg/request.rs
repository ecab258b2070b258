//! What a command line and the configuration ask for, or why it is not done here.
//!
//! Nothing is written, and no input is read, before that is known.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use talaria_message::openpgp::crypto::Password;

use crate::algorithm;
use crate::code::Code;
use crate::gpg::arguments;
use crate::gpg::config::{self, Choice};
use crate::gpg::handover::Reason;
use crate::gpg::manner::Shown;
use crate::gpg::passphrase::{Passphrase, Place};
use crate::gpg::sealing::Sealing;
use crate::gpg::table::{Argument, Meaning, OPTIONS};
use crate::gpg::web::{Model, Web};
use crate::keyid::KeyidFormat;
use crate::options::{Given, Parser, Usage};

/// What is to be done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Task {
    /// Verify signatures.
    Verify,
    /// Write the content of a signed message once it is verified.
    Decrypt,
    /// Do what the file needs.
    Default,
    Encrypt,
    /// Encrypt to a passphrase.
    Symmetric,
    /// Encrypt and sign.
    EncryptSigned,
    Sign(Form),
    ListKeys,
    ListSecretKeys,
    ListSigs,
    CheckSigs,
    Export,
    ListConfig,
    Help,
    Version,
    Warranty,
    Dump,
    Table,
}

impl Task {
    /// Whether the effect of a passphrase in such a place is implemented.
    fn obeys(self, place: &Place) -> bool {
        match self {
            Self::Decrypt
            | Self::Default
            | Self::Sign(_)
            | Self::EncryptSigned
            | Self::Symmetric => true,
            Self::Encrypt => matches!(place, Place::Descriptor(_)),
            Self::Verify => matches!(place, Place::Text(_)),
            _ => false,
        }
    }
}

/// Which form a signature has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// Apart from the data.
    Detached,
    /// Around a text that stays readable.
    Clear,
    /// In a message with the data.
    Inline,
}

/// The options.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of gpg")]
pub(crate) struct Settings {
    pub(crate) home: PathBuf,
    pub(crate) verbose: u8,
    pub(crate) quiet: bool,
    pub(crate) batch: bool,
    pub(crate) yes: bool,
    pub(crate) armor: bool,
    pub(crate) colons: bool,
    pub(crate) with_fingerprint: bool,
    /// How often fingerprints were asked for.
    pub(crate) fingerprints: u8,
    pub(crate) with_keygrip: bool,
    pub(crate) specials: bool,
    pub(crate) ignores_time_conflict: bool,
    pub(crate) exits_on_write_error: bool,
    pub(crate) has_progress: bool,
    pub(crate) warns_of_permissions: bool,
    pub(crate) default_keyring: bool,
    pub(crate) keyrings: Vec<OsString>,
    pub(crate) output: Option<OsString>,
    pub(crate) status: Option<i32>,
    pub(crate) logger: Option<i32>,
    /// The digests that the user rejects, by number.
    pub(crate) weak: Vec<u8>,
    pub(crate) keyid_format: KeyidFormat,
    pub(crate) shown: Shown,
    pub(crate) web: Web,
    /// What is asked of an encryption.
    pub(crate) sealing: Sealing,
    /// The names of the keys that sign.
    pub(crate) signers: Vec<OsString>,
    /// Those of which the last one signs if no other is named.
    pub(crate) default_keys: Vec<OsString>,
    /// The digest of signatures, if it is not to be chosen.
    pub(crate) digest: Option<u8>,
    /// The digests that the user prefers, by number.
    pub(crate) digests: Vec<u8>,
    /// Signatures name the address of the signer.
    pub(crate) names_signers: bool,
    /// An option whose effect on signatures is not implemented.
    unless_signing: Option<Reason>,
    /// The same, on signatures of messages that are not encrypted.
    unless_only_signing: Option<Reason>,
    /// An option whose effect on decryption is not implemented.
    pub(crate) unless_decrypting: Option<Reason>,
    /// Keys of encrypted messages are only listed; nothing else is done here then.
    pub(crate) list_only: Option<Reason>,
    /// An option whose effect on an encryption to a passphrase is not implemented.
    unless_stretching: Option<Reason>,
    /// The passphrase of the caller, and whether it is used.
    pub(crate) passphrase: Option<Passphrase>,
    is_loopback: bool,
    /// An unusual way to ask for passphrases.
    pinentry: Option<Reason>,
    /// An option that has an effect on more than verifying.
    pub(crate) unless_verifying: Option<Reason>,
    /// An option that has an effect on listings.
    unless_listing: Option<Reason>,
    /// The options of exports that are not implemented.
    unless_exporting: Option<Reason>,
}

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) task: Task,
    pub(crate) settings: Settings,
    /// The words behind the options.
    pub(crate) words: Vec<OsString>,
    /// The options ended with `--`.
    pub(crate) has_stopped: bool,
}

impl Request {
    /// Reads the words after the name of the program, and the configuration.
    ///
    /// # Errors
    ///
    /// [`Reason`] if this is not done here.
    pub(crate) fn read(arguments: &[OsString]) -> Result<Self, Reason> {
        let mut parser = Parser::new(OPTIONS, arguments.to_vec());
        let (mut all, mut wrong) = (Vec::new(), None);
        while let Some(next) = parser.next() {
            match next {
                Ok(given) => all.push(given),
                Err(Usage(why)) => {
                    wrong = Some(Reason::Usage(why));
                    break;
                }
            }
        }
        let has_stopped = parser.has_stopped();
        let mut settings = Settings::new(home(&all));
        let words = parser.into_rest();
        let request = |task, settings| Self { task, settings, words, has_stopped };
        // gpg writes these before it reads any configuration.
        if let Some(task) = all.iter().find_map(|given| early(given.meaning)) {
            return Ok(request(task, settings));
        }
        settings.warns_of_permissions =
            !all.iter().any(|given| given.meaning == Meaning::NoPermissionWarning);
        let mut commands = Commands::default();
        for line in config::lines(&settings.home, &choice(&all))? {
            let at = |reason| match reason {
                Reason::Undone(what) => Reason::Line(line.place.clone(), what),
                reason => reason,
            };
            if early(line.given.meaning).or(version(line.given.meaning)).is_some() {
                return Err(at(Reason::Undone(line.given.long.to_owned())));
            }
            commands.add(&line.given).map_err(at)?;
            settings.set(&line.given).map_err(at)?;
        }
        for given in &all {
            if let Some(task) = version(given.meaning) {
                return Ok(request(task, settings));
            }
            commands.add(given)?;
            settings.set(given)?;
        }
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        settings.check()?;
        settings.check_pinentry();
        let task = commands.task(&settings)?;
        Ok(request(task, settings))
    }
}

/// The tasks that come before everything else.
fn early(meaning: Meaning) -> Option<Task> {
    match meaning {
        Meaning::Help => Some(Task::Help),
        Meaning::Warranty => Some(Task::Warranty),
        Meaning::Dump => Some(Task::Dump),
        Meaning::Table => Some(Task::Table),
        _ => None,
    }
}

fn version(meaning: Meaning) -> Option<Task> {
    (meaning == Meaning::Version).then_some(Task::Version)
}

/// The home directory.
fn home(all: &[Given<Meaning>]) -> PathBuf {
    let given = all.iter().rev().find(|given| given.meaning == Meaning::Homedir);
    let from_environment = || std::env::var_os("GNUPGHOME").filter(|home| !home.is_empty());
    let named = given.map(|given| given.text.clone()).or_else(from_environment);
    let usual = || Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".gnupg");
    let home = named.map_or_else(usual, |name| crate::keyring::expanded(Path::new(&name)));
    // Joining the parts again drops slashes at the end.
    std::env::current_dir().unwrap_or_default().join(home).components().collect()
}

/// The configuration file that the command line asks for.
fn choice(all: &[Given<Meaning>]) -> Choice {
    if all.iter().any(|given| given.meaning == Meaning::NoOptions) {
        return Choice::None;
    }
    let file = all.iter().find(|given| given.meaning == Meaning::OptionFile);
    file.map_or(Choice::Home, |given| Choice::File(given.text.clone()))
}

/// The commands that were given.
#[derive(Default)]
struct Commands {
    /// The first one.
    first: Option<Given<Meaning>>,
    /// Another one that goes together with it.
    undone: Option<Reason>,
    /// Those that sign.
    signing: Vec<Meaning>,
    encrypts: bool,
    has_passphrase: bool,
    wants_fingerprints: bool,
}

impl Commands {
    fn add(&mut self, given: &Given<Meaning>) -> Result<(), Reason> {
        match given.meaning {
            Meaning::Fingerprint => self.wants_fingerprints = true,
            Meaning::Verify
            | Meaning::Decrypt
            | Meaning::ListKeys
            | Meaning::ListSecretKeys
            | Meaning::ListSigs
            | Meaning::CheckSigs
            | Meaning::Export
            | Meaning::ListConfig
            | Meaning::Command => {}
            Meaning::Symmetric => self.has_passphrase = true,
            Meaning::Encrypt => self.encrypts = true,
            Meaning::Sign | Meaning::DetachSign | Meaning::ClearSign => {
                self.signing.push(given.meaning);
            }
            _ => return Ok(()),
        }
        if given.meaning == Meaning::Fingerprint {
            return Ok(());
        }
        if given.meaning == Meaning::Command {
            self.undone.get_or_insert(Reason::Undone(format!("--{}", given.long)));
        }
        let first = self.first.get_or_insert_with(|| given.clone());
        let seals = |meaning| {
            use Meaning::{ClearSign, DetachSign, Encrypt, Sign, Symmetric};
            matches!(meaning, Encrypt | Symmetric | Sign | DetachSign | ClearSign)
        };
        let go_together =
            first.short == given.short || seals(first.meaning) && seals(given.meaning);
        if go_together { Ok(()) } else { Err(Reason::Wrong("conflicting commands".to_owned())) }
    }

    /// The task, if all options that have an effect on it are obeyed.
    fn task(self, settings: &Settings) -> Result<Task, Reason> {
        if let Some(reason) = self.undone {
            return Err(reason);
        }
        if self.has_passphrase
            && (self.encrypts || !self.signing.is_empty() || !settings.has_loopback())
        {
            return Err(Reason::Undone("--symmetric".to_owned()));
        }
        let does = |command| self.signing.contains(&command);
        let task = match self.first.map(|given| given.meaning) {
            _ if self.encrypts && self.signing == [Meaning::Sign] => Task::EncryptSigned,
            _ if !self.signing.is_empty() => {
                Task::Sign(match (does(Meaning::DetachSign), does(Meaning::ClearSign)) {
                    (true, false) if !self.encrypts => Form::Detached,
                    (false, true) if !self.encrypts => Form::Clear,
                    (false, false) if !self.encrypts => Form::Inline,
                    _ => return Err(Reason::Undone("--sign".to_owned())),
                })
            }
            Some(Meaning::Verify) => Task::Verify,
            Some(Meaning::Decrypt) => Task::Decrypt,
            Some(Meaning::Encrypt) => Task::Encrypt,
            Some(Meaning::Symmetric) => Task::Symmetric,
            Some(Meaning::ListKeys) => Task::ListKeys,
            Some(Meaning::ListSecretKeys) => Task::ListSecretKeys,
            Some(Meaning::ListSigs) => Task::ListSigs,
            Some(Meaning::CheckSigs) => Task::CheckSigs,
            Some(Meaning::Export) => Task::Export,
            Some(Meaning::ListConfig) => Task::ListConfig,
            _ if self.wants_fingerprints => Task::ListKeys,
            _ => Task::Default,
        };
        if let Some(passphrase) = &settings.passphrase
            && !task.obeys(&passphrase.place)
        {
            return Err(passphrase.reason());
        }
        if let Some(reason) = &settings.list_only
            && task != Task::Decrypt
        {
            return Err(reason.clone());
        }
        let reason = match task {
            Task::Verify | Task::Decrypt | Task::Default => None,
            // What an option such as `--dry-run` does to it is not implemented.
            Task::Encrypt => settings.unless_verifying.clone().or(settings.sealing.undone.clone()),
            Task::Symmetric => {
                let reason = settings.unless_verifying.clone().or(settings.sealing.undone.clone());
                reason.or(settings.unless_stretching.clone())
            }
            Task::EncryptSigned => {
                let reason = settings.unless_verifying.clone().or(settings.sealing.undone.clone());
                reason.or(settings.unless_signing.clone())
            }
            Task::Sign(_) => {
                let reason = settings.unless_verifying.clone().or(settings.unless_signing.clone());
                reason.or(settings.unless_only_signing.clone())
            }
            Task::ListConfig if settings.sealing.has_groups() => {
                Some(Reason::Undone("--group".to_owned()))
            }
            Task::ListConfig => None,
            Task::Export => settings.unless_verifying.clone().or(settings.unless_exporting.clone()),
            _ => settings.unless_verifying.clone().or(settings.unless_listing.clone()),
        };
        reason.map_or(Ok(task), Err)
    }
}

impl Settings {
    fn new(home: PathBuf) -> Self {
        Self {
            home,
            verbose: 0,
            quiet: false,
            batch: false,
            yes: false,
            armor: false,
            colons: false,
            with_fingerprint: false,
            fingerprints: 0,
            with_keygrip: false,
            specials: false,
            ignores_time_conflict: false,
            exits_on_write_error: false,
            has_progress: false,
            warns_of_permissions: true,
            default_keyring: true,
            keyrings: Vec::new(),
            output: None,
            status: None,
            logger: None,
            weak: Vec::new(),
            keyid_format: KeyidFormat::None,
            shown: Shown::default(),
            web: Web { model: Model::Auto, completes: 1, marginals: 3, depth: 5, checks: true },
            sealing: Sealing::default(),
            signers: Vec::new(),
            default_keys: Vec::new(),
            digest: None,
            digests: Vec::new(),
            names_signers: true,
            unless_signing: None,
            unless_only_signing: None,
            unless_decrypting: None,
            list_only: None,
            unless_stretching: None,
            passphrase: None,
            is_loopback: false,
            pinentry: None,
            unless_verifying: None,
            unless_listing: None,
            unless_exporting: None,
        }
    }

    /// Obeys an option.
    fn set(&mut self, given: &Given<Meaning>) -> Result<(), Reason> {
        let Given { meaning, long, text, number, .. } = given;
        let undone = || {
            let name = if long.is_empty() { "an option" } else { long };
            if text.is_empty() {
                Reason::Undone(format!("--{name}"))
            } else {
                Reason::Undone(format!("--{name} {}", text.to_string_lossy()))
            }
        };
        let yes_or_undone = |is_known| if is_known { Ok(()) } else { Err(undone()) };
        match meaning {
            Meaning::Verbose => self.verbose = self.verbose.saturating_add(1),
            Meaning::NoVerbose => self.verbose = 0,
            Meaning::Quiet => self.quiet = true,
            Meaning::StatusFd => self.status = Some(*number).filter(|&number| number != -1),
            Meaning::LoggerFd => self.logger = Some(*number),
            Meaning::CommandFd => open_descriptor("command", *number)?,
            Meaning::AlwaysTrust => self.web.model = Model::Always,
            Meaning::TrustModel => {
                self.web.model = match text.to_string_lossy().to_ascii_lowercase().as_str() {
                    "auto" => Model::Auto,
                    "pgp" => Model::Pgp,
                    "classic" => Model::Classic,
                    "always" => Model::Always,
                    _ => return Err(undone()),
                };
            }
            Meaning::Completes => self.web.completes = *number,
            Meaning::Marginals => self.web.marginals = *number,
            Meaning::Depth => self.web.depth = *number,
            Meaning::AutoCheck => self.web.checks = true,
            Meaning::NoAutoCheck => self.web.checks = false,
            Meaning::ExitOnWriteError => self.exits_on_write_error = true,
            Meaning::Progress => self.has_progress = true,
            Meaning::Armor => self.armor = true,
            Meaning::Output => self.output = Some(text.clone()),
            Meaning::WithColons => self.colons = true,
            Meaning::WithFingerprint => {
                self.with_fingerprint = true;
                self.fingerprints = self.fingerprints.saturating_add(1);
            }
            Meaning::Fingerprint => self.fingerprints = self.fingerprints.saturating_add(1),
            Meaning::WithKeygrip => self.with_keygrip = true,
            Meaning::KeyidFormat => {
                self.keyid_format =
                    KeyidFormat::named(&text.to_string_lossy()).ok_or_else(undone)?;
            }
            Meaning::NoDefaultKeyring => self.default_keyring = false,
            Meaning::Keyring => self.keyrings.push(text.clone()),
            Meaning::Specials => self.specials = true,
            Meaning::IgnoreTimeConflict => self.ignores_time_conflict = true,
            Meaning::WeakDigest => {
                let number = algorithm::digest_number(&text.to_string_lossy());
                self.weak.push(number.ok_or_else(undone)?);
            }
            Meaning::Batch => self.batch = true,
            Meaning::NoBatch => self.batch = false,
            Meaning::Yes => self.yes = true,
            Meaning::VerifyOptions => {
                let mut flags = config::flags(text).into_iter();
                yes_or_undone(flags.all(|(flag, is_set)| self.shown.set(&flag, is_set)))?;
            }
            Meaning::ListOptions => {
                let mut flags = config::flags(text).into_iter();
                yes_or_undone(flags.all(|(flag, _)| arguments::is_list_option(&flag)))?;
                self.unless_listing.get_or_insert(undone());
            }
            Meaning::ExportOptions => {
                let mut flags = config::flags(text).into_iter();
                yes_or_undone(flags.all(|(flag, _)| arguments::is_export_option(&flag)))?;
                self.unless_exporting.get_or_insert(undone());
            }
            Meaning::Group => {
                yes_or_undone(self.sealing.add_group(&text.to_string_lossy()))?;
            }
            Meaning::LocalUser => self.signers.push(text.clone()),
            Meaning::DefaultKey => self.default_keys.push(text.clone()),
            Meaning::DigestAlgo => {
                let text = text.to_string_lossy();
                yes_or_undone(arguments::is_known(Argument::Digest, &text))?;
                self.digest = algorithm::digest_number(&text);
            }
            Meaning::NoSignerUserId => self.names_signers = false,
            Meaning::IdleUnlessSigning => drop(self.unless_signing.get_or_insert(undone())),
            Meaning::ForAgent => self.needs_agent(undone()),
            Meaning::Stretching(kind) => {
                yes_or_undone(arguments::is_known(*kind, &text.to_string_lossy()))?;
                self.unless_stretching.get_or_insert(undone());
            }
            Meaning::StretchingCount => drop(self.unless_stretching.get_or_insert(undone())),
            Meaning::ListOnly => drop(self.list_only.get_or_insert(undone())),
            Meaning::For(option) => {
                self.sealing.set(*option, given, undone)?;
                if option.is_for_signing() {
                    self.unless_only_signing.get_or_insert(undone());
                }
            }
            Meaning::Checked(kind) => {
                yes_or_undone(arguments::is_known(*kind, &text.to_string_lossy()))?;
            }
            // One in a file or a descriptor counts before it, wherever it stands.
            Meaning::Passphrase if self.passphrase.as_ref().is_some_and(|it| !it.is_text()) => {}
            Meaning::Passphrase => {
                self.passphrase = Some(Passphrase::new(Place::Text(text.clone()), undone())?);
            }
            Meaning::PassphraseFile => {
                self.passphrase = Some(Passphrase::new(Place::File(text.clone()), undone())?);
            }
            Meaning::PassphraseFd => {
                let place = Place::Descriptor(*number);
                self.passphrase = Some(Passphrase::new(place, undone())?);
            }
            Meaning::PinentryMode => {
                let text = text.to_string_lossy();
                yes_or_undone(arguments::is_known(Argument::Pinentry, &text))?;
                self.is_loopback = text.eq_ignore_ascii_case("loopback");
                self.pinentry =
                    Some(undone()).filter(|_| !arguments::is_usual(Argument::Pinentry, &text));
            }
            Meaning::CheckedForAgent(kind) => {
                let text = text.to_string_lossy();
                yes_or_undone(arguments::is_known(*kind, &text))?;
                if !arguments::is_usual(*kind, &text) {
                    self.needs_agent(undone());
                }
            }
            Meaning::PersonalDigests => {
                let text = text.to_string_lossy();
                yes_or_undone(arguments::is_known(Argument::Preferences, &text))?;
                match arguments::preferences(&text, algorithm::digest_number) {
                    Some(list) => self.digests = list,
                    None => drop(self.unless_signing.get_or_insert(undone())),
                }
            }
            Meaning::IdleForVerify => drop(self.unless_verifying.get_or_insert(undone())),
            Meaning::ListingOnly => drop(self.unless_listing.get_or_insert(undone())),
            Meaning::Other | Meaning::Heading => return Err(undone()),
            // Commands, what was read before, and what has no effect.
            _ => {}
        }
        Ok(())
    }

    /// Notes that passphrases are asked for in an unusual way, unless the caller has given one.
    fn check_pinentry(&mut self) {
        let is_given = self.has_loopback();
        if let Some(reason) = self.pinentry.take().filter(|_| !is_given) {
            self.needs_agent(reason);
        }
    }

    /// Whether the passphrase of the caller is used.
    pub(crate) fn has_loopback(&self) -> bool {
        self.is_loopback && self.passphrase.is_some()
    }

    /// The passphrases for keys in the agent. One that is given is read in any case.
    pub(crate) fn passwords(&self) -> Vec<Password> {
        let given = self.passphrase.as_ref().map(Passphrase::read);
        given.filter(|_| self.is_loopback).into_iter().collect()
    }

    /// Whether a passphrase is read from a descriptor, after which nothing can be handed over.
    pub(crate) fn has_read_descriptor(&self) -> bool {
        let place = self.passphrase.as_ref().map(|passphrase| &passphrase.place);
        matches!(place, Some(Place::Descriptor(_)))
    }

    /// Notes an option that has an effect on what gpg-agent does.
    fn needs_agent(&mut self, reason: Reason) {
        self.unless_decrypting.get_or_insert_with(|| reason.clone());
        self.unless_signing.get_or_insert(reason);
    }

    /// Refuses what gpg refuses once it has read all options.
    fn check(&self) -> Result<(), Reason> {
        for (name, number) in [("status", self.status), ("logger", self.logger)] {
            number.map_or(Ok(()), |number| open_descriptor(name, number))?;
        }
        let Web { completes, marginals, depth, .. } = self.web;
        let wrong = if completes < 1 {
            "completes-needed must be greater than 0"
        } else if marginals < 2 {
            "marginals-needed must be greater than 1"
        } else if !(1..=255).contains(&depth) {
            "max-cert-depth must be in the range from 1 to 255"
        } else {
            return Ok(());
        };
        Err(Reason::Wrong(wrong.to_owned()))
    }
}

/// Whether a descriptor is open.
fn open_descriptor(name: &str, number: i32) -> Result<(), Reason> {
    let opened = talaria_disk::duplicate(number).map(drop);
    opened.map_err(|error| {
        let why = Code::system(&error);
        let fatal = if name == "command" { "" } else { "Fatal: " };
        Reason::Wrong(format!("{fatal}{name}-fd is invalid: {}", why.text()))
    })
}
