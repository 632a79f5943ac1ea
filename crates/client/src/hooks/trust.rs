//! Whom a webhook's certificate must be signed by: the authorities of its `caBundle`, or those that
//! the system trusts; and who this server is to it.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use super::failure::Failure;
use super::identity::Identity;
use crate::unverified::unverified_tls;

/// Whose certificates are believed.
pub(super) enum Trust {
    /// PEM; if there are none, those of the system.
    Authorities(Vec<u8>),
    /// A kubeconfig may say so (`insecure-skip-tls-verify`).
    Anybody,
}

/// Where distributions keep the certificates that the system trusts; the first that exists.
const SYSTEM: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// HTTP/1.1 alone: with HTTP/2 all questions would go to the one endpoint that came first
/// (kubernetes#75791).
pub(super) fn config(
    trust: &Trust,
    identity: Option<&Arc<Identity>>,
) -> Result<Arc<ClientConfig>, Failure> {
    let mut config = match trust {
        Trust::Authorities(ca_bundle) => verifying(ca_bundle)?,
        Trust::Anybody => {
            let config = unverified_tls().map_err(|err| Failure::new(err.to_string()))?;
            ClientConfig::clone(&config)
        }
    };
    if let Some(identity) = identity.filter(|it| it.has_certificate()) {
        config.client_auth_cert_resolver = identity.clone();
        // A session that is taken up again would be of whoever we were before a rotation.
        config.resumption = Resumption::disabled();
    }
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn verifying(ca_bundle: &[u8]) -> Result<ClientConfig, Failure> {
    let mut roots = RootCertStore::empty();
    if ca_bundle.is_empty() {
        let system = SYSTEM.iter().map(Path::new).find(|it| it.exists());
        // Without any nobody is trusted, which the handshake says.
        if let Some(all) = system.and_then(|it| CertificateDer::pem_file_iter(it).ok()) {
            roots.add_parsable_certificates(all.filter_map(Result::ok));
        }
    } else {
        roots.add_parsable_certificates(
            CertificateDer::pem_slice_iter(ca_bundle).filter_map(Result::ok),
        );
        if roots.is_empty() {
            return Err(Failure::new(
                "unable to load root certificates: the caBundle has no certificate that can be read"
                    .to_owned(),
            ));
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|err| Failure::new(err.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
