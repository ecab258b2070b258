//! TLS 1.3 in which both sides show raw Ed25519 keys (RFC 7250). Which keys may connect is not
//! decided here.

use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key,
};
use tokio_rustls::rustls::pki_types::{
    CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use tokio_rustls::rustls::server::AlwaysResolvesServerRawPublicKeys;
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, CommonState, DigitallySignedStruct, DistinguishedName, Error,
    PeerIncompatible, ServerConfig, SignatureScheme,
};

use crate::key::{NodePublic, NodeSecret};

/// The application protocol.
const PROTOCOL: &[u8] = b"talaria-log/1";

/// Accepts every Ed25519 key whose owner proves that it has the secret part.
#[derive(Debug)]
struct AnyKey(WebPkiSupportedAlgorithms);

impl AnyKey {
    fn proves(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.0)
    }
}

fn is_a_key(key: &CertificateDer<'_>) -> Result<(), Error> {
    match NodePublic::from_spki(key) {
        Some(_) => Ok(()),
        None => Err(CertificateError::BadEncoding.into()),
    }
}

/// TLS 1.2 is not offered.
fn no_tls12() -> Result<HandshakeSignatureValid, Error> {
    Err(PeerIncompatible::Tls12NotOfferedOrEnabled.into())
}

impl ServerCertVerifier for AnyKey {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        is_a_key(key).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.proves(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for AnyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        is_a_key(key).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.proves(message, key, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

fn parts() -> (Arc<CryptoProvider>, Arc<AnyKey>) {
    let provider = ring::default_provider();
    let verifier = AnyKey(provider.signature_verification_algorithms);
    (Arc::new(provider), Arc::new(verifier))
}

/// The side that connects.
pub(crate) fn client(secret: &NodeSecret) -> Result<Arc<ClientConfig>, Error> {
    let (provider, verifier) = parts();
    let key = AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&secret.certified));
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])?;
    let config = config.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = config.with_client_cert_resolver(Arc::new(key));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(Arc::new(config))
}

/// The side that listens.
pub(crate) fn server(secret: &NodeSecret) -> Result<Arc<ServerConfig>, Error> {
    let (provider, verifier) = parts();
    let key = AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&secret.certified));
    let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])?;
    let mut config = config.with_client_cert_verifier(verifier).with_cert_resolver(Arc::new(key));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The key of the other side, if it speaks the protocol.
pub(crate) fn peer(state: &CommonState) -> Option<NodePublic> {
    if state.alpn_protocol() != Some(PROTOCOL) {
        return None;
    }
    NodePublic::from_spki(state.peer_certificates()?.first()?)
}
