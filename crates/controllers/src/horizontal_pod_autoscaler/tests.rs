//! State in, numbers and words out.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::autoscaling::HorizontalPodAutoscaler;
use api::core::Pod;
use api::core::pod::PodView;
use api::object::meta_of;
use api::{Resource as _, Stored};
use apimachinery::{ApiError, GroupVersionResource, Scope};
use client::{Client, Discovered, Reply, Request, Transport, WatchStream};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::MetricSpec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::behavior::{Bounds, Decision, History};
use super::measure::{self, Proposal, Reading, Unmeasured};
use super::plan::{self, Observed, Step, Way};
use super::replicas::{Measured, Sample, Samples, Tolerances};
use super::sources::{self, Sources};
use super::status::Draft;
use super::target::Targets;

const MINUTE: u64 = 60;

/// `seconds` after the pods were started.
fn at(seconds: u64) -> Timestamp {
    Timestamp::from_second(1_000_000 + i64::try_from(seconds).unwrap()).unwrap()
}

/// `a 100m ready`, `b 100m unready`, `c - pending`, `d 100m failed`, `e 100m deleting`: name, what
/// it requests of each resource, and its state. All of them are ready or not since 30 s after their
/// start.
fn pod(text: &str) -> Arc<PodView> {
    let words: Vec<&str> = text.split(' ').collect();
    let [name, request, state] = words.as_slice() else { panic!("{text}") };
    let requests = match *request {
        "-" => json!({}),
        it => json!({"cpu": it, "memory": it}),
    };
    let (phase, ready) = match *state {
        "ready" | "deleting" => ("Running", "True"),
        "unready" => ("Running", "False"),
        "pending" => ("Pending", "False"),
        "failed" => ("Failed", "False"),
        other => panic!("{other}"),
    };
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
        "status": {
            "phase": phase,
            "startTime": at(0).to_string(),
            "conditions": [
                {"type": "Ready", "status": ready, "lastTransitionTime": at(30).to_string()},
            ],
        },
    });
    if *state == "deleting" {
        pod["metadata"]["deletionTimestamp"] = json!(at(60).to_string());
    }
    view(&pod)
}

fn view(pod: &Value) -> Arc<PodView> {
    let whole = Pod::decode(pod.to_string().as_bytes()).unwrap();
    let meta = meta_of(&whole.metadata, Vec::new());
    Stored::new(meta, pod.to_string().into()).view().unwrap()
}

/// `a=500`: millis of a pod, over the last 30 s.
fn samples(text: &str, now: Timestamp) -> Samples {
    let pairs = text.split(' ').filter(|it| !it.is_empty());
    let sample = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap();
        let window = Duration::from_secs(30);
        (name.to_owned(), Sample { value: value.parse().unwrap(), time: now, window })
    };
    pairs.map(sample).collect()
}

fn measured(pods: &[Arc<PodView>], current: i32, now: Timestamp) -> Measured<'_> {
    Measured {
        namespace: "default",
        pods,
        current,
        tolerances: Tolerances { down: 0.1, up: 0.1 },
        cpu_initialization: Duration::from_secs(5 * MINUTE),
        initial_readiness: Duration::from_secs(30),
        now,
    }
}

/// `replicas percent average`, or why not.
fn utilization(pods: &str, usage: &str, target: i32) -> String {
    utilization_at(at(10 * MINUTE), pods, usage, target)
}

fn utilization_at(now: Timestamp, pods: &str, usage: &str, target: i32) -> String {
    let pods: Vec<_> = pods.split(", ").filter(|it| !it.is_empty()).map(pod).collect();
    let current = i32::try_from(pods.len()).unwrap();
    let measured = measured(&pods, current, now);
    match measured.by_utilization(samples(usage, now), ("cpu", ""), target) {
        Ok(it) => format!("{} {}% {}m", it.replicas, it.percent, it.average),
        Err(err) => err,
    }
}

#[test]
fn as_many_replicas_as_share_the_usage() {
    let two = "a 1 ready, b 1 ready";
    assert_eq!(utilization(two, "a=1000 b=1000", 50), "4 100% 1000m");
    assert_eq!(utilization(two, "a=100 b=100", 50), "1 10% 100m");
    assert_eq!(utilization(two, "a=0 b=0", 50), "0 0% 0m");
    assert_eq!(utilization(two, "a=540 b=560", 50), "2 55% 550m", "tolerated");
    assert_eq!(utilization(two, "a=560 b=560", 50), "3 56% 560m");
    assert_eq!(utilization(two, "a=450 b=450", 50), "2 45% 450m", "tolerated");
    assert_eq!(utilization(two, "a=440 b=440", 50), "2 44% 440m", "rounded up");
}

