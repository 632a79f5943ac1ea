//! A namespace that is deleted stays until its content is gone: whoever removes that removes
//! `spec.finalizers`. Those of the system come back.

use std::sync::Arc;
use std::time::Duration;

use api::core::Namespace;
use api::{ApiObject, Lookup};
use apimachinery::{ApiError, GroupResource, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NamespaceSpec, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use lifecycle::Shutdown;
use tokio::sync::Notify;

use crate::cache::Change;
use crate::own_calls;
use crate::pipeline::Core;
use crate::pipeline::hooks::{Hooks, Of};
use crate::plan::Plan;

/// What nodes and components cannot do without.
const OF_SYSTEM: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];
/// Before one that could not be made is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct Namespaces {
    /// One of the system's is gone.
    gone: Notify,
}

/// What a cluster starts with.
pub(crate) fn plan(core: &Core, plan: &mut Plan) {
    for name in OF_SYSTEM {
        plan.ensure(core, namespace(name), |_, _| None);
    }
}

fn namespace(name: &str) -> Namespace {
    Namespace {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("kubernetes.io/metadata.name".to_owned(), name.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(NamespaceSpec { finalizers: Some(vec!["kubernetes".to_owned()]) }),
        status: Some(NamespaceStatus { phase: Some("Active".to_owned()), ..Default::default() }),
    }
}

/// Makes what is missing, as anybody would: admission sees it.
async fn settle(core: &Core) -> Result<(), ApiError> {
    let lookup: &dyn Lookup = core.cache.as_ref();
    for name in OF_SYSTEM {
        if lookup.get::<Namespace>(&ObjectKey::cluster(*name)).is_some() {
            continue;
        }
        match own_calls::create(core, namespace(name)).await {
            // Another server was faster.
            Err(err) if !err.is_already_exists() => return Err(err),
            _ => tracing::info!(name, "a namespace of the system was gone and is back"),
        }
    }
    Ok(())
}

impl Namespaces {
    async fn run(self: Arc<Self>, core: Arc<Core>, shutdown: Shutdown) {
        loop {
            let settled = settle(&core).await;
            if let Err(err) = &settled {
                let error = stdx::error_chain(err);
                tracing::warn!(error, "a namespace of the system is missing");
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.gone.notified() => {}
                () = tokio::time::sleep(RETRY_AFTER), if settled.is_err() => {}
            }
        }
    }
}

impl Hooks for Namespaces {
    fn of(&self) -> &'static [Of] {
        &[("", "namespaces")]
    }

    fn observe(&self, _resource: &GroupResource, change: &Change) {
        let name = change.latest().meta.key.name.as_str();
        if change.object.is_none() && OF_SYSTEM.contains(&name) {
            self.gone.notify_one();
        }
    }

    fn spawn(self: Arc<Self>, core: &Arc<Core>) {
        let its = core.clone();
        core.tasks.spawn("system-namespaces", |shutdown| self.run(its, shutdown));
    }

    fn begin_deletion(
        &self,
        object: &mut dyn ApiObject,
        _finalizers: &mut Vec<String>,
        _now: Timestamp,
    ) {
        let namespace = object.downcast_mut::<Namespace>().expect("the kind is Namespace");
        namespace.status.get_or_insert_default().phase = Some("Terminating".to_owned());
    }

    fn is_kept(&self, object: &dyn ApiObject) -> bool {
        let namespace = object.downcast_ref::<Namespace>().and_then(|it| it.spec.as_ref());
        let finalizers = namespace.and_then(|it| it.finalizers.as_ref());
        finalizers.is_some_and(|it| !it.is_empty())
    }
}
