//! The packets of a certificate, and the signatures in it.

use crate::keys::{KeyPair, framed};

/// The component that a signature covers besides the primary key.
pub(crate) enum Over<'a> {
    Key,
    UserId(&'a [u8]),
    Subkey(&'a KeyPair),
}

/// When and why something was revoked (RFC 9580, section 5.2.3.31).
pub(crate) struct Revoked<'a> {
    pub(crate) time: u32,
    pub(crate) code: u8,
    pub(crate) text: &'a str,
}

/// The subpackets of a signature.
pub(crate) struct Subpackets {
    hashed: Vec<u8>,
    unhashed: Vec<u8>,
}

impl Subpackets {
    /// The subpackets of every signature: issuer and creation time.
    pub(crate) fn by(issuer: &KeyPair, time: u32) -> Self {
        let mut out = Self { hashed: Vec::with_capacity(96), unhashed: Vec::with_capacity(10) };
        out.hashed.extend_from_slice(&[22, 33, 4]);
        out.hashed.extend_from_slice(&issuer.fingerprint);
        out.push(2, &time.to_be_bytes());
        subpacket(&mut out.unhashed, 16, issuer.key_id());
        out
    }

    /// Adds one to the hashed ones.
    pub(crate) fn push(&mut self, kind: u8, body: &[u8]) {
        subpacket(&mut self.hashed, kind, body);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the length was looked at")]
fn subpacket(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    match body.len() + 1 {
        len @ ..192 => out.push(len as u8),
        len => out.extend_from_slice(&[(192 + ((len - 192) >> 8)) as u8, (len - 192) as u8]),
    }
    out.push(kind);
    out.extend_from_slice(body);
}

/// A certificate that is being written.
pub(crate) struct CertWriter<'a> {
    pub(crate) out: Vec<u8>,
    primary: &'a KeyPair,
}

impl<'a> CertWriter<'a> {
    pub(crate) fn new(primary: &'a KeyPair) -> Self {
        Self { out: Vec::with_capacity(1 << 10), primary }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the length was looked at")]
    pub(crate) fn packet(&mut self, tag: u8, body: &[u8]) {
        self.out.push(0xc0 | tag);
        match body.len() {
            len @ ..192 => self.out.push(len as u8),
            len => {
                self.out.extend_from_slice(&[(192 + ((len - 192) >> 8)) as u8, (len - 192) as u8]);
            }
        }
        self.out.extend_from_slice(body);
    }

    /// Appends a signature packet by `issuer`.
    pub(crate) fn signature(
        &mut self,
        kind: u8,
        issuer: &KeyPair,
        over: &Over<'_>,
        parts: &Subpackets,
    ) {
        let body = self.signature_body(kind, issuer, over, parts);
        self.packet(2, &body);
    }

    /// The body of a version 4 signature packet (RFC 9580, sections 5.2.3 and 5.2.4).
    #[expect(clippy::cast_possible_truncation, reason = "subpackets here are a few hundred bytes")]
    fn signature_body(
        &self,
        kind: u8,
        issuer: &KeyPair,
        over: &Over<'_>,
        parts: &Subpackets,
    ) -> Vec<u8> {
        let mut body = Vec::with_capacity(400);
        body.extend_from_slice(&[4, kind, issuer.algorithm(), issuer.hash()]);
        body.extend_from_slice(&(parts.hashed.len() as u16).to_be_bytes());
        body.extend_from_slice(&parts.hashed);
        let mut hasher = issuer.hasher();
        hasher.update(&framed(&self.primary.body));
        hasher.update(&self.primary.body);
        match over {
            Over::Key => {}
            Over::UserId(text) => {
                hasher.update(&[0xb4]);
                hasher.update(&(text.len() as u32).to_be_bytes());
                hasher.update(text);
            }
            Over::Subkey(subkey) => {
                hasher.update(&framed(&subkey.body));
                hasher.update(&subkey.body);
            }
        }
        hasher.update(&body);
        hasher.update(&[4, 0xff]);
        hasher.update(&(body.len() as u32).to_be_bytes());
        let digest = hasher.finish();
        body.extend_from_slice(&(parts.unhashed.len() as u16).to_be_bytes());
        body.extend_from_slice(&parts.unhashed);
        body.extend_from_slice(&digest.as_ref()[..2]);
        issuer.sign(&digest, &mut body);
        body
    }

    /// A positive certification of an own user ID, with what GnuPG puts into one.
    pub(crate) fn self_certification(
        &mut self,
        over: &Over<'_>,
        time: u32,
        lifetime: Option<u32>,
        is_primary: bool,
    ) {
        let mut parts = Subpackets::by(self.primary, time);
        // Certify and sign.
        parts.push(27, &[3]);
        if let Some(seconds) = lifetime {
            parts.push(9, &seconds.to_be_bytes());
        }
        // AES-256, AES-192, AES-128, 3DES; SHA-512, -384, -256, -224; ZLIB, BZip2, ZIP.
        parts.push(11, &[9, 8, 7, 2]);
        parts.push(21, &[10, 9, 8, 11]);
        parts.push(22, &[2, 3, 1]);
        // Modification detection; only the holder is to change this on keyservers.
        parts.push(30, &[1]);
        parts.push(23, &[0x80]);
        if is_primary {
            parts.push(25, &[1]);
        }
        self.signature(0x13, self.primary, over, &parts);
    }

    pub(crate) fn revocation(&mut self, kind: u8, over: &Over<'_>, reason: &Revoked<'_>) {
        let mut parts = Subpackets::by(self.primary, reason.time);
        parts.push(29, &[&[reason.code], reason.text.as_bytes()].concat());
        self.signature(kind, self.primary, over, &parts);
    }

    /// A subkey and its binding; one that signs also confirms that it belongs here.
    pub(crate) fn subkey(
        &mut self,
        subkey: &KeyPair,
        signer: Option<&KeyPair>,
        lifetime: Option<u32>,
    ) {
        let over = Over::Subkey(subkey);
        self.packet(14, &subkey.body);
        let mut parts = Subpackets::by(self.primary, subkey.created);
        parts.push(27, if signer.is_some() { &[2] } else { &[0x0c] });
        if let Some(seconds) = lifetime {
            parts.push(9, &seconds.to_be_bytes());
        }
        if let Some(signer) = signer {
            let back = Subpackets::by(signer, subkey.created);
            let back = self.signature_body(0x19, signer, &over, &back);
            parts.push(32, &back);
        }
        self.signature(0x18, self.primary, &over, &parts);
    }
}
