//! The wiring of the control plane: which component acts as whom, reads through which informers and
//! stands for which Lease.
//!
//! `xebec up`, the commands that run one component alone, and the simulation start components here
//! and nowhere else, so that what is tested is what users run. How the API is reached is for the
//! caller to say: `Clients`.

mod authority;
mod clients;
mod components;

pub use authority::{AuthoritySigner, signs_all};
pub use clients::{Clients, Identity};
pub use components::{CONTROLLER_MANAGER, Components, SCHEDULER};
/// What some of them need.
pub use controllers::{Availability, ServedResource, Unavailable, needed_resources};
/// Keys that certificates are signed with.
pub use controllers::{
    CertificateTerms, KUBE_APISERVER_CLIENT, KUBE_APISERVER_CLIENT_KUBELET, KUBELET_SERVING,
    LEGACY_UNKNOWN, NODE_COMPONENT, SignCertificate, Signers,
};
/// What flags say about the controllers.
pub use controllers::{Settings as ControllerSettings, SignToken};
pub use simulator::{Config as FleetConfig, Fleet};
