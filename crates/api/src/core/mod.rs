//! The core group: one folder per kind, one line per kind.

use std::sync::Arc;

use crate::kind::{Kind, Typed};

pub mod binding;
pub mod config_map;
pub mod endpoints;
pub mod event;
pub mod namespace;
pub mod node;
pub mod pod;
pub mod pod_spec;
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
pub use replication_controller::ReplicationController;
pub use secret::Secret;
pub use service::Service;
pub use service_account::ServiceAccount;

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Typed::<Binding>::new(crate::schema)),
        Arc::new(Typed::<ConfigMap>::new(crate::schema)),
        Arc::new(Typed::<Endpoints>::new(crate::schema)),
        Arc::new(Typed::<Event>::new(crate::schema)),
        Arc::new(Typed::<Namespace>::new(crate::schema)),
        Arc::new(Typed::<Node>::new(crate::schema)),
        Arc::new(Typed::<Pod>::new(crate::schema)),
        Arc::new(Typed::<ReplicationController>::new(crate::schema)),
        Arc::new(Typed::<Secret>::new(crate::schema)),
        Arc::new(Typed::<Service>::new(crate::schema)),
        Arc::new(Typed::<ServiceAccount>::new(crate::schema)),
    ]
}
