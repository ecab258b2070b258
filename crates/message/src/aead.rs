//! An AEAD key that can seal and open many chunks: GCM by AWS-LC, OCB by OpenSSL, EAX by the `eax`
//! crate.

use std::io::BufRead;

use aws_lc_rs::aead::{self, LessSafeKey, Nonce, UnboundKey};
use eax::aead::generic_array::{GenericArray, typenum::U16};
use eax::{Eax, KeyInit as _};
use openssl::cipher::Cipher as OpensslCipher;
use openssl::cipher_ctx::CipherCtx;

use crate::algorithm::{Aead, Cipher, TAG_BYTES};
use crate::error::{MessageError, Result};

/// An AEAD key in one mode. OpenSSL contexts have state, so each worker has its own key object.
pub(crate) enum AeadKey {
    Gcm(Box<LessSafeKey>),
    Ocb { seal: CipherCtx, open: CipherCtx },
    Eax128(Box<Eax<aes::Aes128>>),
    Eax192(Box<Eax<aes::Aes192>>),
    Eax256(Box<Eax<aes::Aes256>>),
}

const CHANGED: MessageError =
    MessageError::Tampered("the authentication tag of a chunk does not match");

impl AeadKey {
    /// Sets up `key`, whose length must be the key length of `cipher`.
    pub(crate) fn new(aead: Aead, cipher: Cipher, key: &[u8]) -> Result<Self> {
        let unsupported = || MessageError::Unsupported(format!("{cipher} in {aead} mode"));
        let wrong_length = |_| MessageError::Malformed("a session key has the wrong length");
        Ok(match (aead, cipher) {
            (Aead::Gcm, _) => {
                let algorithm = match cipher {
                    Cipher::Aes128 => &aead::AES_128_GCM,
                    Cipher::Aes192 => &aead::AES_192_GCM,
                    Cipher::Aes256 => &aead::AES_256_GCM,
                    _ => return Err(unsupported()),
                };
                let key = UnboundKey::new(algorithm, key)
                    .map_err(|_| MessageError::Malformed("a session key has the wrong length"))?;
                Self::Gcm(Box::new(LessSafeKey::new(key)))
            }
            (Aead::Ocb, _) => {
                let kind = match cipher {
                    Cipher::Aes128 => OpensslCipher::aes_128_ocb(),
                    Cipher::Aes192 => OpensslCipher::aes_192_ocb(),
                    Cipher::Aes256 => OpensslCipher::aes_256_ocb(),
                    _ => return Err(unsupported()),
                };
                if key.len() != cipher.key_bytes() {
                    return Err(MessageError::Malformed("a session key has the wrong length"));
                }
                let nonce_bytes = aead.nonce_bytes();
                let contexts = || {
                    let (mut seal, mut open) = (CipherCtx::new()?, CipherCtx::new()?);
                    // OpenSSL assumes nonces of 12 bytes unless the length is set before the key.
                    seal.encrypt_init(Some(kind), None, None)?;
                    seal.set_iv_length(nonce_bytes)?;
                    seal.encrypt_init(None, Some(key), None)?;
                    open.decrypt_init(Some(kind), None, None)?;
                    open.set_iv_length(nonce_bytes)?;
                    open.decrypt_init(None, Some(key), None)?;
                    Ok::<_, openssl::error::ErrorStack>((seal, open))
                };
                let (seal, open) = contexts().map_err(MessageError::secret)?;
                Self::Ocb { seal, open }
            }
            (Aead::Eax, Cipher::Aes128) => {
                Self::Eax128(Box::new(Eax::new_from_slice(key).map_err(wrong_length)?))
            }
            (Aead::Eax, Cipher::Aes192) => {
                Self::Eax192(Box::new(Eax::new_from_slice(key).map_err(wrong_length)?))
            }
            (Aead::Eax, Cipher::Aes256) => {
                Self::Eax256(Box::new(Eax::new_from_slice(key).map_err(wrong_length)?))
            }
            (Aead::Eax, _) => return Err(unsupported()),
        })
    }

