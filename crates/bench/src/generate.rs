//! Certificates that follow from a seed, as many as are wanted.
//!
//! Every certificate is valid: framed by hand (RFC 9580, sections 4 and 5), signed by its key,
//! listed by GnuPG without a complaint. The same options give the same bytes on any number of
//! cores, and certificate `n` is the same in a small set and in a large one, so one can be made
//! again without the others: that is how certifications by others come about. Secret keys follow
//! from the seed and are worth nothing.

mod keys;
mod names;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use talaria_cert::Cert;

use keys::{KeyPair, Primes, Secret, derive, framed, secret};
use names::Names;

/// The earliest creation time: 1 January 2014.
const CREATED_MIN: u32 = 1_388_534_400;

/// No time in a generated certificate is at or after this but for expiry: 1 January 2025.
const PRESENT: u32 = 1_735_689_600;

/// When keys expire that are still good: 1 January 2038.
const EXPIRES: u32 = 2_145_916_800;

/// The first certificates of a set make most certifications of others, as a few people do who sign
/// many keys. Their keys are kept.
const HUBS: u64 = 128;

/// Certificates that one core makes before it takes the next ones.
const CHUNK_CERTS: u64 = 16;

/// Chunks that are made before they are written.
const ROUND_CHUNKS: u64 = 512;

/// Certifications by others on one certificate, at most.
const CERTIFICATIONS_MAX: u32 = 4000;

/// The profile of a set of certificates. Shares are per thousand certificates.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusProfile {
    /// RSA keys of 2048 bits; all others have Ed25519 and Curve25519 keys as GnuPG writes them.
    pub rsa_per_mille: u32,
    /// Keys of algorithms 27 and 25 (RFC 9580) in place of 22 and 18. GnuPG 2.2 does not know them.
    pub native_per_mille: u32,
    /// More than one user ID; a third of these have three.
    pub user_ids_per_mille: u32,
    /// A second subkey, for signing, with its own signature back to the primary key.
    pub signing_subkey_per_mille: u32,
    /// Certifications by others: the median of a log-normal distribution, 0 for none at all.
    pub certifications_median: f64,
    /// The spread of that distribution (sigma of its logarithm).
    pub certifications_sigma: f64,
    /// RSA keys certify others as well, and not only Ed25519 keys, which sign 40 times as fast.
    pub rsa_certifies: bool,
    /// Keys with an expiry in 2038.
    pub expiring_per_mille: u32,
    /// Keys that have expired.
    pub expired_per_mille: u32,
    /// Certificates with a revocation of the key, of a user ID or of a subkey.
    pub revoked_per_mille: u32,
}

impl Default for CorpusProfile {
    fn default() -> Self {
        Self::small()
    }
}

impl CorpusProfile {
    /// About 1 KB: mostly one user ID, a few certifications, one RSA key in twenty.
    #[must_use]
    pub fn small() -> Self {
        Self {
            rsa_per_mille: 50,
            native_per_mille: 0,
            user_ids_per_mille: 200,
            signing_subkey_per_mille: 150,
            certifications_median: 1.9,
            certifications_sigma: 1.0,
            rsa_certifies: false,
            expiring_per_mille: 150,
            expired_per_mille: 80,
            revoked_per_mille: 40,
        }
    }

    /// About 27 KB with a long tail, as in the keyring of a distribution: mostly RSA, most of it
    /// certifications by others. Some 20 ms of computation for each.
    #[must_use]
    pub fn ring() -> Self {
        Self {
            rsa_per_mille: 700,
            user_ids_per_mille: 700,
            signing_subkey_per_mille: 300,
            certifications_median: 40.0,
            certifications_sigma: 1.2,
            rsa_certifies: true,
            ..Self::small()
        }
    }

    /// Ed25519 with one user ID and one subkey, nothing else: about 430 bytes.
    #[must_use]
    pub fn ed25519() -> Self {
        Self {
            rsa_per_mille: 0,
            native_per_mille: 0,
            user_ids_per_mille: 0,
            signing_subkey_per_mille: 0,
            certifications_median: 0.0,
            certifications_sigma: 0.0,
            rsa_certifies: false,
            expiring_per_mille: 0,
            expired_per_mille: 0,
            revoked_per_mille: 0,
        }
    }

    /// The profile of this name: `small`, `ring` or `ed25519`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "small" => Self::small(),
            "ring" => Self::ring(),
            "ed25519" => Self::ed25519(),
            _ => return None,
        })
    }

    /// Whether certificate `index` has RSA keys.
    pub(crate) fn is_rsa(&self, index: u64) -> bool {
        self.rsa(index).0
    }

    /// Whether certificate `index` has RSA keys, and the number of earlier ones with RSA keys.
    fn rsa(&self, index: u64) -> (bool, u64) {
        let share = u64::from(self.rsa_per_mille.min(1000));
        let before = index * share / 1000;
        ((index + 1) * share / 1000 > before, before)
    }
}

