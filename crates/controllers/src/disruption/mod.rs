//! Disruption budgets: how many of the pods of each may be evicted now.
//!
//! An eviction writes the pod's name into the budget before it deletes the pod; until the cache
//! shows the deletion the pod counts as gone, for two minutes at most. Every write carries the
//! resourceVersion of the budget that was planned for, so that an eviction that was allowed
//! meanwhile is never forgotten.

mod garbage;
mod plan;
mod scale;
mod stale;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::Identified;
use api::apps::deployment::Deployment;
use api::apps::replica_set::ReplicaSet;
use api::apps::stateful_set::StatefulSet;
use api::core::pod::PodView;
use api::core::replication_controller::ReplicationController;
use api::policy::PodDisruptionBudget;
use apimachinery::ObjectKey;
use apimachinery::selector::{self, Labels};
use client::Api;
use informer::Indexer;
use reconcile::{
    Change, EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler,
    WorkQueue, itself,
};
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::plan::{About, Observed};
use self::scale::Scales;
use crate::explanations::Explanations;
use crate::pods::BY_LABEL;
use crate::{Descriptor, Flags, Startup, labels, owners, pods};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "disruption-controller",
    aliases: &["disruption"],
    identity: "disruption-controller",
    is_on_by_default: true,
    flags: Flags::NONE,
    start,
};

struct Disruptions {
    budgets: Indexer<PodDisruptionBudget>,
    pods: Indexer<PodView>,
    scales: Scales,
    api: Api<PodDisruptionBudget>,
    writes: Arc<OwnWrites<PodDisruptionBudget>>,
    explanations: Explanations,
    events: EventRecorder,
    clock: SharedClock,
}

/// Why a budget allows nothing is told of when it has been so for this long: pods that start or
/// are replaced change it all the time.
const HOLD: Duration = Duration::from_secs(10);

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let budgets: Indexer<PodDisruptionBudget> = controller.cache();
    let pods: Indexer<PodView> = controller.indexed_cache(&[(BY_LABEL, pods::index_by_label)]);
    let events = startup.events_of("controllermanager");
    let reconciler = Disruptions {
        budgets: budgets.clone(),
        pods,
        scales: Scales {
            replication_controllers: controller.cache(),
            replica_sets: controller.cache(),
            deployments: controller.cache(),
            stateful_sets: controller.cache(),
            client: startup.client.clone(),
        },
        api: startup.client.api(),
        writes: controller.own_writes(PATIENCE),
        explanations: Explanations::new(HOLD),
        events: events.clone(),
        clock: startup.world.clock.clone(),
    };
    let woken = budgets.clone();
    controller
        .watches(itself::<PodDisruptionBudget>)
        .follows(move |change: Change<'_, PodView>, queue| wake(&woken, &events, change, queue))
        .follows(on_scale::<ReplicationController>(&budgets, |it| it.spec.as_ref()?.replicas))
        .follows(on_scale::<ReplicaSet>(&budgets, |it| it.spec.as_ref()?.replicas))
        .follows(on_scale::<Deployment>(&budgets, |it| it.spec.as_ref()?.replicas))
        .follows(on_scale::<StatefulSet>(&budgets, |it| it.spec.as_ref()?.replicas))
        .run(reconciler);
    stale::start(startup);
}

/// The budgets of a namespace, when an owner of pods there is new or wants another number of them.
fn on_scale<T: Identified>(
    budgets: &Indexer<PodDisruptionBudget>,
    replicas: fn(&T) -> Option<i32>,
) -> impl Fn(Change<'_, T>, &WorkQueue<ObjectKey>) + Send + Sync + 'static + use<T> {
    let budgets = budgets.clone();
    move |change: Change<'_, T>, queue: &WorkQueue<ObjectKey>| {
        if let Some(owner) = change.with_new(replicas) {
            budgets.list_namespace(owner.namespace()).iter().for_each(|it| queue.add(it.key()));
        }
    }
}

/// The budgets that a pod is or was of, when something about it that they count has changed.
fn wake(
    budgets: &Indexer<PodDisruptionBudget>,
    events: &EventRecorder,
    change: Change<'_, PodView>,
    queue: &WorkQueue<ObjectKey>,
) {
    if let Change::Updated { before, after } = change
        && plan::is_same(before, after)
    {
        return;
    }
    for pod in change.states() {
        let all = budgets.list_namespace(pod.namespace());
        let mut matching = all
            .iter()
            .filter(|it| selector_of(it).is_ok_and(|it| it.matches_with(|name| pod.label(name))));
        let first = matching.next();
        first.iter().for_each(|it| queue.add(it.key()));
        let mut is_several = false;
        for other in matching {
            is_several = true;
            queue.add(other.key());
        }
        let is_now = change.after().is_some_and(|it| Arc::ptr_eq(it, pod));
        if let Some(first) = first.filter(|_| is_several && is_now) {
            let (key, chosen) = (pod.key(), owners::name(&first.metadata));
            let message = format!(
                "Pod {:?}/{:?} matches multiple PodDisruptionBudgets.  Chose {chosen:?} arbitrarily.",
                key.namespace, key.name
            );
            events.event(&**pod, EventType::Warning, "MultiplePodDisruptionBudgets", message);
        }
    }
}

fn selector_of(budget: &PodDisruptionBudget) -> Result<Labels, selector::Error> {
    Labels::from_selector(budget.spec.as_ref().and_then(|it| it.selector.as_ref()))
}

impl Reconciler for Disruptions {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        if let Some(wait) = self.writes.wait(key) {
            return Ok(Next::After(wait));
        }
        let Some(budget) = self.budgets.get(key) else {
            self.explanations.forget(key);
            return Ok(Next::Settled);
        };
        let pods = selector_of(&budget).map(|it| self.select(&key.namespace, &it));
        let owners = match &pods {
            Ok(pods) if plan::needs_scale(&budget) => {
                self.scales.of_owners(&key.namespace, pods).await
            }
            _ => Ok(Vec::new()),
        };
        let plan = plan::plan(&Observed {
            budget: &budget,
            pods: pods.as_deref().map_err(|err| err.0.as_str()),
            owners: owners.as_deref().map_err(String::as_str),
            now: self.clock.now(),
        });
        let said = plan::explain(&plan);
        let held = self.explanations.tell(&self.events, &*budget, said, self.clock.now());
        for event in plan.events {
            match event.about {
                About::Budget => {
                    self.events.event(&*budget, event.kind, event.reason, event.message);
                }
                About::Pod(pod) => {
                    self.events.event(&*pod, event.kind, event.reason, event.message)
                }
            }
        }
        if let Some(wanted) = plan.write {
            let written = self.api.update_status(*wanted).await.unless_gone();
            let written = written.map_err(Failed::to::<PodDisruptionBudget>("update", key))?;
            if let Some(written) = written {
                self.writes.wrote(key, written.meta());
            }
        }
        let next = plan.look_again.into_iter().chain(held).min();
        Ok(next.map_or(Next::Settled, Next::After))
    }
}

impl Disruptions {
    fn select(&self, namespace: &str, selector: &Labels) -> Vec<Arc<PodView>> {
        if selector.is_nothing {
            return Vec::new();
        }
        let mut pods = match labels::exact(selector) {
            Some((key, value)) => {
                self.pods.by_index(BY_LABEL, &labels::index_value(namespace, key, value))
            }
            None => self.pods.list_namespace(namespace),
        };
        pods.retain(|it| selector.matches_with(|name| it.label(name)));
        pods
    }
}
