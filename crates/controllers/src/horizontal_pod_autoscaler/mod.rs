//! HorizontalPodAutoscalers: as many replicas as what is measured asks for.
//!
//! Each autoscaler sleeps until its next look, or until what it asks for changes; without any,
//! nothing wakes. A look reads scale and metrics, computes and decides purely, writes the scale if
//! it has to, and says in its status what it did and why.

mod behavior;
mod garbage;
mod measure;
mod memory;
mod metrics;
mod plan;
mod replicas;
mod sources;
mod status;
mod target;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::autoscaling::HorizontalPodAutoscaler;
use api::core::pod::PodView;
use apimachinery::ObjectKey;
use apimachinery::quantity::Amount;
use apimachinery::selector::Labels;
use client::Api;
use features::{HPA_CONFIGURABLE_TOLERANCE, HPA_SCALE_TO_ZERO};
use informer::Indexer;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HPAScalingRules;
use reconcile::{
    EventRecorder, EventType, Failed, Next, Outcome as _, OwnWrites, PATIENCE, Reconciler, itself,
};
use stdx::SharedClock;

pub(crate) use self::garbage::plan_any;
use self::measure::{Proposal, Unmeasured};
use self::memory::Memory;
use self::metrics::{Fault, Metrics};
use self::plan::{Observed, Plan, Step, Way};
use self::replicas::{Measured, Tolerances, after};
use self::sources::Sources;
use self::status::{ABLE_TO_SCALE, Draft, SCALING_ACTIVE};
use self::target::{NoScale, Target, Targets};
use crate::flags::{at_least_one, duration};
use crate::pods::BY_LABEL;
use crate::{Descriptor, Flags, Startup, labels, pods};

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "horizontal-pod-autoscaler-controller",
    aliases: &["horizontalpodautoscaling"],
    identity: "horizontal-pod-autoscaler",
    is_on_by_default: true,
    flags: Flags::of::<Settings>(),
    start,
};

#[derive(Clone, clap::Args)]
#[group(skip)]
struct Settings {
    /// HorizontalPodAutoscalers that are worked on at once
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    concurrent_horizontal_pod_autoscaler_syncs: usize,

    /// How often each of them is looked at
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    horizontal_pod_autoscaler_sync_period: Duration,

    /// How far back the highest recommendation is kept to before replicas are removed
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = duration)]
    horizontal_pod_autoscaler_downscale_stabilization: Duration,

    /// How far usage may be from its target, as a fraction of it, before anything is done
    #[arg(long, value_name = "FRACTION", default_value = "0.1", value_parser = fraction)]
    horizontal_pod_autoscaler_tolerance: f64,

    /// For how long after a pod's start its CPU may be that of starting
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = duration)]
    horizontal_pod_autoscaler_cpu_initialization_period: Duration,

    /// For how long after a pod's start a change of readiness is its first
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    horizontal_pod_autoscaler_initial_readiness_delay: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("must be a number from 0 to 1")]
struct NoFraction;

fn fraction(text: &str) -> Result<f64, NoFraction> {
    text.parse().ok().filter(|it| (0.0..=1.0).contains(it)).ok_or(NoFraction)
}

/// Nobody is looked at more often, whatever the flag says.
const PERIOD_MIN: Duration = Duration::from_secs(1);

struct Autoscalers {
    autoscalers: Indexer<HorizontalPodAutoscaler>,
    pods: Indexer<PodView>,
    api: Api<HorizontalPodAutoscaler>,
    writes: Arc<OwnWrites<HorizontalPodAutoscaler>>,
    targets: Targets,
    sources: Sources,
    memory: Memory,
    events: EventRecorder,
    clock: SharedClock,
    metrics: Metrics,
    settings: Settings,
    to_zero: bool,
    own_tolerances: bool,
}

