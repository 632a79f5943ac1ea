//! Which client certificates are believed: what webpki verifies against the client authorities,
//! through intermediates or not; and certificates of version 1, which webpki refuses for want of
//! extensions, if an authority signed them itself. `openssl x509 -req` makes such ones, and Go
//! takes them.
//!
//! Nothing else is made easier: times, usages, constraints and signatures count as strictly for
//! either.

mod authority;
mod der;
pub mod garbage;
mod trust;
mod version1;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use self::authority::Authority;
use self::version1::Version1;
use super::tls::provider;

pub use self::trust::{ChangingTrust, Trust};

/// Clients without a certificate are let in, as nobody. `roots` are the same authorities.
pub(super) fn verifier(
    authorities: &[CertificateDer<'static>],
    roots: Arc<RootCertStore>,
) -> Result<Arc<dyn ClientCertVerifier>, VerifierBuilderError> {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let webpki = WebPkiClientVerifier::builder_with_provider(roots, provider)
        .allow_unauthenticated()
        .build()?;
    let authorities = authorities.iter().filter_map(|it| Authority::read(it)).collect();
    Ok(Arc::new(ClientVerifier { webpki, authorities, algorithms }))
}

#[derive(Debug)]
struct ClientVerifier {
    webpki: Arc<dyn ClientCertVerifier>,
    /// Those that may sign certificates of version 1.
    authorities: Vec<Authority>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.webpki.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match Version1::read(certificate) {
            // Intermediates mean nothing to it: who signed it is known, or it is refused.
            Some(plain) => {
                plain.verify(&self.authorities, self.algorithms.all, now)?;
                Ok(ClientCertVerified::assertion())
            }
            None => self.webpki.verify_client_cert(certificate, intermediates, now),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match Version1::read(certificate) {
            Some(plain) => plain.verify_tls12(message, signed, &self.algorithms),
            None => self.webpki.verify_tls12_signature(message, certificate, signed),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match Version1::read(certificate) {
            Some(plain) => plain.verify_tls13(message, signed, &self.algorithms),
            None => self.webpki.verify_tls13_signature(message, certificate, signed),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}