#[test]
fn who_is_silent_does_the_least_harm() {
    let three = "a 1 ready, b 1 ready, c 1 ready";
    // It would be 6 of three; the silent one counts as idle, and two others as they are.
    assert_eq!(utilization(three, "a=1000 b=1000", 50), "4 100% 1000m");
    // It would be 1; the silent one counts as fully used.
    assert_eq!(utilization(three, "a=100 b=100", 50), "3 10% 100m");
    // Above 100 percent: as used as the target says.
    assert_eq!(utilization(three, "a=100 b=100", 200), "2 10% 100m");
    // What is assumed turns the direction: nothing is done.
    assert_eq!(utilization("a 1 ready, b 1 ready", "a=600", 50), "2 60% 600m");
    assert_eq!(utilization("a 1 ready, b 1 ready", "a=400", 50), "2 40% 400m");
}

#[test]
fn pods_that_do_not_serve_count_as_idle_when_more_are_wanted_and_not_otherwise() {
    assert_eq!(utilization("a 1 ready, b 1 pending", "a=1000", 50), "2 100% 1000m");
    assert_eq!(utilization("a 1 ready, b 1 pending", "a=2000", 50), "4 200% 2000m");
    assert_eq!(utilization("a 1 ready, b 1 pending", "a=100", 50), "1 10% 100m");
    assert_eq!(utilization("a 1 ready, b 1 failed", "a=1000 b=5000", 50), "2 100% 1000m");
    assert_eq!(utilization("a 1 ready, b 1 deleting", "a=1000 b=5000", 50), "2 100% 1000m");
    assert_eq!(
        utilization("a 1 pending, b 1 failed", "a=1 b=1", 50),
        "did not receive metrics for targeted pods (pods might be unready)"
    );
    assert_eq!(
        utilization("", "a=1", 50),
        "no pods returned by selector while calculating replica count"
    );
}

#[test]
fn the_cpu_of_starting_does_not_count() {
    let two = "a 1 ready, b 1 ready";
    let check = |seconds: u64, pods: &str, expected: &str| {
        assert_eq!(utilization_at(at(seconds), pods, "a=1000 b=1000", 50), expected, "{seconds}");
    };
    let silent = "did not receive metrics for targeted pods (pods might be unready)";
    // Ready since 30 s; a window of 30 s has to be over.
    check(59, two, silent);
    check(60, two, "4 100% 1000m");
    // Not ready within the first five minutes, and later only if it never was.
    check(299, "a 1 ready, b 1 unready", "2 100% 1000m");
    check(301, "a 1 ready, b 1 unready", "4 100% 1000m");
}

#[test]
fn what_is_not_requested_has_no_share() {
    assert_eq!(
        utilization("a 1 ready, b - ready", "a=1 b=1", 50),
        "missing request for cpu in container main of Pod b"
    );
    let pods = [pod("a 1 ready")];
    let by = |container: &str| {
        let measured = measured(&pods, 1, at(600));
        let usage = samples("a=1000", at(600));
        measured.by_utilization(usage, ("cpu", container), 50).map(|it| it.replicas)
    };
    assert_eq!(by("main"), Ok(2));
    assert_eq!(by("side"), Err("container side not found in Pod a".to_owned()));
    let whole = view(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "uid": "a", "resourceVersion": "1"},
        "spec": {"containers": [{"name": "main"}], "resources": {"requests": {"cpu": "2"}}},
        "status": {"phase": "Running", "startTime": at(0).to_string(), "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": at(1).to_string()}]},
    }));
    let pods = [whole];
    let measured = measured(&pods, 1, at(600));
    let found = measured.by_utilization(samples("a=1000", at(600)), ("cpu", ""), 50).unwrap();
    assert_eq!((found.replicas, found.percent), (1, 50), "of the pod as a whole");
    let found = measured.by_utilization(samples("a=1000", at(600)), ("memory", ""), 50);
    assert_eq!(found, Err("missing pod-level request for memory in Pod a".to_owned()));
}