fn start(startup: &Startup<'_>) {
    let mut controller = startup.controller();
    let settings = startup.settings::<Settings>().clone();
    let workers = settings.concurrent_horizontal_pod_autoscaler_syncs;
    let reconciler = Autoscalers {
        autoscalers: controller.cache(),
        pods: controller.indexed_cache(&[(BY_LABEL, pods::index_by_label)]),
        api: startup.client.api(),
        writes: controller.own_writes(PATIENCE),
        targets: Targets::new(startup.client.clone()),
        sources: Sources { client: startup.client.clone() },
        memory: Memory::default(),
        events: startup.events_of("horizontal-pod-autoscaler"),
        clock: startup.world.clock.clone(),
        metrics: Metrics::new(&startup.metrics),
        settings,
        to_zero: startup.availability.gates.is_enabled(HPA_SCALE_TO_ZERO),
        own_tolerances: startup.availability.gates.is_enabled(HPA_CONFIGURABLE_TOLERANCE),
    };
    controller.watches(itself::<HorizontalPodAutoscaler>).workers(workers).run(reconciler);
}

impl Reconciler for Autoscalers {
    type Key = ObjectKey;
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, Failed> {
        let Some(autoscaler) = self.autoscalers.get(key) else {
            self.memory.forget(key);
            self.writes.forget(key);
            self.metrics.counted(self.autoscalers.list().len());
            return Ok(Next::Settled);
        };
        let now = self.clock.now();
        let rest = self.writes.wait(key).or_else(|| self.memory.rest(key, &autoscaler, now));
        if let Some(rest) = rest {
            return Ok(Next::After(rest));
        }
        self.metrics.counted(self.autoscalers.list().len());
        let started = tokio::time::Instant::now();
        let look = self.look(key, &autoscaler, now).await;
        self.metrics.reconciled(look.change, look.fault, started.elapsed());
        let period = self.settings.horizontal_pod_autoscaler_sync_period.max(PERIOD_MIN);
        self.memory.looked(key, autoscaler.clone(), after(now, period));
        if let Some(draft) = look.draft {
            self.write(key, &autoscaler, draft).await?;
        }
        Ok(Next::After(period))
    }
}

/// What came of one look.
struct Look {
    /// By how many replicas the target was changed.
    change: i32,
    fault: Fault,
    /// Absent if there is nothing to say.
    draft: Option<Draft>,
}

/// The selector of a target's pods, and those pods.
struct Selected {
    text: String,
    pods: Vec<Arc<PodView>>,
}

impl Autoscalers {
    async fn look(
        &self,
        key: &ObjectKey,
        autoscaler: &HorizontalPodAutoscaler,
        now: Timestamp,
    ) -> Look {
        let mut draft = Draft::new(autoscaler, now);
        let reference = &autoscaler.spec.scale_target_ref;
        let target = match self.targets.get(&key.namespace, reference).await {
            Ok(target) => target,
            Err(NoScale { why, is_spec }) => {
                self.warn(autoscaler, "FailedGetScale", why.clone());
                let said = "the HPA controller was unable to get the target's current scale";
                let message = format!("{said}: {why}");
                draft.set(ABLE_TO_SCALE, false, "FailedGetScale", &message);
                let fault = if is_spec { Fault::Spec } else { Fault::Internal };
                return Look { change: 0, fault, draft: Some(draft) };
            }
        };
        let message = "the HPA controller was able to get the target's current scale";
        draft.set(ABLE_TO_SCALE, true, "SucceededGetScale", message);
        let current = target.wanted();
        let uid = autoscaler.metadata.uid.as_ref();
        self.memory.with_history(key, uid, |it| it.begin(current, now));
        let down_window = self.settings.horizontal_pod_autoscaler_downscale_stabilization;
        let observed = Observed { autoscaler, current, down_window, to_zero: self.to_zero, now };
        let (plan, fault) = match plan::way(autoscaler, current, self.to_zero) {
            Way::Measure => self.measure(key, &observed, &target, draft).await,
            Way::Straight { .. } | Way::Disabled => {
                (plan::plan_unmeasured(&observed, draft), Fault::None)
            }
        };
        self.apply(key, &observed, target, plan, fault).await
    }

