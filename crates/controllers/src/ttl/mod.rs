//! How long kubelets may keep Secrets and ConfigMaps that they read, as an annotation of each Node:
//! the more nodes there are, the longer.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use api::Identified as _;
use api::core::node::{Node, NodeView, TTL};
use apimachinery::ObjectKey;
use client::{Api, PatchKind};
use informer::Indexer;
use reconcile::{Change, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler};
use serde_json::json;

pub(crate) use self::garbage::plan_any;
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "ttl-controller",
    aliases: &["ttl"],
    identity: "ttl-controller",
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

const WORKERS: usize = 5;

struct Ttl {
    nodes: Indexer<NodeView>,
    api: Api<Node>,
    own_writes: Arc<OwnWrites<NodeView>>,
    /// What all nodes should say; absent until the first look.
    seconds: Arc<Mutex<Option<u32>>>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let nodes: Indexer<NodeView> = controller.cache();
    let seconds = Arc::<Mutex<Option<u32>>>::default();
    let reconciler = Ttl {
        nodes: nodes.clone(),
        api: startup.client.api(),
        own_writes: controller.own_writes(PATIENCE),
        seconds: seconds.clone(),
    };
    controller
        .follows(move |change: Change<'_, NodeView>, queue| {
            queue.add(change.latest().key());
            let mut known = seconds.lock().unwrap_or_else(PoisonError::into_inner);
            // Before the first look there is nobody to wake: the first list wakes all.
            let Some(before) = *known else { return };
            let now = plan::seconds(nodes.len(), Some(before));
            if now != before {
                *known = Some(now);
                nodes.list().iter().for_each(|it| queue.add(it.key()));
            }
        })
        .workers(WORKERS)
        .run(reconciler);
}

impl Reconciler for Ttl {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.own_writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(node) = self.nodes.get(key) else {
            self.own_writes.forget(key);
            return Ok(Next::Settled);
        };
        let Some(text) = plan::plan(&node, self.seconds()) else { return Ok(Next::Settled) };
        let body = json!({"metadata": {"uid": node.uid(), "annotations": {TTL: text}}});
        let body = body.to_string().into();
        let patched = self.api.patch("", &key.name, PatchKind::Merge, body).await;
        let patched = patched.unless_replaced();
        let patched = patched.map_err(Failed::to::<Node>("set the annotation of", key))?;
        if let Some(patched) = patched {
            self.own_writes.wrote(key, patched.meta());
        }
        Ok(Next::Settled)
    }
}

impl Ttl {
    /// Where the number of nodes leaves a choice, the first look goes by what nodes say already.
    fn seconds(&self) -> u32 {
        let mut known = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        *known.get_or_insert_with(|| {
            let nodes = self.nodes.list();
            let said = nodes.iter().filter_map(|it| it.ttl.as_deref()?.parse().ok()).max();
            plan::seconds(nodes.len(), said)
        })
    }
}