/// Options of the generator.
#[derive(Clone, Debug, PartialEq)]
pub struct Generate {
    /// Another seed gives other keys.
    pub seed: u64,
    /// Number of the first certificate.
    pub first: u64,
    /// Number of certificates.
    pub count: u64,
    /// Their profile.
    pub profile: CorpusProfile,
}

impl Default for Generate {
    fn default() -> Self {
        Self { seed: 1, first: 0, count: 1000, profile: CorpusProfile::default() }
    }
}

/// The generated certificates.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct GeneratedCerts {
    /// Certificates.
    pub certs: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// Writes certificates one after the other, as a keyring is. Uses all cores.
///
/// # Errors
///
/// When `out` cannot be written.
pub fn generate(options: &Generate, out: &mut impl Write) -> io::Result<GeneratedCerts> {
    Generator::new(options).write(options.first, options.count, out)
}

/// The names of the files that [`generate_files`] writes.
pub fn file_names(options: &Generate, prefix: &Path, files: u64) -> impl Iterator<Item = PathBuf> {
    let files = files.clamp(1, options.count.max(1));
    (0..files).map(move |file| {
        let mut name = prefix.as_os_str().to_owned();
        name.push(format!("-{file:04}.pgp"));
        PathBuf::from(name)
    })
}

/// Writes certificates to `files` files of about the same length, the dump of a keyserver:
/// `prefix-0000.pgp` and so on. Returns their names.
///
/// # Errors
///
/// When a file cannot be written.
pub fn generate_files(options: &Generate, prefix: &Path, files: u64) -> io::Result<Vec<PathBuf>> {
    let generator = Generator::new(options);
    let files = files.clamp(1, options.count.max(1));
    let part = |file: u64| options.first + options.count * file / files;
    (0..files)
        .zip(file_names(options, prefix, files))
        .map(|(file, path)| {
            let mut out = BufWriter::with_capacity(1 << 20, File::create(&path)?);
            generator.write(part(file), part(file + 1) - part(file), &mut out)?;
            out.flush()?;
            Ok(path)
        })
        .collect()
}

/// Generated certificates in memory, read as any others are.
///
/// # Panics
///
/// If a generated certificate is invalid, which is a bug.
#[must_use]
pub fn certs(options: &Generate) -> Vec<Cert> {
    let generator = Generator::new(options);
    (options.first..options.first + options.count)
        .into_par_iter()
        .map(|index| Cert::parse(&generator.cert(index)).expect("a generated certificate"))
        .collect()
}

/// Everything that certificates of a set have in common.
struct Generator<'a> {
    seed: u64,
    profile: &'a CorpusProfile,
    names: Names,
    primes: Primes,
    hubs: Vec<KeyPair>,
}

impl<'a> Generator<'a> {
    fn new(options: &'a Generate) -> Self {
        let (_, rsa) = options.profile.rsa(options.first + options.count);
        let mut generator = Self {
            seed: options.seed,
            profile: &options.profile,
            names: Names::new(),
            primes: Primes::new(options.seed, 2 * rsa),
            hubs: Vec::new(),
        };
        if options.profile.certifications_median > 0.0 {
            let hubs = HUBS.min(options.first + options.count);
            generator.hubs = (0..hubs).map(|index| generator.primary(index)).collect();
        }
        generator
    }

    fn write(&self, first: u64, count: u64, out: &mut impl Write) -> io::Result<GeneratedCerts> {
        let end = first + count;
        let mut written = GeneratedCerts { certs: count, bytes: 0 };
        let mut next = first;
        while next < end {
            let chunks = ROUND_CHUNKS.min((end - next).div_ceil(CHUNK_CERTS));
            let chunks: Vec<Vec<u8>> = (0..usize::try_from(chunks).unwrap_or(0))
                .into_par_iter()
                .with_max_len(1)
                .map(|chunk| {
                    let from = next + chunk as u64 * CHUNK_CERTS;
                    let mut bytes = Vec::with_capacity(16 << 10);
                    for index in from..(from + CHUNK_CERTS).min(end) {
                        bytes.extend_from_slice(&self.cert(index));
                    }
                    bytes
                })
                .collect();
            for bytes in &chunks {
                written.bytes += bytes.len() as u64;
                out.write_all(bytes)?;
            }
            next += ROUND_CHUNKS * CHUNK_CERTS;
        }
        Ok(written)
    }

