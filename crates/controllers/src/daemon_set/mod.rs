//! DaemonSets: one pod on each node that should have one.
//!
//! A reconcile looks at all nodes and at the set's own pods, and plans when its caches show all
//! that earlier ones wrote. Pods are pinned to their node by affinity and bound by the scheduler.

mod backoff;
#[cfg(test)]
mod crashes;
mod nodes;
mod plan;
mod rolling;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Identified as _;
use api::apps::{ControllerRevision, DaemonSet};
use api::core::node::NodeView;
use api::core::pod::PodView;
use apimachinery::ObjectKey;
use apimachinery::selector::{self, Labels};
use client::Api;
use informer::Indexer;
use k8s_openapi::api::apps::v1::DaemonSetStatus;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use reconcile::{
    Change, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, WorkQueue,
    is_namespace_ending, itself,
};
use stdx::SharedClock;
use telemetry::{Counter, Description, Family, Stability};

use self::backoff::Backoff;
use self::plan::{Observed, Plan, Reason, Removal};
use crate::claims::{Claimant, Claims};
use crate::flags::at_least_one;
use crate::history::{self, History, Limit, Record, Seen, Templated};
use crate::pod_control::{self, PodControl, Words};
use crate::workload::{BY_SELECTOR, POD_INDEXES, Workload};
use crate::{Descriptor, Flags, Startup, owners, workload};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "daemonset-controller",
    aliases: &["daemonset"],
    identity: "daemon-set-controller",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(clap::Args)]
#[group(skip)]
struct Settings {
    /// DaemonSets that are worked on at once
    #[arg(long, value_name = "N", default_value = "2", value_parser = at_least_one)]
    concurrent_daemonset_syncs: usize,
}

const STALE: Description<2> = Description {
    name: "daemonset_controller_stale_sync_skips_total",
    stability: Stability::Alpha,
    help: "Total number of DaemonSet syncs skipped due to a stale watch cache.",
    labels: ["group", "resource"],
};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("read the selector of DaemonSet {set}")]
    Selector {
        set: ObjectKey,
        #[source]
        source: selector::Error,
    },
    #[error(transparent)]
    Call(#[from] Failed),
}

struct DaemonSets {
    sets: Indexer<DaemonSet>,
    pods: Indexer<PodView>,
    nodes: Indexer<NodeView>,
    sets_api: Api<DaemonSet>,
    set_writes: Arc<OwnWrites<DaemonSet>>,
    pod_control: PodControl<ObjectKey>,
    history: History<DaemonSet>,
    /// By set, with its uid.
    backoffs: Mutex<BTreeMap<ObjectKey, (String, Backoff)>>,
    clock: SharedClock,
    stale: Family<Counter, 2>,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let sets: Indexer<DaemonSet> =
        controller.indexed_cache(&[(BY_SELECTOR, workload::index_by_selector)]);
    let reconciler = DaemonSets {
        sets: sets.clone(),
        pods: controller.indexed_cache(POD_INDEXES),
        nodes: controller.cache(),
        sets_api: startup.client.api(),
        set_writes: controller.own_writes(PATIENCE),
        pod_control: PodControl::new(startup, &mut controller, &startup.events(), Words::Plain),
        history: History::new(startup, &mut controller),
        backoffs: Mutex::default(),
        clock: startup.world.clock.clone(),
        stale: startup.metrics.counters(&STALE),
    };
    let (of_pods, of_nodes, of_revisions) = (sets.clone(), sets.clone(), sets);
    controller
        .watches(itself::<DaemonSet>)
        .follows(move |change, queue| follow_pod(change, &of_pods, queue))
        .follows(move |change, queue| follow_node(change, &of_nodes, queue))
        .follows(move |change, queue| history::follow(change, &of_revisions, queue))
        .workers(startup.settings::<Settings>().concurrent_daemonset_syncs)
        .run(reconciler);
}

impl Workload for DaemonSet {
    fn pod_selector(&self) -> Result<Labels, selector::Error> {
        Labels::from_selector(self.spec.as_ref().map(|it| &it.selector))
    }
}

impl Templated for DaemonSet {
    const HASH_LABEL: &'static str = nodes::HASH;

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref().map(|it| &it.template)
    }

    fn set_template(&mut self, template: PodTemplateSpec) {
        self.spec.get_or_insert_default().template = template;
    }

    fn collisions(&self) -> i32 {
        self.status.as_ref().and_then(|it| it.collision_count).unwrap_or(0)
    }
}

