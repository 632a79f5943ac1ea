//! The group certificates.k8s.io: one folder per kind, and how what they hold is read.

pub mod certificate_signing_request;
pub mod cluster_trust_bundle;
mod pem;
pub mod pod_certificate_request;
mod request;
mod signature;
mod signer_name;

pub use certificate_signing_request::CertificateSigningRequest;
pub use cluster_trust_bundle::ClusterTrustBundle;
pub use pod_certificate_request::PodCertificateRequest;