#[test]
fn averages_values_and_shares() {
    let pods = [pod("a 1 ready"), pod("b 1 ready"), pod("c 1 ready")];
    let now = at(600);
    let measured = measured(&pods, 3, now);
    let average = |usage: &str, target| measured.by_average(samples(usage, now), "", target);
    assert_eq!(average("a=20 b=20 c=20", 10), Ok((6, 20)));
    assert_eq!(average("a=20 b=20", 10), Ok((4, 20)), "the third is idle");
    assert_eq!(average("a=1 b=1", 10), Ok((2, 1)), "the third takes the target");
    assert_eq!(measured.by_value(20, 10), Ok(6), "of three ready pods");
    assert_eq!(measured.by_value(11, 10), Ok(3), "tolerated");
    assert_eq!(Measured { current: 0, ..measured }.by_value(21, 10), Ok(3), "from nothing");
    assert_eq!(Measured { current: 0, ..measured }.by_value(0, 10), Ok(0));
    assert_eq!(measured.by_share(90, 10, 3), Ok((9, 30)));
    assert_eq!(measured.by_share(31, 10, 3), Ok((3, 11)), "tolerated");
    assert_eq!(measured.by_share(30, 10, 0), Ok((3, 30)));
    assert_eq!(measured.by_value(1, 0), Err("the target 0 is not greater than zero".to_owned()));
}

#[test]
fn absurd_numbers_saturate() {
    let pods = [pod("a 1 ready"), pod("b 9E ready")];
    let now = at(600);
    let measured = measured(&pods, 2, now);
    let huge = format!("a={} b={}", i64::MAX, i64::MAX);
    assert_eq!(measured.by_average(samples(&huge, now), "", 1), Ok((i32::MAX, i64::MAX)));
    let low = format!("a={} b={}", i64::MIN, i64::MIN);
    assert_eq!(measured.by_average(samples(&low, now), "", 1).map(|it| it.0), Ok(0));
    assert_eq!(measured.by_value(i64::MAX, 1), Ok(i32::MAX));
    assert_eq!(measured.by_share(i64::MAX, 1, i32::MAX).map(|it| it.0), Ok(i32::MAX));
    let all = measured.by_utilization(samples("a=9000000000000000000", now), ("cpu", ""), 1);
    assert_eq!(all.map(|it| it.percent), Ok(i32::MAX));
}

proptest! {
    #[test]
    fn no_numbers_break_the_computation(
        values in proptest::collection::vec(any::<i64>(), 1..4),
        target in any::<i64>(),
        percent in any::<i32>(),
        current in any::<i32>(),
        running in any::<i32>(),
    ) {
        let pods = [pod("a 1 ready"), pod("b 100m unready"), pod("c 7n ready")];
        let now = at(600);
        let measured = Measured { current, ..measured(&pods, 1, now) };
        let names = ["a", "b", "c"];
        let usage: Samples = names.iter().zip(&values).map(|(name, value)| {
            let window = Duration::from_secs(30);
            ((*name).to_owned(), Sample { value: *value, time: now, window })
        }).collect();
        for found in [
            measured.by_utilization(usage.clone(), ("cpu", ""), percent).map(|it| it.replicas),
            measured.by_average(usage, "cpu", target).map(|it| it.0),
            measured.by_value(values[0], target),
            measured.by_share(values[0], target, running.max(0)).map(|it| it.0),
        ].into_iter().flatten() {
            prop_assert!(found >= 0 || found == current);
        }
    }

    /// Whatever is recommended, it stays between the bounds once the current number does.
    #[test]
    fn decisions_stay_between_the_bounds(
        wanted in proptest::collection::vec((0..2_000_000_000_i32, 1..400_u64), 1..40),
        behavior in proptest::option::of((0..4000_i32, 1..4000_i32, 1..1800_i32, 0..3_usize)),
    ) {
        let behavior = behavior.map(|(window, value, period, select)| {
            let rules = json!({
                "stabilizationWindowSeconds": window,
                "selectPolicy": (["Max", "Min", "Disabled"][select]),
                "policies": [
                    {"type": "Pods", "value": value, "periodSeconds": period},
                    {"type": "Percent", "value": value, "periodSeconds": period},
                ],
            });
            serde_json::from_value(json!({"scaleUp": rules, "scaleDown": rules})).unwrap()
        });
        let (mut history, mut current, mut now) = (History::default(), 5, at(0));
        history.begin(current, now);
        for (wanted, seconds) in wanted {
            now = super::replicas::after(now, Duration::from_secs(seconds));
            let bounds = Bounds {
                current, min: 2, max: 50,
                behavior: behavior.as_ref(),
                down_window: Duration::from_secs(300),
            };
            let decided = history.decide(wanted, &bounds, now);
            prop_assert!((2..=50).contains(&decided.replicas), "{decided:?}");
            history.scaled(current, decided.replicas, behavior.as_ref(), now);
            current = decided.replicas;
        }
    }
}

