//! One signature: the key, the digest, the arithmetic, and what is reported about it.

use std::ffi::OsStr;
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use talaria_cert::hex::Upper;
use talaria_cert::{Hasher, KeySetup, Signature, Subpacket, Verdict, day};

use crate::algorithm;
use crate::code::{Code, Exit};
use crate::data::beside;
use crate::digests::Digests;
use crate::gpg::trusted::{Mark, Trusted};
use crate::keyblock::{Back, KeyState, Keyblock, conflicts, report_expired};
use crate::keyid::KeyidFormat;
use crate::keyring::{Issuer, Keyrings};
use crate::session::Session;
use crate::signature::{Notation, SignaturePacket, subpacket};
use crate::status::Field;
use crate::text::printable;
use crate::time;

/// The types of signatures on documents (RFC 9580, section 5.2.1).
const BINARY: u8 = 0;
const TEXT: u8 = 1;

/// The longest subpacket that gets a status line.
const SUBPACKET_BYTES_MAX: usize = 256;

/// What a signature belongs to.
pub(crate) struct Setting<'a> {
    /// The name of the file with the signature.
    pub(crate) name: Option<&'a OsStr>,
    /// Whether the signed data is in files of its own.
    pub(crate) is_detached: bool,
    /// Whether there is something else than signatures in the message.
    pub(crate) has_content: bool,
    /// The digests of the signed data; `None` if there is no data.
    pub(crate) digests: Option<&'a Digests>,
}

/// A good or bad signature, by a key.
struct Made {
    is_good: bool,
    key_has_expired: bool,
    key_is_revoked: bool,
    keyblock: Rc<Keyblock>,
}

/// Checks a signature and reports about it. Whether the signature is good, the status lines say.
///
/// # Errors
///
/// [`Exit`] after a bad or expired signature, unless gpg goes on, and if the trust database is
/// damaged.
pub(crate) fn check(
    session: &Session,
    keyrings: &mut Keyrings,
    signature: &SignaturePacket,
    setting: &Setting<'_>,
) -> Result<(), Exit> {
    introduce(session, signature);
    let issuer = Issuer::of(signature);
    let made = made(session, keyrings, signature, issuer, setting);
    if made.as_ref().err() == Some(&Code::NoKey) {
        say_where_key_is(session, signature);
    }
    let made = match made {
        Ok(made) => made,
        Err(code) => {
            let SignaturePacket { key_id, algorithm, digest, class, created, .. } = signature;
            let number = code.number();
            let named = signature
                .fingerprint
                .map_or("-".to_owned(), |fingerprint| Upper(&fingerprint).to_string());
            session.status.line(&format!(
                "ERRSIG {key_id:016X} {algorithm} {digest} {class:02x} {created} {number} {named}"
            ));
            if code == Code::NoKey {
                session.status.line(&format!("NO_PUBKEY {key_id:016X}"));
            }
            if code != Code::NotProcessed {
                session.log.error(format!("Can't check signature: {}", code.text()));
            }
            return Ok(());
        }
    };
    let is_believed = report(session, signature, issuer, &made)?;
    let has_expired = signature.has_expired(session.now);
    if signature.expires != 0 {
        let word = if has_expired { "expired" } else { "expires" };
        session.log.info(format!("Signature {word} {}", time::local(signature.expires)));
    }
    session.chat(|| {
        let kind = match signature.class {
            BINARY => "binary",
            TEXT => "textmode",
            _ => "unknown",
        };
        let digest = algorithm::digest_name(signature.digest);
        let key = issuer.key(&made.keyblock).map_or("", |key| &key.name);
        format!("{kind} signature, digest algorithm {digest}, key algorithm {key}")
    });
    if made.is_good && is_believed && !has_expired {
        warn_of_other_file(session, setting);
        return Ok(());
    }
    session.note_bad()
}

