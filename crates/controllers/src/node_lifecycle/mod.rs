//! Nodes that fell silent: conditions become Unknown, taints follow the conditions, pods of dead nodes
//! stop being ready. One deadline per node, moved by its heartbeats; nothing looks at all nodes. A lease renewal costs one
//! note of the time, and each node one look per grace period.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::coordination::lease::Lease;
use api::core::node::Node;
use api::core::pod::Pod;
use api::object::key_of;
use apimachinery::{ApiError, ObjectKey};
use client::{Api, PatchKind};
use informer::Indexer;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, Taint};
use reconcile::{EventRecorder, EventType, Next, Reconciler, WorkQueue};
use serde_json::json;
use stdx::SharedClock;

use self::plan::Observed;
use crate::handlers::on_transition;
use crate::pods::BY_NODE;
use crate::{Descriptor, Startup, conditions, owners, pods};

pub(crate) const DESCRIPTOR: Descriptor =
    Descriptor { name: "node-lifecycle-controller", identity: "node-controller", start };

const LEASES: &str = "kube-node-lease";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("mark node {node} as unknown")]
    Conditions {
        node: String,
        #[source]
        source: ApiError,
    },
    #[error("set the taints of node {node}")]
    Taints {
        node: String,
        #[source]
        source: ApiError,
    },
    #[error("mark pod {pod} as not ready")]
    Pod {
        pod: ObjectKey,
        #[source]
        source: ApiError,
    },
}

/// When each node's last heartbeat was seen here. Our clock, not the node's: clocks differ.
#[derive(Default)]
struct Heartbeats(Mutex<BTreeMap<String, Timestamp>>);

impl Heartbeats {
    fn seen(&self, node: &str, now: Timestamp) {
        let mut heartbeats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heartbeats.insert(node.to_owned(), now);
    }

    /// The first look at a node counts as a heartbeat: after a restart every node gets its grace.
    fn last(&self, node: &str, now: Timestamp) -> Timestamp {
        let mut heartbeats = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *heartbeats.entry(node.to_owned()).or_insert(now)
    }

    fn forget(&self, node: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(node);
    }
}

struct NodeLifecycle {
    nodes: Indexer<Node>,
    pods: Indexer<Pod>,
    nodes_api: Api<Node>,
    pods_api: Api<Pod>,
    heartbeats: Arc<Heartbeats>,
    events: EventRecorder,
    clock: SharedClock,
    grace: Duration,
    startup_grace: Duration,
}

fn start(context: &Startup, descriptor: &Descriptor) {
    let client = context.client(descriptor);
    let queue = WorkQueue::new(descriptor.name);
    let nodes = context.factory.informer::<Node>();
    let pods = context.factory.informer::<Pod>();
    let leases = context.factory.informer::<Lease>();
    pods.add_index(BY_NODE, pods::index_by_node);
    let heartbeats = Arc::new(Heartbeats::default());
    let reconciler = NodeLifecycle {
        nodes: nodes.indexer(),
        pods: pods.indexer(),
        nodes_api: client.api(),
        pods_api: client.api(),
        heartbeats: heartbeats.clone(),
        events: context.events(descriptor, &client),
        clock: context.world.clock.clone(),
        grace: context.config.node_monitor_grace_period,
        startup_grace: context.config.node_startup_grace_period,
    };
    let (clock, beats) = (context.world.clock.clone(), heartbeats.clone());
    on_transition(&leases, move |before, after| {
        let Some(lease) = after.filter(|it| owners::namespace(&it.metadata) == LEASES) else {
            return;
        };
        let renewed = |it: &Lease| it.spec.as_ref().and_then(|it| it.renew_time.clone());
        // No key: the node's timer finds the newer heartbeat when it rings.
        if before.is_none_or(|it| renewed(it) != renewed(lease)) {
            beats.seen(owners::name(&lease.metadata), clock.now());
        }
    });
    let (clock, to_queue) = (context.world.clock.clone(), queue.clone());
    on_transition(&nodes, move |before, after| {
        if let Some(node) = after
            && before.is_none_or(|it| heartbeat(it) != heartbeat(node))
        {
            heartbeats.seen(owners::name(&node.metadata), clock.now());
        }
        if let Some(node) = after.or(before) {
            to_queue.add(key_of(&node.metadata));
        }
    });
    context.run(descriptor, queue, 8, reconciler);
}