fn follow_pod(change: Change<'_, PodView>, sets: &Indexer<DaemonSet>, queue: &WorkQueue) {
    if let Change::Updated { before, after } = change
        && !workload::is_relevant(before, after)
        && before.node_name == after.node_name
    {
        return;
    }
    workload::wake_owners(change, sets, queue);
}

/// Whatever may run on a node or not: any set may have something to do there.
fn follow_node(change: Change<'_, NodeView>, sets: &Indexer<DaemonSet>, queue: &WorkQueue) {
    if let Change::Updated { before, after } = change
        && before.meta.labels == after.meta.labels
        && before.taints == after.taints
    {
        return;
    }
    sets.list().iter().for_each(|it| queue.add(it.key()));
}

impl Reconciler for DaemonSets {
    type Key = ObjectKey;
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Error> {
        if self.sets.get(key).is_none() {
            self.forget(key);
            return Ok(Next::Settled);
        }
        for (wait, group, resource) in self.waits(key) {
            if let Some(wait) = wait {
                self.stale.with([group, resource]).increment();
                return Ok(Next::After(wait));
            }
        }
        let Some(set) = self.sets.get(key) else { return Ok(Next::Settled) };
        let selector =
            set.pod_selector().map_err(|source| Error::Selector { set: key.clone(), source })?;
        if selector.is_everything() {
            let text = "This daemon set is selecting all pods. A non-empty selector is required.";
            let events = &self.pod_control.events;
            events.event(&*set, EventType::Warning, "SelectingAll", text.to_owned());
            return Ok(Next::Settled);
        }
        if owners::is_deleting(&set.metadata) {
            return Ok(Next::Settled);
        }
        let claims = self.claimed(key, &set, &selector);
        if !claims.adopt.is_empty() || !claims.release.is_empty() {
            return self.claim(key, &set, &claims).await;
        }
        let record = match self.history.observe(key, &set, &selector).await? {
            Seen::Complete(record) => record,
            Seen::Unfinished(next) => return Ok(next),
            Seen::Collision => {
                let mut status = set.status.clone().unwrap_or_default();
                status.collision_count = Some(set.collisions().saturating_add(1));
                self.write_status(key, &set, status).await?;
                return Ok(self.until_shown(key, None));
            }
        };
        self.go_on(key, &set, claims.owned, record).await
    }
}

impl DaemonSets {
    fn waits(&self, key: &ObjectKey) -> [(Option<Duration>, &'static str, &'static str); 3] {
        [
            (self.set_writes.wait(key), "apps", "daemonsets"),
            (self.pod_control.writes.wait(key), "", "pods"),
            (self.history.writes.wait(key), "apps", "controllerrevisions"),
        ]
    }

