//! Whom a server has to be that somebody configured: whose certificate is signed by the authorities
//! that were named with it, or by those that the system trusts if none were.

use std::fs;
use std::sync::Arc;

use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::deprecated::{Deprecated, Watching};
use crate::unverified::unverified_tls;

/// Where distributions keep the certificates that the system trusts; the first that exists.
const SYSTEM: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("unable to load root certificates: the caBundle has no certificate that can be read")]
    Authorities,
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

/// Whose certificates are believed.
pub enum Trust {
    /// PEM; if there are none, those of the system.
    Authorities(Vec<u8>),
    /// Whoever configured it said so.
    Anybody,
}

impl Trust {
    /// Without protocols, for whoever dials to say. What is wrong with the certificates that servers
    /// show when a connection fails is counted.
    pub fn config(
        &self,
        identity: Option<Arc<dyn ResolvesClientCert>>,
        deprecated: &Arc<Deprecated>,
    ) -> Result<ClientConfig, TrustError> {
        let mut config = match self {
            Self::Authorities(ca_bundle) => verifying(roots(ca_bundle, SYSTEM)?, deprecated)?,
            Self::Anybody => ClientConfig::clone(&*unverified_tls()?),
        };
        if let Some(identity) = identity {
            config.client_auth_cert_resolver = identity;
        }
        Ok(config)
    }
}

fn roots(ca_bundle: &[u8], system: &[&str]) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    let mut add = |pem: &[u8]| {
        let all = CertificateDer::pem_slice_iter(pem);
        roots.add_parsable_certificates(all.filter_map(Result::ok));
    };
    if ca_bundle.is_empty() {
        // Without any nobody is trusted, which the handshake says.
        add(&system.iter().find_map(|it| fs::read(it).ok()).unwrap_or_default());
        return Ok(roots);
    }
    add(ca_bundle);
    if roots.is_empty() { Err(TrustError::Authorities) } else { Ok(roots) }
}

fn verifying(
    roots: RootCertStore,
    deprecated: &Arc<Deprecated>,
) -> Result<ClientConfig, TrustError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    if roots.is_empty() {
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build()?;
    let verifier = Watching::new(verifier, deprecated.clone());
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(name: &str) -> String {
        rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap().cert.pem()
    }

    #[test]
    fn who_names_no_authority_trusts_those_of_the_system() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("system.pem");
        let file = file.to_str().unwrap();
        fs::write(file, authority("a") + &authority("b")).unwrap();
        let count = |bundle: &[u8], system: &[&str]| {
            roots(bundle, system).map(|it| it.len()).map_err(|it| it.to_string())
        };
        assert_eq!(count(b"", &["/nowhere", file]), Ok(2));
        assert_eq!(count(b"", &["/nowhere"]), Ok(0));
        assert_eq!(count(authority("c").as_bytes(), &[file]), Ok(1), "and nobody else");
        let why =
            "unable to load root certificates: the caBundle has no certificate that can be read";
        assert_eq!(count(b"nothing", &[file]), Err(why.to_owned()));
        let deprecated = Deprecated::of_webhooks(&telemetry::Registry::default());
        for bundle in [Vec::new(), authority("c").into_bytes()] {
            assert!(Trust::Authorities(bundle).config(None, &deprecated).is_ok());
        }
        assert!(Trust::Authorities(b"nothing".to_vec()).config(None, &deprecated).is_err());
    }
}