/// One autoscaler over time: `at second: wanted -> replicas able limited`.
struct Life {
    history: History,
    current: i32,
    behavior: Option<Value>,
}

impl Life {
    fn new(current: i32, behavior: Option<Value>) -> Self {
        let mut history = History::default();
        history.begin(current, at(0));
        Self { history, current, behavior }
    }

    fn step(&mut self, seconds: u64, wanted: i32) -> String {
        let behavior = self.behavior.clone().map(|it| serde_json::from_value(it).unwrap());
        let bounds = Bounds {
            current: self.current,
            min: 1,
            max: 100,
            behavior: behavior.as_ref(),
            down_window: Duration::from_secs(300),
        };
        let Decision { replicas, able, limited, is_limited } =
            self.history.decide(wanted, &bounds, at(seconds));
        if replicas != self.current {
            self.history.scaled(self.current, replicas, behavior.as_ref(), at(seconds));
        }
        self.current = replicas;
        let mark = if is_limited { "!" } else { "" };
        format!("{replicas} {} {}{mark}", able.reason, limited.reason)
    }
}

#[test]
fn without_a_behavior_more_comes_at_once_and_fewer_after_five_minutes() {
    let mut life = Life::new(3, None);
    assert_eq!(life.step(15, 20), "6 ReadyForNewScale ScaleUpLimit!");
    assert_eq!(life.step(30, 20), "12 ReadyForNewScale ScaleUpLimit!");
    assert_eq!(life.step(45, 20), "20 ReadyForNewScale DesiredWithinRange");
    assert_eq!(life.step(60, 500), "40 ReadyForNewScale ScaleUpLimit!");
    assert_eq!(life.step(75, 20), "80 ScaleDownStabilized ScaleUpLimit!");
    assert_eq!(life.step(90, 500), "100 ReadyForNewScale TooManyReplicas!");
    assert_eq!(life.step(105, 1), "100 ScaleDownStabilized TooManyReplicas!");
    assert_eq!(life.step(391, 0), "1 ScaleDownStabilized DesiredWithinRange");
    assert_eq!(life.step(900, 0), "1 ReadyForNewScale TooFewReplicas!");
}

#[test]
fn policies_say_how_much_may_change_in_a_period() {
    let rules = |select: &str| {
        json!({
            "stabilizationWindowSeconds": 0,
            "selectPolicy": select,
            "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 60},
                {"type": "Percent", "value": 50, "periodSeconds": 60},
            ],
        })
    };
    let behavior = |up: &str, down: &str| json!({"scaleUp": rules(up), "scaleDown": rules(down)});
    let mut life = Life::new(10, Some(behavior("Max", "Max")));
    assert_eq!(life.step(10, 90), "15 ReadyForNewScale ScaleUpLimit!");
    assert_eq!(life.step(20, 90), "15 ReadyForNewScale ScaleUpLimit!", "within the minute");
    assert_eq!(life.step(71, 90), "23 ReadyForNewScale ScaleUpLimit!");
    assert_eq!(life.step(140, 1), "11 ReadyForNewScale ScaleDownLimit!");
    assert_eq!(life.step(150, 1), "11 ReadyForNewScale ScaleDownLimit!");
    let mut life = Life::new(10, Some(behavior("Min", "Min")));
    assert_eq!(life.step(10, 90), "14 ReadyForNewScale ScaleUpLimit!");
    assert_eq!(life.step(80, 1), "10 ReadyForNewScale ScaleDownLimit!");
    let mut life = Life::new(10, Some(behavior("Disabled", "Disabled")));
    assert_eq!(life.step(10, 90), "10 ReadyForNewScale ScaleUpLimit!");
    assert_eq!(life.step(20, 1), "10 ReadyForNewScale ScaleDownLimit!");
}

