//! Two authorities at one door: that of clients, and that of proxies which speak for others. A
//! certificate of the one proves nothing that only the other may say.

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::verifier;
use crate::certificate::{ClientCertificate, Vouched};
use crate::pki::tls::{chain, provider, roots, tls};

type Verifier = Arc<dyn ClientCertVerifier>;

/// Whose certificates a server takes.
#[derive(Clone, Debug)]
pub struct Trust {
    clients: Option<Verifier>,
    proxies: Option<Verifier>,
    hints: Arc<[DistinguishedName]>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Trust {
    /// Without authorities of proxies, nobody speaks for others.
    pub fn new(client_ca_pem: &str, proxy_ca_pem: Option<&str>) -> Result<Self, crate::pki::Error> {
        Self::of(Some(client_ca_pem), proxy_ca_pem)
    }

    /// The same where there may be no authorities of clients: then no certificate is a user's.
    pub fn of(
        client_ca_pem: Option<&str>,
        proxy_ca_pem: Option<&str>,
    ) -> Result<Self, crate::pki::Error> {
        let read = |pem: &str| {
            let authorities = chain(pem)?;
            verifier(&authorities, roots(&authorities)?).map_err(tls)
        };
        let clients = client_ca_pem.map(read).transpose()?;
        let proxies = proxy_ca_pem.map(read).transpose()?;
        let all = clients.iter().chain(&proxies);
        let hints = all.flat_map(|it| it.root_hint_subjects()).cloned().collect();
        let algorithms = provider().signature_verification_algorithms;
        Ok(Self { clients, proxies, hints, algorithms })
    }

    /// Whom a connection is from, whose certificates TLS has verified.
    pub fn identify(&self, chain: &[CertificateDer<'_>]) -> Option<Arc<ClientCertificate>> {
        let own = chain.first()?;
        let vouched = match &self.proxies {
            None => Vouched::Clients,
            // They held when the connection was made; whether they still do is asked for each
            // request.
            Some(_) => self.vouched(chain).unwrap_or(Vouched::Clients),
        };
        Some(Arc::new(ClientCertificate::read_as(own, vouched)))
    }

    /// By whose authorities certificates hold now; `None`: nobody's.
    fn vouched(&self, chain: &[CertificateDer<'_>]) -> Option<Vouched> {
        let (own, rest) = chain.split_first()?;
        let now = UnixTime::now();
        let holds = |by: &Option<Verifier>| {
            by.as_ref().is_some_and(|it| it.verify_client_cert(own, rest, now).is_ok())
        };
        match (holds(&self.clients), holds(&self.proxies)) {
            (true, false) => Some(Vouched::Clients),
            (false, true) => Some(Vouched::Proxies),
            (true, true) => Some(Vouched::Both),
            (false, false) => None,
        }
    }

    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut refused = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        // What the last one says counts: that of clients, if there is one.
        for verifier in self.proxies.iter().chain(&self.clients) {
            match verifier.verify_client_cert(certificate, intermediates, now) {
                Ok(verified) => return Ok(verified),
                Err(err) => refused = err,
            }
        }
        Err(refused)
    }

    /// Either verifies signatures, all in the same way.
    fn any(&self) -> Result<&Verifier, Error> {
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        self.clients.as_ref().or(self.proxies.as_ref()).ok_or(unknown)
    }
}

impl ClientCertVerifier for Trust {
    fn client_auth_mandatory(&self) -> bool {
        false
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
        self.verify(certificate, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.any()?.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.any()?.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whose certificates a server takes, where that changes while it serves: each handshake goes by
/// what holds then.
#[derive(Debug)]
pub struct ChangingTrust {
    current: ArcSwap<Trust>,
}

impl ChangingTrust {
    pub fn new(trust: Trust) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::from_pointee(trust) })
    }

    /// From the next handshake on.
    pub fn replace(&self, trust: Trust) {
        self.current.store(Arc::new(trust));
    }

    /// Whom a connection is from: nobody, if its certificates do not hold any more.
    pub fn identify(&self, chain: &[CertificateDer<'_>]) -> Option<Arc<ClientCertificate>> {
        let vouched = self.current.load().vouched(chain)?;
        Some(Arc::new(ClientCertificate::read_as(chain.first()?, vouched)))
    }
}

impl ClientCertVerifier for ChangingTrust {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// They may change: clients show what they have.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.current.load().verify(certificate, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current.load().verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.current.load().verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.current.load().supported_verify_schemes()
    }
}
