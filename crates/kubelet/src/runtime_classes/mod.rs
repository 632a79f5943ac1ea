//! Which of the runtime's ways to run containers a pod asks for: its RuntimeClass names a handler,
//! the runtime says what each handler can do.

use std::sync::Arc;

use apimachinery::ObjectKey;
use informer::{Factory, SharedInformer};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::node::v1::RuntimeClass;

#[derive(Debug, thiserror::Error)]
#[error("runtimeclass.node.k8s.io {0:?} not found")]
pub(crate) struct NotFound(String);

/// The classes of the cluster: every node may read all of them.
pub(crate) struct RuntimeClasses {
    informer: Arc<SharedInformer<RuntimeClass>>,
}

impl RuntimeClasses {
    pub(crate) fn new(factory: &Factory) -> Self {
        Self { informer: factory.informer() }
    }

    /// The pod's handler, once it is known which classes exist. Empty: the runtime's own choice.
    pub(crate) async fn handler(&self, pod: &Pod) -> Result<String, NotFound> {
        if name(pod).is_some() {
            self.informer.wait_for_sync().await;
        }
        self.known_handler(pod)
    }

    /// As far as classes are known now.
    pub(crate) fn known_handler(&self, pod: &Pod) -> Result<String, NotFound> {
        let Some(name) = name(pod) else { return Ok(String::new()) };
        let class = self.informer.indexer().get(&ObjectKey::cluster(name));
        class.map(|it| it.handler.clone()).ok_or_else(|| NotFound(name.to_owned()))
    }
}

fn name(pod: &Pod) -> Option<&str> {
    let name = pod.spec.as_ref().and_then(|it| it.runtime_class_name.as_deref());
    name.filter(|it| !it.is_empty())
}