    fn backoffs(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (String, Backoff)>> {
        self.backoffs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, key: &ObjectKey) {
        self.set_writes.forget(key);
        self.pod_control.writes.forget(key);
        self.history.writes.forget(key);
        self.backoffs().remove(key);
    }

    /// An object may be gone before the cache saw it; then nobody else would wake the set.
    fn until_shown(&self, key: &ObjectKey, next: Option<Duration>) -> Next {
        let waits = self.waits(key).into_iter().filter_map(|(wait, _, _)| wait);
        waits.chain(next).min().map_or(Next::Settled, Next::After)
    }

    fn claimed(&self, key: &ObjectKey, set: &DaemonSet, selector: &Labels) -> Claims<PodView> {
        let uid = owners::uid(&set.metadata);
        let candidates = workload::candidates(&self.pods, uid, &key.namespace, selector);
        Claimant { uid, selector, is_deleting: false }.claim(&candidates)
    }

    async fn claim(
        &self,
        key: &ObjectKey,
        set: &DaemonSet,
        claims: &Claims<PodView>,
    ) -> Result<Next, Error> {
        let is_there =
            claims.adopt.is_empty() || owners::is_still_there(&self.sets_api, key, set).await?;
        if is_there {
            self.pod_control.claim(key, set, &claims.adopt, &claims.release).await?;
        }
        Ok(self.until_shown(key, None))
    }

    async fn go_on(
        &self,
        key: &ObjectKey,
        set: &Arc<DaemonSet>,
        pods: Vec<Arc<PodView>>,
        record: Record,
    ) -> Result<Next, Error> {
        let limit = set.spec.as_ref().and_then(|it| it.revision_history_limit).unwrap_or(10);
        let is_used = |revision: &ControllerRevision| {
            let hash = history::hash_of::<DaemonSet>(revision);
            pods.iter().any(|it| it.label(nodes::HASH) == Some(hash))
        };
        let surplus = history::surplus(&record, Limit::WithUsed(limit), is_used);
        let plan = plan::plan(&self.observe(key, set, pods, &record));
        let hash = history::hash_of::<DaemonSet>(&record.update);
        let applied = self.apply(key, set, hash, &plan).await;
        let uid = owners::uid(&set.metadata).to_owned();
        if plan.backoff.is_empty() {
            self.backoffs().remove(key);
        } else {
            self.backoffs().insert(key.clone(), (uid, plan.backoff));
        }
        let told = self.write_status(key, set, plan.status).await;
        let trimmed = self.history.delete(key, &surplus).await;
        applied?;
        told?;
        trimmed?;
        Ok(self.until_shown(key, plan.next))
    }

    fn observe(
        &self,
        key: &ObjectKey,
        set: &Arc<DaemonSet>,
        pods: Vec<Arc<PodView>>,
        record: &Record,
    ) -> Observed {
        let mut nodes = self.nodes.list();
        nodes.sort_by(|one, two| one.name().cmp(two.name()));
        let uid = owners::uid(&set.metadata);
        let backoff = self.backoffs().get(key).filter(|it| it.0 == uid).map(|it| it.1.clone());
        let hash = |it: &Arc<ControllerRevision>| history::hash_of::<DaemonSet>(it).to_owned();
        Observed {
            set: set.clone(),
            hashes: record.equal.iter().map(hash).collect(),
            nodes,
            pods,
            backoff: backoff.unwrap_or_default(),
            now: self.clock.now(),
        }
    }

    /// Both are tried, whatever comes of the first.
    async fn apply(
        &self,
        key: &ObjectKey,
        set: &DaemonSet,
        hash: &str,
        plan: &Plan,
    ) -> Result<(), Failed> {
        let create = |node: &String| self.pod_control.create(key, set, nodes::pod(set, node, hash));
        let created = pod_control::in_batches(&plan.create, create).await;
        let failed = created.failed.into_iter().find(|it| !is_namespace_ending(it));
        plan.delete.iter().for_each(|it| self.tell(set, it));
        let pods: Vec<Arc<PodView>> = plan.delete.iter().map(|it| it.pod.clone()).collect();
        self.pod_control.delete_all(key, set, &pods).await?;
        failed.map_or(Ok(()), |it| Err(Failed::to::<DaemonSet>("create a pod of", key)(it)))
    }

    fn tell(&self, set: &DaemonSet, removal: &Removal) {
        let (key, node) = (removal.pod.key(), &removal.node);
        let (kind, reason, message) = match removal.reason {
            Reason::Failed => (
                EventType::Warning,
                "FailedDaemonPod",
                format!("Found failed daemon pod {key} on node {node}, will try to kill it"),
            ),
            Reason::Succeeded => (
                EventType::Normal,
                "SucceededDaemonPod",
                format!("Found succeeded daemon pod {key} on node {node}, will try to delete it"),
            ),
            Reason::Other => return,
        };
        self.pod_control.events.event(set, kind, reason, message);
    }

    async fn write_status(
        &self,
        key: &ObjectKey,
        set: &DaemonSet,
        status: DaemonSetStatus,
    ) -> Result<(), Failed> {
        if set.status.as_ref() == Some(&status) {
            return Ok(());
        }
        // Pods took a while: written on what is known by now, or it would be refused.
        let latest = self.sets.get(key).filter(|it| it.metadata.uid == set.metadata.uid);
        let mut changed = latest.as_deref().unwrap_or(set).clone();
        changed.status = Some(status);
        let written = self.sets_api.update_status(changed).await.unless_gone();
        let written = written.map_err(Failed::to::<DaemonSet>("update the status of", key))?;
        if let Some(written) = written {
            self.set_writes.wrote(key, written.meta());
        }
        Ok(())
    }
}