/// Reports what the signature says about itself.
fn introduce(session: &Session, signature: &SignaturePacket) {
    match &signature.signer {
        Some(signer) => session.status.bytes("NEWSIG", "", signer.as_bytes(), Field::Word),
        None => session.status.line("NEWSIG"),
    }
    let algorithm = algorithm::public_name(signature.algorithm);
    let made = time::local(signature.created);
    let key_id = session.key_id(signature.key_id);
    let key = match &signature.fingerprint {
        None if session.keyid_format == KeyidFormat::Short => None,
        None => Some(key_id.clone()),
        Some(fingerprint) => Some(Upper(fingerprint).to_string()),
    };
    match key {
        Some(key) => {
            session.log.info(format!("Signature made {made}"));
            session.log.info(format!("               using {algorithm} key {key}"));
        }
        None => {
            session.log.info(format!("Signature made {made} using {algorithm} key ID {key_id}"));
        }
    }
    if let Some(signer) = &signature.signer {
        session.log.info(format!("               issuer \"{signer}\""));
    }
}

/// Finds the key, and checks whether it made the signature.
fn made(
    session: &Session,
    keyrings: &mut Keyrings,
    signature: &SignaturePacket,
    issuer: Issuer,
    setting: &Setting<'_>,
) -> Result<Made, Code> {
    if !algorithm::is_known_digest(signature.digest) {
        return Err(Code::Digest);
    }
    match signature.class {
        BINARY | TEXT => {}
        0x20 => {
            session.log.error("standalone revocation - use \"gpg --import\" to apply");
            return Err(Code::NotProcessed);
        }
        class @ (0x10..=0x13 | 0x18 | 0x1f | 0x28 | 0x30) => {
            session.log.error(format!("invalid root packet for sigclass {class:02x}"));
            return Err(Code::SignatureClass);
        }
        _ => return Err(Code::SignatureClass),
    }
    if !algorithm::is_known_public(signature.algorithm) {
        return Err(Code::PublicAlgorithm);
    }
    let digests = setting.digests.filter(|digests| digests.has(signature.digest));
    let Some(digests) = digests else {
        session.log.info("WARNING: signature digest conflict in message");
        return Err(Code::General);
    };
    let keyblock = keyrings.find(session, issuer).ok_or(Code::NoKey)?;
    let key = issuer.key(&keyblock).ok_or(Code::NoKey)?;
    keyblock.report(session, key);
    if !key.is_valid {
        return Err(Code::BadKey);
    }
    let is_late = conflict(session, key, signature);
    if is_late && !session.ignores_time_conflict {
        return Err(Code::TimeConflict);
    }
    let KeyState { id, expires, .. } = key;
    if key.has_expired {
        report_expired(session, *id, *expires);
    }
    if key.is_revoked {
        session.chat(|| format!("Note: signature key {} has been revoked", session.key_id(*id)));
    }
    if session.is_weak_for_documents(signature.digest) {
        session.note_rejected(signature.digest);
        return Err(Code::Digest);
    }
    if !key.signs {
        let (code, class, usage) = (Code::WrongUsage, signature.class, key.usage);
        if !session.quiet {
            session.log.info(format!(
                "bad data signature from key {}: {} (0x{class:02x}, 0x{usage:x})",
                session.key_id(*id),
                code.text()
            ));
        }
        return Err(code);
    }
    let mut is_good = !digests.is_cut
        && digests.get(signature.digest).is_some_and(|hasher| is_by(key, signature, hasher));
    if is_good && signature.has_unknown_critical {
        session.log.info(format!(
            "assuming bad signature from key {} due to an unknown critical bit",
            session.key_id(*id)
        ));
        is_good = false;
    }
    if is_good {
        check_back(session, key)?;
        session.status.line(&format!(
            "SIG_ID {} {} {}",
            signature_id(signature).ok_or(Code::General)?,
            day(signature.created),
            signature.created
        ));
    }
    let (key_has_expired, key_is_revoked) = (key.has_expired, key.is_revoked);
    Ok(Made { is_good, key_has_expired, key_is_revoked, keyblock })
}

/// Reports a key that is newer than its signature, or than now.
fn conflict(session: &Session, key: &KeyState, signature: &SignaturePacket) -> bool {
    let texts = conflicts(key.id, key.created, signature.created, session);
    texts.iter().for_each(|text| session.log.info(text));
    !texts.is_empty()
}

