//! Whether a certificate belongs to whom it names, as GnuPG computed it last: by the trust
//! database of the home directory, which is read and never changed.

use std::cell::Cell;
use std::fs;
use std::path::Path;

use rustix::fs::Access;
use talaria_cert::{Fingerprint, Hasher};
use talaria_gnupg::{TrustHead, TrustRecord, TrustRecords};

use crate::code::Exit;
use crate::gpg::handover::Reason;
use crate::gpg::web::{Model, Web};
use crate::log::Log;

/// GnuPG's number of RIPEMD-160.
const RIPEMD160: u8 = 3;

/// The certification level that GnuPG needs by default.
const CERT_LEVEL: u8 = 2;

/// How sure it is that a certificate, or a user ID, belongs to whom it names.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Level {
    #[default]
    Unknown,
    Expired,
    Undefined,
    Never,
    Marginal,
    Full,
    Ultimate,
}

impl Level {
    fn of(value: u8) -> Self {
        match value & 15 {
            1 => Self::Expired,
            2 => Self::Undefined,
            3 => Self::Never,
            4 => Self::Marginal,
            5 => Self::Full,
            6 => Self::Ultimate,
            _ => Self::Unknown,
        }
    }

    /// The word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::Undefined => "undefined",
            Self::Never => "never",
            Self::Marginal => "marginal",
            Self::Full => "full",
            Self::Ultimate => "ultimate",
        }
    }

    /// Its letter in listings.
    pub(crate) fn letter(self) -> u8 {
        match self {
            Self::Unknown => b'-',
            Self::Expired => b'e',
            Self::Undefined => b'q',
            Self::Never => b'n',
            Self::Marginal => b'm',
            Self::Full => b'f',
            Self::Ultimate => b'u',
        }
    }
}

/// The trust database and the trust model.
pub(crate) struct Trust {
    /// The name of the model in status lines.
    pub(crate) model: &'static str,
    /// Every key is accepted, and nothing is looked up.
    pub(crate) is_always: bool,
    /// `None` if there is no database, or the model needs none.
    records: Option<TrustRecords>,
    /// The database where the model needs none: it says which keys the user has disabled.
    unused: Option<TrustRecords>,
    /// What GnuPG computes now is that nothing is valid, whatever the records say.
    is_reset: bool,
    /// Texts that come when the validity is first asked for.
    texts: Vec<String>,
    were_told: Cell<bool>,
}

