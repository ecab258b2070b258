//! Certificates that follow from a seed, as many as are wanted.
//!
//! Every certificate is valid: framed by hand (RFC 9580, sections 4 and 5), signed by its key,
//! listed by GnuPG without a complaint. The same options give the same bytes on any number of
//! cores, and certificate `n` is the same in a small set and in a large one, so one can be made
//! again without the others: that is how certifications by others come about. Secret keys follow
//! from the seed and are worth nothing.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use talaria_cert::Cert;

use crate::draw::Draw;
use crate::keys::{KeyPair, Primes, Secret, derive, secret};
use crate::names::Names;
use crate::profile::CorpusProfile;
use crate::writer::{CertWriter, Over, Revoked, Subpackets};

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

        let mut writer = CertWriter::new(&primary);
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