fn heartbeat(node: &Node) -> Option<Timestamp> {
    plan::condition(node, "Ready")?.last_heartbeat_time.as_ref().map(|it| it.0)
}

impl Reconciler for NodeLifecycle {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        let Some(node) = self.nodes.get(key) else {
            self.heartbeats.forget(&key.name);
            return Ok(Next::Settled);
        };
        let now = self.clock.now();
        let seen = self.heartbeats.last(&key.name, now);
        let (grace, startup_grace) = (self.grace, self.startup_grace);
        let plan = plan::plan(&Observed { node: node.clone(), seen, now, grace, startup_grace });
        let node = match plan.conditions {
            Some(conditions) => match self.set_conditions(&node, &conditions).await? {
                Some(node) => node,
                None => return Ok(Next::Settled),
            },
            None => node,
        };
        if let Some(taints) = plan.taints {
            self.set_taints(&node, taints).await?;
        }
        if plan.is_down {
            self.mark_pods(key, now).await?;
        }
        Ok(plan.deadline.map_or(Next::Settled, Next::After))
    }
}

impl NodeLifecycle {
    /// The node after the change; `None` when it is gone. With the resourceVersion that was looked at: a heartbeat that
    /// the cache has not seen yet wins.
    async fn set_conditions(
        &self,
        node: &Node,
        conditions: &[NodeCondition],
    ) -> Result<Option<Arc<Node>>, Error> {
        let name = owners::name(&node.metadata).to_owned();
        let body = json!({
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "status": {"conditions": conditions},
        });
        let (body, kind) = (body.to_string().into(), PatchKind::Strategic);
        match self.nodes_api.patch_status("", &name, kind, body).await {
            Ok(changed) => {
                let message = format!("Node {name} status is now: NodeNotReady");
                self.events.event(node, EventType::Normal, "NodeNotReady", message);
                Ok(Some(changed))
            }
            Err(err) if err.is_not_found() => Ok(None),
            Err(source) => Err(Error::Conditions { node: name, source }),
        }
    }

    /// With the resourceVersion that was looked at: taints that others set meanwhile are not lost.
    async fn set_taints(&self, node: &Node, taints: Vec<Taint>) -> Result<(), Error> {
        let name = owners::name(&node.metadata).to_owned();
        let body = json!({
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "spec": {"taints": taints},
        });
        let body = body.to_string().into();
        match self.nodes_api.patch("", &name, PatchKind::Merge, body).await {
            Ok(_) => Ok(()),
            Err(err) if err.is_not_found() => Ok(()),
            Err(source) => Err(Error::Taints { node: name, source }),
        }
    }

    async fn mark_pods(&self, node: &ObjectKey, now: Timestamp) -> Result<(), Error> {
        for pod in self.pods.by_index(BY_NODE, &node.name) {
            if !pods::is_ready(&pod) {
                continue;
            }
            let key = key_of(&pod.metadata);
            let body = json!({
                "metadata": {"uid": pod.metadata.uid},
                "status": {"conditions": [{
                    "type": "Ready",
                    "status": "False",
                    "lastTransitionTime": conditions::time(now),
                }]},
            });
            let (body, kind) = (body.to_string().into(), PatchKind::Strategic);
            match self.pods_api.patch_status(&key.namespace, &key.name, kind, body).await {
                Ok(_) => {
                    let message = "Node is not ready".to_owned();
                    self.events.event(&*pod, EventType::Warning, "NodeNotReady", message);
                }
                Err(err) if err.is_not_found() || err.is_conflict() => {}
                Err(source) => return Err(Error::Pod { pod: key, source }),
            }
        }
        Ok(())
    }
}
