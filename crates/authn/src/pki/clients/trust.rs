//! Two authorities at one door: that of clients, and that of proxies which speak for others. A
//! certificate of the one proves nothing that only the other may say.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::verifier;
use crate::certificate::{ClientCertificate, Vouched};
use crate::pki::tls::{chain, roots, tls};

/// Whose certificates a server takes.
#[derive(Clone, Debug)]
pub struct Trust {
    clients: Arc<dyn ClientCertVerifier>,
    proxies: Option<Arc<dyn ClientCertVerifier>>,
    hints: Arc<[DistinguishedName]>,
}

impl Trust {
    /// Without authorities of proxies, nobody speaks for others.
    pub fn new(client_ca_pem: &str, proxy_ca_pem: Option<&str>) -> Result<Self, crate::pki::Error> {
        let read = |pem: &str| {
            let authorities = chain(pem)?;
            verifier(&authorities, roots(&authorities)?).map_err(tls)
        };
        let clients = read(client_ca_pem)?;
        let proxies = proxy_ca_pem.map(read).transpose()?;
        let more = proxies.as_ref().map(|it| it.root_hint_subjects()).unwrap_or_default();
        let hints = clients.root_hint_subjects().iter().chain(more).cloned().collect();
        Ok(Self { clients, proxies, hints })
    }

    /// Whom a connection is from, whose certificates TLS has verified.
    pub fn identify(&self, chain: &[CertificateDer<'_>]) -> Option<Arc<ClientCertificate>> {
        let (own, rest) = chain.split_first()?;
        let vouched = match &self.proxies {
            None => Vouched::Clients,
            Some(proxies) => {
                // They held when the connection was made; whether they still do is asked for each
                // request.
                let now = UnixTime::now();
                let holds = |by: &Arc<dyn ClientCertVerifier>| {
                    by.verify_client_cert(own, rest, now).is_ok()
                };
                match (holds(&self.clients), holds(proxies)) {
                    (_, false) => Vouched::Clients,
                    (false, true) => Vouched::Proxies,
                    (true, true) => Vouched::Both,
                }
            }
        };
        Some(Arc::new(ClientCertificate::read_as(own, vouched)))
    }
}

impl ClientCertVerifier for Trust {
    fn client_auth_mandatory(&self) -> bool {
        self.clients.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let refused = match self.clients.verify_client_cert(certificate, intermediates, now) {
            Ok(verified) => return Ok(verified),
            Err(refused) => refused,
        };
        match &self.proxies {
            None => Err(refused),
            Some(proxies) => {
                proxies.verify_client_cert(certificate, intermediates, now).map_err(|_| refused)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.clients.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.clients.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.clients.supported_verify_schemes()
    }
}
