//! Lets a PodGroup go that is being deleted, once none of its pods runs any more.

mod garbage;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::core::pod::PodView;
use api::scheduling::PodGroup;
use apimachinery::ObjectKey;
use client::Api;
use informer::Indexer;
use reconcile::{Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, itself};

pub(crate) use self::garbage::plan_any;
use crate::{Descriptor, Flags, Startup};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "podgroup-protection-controller",
    aliases: &[],
    identity: "podgroup-protection-controller",
    // While its feature gate is on: see `availability`.
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

/// Index of pods that are not finished: the group that they are scheduled with, with its namespace.
const BY_GROUP: &str = "pod-group";

struct Protection {
    groups: Indexer<PodGroup>,
    pods: Indexer<PodView>,
    writes: Arc<OwnWrites<PodGroup>>,
    api: Api<PodGroup>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let reconciler = Protection {
        groups: controller.cache(),
        pods: controller.indexed_cache(&[(BY_GROUP, by_group)]),
        writes: controller.own_writes(PATIENCE),
        api: startup.client.api(),
    };
    controller
        .watches(itself::<PodGroup>)
        .watches(|it: &PodView| plan::group_of(it))
        .run(reconciler);
}

fn by_group(pod: &PodView) -> Vec<String> {
    let group = plan::group_of(pod).filter(|_| !pod.is_terminal());
    group.map(|it| it.to_string()).into_iter().collect()
}

impl Reconciler for Protection {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(group) = self.groups.get(key) else { return Ok(Next::Settled) };
        let n_pods = self.pods.by_index(BY_GROUP, &key.to_string()).len();
        let Some(released) = plan::plan(&group, n_pods) else { return Ok(Next::Settled) };
        let written = self.api.update(released).await.unless_gone();
        if let Some(written) = written.map_err(Failed::to::<PodGroup>("let go of", key))? {
            self.writes.changed(key, &group, written.meta());
        }
        Ok(Next::Settled)
    }
}
