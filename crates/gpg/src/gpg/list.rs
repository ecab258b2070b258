//! `--list-keys`, `--list-sigs` and `--list-secret-keys` for programs (`--with-colons`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::rc::Rc;

use talaria_cert::{
    Fingerprint, Gnupg, Key, KeyId, Keygrip, PacketRef, Signature, Summary, Tag, first_packet,
};
use talaria_gnupg::{Colons, NO_USER_ID, write_cert, write_packets_with_signatures};

use crate::catalog::{Catalog, Place};
use crate::code::Exit;
use crate::gpg::arranged::in_order;
use crate::gpg::handover::Reason;
use crate::gpg::manner::Manner;
use crate::gpg::names::Name;
use crate::gpg::secrets::{Secrets, as_secret};
use crate::gpg::start::Started;
use crate::keyblock::{Keyblock, damage, keys_of};
use crate::session::Session;

/// Which lines a listing has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Lines {
    Keys,
    Signatures,
    SecretKeys,
}

/// The certificates that names stand for.
pub(crate) struct Chosen {
    catalog: Catalog,
    /// The places of the chosen ones, and the key that is meant in each.
    places: Vec<(Place, Option<Fingerprint>)>,
}

impl Chosen {
    /// Finds the certificates that `words` name, or all. The error says what is needed.
    pub(crate) fn find(started: &Started, words: &[OsString]) -> Result<Self, &'static str> {
        const DAMAGED: &str = "of a damaged keyring";
        let names: Option<Vec<Name>> = words.iter().map(|word| Name::read(word)).collect();
        let names = names.ok_or("by such a name")?;
        let catalog = started.catalog()?;
        let places = catalog.find(&names).ok_or(DAMAGED)?;
        for (place, _) in &places {
            if damage(&catalog.read(*place).ok_or(DAMAGED)?).is_some() {
                return Err("of a damaged certificate");
            }
        }
        Ok(Self { catalog, places })
    }

    /// Keeps those that fit.
    fn keep(&mut self, fits: impl Fn(&[u8]) -> bool) {
        let Self { catalog, places } = self;
        places.retain(|(place, _)| catalog.read(*place).is_some_and(|raw| fits(&raw)));
    }

    /// The packets of the chosen certificates; `None` for one that can no longer be read.
    pub(crate) fn certs(&self) -> impl Iterator<Item = Option<Vec<u8>>> {
        self.places.iter().map(|(place, _)| self.catalog.read(*place))
    }
}

/// A listing whose certificates were found.
pub(crate) struct Listing {
    lines: Lines,
    chosen: Chosen,
    /// The line about the trust database.
    head: String,
    /// The secret keys, if these are listed.
    secrets: Option<Secrets>,
}

impl Listing {
    /// Finds the certificates that `words` name, or all.
    ///
    /// # Errors
    ///
    /// [`Reason`] if the real gpg must list them.
    pub(crate) fn find(
        started: &Started,
        lines: Lines,
        words: &[OsString],
    ) -> Result<Self, Reason> {
        let Started { session, settings, .. } = started;
        let needs = |what: &str| Reason::Undone(format!("a listing {what}"));
        if !settings.colons {
            return Err(needs("for people"));
        }
        if settings.verbose > 0 || lines == Lines::Signatures && session.status.is_wanted() {
            return Err(needs("with all texts"));
        }
        let mut chosen = Chosen::find(started, words).map_err(needs)?;
        if lines == Lines::SecretKeys {
            let secrets = Secrets::of_home(&settings.home).map_err(needs)?;
            secrets.check_all().map_err(needs)?;
            chosen.keep(|raw| secrets.has_any(raw));
            return Ok(Self { lines, chosen, head: String::new(), secrets: Some(secrets) });
        }
        let head =
            session.gpg.as_ref().and_then(|manner| manner.trust.line(&settings.web, session.now));
        let head = head.ok_or_else(|| needs("with this trust model"))?;
        Ok(Self { lines, chosen, head, secrets: None })
    }

    /// Writes the listing.
    ///
    /// # Errors
    ///
    /// [`Exit`] with 2 if no certificate was found by name, and if the trust database is damaged.
    pub(crate) fn write(&self, started: &Started, words: &[OsString]) -> Result<(), Exit> {
        let Started { session, settings, .. } = started;
        started.begin();
        let Some(manner) = &session.gpg else { return Err(Exit(2)) };
        let mut out = self.head.clone().into_bytes();
        manner.trust.tell(&session.log);
        let Chosen { catalog, places } = &self.chosen;
        if places.is_empty() && !words.is_empty() {
            print(&out);
            let (kind, number) =
                if self.secrets.is_some() { ("secret", 17) } else { ("public", 9) };
            session.log.error(format!("error reading key: No {kind} key"));
            session.status.line(&format!("ERROR keylist.getkey {number}"));
            return Err(Exit(2));
        }
        let issuers = Issuers::new(session, catalog);
        let with_keygrip = settings.with_keygrip || self.secrets.is_some();
        for (place, key) in places {
            let Some((raw, keyblock)) = issuers.read(*place) else { continue };
            match key.and_then(|key| keyblock.find(|found| found.fingerprint == key)) {
                Some(key) => keyblock.report(session, key),
                None => keyblock.report_notes(session),
            }
            let (packets, summary) = in_order(&raw, &keyblock.summary);
            let grips = with_keygrip.then(|| keygrips(&raw, &summary));
            let keygrips = grips.as_deref();
            let entry = Entry { session, manner, packets, keyblock: &keyblock, summary, keygrips };
            let signed = Some(&issuers).filter(|_| self.lines == Lines::Signatures);
            match &self.secrets {
                Some(secrets) => {
                    let mut lines = Vec::new();
                    entry.write(&mut lines, None)?;
                    let grips = keygrips.unwrap_or_default().iter();
                    let has: Vec<bool> = grips.map(|grip| secrets.has(*grip)).collect();
                    out.extend(as_secret(&lines, &has));
                }
                None => entry.write(&mut out, signed)?,
            }
            if out.len() > 1 << 16 {
                print(&out);
                out.clear();
            }
        }
        print(&out);
        if session.log.has_errors() { Err(Exit(2)) } else { Ok(()) }
    }
}

