//! The group networking.k8s.io: one folder per kind.

pub mod ingress;
pub mod ingress_class;
pub mod ip_address;
pub mod network_policy;
pub mod service_cidr;

pub use ingress::Ingress;
pub use ingress_class::IngressClass;
pub use ip_address::IPAddress;
pub use network_policy::NetworkPolicy;
pub use service_cidr::ServiceCIDR;