    /// Reads every metric, and decides.
    async fn measure(
        &self,
        key: &ObjectKey,
        observed: &Observed<'_>,
        target: &Target,
        mut draft: Draft,
    ) -> (Plan, Fault) {
        let autoscaler = observed.autoscaler;
        let selected = match self.select(key, target.selector()) {
            Ok(selected) => selected,
            Err(refused) => {
                self.warn(autoscaler, refused.event, refused.error.clone());
                draft.set(SCALING_ACTIVE, false, refused.reason, &refused.message);
                self.warn(autoscaler, "FailedComputeMetricsReplicas", refused.error);
                return (Plan { draft, metrics: None, next: Step::Stop }, Fault::Internal);
            }
        };
        let measured = Measured {
            namespace: &key.namespace,
            pods: &selected.pods,
            current: observed.current,
            tolerances: self.tolerances(autoscaler),
            cpu_initialization: self.settings.horizontal_pod_autoscaler_cpu_initialization_period,
            initial_readiness: self.settings.horizontal_pod_autoscaler_initial_readiness_delay,
            now: observed.now,
        };
        let proposals = self.propose(autoscaler, &selected.text, &measured, target.running()).await;
        let combined = plan::combine(proposals, observed.current);
        for warning in &combined.warnings {
            self.warn(autoscaler, warning.reason, warning.message.clone());
        }
        if combined.wanted.is_none() {
            let error = combined.error.clone().unwrap_or_default();
            self.warn(autoscaler, "FailedComputeMetricsReplicas", error);
        }
        let fault = match combined.error {
            Some(_) if combined.is_spec_error => Fault::Spec,
            Some(_) => Fault::Internal,
            None => Fault::None,
        };
        let uid = autoscaler.metadata.uid.as_ref();
        let plan = self.memory.with_history(key, uid, |history| {
            plan::plan_measured(observed, combined, history, draft)
        });
        (plan, fault)
    }

    async fn propose(
        &self,
        autoscaler: &HorizontalPodAutoscaler,
        selector: &str,
        measured: &Measured<'_>,
        n_running: i32,
    ) -> Vec<Result<Proposal, Unmeasured>> {
        let mut proposals = Vec::new();
        let status = autoscaler.status.as_ref();
        let before = status.and_then(|it| it.current_replicas).unwrap_or(0);
        for spec in autoscaler.spec.metrics.iter().flatten() {
            let started = tokio::time::Instant::now();
            let reading = match measure::wanted(spec) {
                Some(wanted) => {
                    let (targets, namespace) = (&self.targets, measured.namespace);
                    self.sources.read(targets, namespace, selector, wanted).await
                }
                None => Err(String::new()),
            };
            let proposal = measure::propose(spec, reading, measured, n_running);
            let (change, fault) = match &proposal {
                Ok(it) => (it.replicas.saturating_sub(before), Fault::None),
                Err(it) if it.is_spec => (0, Fault::Spec),
                Err(_) => (0, Fault::Internal),
            };
            self.metrics.computed(change, fault, &spec.type_, started.elapsed());
            proposals.push(proposal);
        }
        proposals
    }

    /// The pods of a target, unless they are not its alone.
    fn select(&self, key: &ObjectKey, text: &str) -> Result<Selected, Refused> {
        if text.is_empty() {
            return Err(Refused {
                event: "SelectorRequired",
                reason: "InvalidSelector",
                message: "the HPA target's scale is missing a selector".to_owned(),
                error: "selector is required".to_owned(),
            });
        }
        let selector = Labels::parse(text).map_err(|err| {
            let said = "couldn't convert selector into a corresponding internal selector object";
            let error = format!("{said}: {err}");
            let message = error.clone();
            Refused { event: "InvalidSelector", reason: "InvalidSelector", message, error }
        })?;
        self.memory.selects(key, &selector);
        let mut pods = match labels::exact(&selector) {
            Some((name, value)) => {
                self.pods.by_index(BY_LABEL, &labels::index_value(&key.namespace, name, value))
            }
            None => self.pods.list_namespace(&key.namespace),
        };
        pods.retain(|it| selector.matches_with(|name| it.label(name)));
        let measuring = self.memory.measuring(&key.namespace, &pods);
        if measuring.len() > 1 {
            let all: Vec<String> = measuring.iter().map(ObjectKey::to_string).collect();
            let all = all.join(" ");
            let error = format!("pods by selector {text} are controlled by multiple HPAs: [{all}]");
            let message = error.clone();
            return Err(Refused {
                event: "AmbiguousSelector",
                reason: "AmbiguousSelector",
                message,
                error,
            });
        }
        Ok(Selected { text: text.to_owned(), pods })
    }