    /// The primary key of certificate `index`.
    fn primary(&self, index: u64) -> KeyPair {
        let bytes = derive(self.seed, index, "primary key");
        let mut secret = [0; 32];
        secret.copy_from_slice(&bytes[..32]);
        let mut draw = Draw::new(&bytes[32..]);
        let created = CREATED_MIN + draw.below(PRESENT - CREATED_MIN - 86_400);
        match self.profile.rsa(index) {
            (true, number) => KeyPair::rsa(self.primes.key(2 * number), created),
            _ if draw.per_mille(self.profile.native_per_mille) => {
                KeyPair::ed25519(&secret, created)
            }
            _ => KeyPair::eddsa_legacy(&secret, created),
        }
    }

    /// The encryption subkey of certificate `index`, of the same kind as its primary key.
    fn encryption(&self, index: u64, primary: &KeyPair) -> KeyPair {
        let secret = secret(self.seed, index, "encryption subkey");
        match primary.secret {
            Secret::Rsa(_) => {
                let (_, number) = self.profile.rsa(index);
                KeyPair::rsa(self.primes.key(2 * number + 1), primary.created)
            }
            Secret::Ed25519(_) => KeyPair::x25519(&secret, primary.created),
            _ => KeyPair::ecdh(&secret, primary.created),
        }
    }

    /// Certificate `index`.
    fn cert(&self, index: u64) -> Vec<u8> {
        let mut draw = Draw::new(&derive(self.seed, index, "choices"));
        let primary = self.primary(index);
        let lifetime = if draw.per_mille(self.profile.expired_per_mille) {
            Some(86_400 + draw.below((PRESENT - primary.created).saturating_sub(86_400).max(1)))
        } else if draw.per_mille(self.profile.expiring_per_mille) {
            Some(EXPIRES - primary.created)
        } else {
            None
        };
        let revoked = draw.per_mille(self.profile.revoked_per_mille).then(|| draw.below(3));
        let alive = lifetime.map_or(PRESENT, |lifetime| PRESENT.min(primary.created + lifetime));
        let later = |draw: &mut Draw| primary.created + draw.below(alive - primary.created);

        let mut writer = CertWriter { out: Vec::with_capacity(1 << 10), primary: &primary };
        writer.packet(6, &primary.body);
        if revoked == Some(0) {
            let reason = Revoked { time: later(&mut draw), code: 1, text: "Use my new key" };
            writer.revocation(0x20, &Over::Key, &reason);
        }
        let user_ids = match draw.below(1000) {
            n if n >= self.profile.user_ids_per_mille => 1,
            n if n % 3 == 0 => 3,
            _ => 2,
        };
        let median = self.profile.certifications_median;
        let certifications = if median > 0.0 && index > 0 {
            draw.log_normal(median, self.profile.certifications_sigma)
        } else {
            0
        };
        for which in 0..user_ids {
            let text = self.names.user_id(index, which);
            let over = Over::UserId(text.as_bytes());
            let time = if which == 0 { primary.created } else { later(&mut draw) };
            writer.packet(13, text.as_bytes());
            writer.self_certification(&over, time, lifetime, which == 0 && user_ids > 1);
            if which > 0 && which + 1 == user_ids && revoked == Some(1) {
                let end = time + draw.below((PRESENT - time).max(1));
                let reason = Revoked { time: end, code: 32, text: "I have left" };
                writer.revocation(0x30, &over, &reason);
            }
            let share = match u32::try_from(user_ids).unwrap_or(1) {
                n if which == 0 => certifications - certifications / n * (n - 1),
                n => certifications / n,
            };
            for _ in 0..share {
                self.certification(index, time, &over, &mut draw, &mut writer);
            }
        }
        let encryption = self.encryption(index, &primary);
        writer.subkey(&encryption, None, lifetime);
        if revoked == Some(2) {
            let reason = Revoked { time: later(&mut draw), code: 3, text: "" };
            writer.revocation(0x28, &Over::Subkey(&encryption), &reason);
        }
        if draw.per_mille(self.profile.signing_subkey_per_mille) {
            let secret = secret(self.seed, index, "signing subkey");
            let signing = match primary.secret {
                Secret::Ed25519(_) => KeyPair::ed25519(&secret, later(&mut draw)),
                _ => KeyPair::eddsa_legacy(&secret, later(&mut draw)),
            };
            writer.subkey(&signing, Some(&signing), None);
        }
        writer.out
    }

