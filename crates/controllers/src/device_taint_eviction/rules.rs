//! What DeviceTaintRules say of what they do: how many pods they drive out, or would. Written at
//! most every ten seconds, since one pod after the other goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Identified as _;
use api::core::pod::PodView;
use api::resource::device_taint_rule::v1beta2::DeviceTaintRule;
use apimachinery::{GroupVersionResource, ObjectKey};
use client::{DynamicApi, PatchKind, WriteOptions};
use informer::Indexer;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use reconcile::{Change, Controller, Failed, Next, Outcome as _, Reconciler};
use serde_json::json;
use stdx::SharedClock;

use super::Caches;
use super::plan::{self, NO_EXECUTE, Used, Verdict};
use crate::{Startup, conditions, pods};

const PERIOD: Duration = Duration::from_secs(10);
const IN_PROGRESS: &str = "EvictionInProgress";

/// Pods that each rule has driven out, by its uid, since this controller started.
#[derive(Clone, Default)]
pub(super) struct Evicted(Arc<Mutex<BTreeMap<String, usize>>>);

impl Evicted {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A pod went, which used these.
    pub(super) fn count(&self, rules: &[Arc<DeviceTaintRule>], used: &[Used]) {
        let is_meant = |rule: &&Arc<DeviceTaintRule>| {
            let mut devices = used.iter().flat_map(|it| plan::allocated(&it.claim));
            plan::taint(rule).is_some() && devices.any(|it| plan::is_meant(rule, it))
        };
        for rule in rules.iter().filter(is_meant) {
            *self.counts().entry(rule.uid().to_owned()).or_default() += 1;
        }
    }
}

struct Statuses {
    caches: Caches,
    rules: Indexer<DeviceTaintRule>,
    evicted: Evicted,
    api: DynamicApi,
    manager: &'static str,
    clock: SharedClock,
}

pub(super) fn start(
    startup: &Startup<'_>,
    caches: &Caches,
    rules: &Indexer<DeviceTaintRule>,
    evicted: &Evicted,
) {
    let controller = Controller::new("device-taint-rules", &startup.tasks, &startup.factory);
    controller.queue().measure(&startup.metrics);
    let resource = GroupVersionResource::new("resource.k8s.io", "v1beta2", "devicetaintrules");
    let reconciler = Statuses {
        caches: caches.clone(),
        rules: rules.clone(),
        evicted: evicted.clone(),
        api: startup.client.dynamic(resource),
        manager: startup.descriptor.name,
        clock: startup.world.clock.clone(),
    };
    let (of_pods, forgotten) = (rules.clone(), evicted.clone());
    controller
        .follows(move |change: Change<'_, DeviceTaintRule>, queue| {
            if let Change::Deleted(rule) = change {
                forgotten.counts().remove(rule.uid());
            } else if let Some(rule) = change.with_new(|it| &it.spec) {
                queue.add(rule.key());
            }
        })
        .follows(move |change: Change<'_, PodView>, queue| {
            if change.latest().claims.is_some() {
                let evicting = of_pods.list().into_iter().filter(|it| plan::taint(it).is_some());
                evicting.for_each(|it| queue.add_after(it.key(), PERIOD));
            }
        })
        .run(reconciler);
}

/// What is true of a rule now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) published: usize,
    pub(super) allocated: usize,
    pub(super) pods: usize,
    pub(super) namespaces: usize,
    pub(super) evicted: usize,
}

pub(super) fn stored(rule: &DeviceTaintRule) -> Option<&Condition> {
    let all = rule.status.as_ref().and_then(|it| it.conditions.as_ref());
    all.into_iter().flatten().find(|it| it.type_ == IN_PROGRESS)
}

/// How long the last word on this rule stays; `None`: it may be followed by another.
pub(super) fn stays(rule: &DeviceTaintRule, now: Timestamp) -> Option<Duration> {
    let said = stored(rule).filter(|it| it.observed_generation == rule.metadata.generation)?;
    let left = pods::remaining(said.last_transition_time.0, PERIOD, now);
    (!left.is_zero()).then_some(left)
}

fn many(n: usize, one: &str, more: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {more}") }
}

