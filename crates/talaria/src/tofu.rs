//! TOFU data: events of bindings that commands observe, and exchange of them with GnuPG.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use talaria_cert::address::gnupg_name;
use talaria_cert::{Addressee, Fingerprint, Rules, UserIdContent, Validity};
use talaria_gnupg::{TofuBinding, TofuDatabase, TofuPolicy, TofuSignature};
use talaria_store::{Binding, Event, Observation, Row, Store, StoreError};
use talaria_trust::Level;
use talaria_trust::tofu::Policy;

/// The bindings of a certificate: one for each address in its user IDs that are not revoked. `now`
/// is in seconds since 1970.
#[must_use]
pub fn bindings_of(row: &Row, now: u32) -> Vec<Binding> {
    let mut bindings: Vec<Binding> = Vec::new();
    for user_id in &row.summary.user_ids {
        let UserIdContent::Text(text) = &user_id.content else { continue };
        let email = gnupg_name(text);
        let known = bindings.iter().any(|binding| binding.email == email);
        if user_id.validity(now) == Validity::Revoked || known {
            continue;
        }
        bindings.push(Binding {
            fingerprint: row.summary.fingerprint(),
            email,
            user_id: text.clone(),
            time: i64::from(now),
            policy: Policy::Auto,
            effective: None,
            conflict: None,
        });
    }
    bindings
}

/// The event that a signature was verified at `time`: the signed digest, and the claimed creation
/// time.
#[must_use]
pub fn verified(digest: &[u8], signed: i64, time: i64) -> Event {
    Event::Verified { digest: STANDARD.encode(digest), origin: "unknown".to_owned(), signed, time }
}

/// An observation about a certificate.
#[derive(Clone, Debug)]
pub struct Sight {
    /// The fingerprint of the certificate.
    pub fingerprint: Fingerprint,
    /// The address that was observed; `None` for the whole certificate.
    pub addressee: Option<Addressee>,
    /// The event.
    pub event: Event,
}

/// Records observations about certificates in one transaction. Certificates that are not in the
/// store, and addresses that they do not have, are skipped.
///
/// # Errors
///
/// Errors of the store.
pub fn observe(
    store: &mut Store,
    seen: impl IntoIterator<Item = Sight>,
    now: u32,
) -> Result<(), StoreError> {
    let mut observations = Vec::new();
    for Sight { fingerprint, addressee, event } in seen {
        let Some(row) = store.row(fingerprint)? else { continue };
        let row = store.current(row, Rules::Standard, now.into())?;
        let bindings = bindings_of(&row, now).into_iter();
        let bindings = bindings.filter(|binding| {
            let is_of =
                |addressee: &Addressee| *addressee == Addressee::of_gnupg_name(&binding.email);
            addressee.as_ref().is_none_or(is_of)
        });
        observations.extend(bindings.map(|binding| Observation { binding, event: event.clone() }));
    }
    if observations.is_empty() { Ok(()) } else { store.tofu_mut().observe(&observations) }
}

/// Imports the TOFU data of GnuPG; returns the number of bindings.
///
/// # Errors
///
/// Errors of the store, which is unchanged then.
pub fn import_tofu(store: &mut Store, database: TofuDatabase) -> Result<u64, StoreError> {
    let bindings: Vec<(Binding, Vec<Event>)> = database
        .bindings
        .into_iter()
        .map(|theirs| {
            let signatures = theirs.signatures.into_iter().map(|signature| Event::Verified {
                digest: signature.digest,
                origin: signature.origin,
                signed: signature.sig_time,
                time: signature.time,
            });
            let events = signatures.chain(theirs.encryptions.into_iter().map(Event::Encrypted));
            let binding = Binding {
                fingerprint: theirs.fingerprint,
                email: theirs.email,
                user_id: theirs.user_id,
                time: theirs.time,
                policy: policy(theirs.policy),
                effective: theirs.effective.map(policy),
                conflict: theirs.conflict,
            };
            (binding, events.collect())
        })
        .collect();
    store.tofu_mut().join_bindings(&bindings)?;
    Ok(bindings.len() as u64)
}

/// Exports the recorded bindings in GnuPG's form.
///
/// # Errors
///
/// Errors of reading the store.
pub fn export_tofu(store: &Store) -> Result<TofuDatabase, StoreError> {
    let mut bindings = Vec::new();
    for ours in store.tofu().bindings()? {
        let (mut signatures, mut encryptions) = (Vec::new(), Vec::new());
        for event in store.tofu().events(ours.fingerprint, &ours.email)? {
            match event {
                Event::Verified { digest, origin, signed, time } => {
                    signatures.push(TofuSignature { digest, origin, sig_time: signed, time });
                }
                Event::Encrypted(time) => encryptions.push(time),
                Event::Seen => {}
            }
        }
        bindings.push(TofuBinding {
            fingerprint: ours.fingerprint,
            email: ours.email,
            user_id: ours.user_id,
            time: ours.time,
            policy: their_policy(ours.policy),
            conflict: ours.conflict,
            effective: ours.effective.map(their_policy),
            signatures,
            encryptions,
        });
    }
    let own = |&(_, value): &(Fingerprint, u8)| Level::from_number(value) == Some(Level::Ultimate);
    let ultimately_trusted = store
        .web()
        .ownertrusts()?
        .iter()
        .filter(|entry| own(entry))
        .map(|(f, _)| f.key_id())
        .collect();
    Ok(TofuDatabase { bindings, ultimately_trusted })
}

fn policy(theirs: TofuPolicy) -> Policy {
    match theirs {
        TofuPolicy::Auto => Policy::Auto,
        TofuPolicy::Good => Policy::Good,
        TofuPolicy::Unknown => Policy::Unknown,
        TofuPolicy::Bad => Policy::Bad,
        TofuPolicy::Ask => Policy::Ask,
    }
}

fn their_policy(ours: Policy) -> TofuPolicy {
    match ours {
        Policy::Auto => TofuPolicy::Auto,
        Policy::Good => TofuPolicy::Good,
        Policy::Unknown => TofuPolicy::Unknown,
        Policy::Bad => TofuPolicy::Bad,
        Policy::Ask => TofuPolicy::Ask,
    }
}