    /// A certification by the holder of some certificate before `index`.
    fn certification(
        &self,
        index: u64,
        after: u32,
        over: &Over<'_>,
        draw: &mut Draw,
        writer: &mut CertWriter<'_>,
    ) {
        let by_hub = draw.per_mille(800);
        let mut by = draw.below_u64(if by_hub { index.min(HUBS) } else { index });
        if !self.profile.rsa_certifies {
            // The certificate before one with RSA keys has none, unless all have.
            while self.profile.rsa(by).0 {
                match by.checked_sub(1) {
                    Some(before) => by = before,
                    None => return,
                }
            }
        }
        let derived;
        let hub = usize::try_from(by).ok().and_then(|by| self.hubs.get(by));
        let issuer = if let Some(hub) = hub {
            hub
        } else {
            derived = self.primary(by);
            &derived
        };
        let from = after.max(issuer.created);
        let time = from + draw.below(PRESENT - from);
        let kind = if draw.per_mille(150) { 0x13 } else { 0x10 };
        let mut signature = Subpackets::by(issuer, time);
        if draw.per_mille(50) {
            signature.push(26, b"https://www.example.org/certification-policy.txt");
        }
        writer.signature(kind, issuer, over, &signature);
    }
}

/// The component that a signature covers besides the primary key.
enum Over<'a> {
    Key,
    UserId(&'a [u8]),
    Subkey(&'a KeyPair),
}

/// When and why something was revoked (RFC 9580, section 5.2.3.31).
struct Revoked<'a> {
    time: u32,
    code: u8,
    text: &'a str,
}

/// The subpackets of a signature.
struct Subpackets {
    hashed: Vec<u8>,
    unhashed: Vec<u8>,
}

impl Subpackets {
    /// The subpackets of every signature: issuer and creation time.
    fn by(issuer: &KeyPair, time: u32) -> Self {
        let mut out = Self { hashed: Vec::with_capacity(96), unhashed: Vec::with_capacity(10) };
        out.hashed.extend_from_slice(&[22, 33, 4]);
        out.hashed.extend_from_slice(&issuer.fingerprint);
        out.push(2, &time.to_be_bytes());
        subpacket(&mut out.unhashed, 16, issuer.key_id());
        out
    }

    /// Adds one to the hashed ones.
    fn push(&mut self, kind: u8, body: &[u8]) {
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
struct CertWriter<'a> {
    out: Vec<u8>,
    primary: &'a KeyPair,
}

impl CertWriter<'_> {
    #[expect(clippy::cast_possible_truncation, reason = "the length was looked at")]
    fn packet(&mut self, tag: u8, body: &[u8]) {
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
    fn signature(&mut self, kind: u8, issuer: &KeyPair, over: &Over<'_>, parts: &Subpackets) {
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
    fn self_certification(
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

    fn revocation(&mut self, kind: u8, over: &Over<'_>, reason: &Revoked<'_>) {
        let mut parts = Subpackets::by(self.primary, reason.time);
        parts.push(29, &[&[reason.code], reason.text.as_bytes()].concat());
        self.signature(kind, self.primary, over, &parts);
    }

    /// A subkey and its binding; one that signs also confirms that it belongs here.
    fn subkey(&mut self, subkey: &KeyPair, signer: Option<&KeyPair>, lifetime: Option<u32>) {
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

/// Choices that follow from a few bytes.
struct Draw(u64);

impl Draw {
    fn new(bytes: &[u8]) -> Self {
        Self(bytes.iter().take(8).fold(0, |all, &byte| all << 8 | u64::from(byte)))
    }

    /// The next number of a Weyl sequence, mixed (`SplitMix64` by Steele, Lea and Flood).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.below_u64(u64::from(end))).unwrap_or(0)
    }

    fn below_u64(&mut self, end: u64) -> u64 {
        let wide = (u128::from(self.next()) * u128::from(end)) >> 64;
        u64::try_from(wide).unwrap_or(0)
    }

    fn per_mille(&mut self, share: u32) -> bool {
        self.below(1000) < share
    }

    /// A number of a log-normal distribution, rounded to the nearest whole one.
    ///
    /// Additions, multiplications and divisions only, which give the same bits on every machine.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they fit")]
    fn log_normal(&mut self, median: f64, sigma: f64) -> u32 {
        // The sum of twelve uniform numbers has variance 1.
        let sum: u64 = (0..12).map(|_| self.next() >> 40).sum();
        let normal = f64::from(sum as u32) / f64::from(1 << 24) - 6.0;
        let x = normal * sigma / 64.0;
        let mut power = 1.0 + x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0)));
        for _ in 0..6 {
            power *= power;
        }
        (median * power + 0.5).min(f64::from(CERTIFICATIONS_MAX)) as u32
    }
}
