//! TLS from PEM: the server with optional client certificates, and the client.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::{Error, Identity};

/// HTTP/2 first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn tls(err: impl std::fmt::Display) -> Error {
    Error::Tls(err.to_string())
}

fn chain(pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(tls)
}

fn key(pem: &str) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(tls)
}

fn roots(ca_pem: &str) -> Result<Arc<RootCertStore>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(ca_pem)? {
        roots.add(certificate).map_err(tls)?;
    }
    Ok(Arc::new(roots))
}

fn protocols() -> Vec<Vec<u8>> {
    PROTOCOLS.iter().map(|it| it.to_vec()).collect()
}

/// A server that takes clients without a certificate, and verifies a certificate against `client_ca_pem`.
pub fn server_config(identity: &Identity, client_ca_pem: &str) -> Result<ServerConfig, Error> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(client_ca_pem)?, provider())
        .allow_unauthenticated()
        .build()
        .map_err(tls)?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(tls)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain(&identity.certificate_pem)?, key(&identity.private_key_pem)?)
        .map_err(tls)?;
    config.alpn_protocols = protocols();
    Ok(config)
}

/// A client that trusts `ca_pem` and shows `identity` when it has one.
pub fn client_config(ca_pem: &str, identity: Option<&Identity>) -> Result<ClientConfig, Error> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(tls)?
        .with_root_certificates(roots(ca_pem)?);
    let mut config = match identity {
        Some(it) => builder
            .with_client_auth_cert(chain(&it.certificate_pem)?, key(&it.private_key_pem)?)
            .map_err(tls)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = protocols();
    Ok(config)
}