    /// Encrypts `data` in place and returns the authentication tag.
    pub(crate) fn seal(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        data: &mut [u8],
    ) -> Result<[u8; TAG_BYTES]> {
        let mut tag = [0; TAG_BYTES];
        match self {
            Self::Gcm(key) => {
                let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| CHANGED)?;
                let sealed = key
                    .seal_in_place_separate_tag(nonce, aead::Aad::from(aad), data)
                    .map_err(MessageError::secret)?;
                tag.copy_from_slice(sealed.as_ref());
            }
            Self::Ocb { seal, .. } => {
                let mut run = || {
                    seal.encrypt_init(None, None, Some(nonce))?;
                    ocb(seal, aad, data)?;
                    seal.tag(&mut tag)
                };
                run().map_err(MessageError::secret)?;
            }
            Self::Eax128(key) => tag = seal_eax(key.as_ref(), nonce, aad, data)?,
            Self::Eax192(key) => tag = seal_eax(key.as_ref(), nonce, aad, data)?,
            Self::Eax256(key) => tag = seal_eax(key.as_ref(), nonce, aad, data)?,
        }
        Ok(tag)
    }

    /// Decrypts `data` in place if `tag` fits. After an error, the contents of `data` must not be
    /// used.
    pub(crate) fn open(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        data: &mut [u8],
        tag: &[u8],
    ) -> Result<()> {
        match self {
            Self::Gcm(key) => {
                let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| CHANGED)?;
                key.open_in_place_separate_tag(nonce, aead::Aad::from(aad), tag, data)
                    .map(drop)
                    .map_err(|_| CHANGED)
            }
            Self::Ocb { open, .. } => {
                let mut run = || {
                    open.decrypt_init(None, None, Some(nonce))?;
                    open.set_tag(tag)?;
                    ocb(open, aad, data)
                };
                run().map_err(|_| CHANGED)
            }
            Self::Eax128(key) => open_eax(key.as_ref(), nonce, aad, data, tag),
            Self::Eax192(key) => open_eax(key.as_ref(), nonce, aad, data, tag),
            Self::Eax256(key) => open_eax(key.as_ref(), nonce, aad, data, tag),
        }
    }

    /// Encrypts the next `bytes` bytes of `input` to the start of `out`, with the authentication
    /// tag after them. OCB encrypts them on their way, without a copy.
    ///
    /// # Errors
    ///
    /// [`MessageError::Truncated`] if `input` has fewer bytes.
    pub(crate) fn seal_from(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        (input, bytes): (&mut impl BufRead, usize),
        out: &mut [u8],
    ) -> Result<()> {
        let tag = if let Self::Ocb { seal, .. } = self {
            seal.encrypt_init(None, None, Some(nonce)).map_err(MessageError::secret)?;
            seal.cipher_update(aad, None).map_err(MessageError::secret)?;
            let mut written = 0;
            each_piece(input, bytes, |_, piece| {
                // The binding needs one spare block of room, which the tag's is.
                let out = &mut out[written..bytes + TAG_BYTES];
                written += seal.cipher_update(piece, Some(out)).map_err(MessageError::secret)?;
                Ok(())
            })?;
            let mut tag = [0; TAG_BYTES];
            seal.cipher_final(&mut out[written..bytes + TAG_BYTES])
                .and_then(|_| seal.tag(&mut tag))
                .map_err(MessageError::secret)?;
            tag
        } else {
            each_piece(input, bytes, |at, piece| {
                out[at..at + piece.len()].copy_from_slice(piece);
                Ok(())
            })?;
            self.seal(nonce, aad, &mut out[..bytes])?
        };
        out[bytes..bytes + TAG_BYTES].copy_from_slice(&tag);
        Ok(())
    }

    /// Appends the plaintext of `sealed`, which ends with the authentication tag, to `out`. OCB
    /// decrypts it on its way, without a copy. After an error, the end of `out` must not be used.
    pub(crate) fn open_to(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        sealed: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let (data, tag) = sealed.split_at(sealed.len() - TAG_BYTES);
        let Self::Ocb { open, .. } = self else {
            let start = out.len();
            out.extend_from_slice(data);
            return self.open(nonce, aad, &mut out[start..], tag);
        };
        let mut run = || {
            open.decrypt_init(None, None, Some(nonce))?;
            open.set_tag(tag)?;
            open.cipher_update(aad, None)?;
            open.cipher_update_vec(data, out)?;
            open.cipher_final_vec(out)
        };
        run().map(drop).map_err(|_| CHANGED)
    }
}

/// Passes the next `bytes` bytes of `input` on in pieces, each with its place.
pub(crate) fn each_piece(
    input: &mut impl BufRead,
    bytes: usize,
    mut pass: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    while at < bytes {
        let piece = input.fill_buf().map_err(MessageError::read)?;
        let piece = &piece[..piece.len().min(bytes - at)];
        if piece.is_empty() {
            return Err(MessageError::Truncated("the input is shorter than its announced length"));
        }
        pass(at, piece)?;
        let read = piece.len();
        input.consume(read);
        at += read;
    }
    Ok(())
}

/// Encrypts or decrypts one chunk with OCB, in place. The last blocks pass through a buffer,
/// because the OpenSSL binding needs one spare block of room behind its input.
fn ocb(
    context: &mut CipherCtx,
    aad: &[u8],
    data: &mut [u8],
) -> std::result::Result<(), openssl::error::ErrorStack> {
    const BLOCK: usize = 16;
    context.cipher_update(aad, None)?;
    let bulk = data.len().saturating_sub(BLOCK) / BLOCK * BLOCK;
    if bulk > 0 {
        context.cipher_update_inplace(data, bulk)?;
    }
    let mut last = [0; 3 * BLOCK];
    let mut written = 0;
    if bulk < data.len() {
        written = context.cipher_update(&data[bulk..], Some(&mut last))?;
    }
    written += context.cipher_final(&mut last[written..])?;
    data[bulk..].copy_from_slice(&last[..written]);
    Ok(())
}

fn seal_eax(
    key: &impl eax::AeadInPlace<NonceSize = U16, TagSize = U16>,
    nonce: &[u8],
    aad: &[u8],
    data: &mut [u8],
) -> Result<[u8; TAG_BYTES]> {
    key.encrypt_in_place_detached(GenericArray::from_slice(nonce), aad, data)
        .map(Into::into)
        .map_err(|_| MessageError::TooLarge { what: "bytes in an AEAD chunk", limit: 1 << 22 })
}

fn open_eax(
    key: &impl eax::AeadInPlace<NonceSize = U16, TagSize = U16>,
    nonce: &[u8],
    aad: &[u8],
    data: &mut [u8],
    tag: &[u8],
) -> Result<()> {
    let (nonce, tag) = (GenericArray::from_slice(nonce), GenericArray::from_slice(tag));
    key.decrypt_in_place_detached(nonce, aad, data, tag).map_err(|_| CHANGED)
}