impl Trust {
    /// Reads the trust database of a home directory.
    ///
    /// # Errors
    ///
    /// [`Reason`] if GnuPG would compute validity now, or has another trust model, or cannot read
    /// its database.
    pub(crate) fn load(
        home: &Path,
        web: &Web,
        verbosity: &Verbosity,
        now: u32,
    ) -> Result<Self, Reason> {
        let none = |model, is_always| Self {
            model,
            is_always,
            records: None,
            unused: None,
            is_reset: false,
            texts: Vec::new(),
            were_told: Cell::new(false),
        };
        let path = home.join("trustdb.gpg");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(_) if web.model == Model::Always => Vec::new(),
            Err(_) => return Err(Reason::Needed(format!("a readable {}", path.display()))),
        };
        if web.model == Model::Always {
            // A damaged one is of no interest to most tasks.
            let unused = TrustRecords::new(bytes).ok().filter(TrustRecords::is_sound);
            return Ok(Self { unused, ..none("always", true) });
        }
        let mut this = none(if web.model == Model::Classic { "classic" } else { "pgp" }, false);
        if bytes.is_empty() {
            if verbosity.verbose && web.model == Model::Auto {
                this.texts.push("using pgp trust model".to_owned());
            }
            return Ok(this);
        }
        let needs = |what: &str| Reason::Needed(format!("{what} of {}", path.display()));
        let records = TrustRecords::new(bytes).ok().filter(TrustRecords::is_sound);
        let records = records.ok_or_else(|| needs("a repair"))?;
        if rustix::fs::access(&path, Access::WRITE_OK).is_err() && !verbosity.quiet {
            this.texts.push("Note: trustdb not writable".to_owned());
        }
        let head = *records.head();
        let model = match (web.model, head.model) {
            (Model::Auto, 0) => "classic",
            (Model::Auto, 1) => "pgp",
            (Model::Auto, _) => return Err(needs("the trust model")),
            _ => this.model,
        };
        this.model = model;
        if verbosity.verbose && web.model == Model::Auto {
            this.texts.push(format!("using {model} trust model"));
        }
        let matches = [head.marginals, head.completes, head.depth].map(i32::from)
            == [web.marginals, web.completes, web.depth]
            && head.model == u8::from(model == "pgp")
            && head.level == CERT_LEVEL;
        let is_stale = head.next_check != 0 && head.next_check <= now || !matches;
        if records.ultimate().any(|(_, by_option)| by_option) {
            return Err(needs("an update"));
        }
        if is_stale && !web.checks {
            if !verbosity.quiet {
                this.texts.push("please do a --check-trustdb".to_owned());
            }
        } else if is_stale {
            if verbosity.verbose || records.ultimate().next().is_some() {
                return Err(needs("an update"));
            }
            // Without a key of one's own nothing is valid.
            this.is_reset = true;
            if !verbosity.quiet {
                this.texts.push("checking the trustdb".to_owned());
                this.texts.push("no ultimately trusted keys found".to_owned());
            }
        }
        this.records = Some(records);
        Ok(this)
    }

    /// The line about the database in listings for programs; `None` if it is not known.
    pub(crate) fn line(&self, web: &Web, now: u32) -> Option<String> {
        const PGP: u8 = 1;
        let Some(records) = &self.records else {
            // That of a database that gpg would make now.
            let Web { marginals, completes, depth, .. } = web;
            let line = format!("tru::{PGP}:{now}:0:{marginals}:{completes}:{depth}\n");
            return Some(line).filter(|_| self.model == "pgp");
        };
        let head = records.head();
        let mut flags = String::new();
        let number = |value: u8, wanted: i32| i32::from(value) != wanted;
        for (flag, is_set) in [
            ('o', head.next_check != 0 && head.next_check <= now),
            ('t', head.model != u8::from(self.model == "pgp")),
            ('m', number(head.marginals, web.marginals)),
            ('c', number(head.completes, web.completes)),
            ('d', number(head.depth, web.depth)),
            ('l', head.level != CERT_LEVEL),
        ] {
            flags.extend(Some(flag).filter(|_| is_set));
        }
        let TrustHead { model, created, next_check, marginals, completes, depth, .. } = head;
        let numbers = format!("{marginals}:{completes}:{depth}");
        Some(format!("tru:{flags}:{model}:{created}:{next_check}:{numbers}\n"))
    }

    /// Writes the texts about the database, once.
    pub(crate) fn tell(&self, log: &Log) {
        if !self.were_told.replace(true) {
            self.texts.iter().for_each(|text| log.info(text));
        }
    }

    /// Whether the user has disabled a certificate, whatever the model.
    ///
    /// # Errors
    ///
    /// As [`Self::find`].
    pub(crate) fn is_disabled(&self, log: &Log, primary: Fingerprint) -> Result<bool, Exit> {
        Ok(self.entry(log, primary)?.is_disabled())
    }

    /// What the database has about a certificate, whatever the model.
    fn entry(&self, log: &Log, primary: Fingerprint) -> Result<Believed, Exit> {
        match (&self.unused, primary) {
            (Some(records), Fingerprint::V4(name)) => {
                Ok(Believed(records.find(&name).ok().flatten().unwrap_or_default()))
            }
            _ => self.find(log, primary),
        }
    }

    /// The letter of the ownertrust, whatever the model.
    ///
    /// # Errors
    ///
    /// As [`Self::find`].
    pub(crate) fn ownertrust(&self, log: &Log, primary: Fingerprint) -> Result<char, Exit> {
        Ok(Level::of(self.entry(log, primary)?.ownertrust()).letter().into())
    }

    /// What the database has about a certificate.
    ///
    /// # Errors
    ///
    /// [`Exit`] if the database is damaged, which was reported then.
    pub(crate) fn find(&self, log: &Log, primary: Fingerprint) -> Result<Believed, Exit> {
        let Fingerprint::V4(primary) = primary else { return Ok(Believed::default()) };
        let found = match &self.records {
            Some(records) => records.find(&primary),
            None => Ok(None),
        };
        let mut found = found.map_err(|error| {
            log.error(error.to_string());
            log.error("Error: The trustdb is corrupted.");
            Exit(2)
        })?;
        if let Some(found) = found.as_mut().filter(|_| self.is_reset) {
            found.validities.clear();
        }
        Ok(Believed(found.unwrap_or_default()))
    }
}

/// How much of the reading is told.
pub(crate) struct Verbosity {
    pub(crate) verbose: bool,
    pub(crate) quiet: bool,
}

/// What the trust database has about a certificate; nothing by default.
#[derive(Default)]
pub(crate) struct Believed(TrustRecord);

impl Believed {
    /// The validity of the certificate: that of its best user ID.
    pub(crate) fn best(&self) -> Level {
        let levels = self.0.validities.iter().map(|(_, value)| Level::of(*value));
        levels.max().unwrap_or_default()
    }

    /// The validity of a user ID, given its text or the subpackets of an attribute.
    pub(crate) fn of(&self, user_id: &[u8]) -> Level {
        let digest = || {
            let mut hasher = Hasher::new(RIPEMD160)?;
            hasher.update(user_id);
            hasher.finish()
        };
        if self.0.validities.is_empty() {
            return Level::Unknown;
        }
        let Some(digest) = digest() else { return Level::Unknown };
        let found = self.0.validities.iter().find(|(name, _)| name[..] == *digest.as_bytes());
        found.map_or(Level::Unknown, |(_, value)| Level::of(*value))
    }

    /// The ownertrust, with 128 for a disabled key.
    pub(crate) fn ownertrust(&self) -> u8 {
        self.0.ownertrust
    }

    /// The user has disabled the key.
    pub(crate) fn is_disabled(&self) -> bool {
        self.0.ownertrust & 0x80 != 0
    }
}
