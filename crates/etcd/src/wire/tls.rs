//! TLS from PEM for both ends. HTTP/2 is asked for by name (ALPN); servers also take HTTP/1.1, for
//! probes.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("reading {what}")]
    ReadPem {
        what: &'static str,
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    #[error("{what} has no certificate")]
    NoCertificate { what: &'static str },
    #[error("using {what}")]
    UseCertificate {
        what: &'static str,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A certificate chain and its private key, as PEM.
#[derive(Clone)]
pub struct Identity {
    pub certificate_pem: Vec<u8>,
    pub key_pem: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity(..)")
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn unusable<E>(what: &'static str) -> impl FnOnce(E) -> Error
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    move |source| Error::UseCertificate { what, source: source.into() }
}

fn chain(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|source| Error::ReadPem { what, source })?;
    if chain.is_empty() {
        return Err(Error::NoCertificate { what });
    }
    Ok(chain)
}

fn key(identity: &Identity) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(&identity.key_pem)
        .map_err(|source| Error::ReadPem { what: "the private key", source })
}

fn roots(what: &'static str, pem: &[u8]) -> Result<Arc<RootCertStore>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(what, pem)? {
        roots.add(certificate).map_err(unusable(what))?;
    }
    Ok(Arc::new(roots))
}

/// A server; with a CA, only for clients that show a certificate of it.
pub fn server_config(
    identity: &Identity,
    client_ca_pem: Option<&[u8]>,
) -> Result<Arc<ServerConfig>, Error> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(unusable("TLS"))?;
    let builder = match client_ca_pem {
        Some(pem) => {
            let what = "the clients' CA";
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots(what, pem)?, provider());
            builder.with_client_cert_verifier(verifier.build().map_err(unusable(what))?)
        }
        None => builder.with_no_client_auth(),
    };
    let what = "the server's certificate";
    let mut config = builder
        .with_single_cert(chain(what, &identity.certificate_pem)?, key(identity)?)
        .map_err(unusable(what))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A client that trusts `ca_pem` and shows `identity` when it has one.
pub fn client_config(
    ca_pem: &[u8],
    identity: Option<&Identity>,
) -> Result<Arc<ClientConfig>, Error> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(unusable("TLS"))?
        .with_root_certificates(roots("the CA", ca_pem)?);
    let mut config = match identity {
        Some(it) => {
            let what = "the client's certificate";
            builder
                .with_client_auth_cert(chain(what, &it.certificate_pem)?, key(it)?)
                .map_err(unusable(what))?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
