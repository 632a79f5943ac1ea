//! The group certificates.k8s.io: one folder per kind, and how what they hold is read.

pub mod certificate_signing_request;
pub mod cluster_trust_bundle;
pub mod pem;
pub mod pod_certificate_request;
mod request;
mod signature;
pub(crate) mod signer_name;

/// The certificates of a chain alone, in order, without what stands around them.
pub fn plain_chain(chain: &str) -> String {
    pem::blocks(chain).iter().map(|it| pem::render("CERTIFICATE", &it.bytes)).collect()
}

pub use certificate_signing_request::CertificateSigningRequest;
pub use cluster_trust_bundle::ClusterTrustBundle;
pub use pod_certificate_request::PodCertificateRequest;