#[test]
fn windows_hold_back_both_ways() {
    let rules = json!({
        "stabilizationWindowSeconds": 60,
        "selectPolicy": "Max",
        "policies": [{"type": "Percent", "value": 1000, "periodSeconds": 15}],
    });
    let mut life = Life::new(10, Some(json!({"scaleUp": rules, "scaleDown": rules})));
    assert_eq!(life.step(15, 30), "10 ScaleUpStabilized DesiredWithinRange");
    assert_eq!(life.step(45, 20), "10 ScaleUpStabilized DesiredWithinRange");
    assert_eq!(life.step(61, 25), "20 ScaleUpStabilized DesiredWithinRange");
    assert_eq!(life.step(80, 2), "20 ScaleDownStabilized DesiredWithinRange");
    assert_eq!(life.step(130, 2), "2 ReadyForNewScale DesiredWithinRange");
}

fn autoscaler(spec: &Value) -> HorizontalPodAutoscaler {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

#[test]
fn bounds_count_before_metrics_and_none_is_somebodys_wish() {
    let it = autoscaler(&json!({}));
    let above = "Current number of replicas above Spec.MaxReplicas";
    let below = "Current number of replicas below Spec.MinReplicas";
    assert_eq!(plan::way(&it, 11, false), Way::Straight { replicas: 10, reason: above });
    assert_eq!(plan::way(&it, 1, false), Way::Straight { replicas: 2, reason: below });
    assert_eq!(plan::way(&it, 2, false), Way::Measure);
    assert_eq!(plan::way(&it, 0, false), Way::Disabled);
    assert_eq!(plan::way(&it, 0, true), Way::Disabled, "it was not us");
    let outer = json!({"minReplicas": 0, "metrics": [{"type": "External", "external": {
        "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1"}}}]});
    let mut it = autoscaler(&outer);
    let condition = json!({"conditions": [
        {"type": "ScaledToZero", "status": "True"}], "desiredReplicas": 0});
    it.status = Some(serde_json::from_value(condition).unwrap());
    assert_eq!(plan::way(&it, 0, true), Way::Measure);
    assert_eq!(plan::way(&it, 0, false), Way::Disabled, "the gate is off");
}

fn proposal(replicas: i32, name: &str) -> Result<Proposal, Unmeasured> {
    Ok(Proposal { replicas, name: name.to_owned(), status: Default::default() })
}

fn unmeasured() -> Result<Proposal, Unmeasured> {
    Err(Unmeasured {
        reason: "FailedGetPodsMetric",
        cause: "no".to_owned(),
        error: "failed: no".to_owned(),
        is_spec: false,
    })
}

/// `step | conditions` of what comes of these proposals.
fn planned(current: i32, proposals: Vec<Result<Proposal, Unmeasured>>) -> String {
    let autoscaler = autoscaler(&json!({}));
    let now = at(600);
    let observed = Observed {
        autoscaler: &autoscaler,
        current,
        down_window: Duration::ZERO,
        to_zero: false,
        now,
    };
    let combined = plan::combine(proposals, current);
    let mut history = History::default();
    let draft = Draft::new(&autoscaler, now);
    let plan = plan::plan_measured(&observed, combined, &mut history, draft);
    let conditions = plan.draft.status.conditions.unwrap_or_default();
    let conditions: Vec<String> = conditions
        .iter()
        .map(|it| format!("{}={} {}", it.type_, it.status, it.reason.as_deref().unwrap()))
        .collect();
    let step = match plan.next {
        Step::Stop => "stop".to_owned(),
        Step::Stay => "stay".to_owned(),
        Step::Scale { replicas, reason } => format!("{replicas}: {reason}"),
    };
    format!("{step} | {}", conditions.join(", "))
}

#[test]
fn the_largest_counts_and_what_is_unknown_keeps_replicas() {
    let fine = "AbleToScale=True ReadyForNewScale, ScalingLimited=False DesiredWithinRange";
    let active = "ScalingActive=True ValidMetricFound";
    assert_eq!(
        planned(4, vec![proposal(3, "a"), proposal(6, "b")]),
        format!("6: b above target | {active}, {fine}")
    );
    assert_eq!(
        planned(4, vec![proposal(3, "a")]),
        format!("3: All metrics below target | {active}, {fine}")
    );
    assert_eq!(planned(4, vec![proposal(4, "a")]), format!("stay | {active}, {fine}"));
    assert_eq!(
        planned(4, vec![unmeasured(), proposal(6, "b")]),
        format!("6: b above target | {active}, {fine}")
    );
    let unknown = "stop | ScalingActive=False FailedGetPodsMetric";
    assert_eq!(planned(4, vec![unmeasured(), proposal(3, "a")]), unknown);
    assert_eq!(planned(4, vec![unmeasured()]), unknown);
    let combined = plan::combine(vec![unmeasured(), proposal(3, "a")], 4);
    assert_eq!(
        combined.error.as_deref(),
        Some("invalid metrics (1 invalid out of 2), first error is: failed: no")
    );
    assert_eq!(combined.statuses.len(), 2, "by their place");
}

