//! The core group: one folder per kind.

pub mod binding;
pub mod config_map;
pub mod endpoints;
pub mod event;
pub mod limit_range;
pub mod namespace;
pub mod node;
pub(crate) mod node_labels;
pub mod persistent_volume;
pub mod persistent_volume_claim;
pub mod pod;
pub mod pod_spec;
pub mod replication_controller;
pub(crate) mod resource_names;
pub mod resource_quota;
pub mod secret;
pub mod service;
pub mod service_account;
pub(crate) mod volume_sources;

pub use binding::Binding;
pub use config_map::ConfigMap;
pub use endpoints::Endpoints;
pub use event::Event;
pub use limit_range::LimitRange;
pub use namespace::Namespace;
pub use node::Node;
pub use persistent_volume::PersistentVolume;
pub use persistent_volume_claim::PersistentVolumeClaim;
pub use pod::Pod;
pub use replication_controller::ReplicationController;
pub use resource_quota::ResourceQuota;
pub use secret::Secret;
pub use service::Service;
pub use service_account::ServiceAccount;