    fn tolerances(&self, autoscaler: &HorizontalPodAutoscaler) -> Tolerances {
        let default = self.settings.horizontal_pod_autoscaler_tolerance;
        let behavior = autoscaler.spec.behavior.as_ref().filter(|_| self.own_tolerances);
        let own = |rules: Option<&HPAScalingRules>| {
            let own = rules.and_then(|it| it.tolerance.as_ref());
            own.and_then(|it| Amount::parse(&it.0).ok()).map_or(default, Amount::as_f64)
        };
        Tolerances {
            down: own(behavior.and_then(|it| it.scale_down.as_ref())),
            up: own(behavior.and_then(|it| it.scale_up.as_ref())),
        }
    }

    async fn apply(
        &self,
        key: &ObjectKey,
        observed: &Observed<'_>,
        target: Target,
        plan: Plan,
        mut fault: Fault,
    ) -> Look {
        let Plan { mut draft, metrics, next } = plan;
        let (autoscaler, current) = (observed.autoscaler, observed.current);
        let mut change = 0;
        if let Step::Scale { replicas, reason } = &next {
            match self.targets.set(target, *replicas).await {
                Ok(()) => {
                    change = replicas.saturating_sub(current);
                    self.scaled(key, observed, *replicas, reason);
                    plan::scaled(observed, *replicas, &mut draft);
                }
                Err(err) => {
                    let message = format!("New size: {replicas}; reason: {reason}; error: {err}");
                    self.warn(autoscaler, "FailedRescale", message);
                    let said = "the HPA controller was unable to update the target scale";
                    let message = format!("{said}: {err}");
                    draft.set(ABLE_TO_SCALE, false, "FailedUpdateScale", &message);
                    fault = Fault::Internal;
                }
            }
        }
        let numbers = plan::numbers(current, &next, change != 0, metrics);
        if let Some(desired) = numbers.desired {
            self.metrics.desired(key, desired);
        }
        draft.count(numbers);
        Look { change, fault, draft: Some(draft) }
    }

    fn scaled(&self, key: &ObjectKey, observed: &Observed<'_>, replicas: i32, reason: &str) {
        let (autoscaler, from) = (observed.autoscaler, observed.current);
        let message = format!("New size: {replicas}; reason: {reason}");
        self.events.event(autoscaler, EventType::Normal, "SuccessfulRescale", message);
        let behavior = autoscaler.spec.behavior.as_ref();
        self.memory.with_history(key, autoscaler.metadata.uid.as_ref(), |history| {
            history.scaled(from, replicas, behavior, observed.now);
        });
    }

    fn warn(&self, autoscaler: &HorizontalPodAutoscaler, reason: &str, message: String) {
        self.events.event(autoscaler, EventType::Warning, reason, message);
    }

    async fn write(
        &self,
        key: &ObjectKey,
        autoscaler: &HorizontalPodAutoscaler,
        draft: Draft,
    ) -> Result<(), Failed> {
        if !draft.is_new(autoscaler) {
            return Ok(());
        }
        let mut changed = autoscaler.clone();
        changed.status = Some(draft.status);
        let written = match self.api.update_status(changed).await.unless_gone() {
            Ok(written) => written,
            Err(err) => {
                if !err.is_conflict() {
                    self.warn(autoscaler, "FailedUpdateStatus", err.to_string());
                }
                let failed = Failed::to::<HorizontalPodAutoscaler>("update the status of", key);
                return Err(failed(err));
            }
        };
        if let Some(written) = written {
            self.writes.wrote(key, written.meta());
        }
        Ok(())
    }
}

/// Why pods cannot be measured.
struct Refused {
    /// The reason of the event.
    event: &'static str,
    /// And that of the condition.
    reason: &'static str,
    message: String,
    error: String,
}
