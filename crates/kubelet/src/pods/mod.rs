//! All pods of this node: gives each a worker, tells it what its source and the node say, and
//! clears away what belongs to none.

mod directory;
mod orphans;
mod task;
mod weights;

use std::sync::Arc;

use informer::SharedInformer;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use lifecycle::Tasks;

use crate::context::Context;

pub(crate) use directory::{Directory, Registry};

/// What the pods are read from.
pub(crate) struct Sources {
    pub(crate) pods: Arc<SharedInformer<Pod>>,
    pub(crate) nodes: Arc<SharedInformer<Node>>,
    /// Containers see them in their environment: none starts before they are known.
    pub(crate) services: Arc<SharedInformer<Service>>,
}

/// What it knows is also in the registry, for the server.
pub(crate) fn spawn(tasks: &Tasks, context: Arc<Context>, sources: Sources, registry: Registry) {
    task::spawn(tasks, context, sources, registry);
}