/// In upstream's words; `None` if that is what it says already.
pub(super) fn condition(
    rule: &DeviceTaintRule,
    counts: &Counts,
    now: Timestamp,
) -> Option<Condition> {
    let namespaces = many(counts.namespaces, "namespace", "different namespaces");
    let (status, reason, mut message) = match rule.spec.taint.effect.as_str() {
        NO_EXECUTE if counts.pods > 0 => {
            let pods = many(counts.pods, "pod needs", "pods need");
            let message = format!("{pods} to be evicted in {namespaces}.");
            ("True", "PodsPendingEviction", message)
        }
        NO_EXECUTE if counts.evicted > 0 => ("False", "Completed", String::new()),
        NO_EXECUTE => ("False", "NotStarted", String::new()),
        "None" => {
            let published = many(counts.published, "published device", "published devices");
            let allocated = many(counts.allocated, "allocated device", "allocated devices");
            let pods = many(counts.pods, "pod", "pods");
            let message = format!(
                "{published} selected. {allocated} selected. {pods} would be evicted in \
                 {namespaces} if the effect was NoExecute. This information will not be updated \
                 again. Recreate the DeviceTaintRule to trigger an update."
            );
            ("False", "NoEffect", message)
        }
        _ => {
            let message = "Eviction only happens for the NoExecute effect.".to_owned();
            ("False", "OtherEffect", message)
        }
    };
    if counts.evicted > 0 {
        let separator = if message.is_empty() { "" } else { " " };
        let evicted = many(counts.evicted, "pod", "pods");
        message += &format!("{separator}{evicted} evicted since starting the controller.");
    }
    let said = Condition {
        type_: IN_PROGRESS.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: rule.metadata.generation,
        last_transition_time: conditions::time(now),
    };
    let is_same = stored(rule).is_some_and(|it| {
        let since = it.last_transition_time.clone();
        *it == Condition { last_transition_time: since, ..said.clone() }
    });
    (!is_same).then_some(said)
}

impl Reconciler for Statuses {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(rule) = self.rules.get(key) else { return Ok(Next::Settled) };
        let now = self.clock.now();
        if let Some(left) = stays(&rule, now) {
            return Ok(Next::After(left));
        }
        let Some(said) = condition(&rule, &self.counts(&rule, now), now) else {
            return Ok(Next::Settled);
        };
        let applied = json!({
            "apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule",
            "metadata": { "name": key.name, "uid": rule.metadata.uid },
            "status": { "conditions": [said] },
        });
        let options = WriteOptions {
            field_manager: Some(self.manager.to_owned()),
            force: true,
            ..WriteOptions::default()
        };
        let (place, body) = ((key.name.as_str(), "status"), applied.to_string().into());
        let written = self.api.patch_part("", place, PatchKind::Apply, body, options).await;
        let failed = Failed::to::<DeviceTaintRule>("apply the status of", key);
        written.unless_replaced().map_err(failed)?;
        Ok(Next::Settled)
    }
}

impl Statuses {
    /// What the rule does, or would do if it drove pods out.
    fn counts(&self, rule: &Arc<DeviceTaintRule>, now: Timestamp) -> Counts {
        let evicted = self.evicted.counts().get(rule.uid()).copied().unwrap_or_default();
        let effect = rule.spec.taint.effect.as_str();
        if !matches!(effect, NO_EXECUTE | "None") {
            return Counts { evicted, ..Counts::default() };
        }
        let mut driving = DeviceTaintRule::clone(rule);
        NO_EXECUTE.clone_into(&mut driving.spec.taint.effect);
        let driving = [Arc::new(driving)];
        let must_go = |pod: &&Arc<PodView>| {
            let used = || {
                let used = self.caches.used(pod).into_iter();
                // Without what their drivers say.
                used.map(|it| Used { slices: Vec::new(), ..it }).collect::<Vec<_>>()
            };
            !pod.is_deleting()
                && pod.claims.is_some()
                && plan::plan(pod, &used(), &driving, now) != Verdict::Stay
        };
        let pods = self.caches.pods.list();
        let pods: Vec<_> = pods.iter().filter(must_go).collect();
        let namespaces: BTreeSet<&str> = pods.iter().map(|it| it.namespace()).collect();
        let (pods, namespaces) = (pods.len(), namespaces.len());
        let (published, allocated) = match effect {
            "None" => self.devices(rule),
            _ => (0, 0),
        };
        Counts { published, allocated, pods, namespaces, evicted }
    }

    /// How many the rule selects of those that drivers publish, and of those that claims have.
    fn devices(&self, rule: &DeviceTaintRule) -> (usize, usize) {
        let slices = self.caches.slices.list();
        let published = plan::published(&slices);
        let published = published.filter(|it| plan::selects(rule, *it)).count();
        let claims = self.caches.claims.list();
        let allocated = claims.iter().flat_map(|it| plan::allocated(it));
        (published, allocated.filter(|it| plan::is_meant(rule, it)).count())
    }
}
