//! TLS from PEM: the server with optional client certificates, and the client.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::{ChangingTrust, Error, Identity, Offer, Rotating, Trust};

/// HTTP/2 first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
/// After a handshake, for the next one of the same client: a second would only be for clients that
/// open many at once.
const TICKETS: usize = 1;

pub(in crate::pki) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

pub(in crate::pki) fn tls(err: impl std::fmt::Display) -> Error {
    Error::Tls(err.to_string())
}

pub(in crate::pki) fn chain(pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(tls)
}

fn key(pem: &str) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(tls)
}

pub(in crate::pki) fn roots(
    certificates: &[CertificateDer<'static>],
) -> Result<Arc<RootCertStore>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.clone()).map_err(tls)?;
    }
    Ok(Arc::new(roots))
}

fn protocols() -> Vec<Vec<u8>> {
    PROTOCOLS.iter().map(|it| it.to_vec()).collect()
}

/// A certificate with the key that belongs to it.
pub(super) fn certified(identity: &Identity) -> Result<CertifiedKey, Error> {
    let (chain, key) = (chain(&identity.certificate_pem)?, key(&identity.private_key_pem)?);
    CertifiedKey::from_der(chain, key, &provider()).map_err(tls)
}

/// A server that takes clients without a certificate, and verifies a certificate against
/// `client_ca_pem`.
pub fn server_config(identity: &Identity, client_ca_pem: &str) -> Result<ServerConfig, Error> {
    rotating_server_config(Rotating::new(identity)?, client_ca_pem)
}

/// The same, with an identity that may change.
///
/// Clients come back with a ticket, which holds their certificate as it was verified; whoever reads
/// it checks its time again.
pub fn rotating_server_config(
    identity: Arc<Rotating>,
    client_ca_pem: &str,
) -> Result<ServerConfig, Error> {
    trusting_server_config(identity, Trust::new(client_ca_pem, None)?)
}

/// The same, with more authorities than one.
pub fn trusting_server_config(
    identity: Arc<Rotating>,
    trust: Trust,
) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(tls)?
        .with_client_cert_verifier(Arc::new(trust))
        .with_cert_resolver(identity);
    config.alpn_protocols = protocols();
    config.ticketer = aws_lc_rs::Ticketer::new().map_err(tls)?;
    config.send_tls13_tickets = TICKETS;
    Ok(config)
}

/// A server whose clients are believed by what holds at each handshake, and which offers no more
/// than it is told. Clients that come back are asked again: no session goes on.
pub fn changing_server_config(
    identity: Arc<Rotating>,
    trust: Arc<ChangingTrust>,
    offer: &Offer,
) -> Result<ServerConfig, Error> {
    let mut config = ServerConfig::builder_with_provider(offer.provider())
        .with_protocol_versions(offer.versions())
        .map_err(tls)?
        .with_client_cert_verifier(trust)
        .with_cert_resolver(identity);
    config.alpn_protocols = protocols();
    if offer.without_http2 {
        config.alpn_protocols.retain(|it| it != PROTOCOLS[0]);
    }
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// A client that trusts `ca_pem` and shows `identity` when it has one.
pub fn client_config(ca_pem: &str, identity: Option<&Identity>) -> Result<ClientConfig, Error> {
    let identity = identity.map(Rotating::new).transpose()?;
    rotating_client_config(ca_pem, identity)
}

/// The same, with an identity that may change.
pub fn rotating_client_config(
    ca_pem: &str,
    identity: Option<Arc<Rotating>>,
) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(tls)?
        .with_root_certificates(roots(&chain(ca_pem)?)?);
    let mut config = match identity {
        Some(it) => builder.with_client_cert_resolver(it),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols();
    Ok(config)
}
