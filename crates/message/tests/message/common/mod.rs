//! Test users with keys, made once.
use std::io::Cursor;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use talaria_message::Rules;
use talaria_message::openpgp::cert::{CertBuilder, CipherSuite};
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::policy::StandardPolicy;
use talaria_message::openpgp::{self, Cert};
use talaria_message::{
    DecryptOptions, EncryptOptions, Issuer, MessageError, Recipients, Release, Secrets, SigningKey,
    Verifier, decrypt, decryption_keys, encrypt, lookup_in, signing_key,
};

/// Now, in seconds since 1970.
/// The policy with which tests look at certificates.
pub(crate) const STANDARD: &StandardPolicy<'static> = &StandardPolicy::new();
pub(crate) const NOW: u32 = 1_795_000_000;

/// Two certificates with secret keys: version 4 and version 6.
pub(crate) struct Parties {
    pub(crate) certs: Vec<Cert>,
    pub(crate) v6: bool,
}

pub(crate) fn generate(name: &str, profile: openpgp::Profile, suite: CipherSuite) -> Cert {
    let made = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(NOW) - 86_400);
    CertBuilder::general_purpose(Some(name))
        .set_profile(profile)
        .unwrap()
        .set_cipher_suite(suite)
        .set_creation_time(made)
        .generate()
        .unwrap()
        .0
}

impl Parties {
    pub(crate) fn new() -> &'static Self {
        static PARTIES: OnceLock<Parties> = OnceLock::new();
        PARTIES.get_or_init(|| Self {
            certs: vec![
                generate("<v4@example.org>", openpgp::Profile::RFC4880, CipherSuite::Cv25519),
                generate("<v6@example.org>", openpgp::Profile::RFC9580, CipherSuite::Cv25519),
            ],
            v6: true,
        })
    }

    pub(crate) fn recipients(&self) -> Recipients {
        let mut recipients = Recipients::default();
        for cert in &self.certs {
            recipients.add(cert, Rules::default(), &mut |_| None, NOW).unwrap();
        }
        recipients
    }

    pub(crate) fn signers(&self) -> Vec<SigningKey> {
        let sign = |cert| signing_key(cert, Rules::default(), NOW, &mut |_, _| None).unwrap();
        self.certs.iter().map(sign).collect()
    }

    pub(crate) fn secrets(&self) -> Secrets {
        Secrets { keys: decryption_keys(&self.certs, |_, _| None), ..Secrets::default() }
    }

    pub(crate) fn verifier(&self) -> Verifier<'static> {
        Verifier::new(lookup_in(self.certs.clone()), Rules::default(), NOW)
    }
}

/// A verifier without certificates.
pub(crate) fn no_certs() -> Verifier<'static> {
    Verifier::new(Box::new(|_: &Issuer| Vec::new()), Rules::default(), NOW)
}

pub(crate) fn password_secrets(password: &str) -> Secrets {
    Secrets { passwords: vec![Password::from(password)], ..Secrets::default() }
}

/// A message for a key, which costs less than one with a passphrase, and its secrets.
pub(crate) fn with_session_key(
    plain: &[u8],
    options: &EncryptOptions,
) -> (Vec<u8>, &'static Parties) {
    let parties = Parties::new();
    let mut recipients = Recipients::default();
    recipients.add(&parties.certs[0], Rules::default(), &mut |_| None, NOW).unwrap();
    let mut sealed = Vec::new();
    encrypt(Cursor::new(plain.to_vec()), &mut sealed, &recipients, &mut [], options, NOW).unwrap();
    (sealed, parties)
}

pub(crate) fn open_with(
    sealed: &[u8],
    parties: &Parties,
    threads: usize,
) -> Result<Vec<u8>, MessageError> {
    let mut plain = Vec::new();
    let mut options = DecryptOptions::new(Release::Streamed);
    options.threads = threads;
    let mut secrets = parties.secrets();
    decrypt(&mut Cursor::new(sealed), &mut plain, &mut secrets, &no_certs(), options)?;
    Ok(plain)
}

/// The unlocked signing key of `cert`.
pub(crate) fn key_of(cert: &Cert) -> openpgp::crypto::KeyPair {
    let signs = |flags: &openpgp::types::KeyFlags| flags.for_signing();
    let key = cert.keys().subkeys().secret().find(|key| {
        key.self_signatures().any(|made| made.key_flags().is_some_and(|flags| signs(&flags)))
    });
    key.unwrap().key().clone().role_into_unspecified().into_keypair().unwrap()
}
