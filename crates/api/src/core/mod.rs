//! The core group: one folder per kind.

pub mod binding;
pub(crate) mod claim_spec;
pub mod config_map;
pub mod endpoints;
pub mod event;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod pod_spec;
pub mod pod_template;
pub mod replication_controller;
pub mod secret;
pub mod service;
pub mod service_account;

pub use binding::Binding;
pub use config_map::ConfigMap;
pub use endpoints::Endpoints;
pub use event::Event;
pub use namespace::Namespace;
pub use node::Node;
pub use pod::Pod;
pub use pod_template::PodTemplate;
pub use replication_controller::ReplicationController;
pub use secret::Secret;
pub use service::Service;
pub use service_account::ServiceAccount;