/// A certificate of a listing.
struct Entry<'a> {
    session: &'a Session,
    manner: &'a Manner,
    packets: Vec<PacketRef<'a>>,
    keyblock: &'a Keyblock,
    /// Its components are in the order of the packets.
    summary: Summary,
    keygrips: Option<&'a [Option<Keygrip>]>,
}

impl Entry<'_> {
    /// Writes its lines, with those of its signatures if their makers can be asked for.
    fn write(&self, out: &mut Vec<u8>, signed: Option<&Issuers<'_>>) -> Result<(), Exit> {
        let Self { session, manner, packets, keyblock, summary, keygrips } = self;
        let primary = keyblock.primary();
        let believed = manner.trust.find(&session.log, primary.fingerprint)?;
        let user_ids = packets
            .iter()
            .filter(|packet| matches!(packet.tag, Tag::USER_ID | Tag::USER_ATTRIBUTE));
        let letters: Vec<u8> = user_ids.map(|id| believed.of(id.body).letter()).collect();
        let options = Colons {
            ownertrust: Some(believed.ownertrust()),
            keygrips: *keygrips,
            trust: Some((believed.best().letter(), &letters)),
            tofu: None,
            gnupg: Gnupg::V2_2,
        };
        match signed {
            None => write_cert(out, summary, &options, session.now),
            Some(issuers) => {
                let signatures = packets.iter().filter(|packet| packet.tag == Tag::SIGNATURE);
                let ids = signatures.filter_map(|packet| Signature::parse(packet.body)?.issuer);
                let names: HashMap<KeyId, Rc<Vec<u8>>> =
                    ids.filter_map(|id| Some((id, issuers.name(id)?))).collect();
                let signer = |id| names.get(&id).map(|name| &name[..]);
                let packets = packets.iter().copied();
                let now = session.now;
                write_packets_with_signatures(out, packets, summary, &options, now, signer);
            }
        }
        Ok(())
    }
}

/// The keygrips of a certificate, in the order of its keys in listings.
fn keygrips(raw: &[u8], summary: &Summary) -> Vec<Option<Keygrip>> {
    let grips: HashMap<Fingerprint, Option<Keygrip>> =
        keys_of(raw).map(|key| (key.fingerprint(), key.keygrip())).collect();
    summary.keys().map(|key| grips.get(&key.fingerprint).copied().flatten()).collect()
}

/// The certificates of the keyrings, and which has a key.
pub(crate) struct Issuers<'a> {
    session: &'a Session,
    catalog: &'a Catalog,
    /// Places by key ID, made when a name is first asked for.
    places: RefCell<Option<HashMap<KeyId, Place>>>,
    names: RefCell<HashMap<Place, Rc<Vec<u8>>>>,
}

impl<'a> Issuers<'a> {
    pub(crate) fn new(session: &'a Session, catalog: &'a Catalog) -> Self {
        let (places, names) = (RefCell::default(), RefCell::default());
        Self { session, catalog, places, names }
    }

    /// The certificate at a place.
    pub(crate) fn read(&self, place: Place) -> Option<(Vec<u8>, Keyblock)> {
        let revoker = |by: Fingerprint| {
            let raw = self.catalog.read(self.place(by.key_id())?)?;
            let packet = first_packet(&raw)?;
            let is_meant = Key::parse(packet).is_ok_and(|key| key.fingerprint() == by);
            is_meant.then(|| packet.body.to_vec())
        };
        let raw = self.catalog.read(place)?;
        let keyblock = Keyblock::read(self.session, &raw, revoker)?;
        Some((raw, keyblock))
    }

    /// The user ID that stands for the certificate with a key.
    fn name(&self, id: KeyId) -> Option<Rc<Vec<u8>>> {
        let place = self.place(id)?;
        if let Some(known) = self.names.borrow().get(&place) {
            return Some(Rc::clone(known));
        }
        let found = self.read(place);
        let primary = found.as_ref().and_then(|(_, keyblock)| keyblock.primary_user_id());
        let name = Rc::new(primary.map_or(NO_USER_ID.to_vec(), |id| id.text.clone()));
        self.names.borrow_mut().insert(place, Rc::clone(&name));
        Some(name)
    }

    fn place(&self, id: KeyId) -> Option<Place> {
        let mut places = self.places.borrow_mut();
        places.get_or_insert_with(|| self.catalog.by_key_id()).get(&id).copied()
    }
}

/// Writes a part of the listing. Nobody may want to read all of it.
fn print(out: &[u8]) {
    let _ = std::io::stdout().write_all(out);
}