/// What is proposed for a metric: `replicas name status`, or `reason: cause / error`.
fn proposed(spec: Value, reading: Result<Reading, &str>) -> String {
    let spec: MetricSpec = serde_json::from_value(spec).unwrap();
    let pods = [pod("a 1 ready"), pod("b 1 ready")];
    let measured = measured(&pods, 2, at(600));
    let reading = reading.map_err(str::to_owned);
    match measure::propose(&spec, reading, &measured, 2) {
        Ok(it) => {
            let status = serde_json::to_value(&it.status).unwrap();
            let current = status.as_object().unwrap().values().find_map(|it| it.get("current"));
            format!("{} {} {}", it.replicas, it.name, current.unwrap())
        }
        Err(it) => format!("{}: {} / {}", it.reason, it.cause, it.error),
    }
}

#[test]
fn metrics_say_what_they_are_and_why_they_are_unknown() {
    let usage = || Ok(Reading::OfPods(samples("a=1000 b=1000", at(600))));
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    assert_eq!(
        proposed(cpu.clone(), usage()),
        "4 cpu resource utilization (percentage of request) \
         {\"averageUtilization\":100,\"averageValue\":\"1\"}"
    );
    assert_eq!(
        proposed(cpu, Err("gone")),
        "FailedGetResourceMetric: failed to get cpu utilization: unable to get metrics for \
         resource cpu: gone / failed to get cpu resource metric value: failed to get cpu \
         utilization: unable to get metrics for resource cpu: gone"
    );
    let target = json!({"type": "AverageValue", "averageValue": "500m"});
    let memory = json!({"type": "ContainerResource", "containerResource": {
        "name": "memory", "container": "main", "target": target}});
    assert_eq!(proposed(memory, usage()), "4 memory resource {\"averageValue\":\"1\"}");
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": target}});
    assert_eq!(proposed(pods.clone(), usage()), "4 pods metric rps {\"averageValue\":\"1\"}");
    assert_eq!(
        proposed(pods, Err("gone")),
        "FailedGetPodsMetric: unable to get metric rps: gone / failed to get pods metric value: \
         unable to get metric rps: gone"
    );
    let object = |target: Value| {
        json!({"type": "Object", "object": {
            "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
            "metric": {"name": "rps"}, "target": target}})
    };
    let value = || Ok(Reading::Value(3000));
    let of_object = object(json!({"type": "Value", "value": "1"}));
    assert_eq!(proposed(of_object, value()), "6 Service metric rps {\"value\":\"3\"}");
    let external = json!({"type": "External", "external": {
        "metric": {"name": "queue", "selector": {"matchLabels": {"a": "b"}}},
        "target": {"type": "AverageValue", "averageValue": "500m"}}});
    assert_eq!(
        proposed(external, value()),
        "6 external metric queue(&LabelSelector{MatchLabels:map[string]string{a: b,},\
         MatchExpressions:[]LabelSelectorRequirement{},}) {\"averageValue\":\"1500m\"}"
    );
    assert_eq!(
        proposed(object(json!({"type": "Value", "value": "1"})), Err("gone")),
        "FailedGetObjectMetric: unable to get metric rps on Service default/web: gone / failed \
         to get object metric value: unable to get metric rps on Service default/web: gone"
    );
    assert_eq!(
        proposed(json!({"type": "Odd"}), Err("")),
        "InvalidMetricSourceType: unknown metric source type \"Odd\" / unknown metric source \
         type \"Odd\""
    );
}