/// Whether a key made a signature on the data of a digest.
///
/// True is said only for arithmetic that is right, over the data, the hashed fields of the packet
/// and the public key that the keyring has; anybody may have changed the rest of the packet.
fn is_by(key: &KeyState, packet: &SignaturePacket, hasher: Hasher) -> bool {
    let verdict = || {
        let key = key.key()?;
        let digest = Signature::parse(&packet.body)?.digest(hasher)?;
        let body = packet.with_prefix(digest.as_bytes());
        let signature = Signature::parse(&body)?;
        let mut job = None;
        let setup = KeySetup::default();
        Some(match setup.verify(&key, &signature, &digest, |deferred| job = Some(deferred)) {
            Verdict::Unchecked => job?.verdict(),
            verdict => verdict,
        })
    };
    verdict() == Some(Verdict::Good)
}

/// Refuses a subkey that has not signed its primary key: it may be somebody else's.
fn check_back(session: &Session, key: &KeyState) -> Result<(), Code> {
    let id = session.key_id(key.id);
    match key.back {
        Back::Good => return Ok(()),
        Back::Missing => {
            session.log.info(format!("WARNING: signing subkey {id} is not cross-certified"));
            let page = "https://gnupg.org/faq/subkey-cross-certify.html";
            session.log.info(format!("please see {page} for more information"));
        }
        Back::Bad => session
            .log
            .info(format!("WARNING: signing subkey {id} has an invalid cross-certification")),
    }
    Err(Code::General)
}

/// The name of a signature, by which programs may notice that they have seen it: SHA-1 over its
/// algorithms, its time and its numbers.
fn signature_id(signature: &SignaturePacket) -> Option<String> {
    let mut hasher = Hasher::new(2)?;
    hasher.update(&[signature.algorithm, signature.digest]);
    hasher.update(&signature.created.to_be_bytes());
    for number in signature.numbers() {
        let zeros = number.first().map_or(0, |first| first.leading_zeros());
        let bits = u32::try_from(8 * number.len()).ok()?.saturating_sub(zeros);
        hasher.update(&u16::try_from(bits).ok()?.to_be_bytes());
        hasher.update(number);
    }
    Some(STANDARD_NO_PAD.encode(hasher.finish()?.as_bytes()))
}

/// Reports a signature that a key made, or did not make. `false` if the user never trusts the key.
fn report(
    session: &Session,
    signature: &SignaturePacket,
    issuer: Issuer,
    made: &Made,
) -> Result<bool, Exit> {
    let Made { is_good, key_has_expired, key_is_revoked, keyblock } = made;
    let Some(key) = issuer.key(keyblock) else { return Ok(true) };
    let has_expired = signature.has_expired(session.now);
    let keyword = if !is_good {
        "BADSIG"
    } else if has_expired {
        "EXPSIG"
    } else if *key_has_expired {
        "EXPKEYSIG"
    } else if *key_is_revoked {
        "REVKEYSIG"
    } else {
        "GOODSIG"
    };
    let word = match (is_good, has_expired) {
        (false, _) => "BAD",
        (true, true) => "Expired",
        (true, false) => "Good",
    };
    // GnuPG reads the certificate a second time for its user IDs.
    keyblock.report(session, key);
    let primary = keyblock.primary_user_id();
    let any = primary.or_else(|| keyblock.any_user_id());
    let trusted = session.gpg.as_ref().map(|manner| Trusted::new(session, manner, keyblock));
    let mark = match &trusted {
        Some(trusted) => trusted.mark(primary, any)?,
        None => Mark::default(),
    };
    let user_id = any.map_or(&b"[?]"[..], |id| &id.text);
    let before = format!("{:016X} {}", signature.key_id, mark.status);
    session.status.bytes(keyword, &before, user_id, Field::Text);
    session.log.info(format!("{word} signature from \"{}\"{}", printable(user_id), mark.text));
    if !is_good {
        return Ok(true);
    }
    let others = keyblock.other_user_ids(trusted.as_ref().is_some_and(Trusted::shows_unusable));
    let shows_others = primary.is_some() && trusted.as_ref().is_none_or(Trusted::shows_others);
    for user_id in others.filter(|_| shows_others) {
        let mark = trusted.as_ref().map(|trusted| trusted.validity(user_id)).transpose()?;
        let (text, mark) = (printable(&user_id.text), mark.unwrap_or_default());
        session.log.info(format!("                aka \"{text}\"{mark}"));
    }
    report_subpackets(session, signature);
    let SignaturePacket { created, expires, version, algorithm, digest, class, .. } = signature;
    session.status.line(&format!(
        "VALIDSIG {} {} {created} {expires} {version} 0 {algorithm} {digest} {class:02X} {}",
        key.fingerprint,
        day(*created),
        keyblock.primary().fingerprint,
    ));
    trusted.map_or(Ok(true), |trusted| trusted.report(key))
}