#[test]
fn what_the_apis_answer_is_read() {
    let pod = |containers: Value| {
        json!({"metadata": {"name": "a"}, "timestamp": at(5).to_string(), "window": "30s",
            "containers": containers})
        .to_string()
    };
    let read = |text: &str, container: &str| {
        let samples = sources::pod_metrics([text.as_bytes()].into_iter(), "cpu", container);
        samples.get("a").map(|it| (it.value, it.window.as_secs()))
    };
    let both = pod(json!([
        {"name": "x", "usage": {"cpu": "1500u"}}, {"name": "y", "usage": {"cpu": "3"}}]));
    assert_eq!(read(&both, ""), Some((3002, 30)));
    assert_eq!(read(&both, "y"), Some((3000, 30)));
    assert_eq!(read(&both, "z"), None);
    assert_eq!(read(&pod(json!([{"name": "x", "usage": {"cpu": "1"}}, {"name": "y"}])), ""), None);
    assert_eq!(read(&pod(json!([])), ""), None);
    assert_eq!(read("{", ""), None);
    let values = json!({"items": [
        {"describedObject": {"name": "a"}, "value": "2", "window": 7},
        {"describedObject": {"name": "b"}, "value": "x", "windowSeconds": null}]});
    let values = sources::metric_values(values.to_string().as_bytes()).unwrap();
    let samples: Samples = values.into_iter().filter_map(sources::sample_of_object).collect();
    let short: Vec<_> =
        samples.iter().map(|(name, it)| (name.as_str(), it.value, it.window.as_secs())).collect();
    assert_eq!(short, [("a", 2000, 7), ("b", 0, 60)]);
    let group = |versions: &str| sources::served_version(versions.as_bytes());
    assert_eq!(group(r#"{"versions":[{"version":"v1beta1"}]}"#), Some("v1beta1"));
    assert_eq!(
        group(r#"{"versions":[{"version":"v1beta1"},{"version":"v1beta2"}]}"#),
        Some("v1beta2")
    );
    assert_eq!(group(r#"{"versions":[]}"#), None);
}

#[test]
fn whoever_left_nothing_says_so_and_may_bring_it_back() {
    let outer = json!({"minReplicas": 0, "metrics": [{"type": "External", "external": {
        "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1"}}}]});
    let said = |spec: &Value, current: i32, replicas: i32, to_zero: bool| {
        let mut autoscaler = autoscaler(spec);
        let observed = Observed {
            autoscaler: &autoscaler.clone(),
            current,
            down_window: Duration::ZERO,
            to_zero,
            now: at(0),
        };
        let mut draft = Draft::new(&autoscaler, at(0));
        draft.set("ScaledToZero", true, "Old", "of another time");
        plan::scaled(&observed, replicas, &mut draft);
        let conditions = draft.status.conditions.iter().flatten();
        let found = conditions.filter(|it| it.type_ == "ScaledToZero").map(|it| it.status.clone());
        let found = found.collect::<Vec<_>>().join(" ");
        autoscaler.status = Some(draft.status);
        (found, plan::way(&autoscaler, replicas, to_zero) == Way::Measure)
    };
    assert_eq!(said(&outer, 3, 0, true), ("True".to_owned(), true));
    assert_eq!(said(&outer, 0, 1, true), ("False".to_owned(), true));
    assert_eq!(said(&outer, 3, 0, false), (String::new(), false), "the gate is off");
    assert_eq!(said(&json!({}), 3, 2, true), ("False".to_owned(), true));
}

#[test]
fn a_condition_keeps_its_time_while_its_status_stays() {
    let mut autoscaler = autoscaler(&json!({}));
    let mut draft = Draft::new(&autoscaler, at(0));
    draft.set("ScalingActive", false, "A", "a");
    autoscaler.status = Some(draft.status);
    let mut draft = Draft::new(&autoscaler, at(100));
    draft.set("ScalingActive", false, "B", "b");
    let condition = draft.status.conditions.as_ref().unwrap()[0].clone();
    assert_eq!(condition.last_transition_time.unwrap().0, at(0));
    assert_eq!(condition.message.as_deref(), Some("b"));
    draft.set("ScalingActive", true, "C", "c");
    let condition = draft.status.conditions.as_ref().unwrap()[0].clone();
    assert_eq!(condition.last_transition_time.unwrap().0, at(100));
    let same = Draft::new(&autoscaler, at(200));
    assert!(!same.is_new(&autoscaler), "nothing is written when nothing is new");
}

/// A server that knows a few paths, and notes which it was asked for.
#[derive(Default)]
struct Paths {
    known: BTreeMap<&'static str, Value>,
    asked: Mutex<Vec<String>>,
}

impl Transport for Paths {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
        let name = format!("{:?} {}", request.verb, request.resource.resource);
        self.asked.lock().unwrap().push(name);
        Box::pin(std::future::ready(Err(ApiError::no_such_resource())))
    }

    fn watch(&self, _request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        Box::pin(std::future::ready(Err(ApiError::no_such_resource())))
    }

    fn get_path(&self, path: String) -> BoxFuture<'_, Result<bytes::Bytes, ApiError>> {
        let found = self.known.get(path.as_str()).map(|it| it.to_string().into());
        self.asked.lock().unwrap().push(path);
        Box::pin(std::future::ready(found.ok_or_else(ApiError::no_such_resource)))
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>> {
        let ingresses = Discovered {
            resource: GroupVersionResource::new("networking.k8s.io", "v1", "ingresses"),
            kind: "Ingress".to_owned(),
            scope: Scope::Namespaced,
            verbs: Vec::new(),
        };
        Box::pin(std::future::ready(Ok(vec![ingresses])))
    }
}

/// What was read, or why not, and the last path that was asked for.
async fn read(known: &[(&'static str, Value)], spec: Value) -> (String, String) {
    let paths = Arc::new(Paths { known: known.iter().cloned().collect(), asked: Mutex::default() });
    let client = Client::new(paths.clone(), "test");
    let spec: MetricSpec = serde_json::from_value(spec).unwrap();
    let wanted = measure::wanted(&spec).unwrap();
    let (targets, sources) = (Targets::new(client.clone()), Sources { client });
    let reading = match sources.read(&targets, "ns", "app=web,tier!=x", wanted).await {
        Ok(Reading::Value(value)) => value.to_string(),
        Ok(Reading::OfPods(samples)) => {
            let pairs = samples.iter().map(|(name, it)| format!("{name}={}", it.value));
            pairs.collect::<Vec<_>>().join(" ")
        }
        Err(err) => err,
    };
    let asked = paths.asked.lock().unwrap().last().cloned().unwrap_or_default();
    (reading, asked)
}

#[tokio::test]
async fn metrics_are_asked_for_where_upstreams_client_does() {
    let group = ("/apis/custom.metrics.k8s.io", json!({"versions": [{"version": "v1beta1"}]}));
    let target = json!({"type": "AverageValue", "averageValue": "1"});
    let metric = json!({"name": "rps", "selector": {"matchLabels": {"a": "b"}}});
    let pods = json!({"type": "Pods", "pods": {"metric": metric, "target": target}});
    let path = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/ns/pods/*/rps?\
                labelSelector=app%3Dweb%2Ctier%21%3Dx&metricLabelSelector=a%3Db";
    let items = json!({"items": [{"describedObject": {"name": "p"}, "value": "2"}]});
    let known = [group.clone(), (path, items)];
    assert_eq!(read(&known, pods.clone()).await, ("p=2000".to_owned(), path.to_owned()));
    let absent = "unable to fetch metrics from custom metrics API: the server could not find the \
                  requested resource";
    assert_eq!(
        read(std::slice::from_ref(&group), pods).await,
        (absent.to_owned(), path.to_owned())
    );
    let object = |api_version: &str, kind: &str| {
        json!({"type": "Object", "object": {
            "describedObject": {"apiVersion": api_version, "kind": kind, "name": "web"},
            "metric": {"name": "rps"}, "target": target}})
    };
    let path = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/ns/\
                ingresses.networking.k8s.io/web/rps";
    let known = [group.clone(), (path, json!({"items": [{"value": "500m"}]}))];
    let asked = read(&known, object("networking.k8s.io/v1", "Ingress")).await;
    assert_eq!(asked, ("500".to_owned(), path.to_owned()));
    let path = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/ns/metrics/rps";
    let known = [group.clone(), (path, json!({"items": []}))];
    let (refused, asked) = read(&known, object("v1", "Namespace")).await;
    assert!(refused.ends_with("returned 0 results when we asked for exactly one"), "{refused}");
    assert_eq!(asked, path);
    let (refused, _) = read(&[group], object("v1", "Nothing")).await;
    assert!(refused.ends_with("no matches for kind \"Nothing\" in group \"\""), "{refused}");
    let external = json!({"type": "External", "external": {"metric": metric, "target": target}});
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/ns/rps?labelSelector=a%3Db";
    let known = [(path, json!({"items": [{"value": "1"}, {"value": "500m"}]}))];
    assert_eq!(read(&known, external).await, ("1500".to_owned(), path.to_owned()));
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    let absent = "unable to fetch metrics from resource metrics API: the server could not find \
                  the requested resource (get pods.metrics.k8s.io)";
    assert_eq!(read(&[], cpu).await.0, absent);
}