/// Reports the policies, keyservers and notations that a good signature has.
fn report_subpackets(session: &Session, signature: &SignaturePacket) {
    let status = &session.status;
    let shown = session.gpg.as_ref().map(|manner| &manner.shown);
    let show = |kind: &str, found: &Subpacket<'_>| {
        let critical = if found.critical { "Critical " } else { "" };
        let mut kind = kind.to_owned();
        if found.critical
            && let Some(first) = kind.get_mut(..1)
        {
            first.make_ascii_lowercase();
        }
        session.log.info_with_gap(format!("{critical}{kind}: {}", printable(found.body)));
    };
    for policy in signature.hashed(subpacket::POLICY) {
        if shown.is_some_and(|shown| shown.policies) {
            show("Signature policy", &policy);
        }
        status.bytes("POLICY_URL", "", policy.body, Field::Word);
    }
    for keyserver in signature.hashed(subpacket::KEYSERVER) {
        if shown.is_some_and(|shown| shown.keyservers) {
            show("Preferred keyserver", &keyserver);
        }
        let (kind, bytes) = (keyserver.kind, keyserver.body.len());
        let flags = 1 | u8::from(keyserver.critical) << 1;
        if bytes <= SUBPACKET_BYTES_MAX {
            let before = format!("{kind} {flags} {bytes} ");
            status.bytes("SIG_SUBPACKET", &before, keyserver.body, Field::Word);
        }
    }
    let notations: Vec<_> = signature.hashed(subpacket::NOTATION).collect();
    // GnuPG begins with the last one.
    let notations = notations.iter().rev();
    for notation in notations.filter_map(|found| Notation::parse(found.body, found.critical)) {
        let Notation { name, value, is_text, critical } = notation;
        status.bytes("NOTATION_NAME", "", name, Field::Word);
        if critical || is_text {
            let flags = format!("NOTATION_FLAGS {} {}", u8::from(critical), u8::from(is_text));
            status.line(&flags);
        }
        let width = if is_text { 50 } else { 250 };
        status.bytes("NOTATION_DATA", "", value, Field::Wrapped(width));
    }
}

/// Says where the signer offers a key that no keyring has.
fn say_where_key_is(session: &Session, signature: &SignaturePacket) {
    let mut is_offered = false;
    for keyserver in signature.hashed(subpacket::KEYSERVER) {
        session.log.info(format!("Key available at: {}", printable(keyserver.body)));
        is_offered = true;
    }
    if is_offered && session.gpg.is_none() {
        let option = "--keyserver-option honor-keyserver-url";
        session.log.info(format!("Note: Use '{option}' to make use of this info"));
    }
}

/// Warns if a message is named like the detached signature of a file: the file was not verified.
fn warn_of_other_file(session: &Session, setting: &Setting<'_>) {
    let is_meant = !setting.is_detached && setting.has_content;
    let file = setting.name.filter(|_| is_meant).and_then(|name| beside(name, session.specials));
    if let Some(file) = file {
        session
            .log
            .info(format!("WARNING: not a detached signature; file '{file}' was NOT verified!"));
    }
}
