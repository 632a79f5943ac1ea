//! Pods on simulated nodes: pending becomes running at once and, if its annotation says so, ended or
//! restarted; a deleted pod is gone when its containers have stopped.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::Identified as _;
use api::core::pod::{ContainerView, PodView, SIMULATION};
use apimachinery::{ApiError, ObjectKey};
use bytes::Bytes;
use client::{DeleteOptions, PatchKind, Preconditions};
use informer::Indexer;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use reconcile::{Next, Reconciler};
use serde_json::{Value, json};

use crate::addresses::Addresses;
use crate::fleet::{Member, Members};
use crate::script::{self, Ends, Runs, Script};

/// How long simulated containers take to stop after the signal.
const STOP: SignedDuration = SignedDuration::from_secs(1);
/// What a container ends with that was killed.
const KILLED: i32 = 137;

/// What a node does next for one of its pods.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    Nothing,
    /// Containers start.
    Run,
    /// Containers run, but the pod was marked as not ready while its node was silent.
    ShowReady,
    /// Containers run, but a readiness gate has closed.
    ShowGated,
    /// Containers that run on look otherwise: whether they are ready, and since when they run.
    Show {
        is_ready: bool,
        since: Timestamp,
    },
    /// Containers are still stopping.
    Wait(Duration),
    /// Containers ended and are started again.
    Restart,
    /// Containers ended with this code, and so did the pod.
    End(i32),
    /// Containers have stopped: the object goes.
    Remove,
}

/// Pure: the pod as the API shows it, and the time.
pub(crate) fn plan(pod: &PodView, now: Timestamp) -> Step {
    if let Some(deletion) = &pod.deletion {
        let grace = SignedDuration::from_secs(deletion.grace_seconds);
        // The deadline is the moment of the request plus its grace.
        let stopped = deletion.deadline - grace + STOP.min(grace);
        return match Duration::try_from(stopped.duration_since(now)) {
            Ok(left) if !left.is_zero() => Step::Wait(left),
            // Somebody wants to see how it ended.
            _ if !pod.is_terminal() && !pod.meta.finalizers.is_empty() => Step::End(KILLED),
            _ => Step::Remove,
        };
    }
    match pod.phase.as_str() {
        "" | "Pending" => Step::Run,
        "Running" if pod.is_gated && pod.is_ready => Step::ShowGated,
        "Running" if pod.is_gated => Step::Nothing,
        "Running" => match script(pod) {
            Some(Ok(Script::Runs(runs))) => run_on(pod, &runs, now),
            _ if !pod.is_ready => Step::ShowReady,
            Some(Ok(Script::Ends(ends))) => end(pod, ends, now),
            _ => Step::Nothing,
        },
        _ => Step::Nothing,
    }
}

fn script(pod: &PodView) -> Option<Result<Script, script::Error>> {
    let index = pod.job.as_ref().and_then(|it| it.completion_index);
    pod.simulation.as_ref().map(|it| Script::parse(it, pod.uid(), index))
}

/// Containers of each round run from when the pod was ready.
fn end(pod: &PodView, script: Ends, now: Timestamp) -> Step {
    let Some(since) = pod.ready_since else { return Step::Nothing };
    match until(since, script.after, now) {
        Some(left) => Step::Wait(left),
        None if pod.restarts < script.restarts => Step::Restart,
        None => Step::End(script.code),
    }
}

/// What should be seen follows from the pod's age alone, whatever was missed meanwhile.
fn run_on(pod: &PodView, script: &Runs, now: Timestamp) -> Step {
    let Some(started) = pod.started else { return Step::ShowReady };
    let seen = script.seen(pod.uid(), now.duration_since(started));
    if pod.restarts < seen.restarts {
        return Step::Restart;
    }
    if pod.is_ready != seen.is_ready {
        let since = started.saturating_add(seen.since).unwrap_or(started);
        return Step::Show { is_ready: seen.is_ready, since };
    }
    let left = seen.until.and_then(|it| until(started, it, now));
    left.map_or(Step::Nothing, Step::Wait)
}

/// What is left of so long after `since`, if anything is.
fn until(since: Timestamp, after: SignedDuration, now: Timestamp) -> Option<Duration> {
    let end = since.saturating_add(after).unwrap_or(Timestamp::MAX);
    Duration::try_from(end.duration_since(now)).ok().filter(|it| !it.is_zero())
}

fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// A strategic merge patch: the containers ran all the time.
fn ready(pod: &PodView, now: Timestamp) -> Value {
    json!({
        "metadata": { "uid": pod.uid() }, "status": { "conditions": [ready_condition(pod, now)] },
    })
}

/// Of a pod whose containers all run: it is ready unless a readiness gate is closed.
fn ready_condition(pod: &PodView, now: Timestamp) -> Value {
    let (status, reason) = match pod.is_gated {
        false => ("True", Value::Null),
        true => ("False", json!("ReadinessGatesNotReady")),
    };
    json!({
        "type": "Ready", "status": status, "reason": reason, "lastTransitionTime": seconds(now),
        "observedGeneration": pod.generation,
    })
}

/// A strategic merge patch: the containers run, and are ready or are not.
fn shown(pod: &PodView, is_ready: bool, since: Timestamp, now: Timestamp) -> Value {
    let time = seconds(now);
    let names = pod.spec.containers.iter().map(|it| it.name.as_str()).collect::<Vec<_>>();
    let message = format!("containers with unready status: [{}]", names.join(" "));
    let (status, reason, message) = match is_ready {
        true => ("True", Value::Null, Value::Null),
        false => ("False", json!("ContainersNotReady"), json!(message)),
    };
    let condition = |kind: &str| {
        json!({ "type": kind, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": time, "observedGeneration": pod.generation })
    };
    let state = json!({ "running": { "startedAt": seconds(since) } });
    json!({
        "metadata": { "uid": pod.uid() },
        "status": {
            "conditions": [condition("Ready"), condition("ContainersReady")],
            "containerStatuses":
                statuses(&pod.spec.containers, pod.restarts, |_| (state.clone(), is_ready)),
        },
    })
}

/// A strategic merge patch: the containers ended, and run again.
fn restarted(pod: &PodView, now: Timestamp) -> Value {
    let state = json!({ "running": { "startedAt": seconds(now) } });
    let mut patch = shown(pod, true, now, now);
    patch["status"]["containerStatuses"] =
        statuses(&pod.spec.containers, pod.restarts + 1, |_| (state.clone(), true));
    patch
}

/// A strategic merge patch: all containers ended with this code.
fn ended(pod: &PodView, code: i32, now: Timestamp) -> Value {
    let time = seconds(now);
    let (phase, why, reason) = match code {
        0 => ("Succeeded", "PodCompleted", "Completed"),
        _ => ("Failed", "PodFailed", "Error"),
    };
    let started = pod.ready_since.map_or_else(|| time.clone(), |it| it.to_string());
    let state = json!({ "terminated": {
        "exitCode": code, "reason": reason, "startedAt": started, "finishedAt": time,
    } });
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "False", "reason": why, "lastTransitionTime": time,
                "observedGeneration": pod.generation })
    };
    json!({
        "metadata": { "uid": pod.uid() },
        "status": {
            "phase": phase,
            "conditions": [condition("Ready"), condition("ContainersReady")],
            "containerStatuses":
                statuses(&pod.spec.containers, pod.restarts, |_| (state.clone(), false)),
        },
    })
}

/// The status of a pod whose containers all run, as a strategic merge patch.
pub(crate) fn running(pod: &PodView, address: Ipv4Addr, host: Ipv4Addr, now: Timestamp) -> Value {
    let time = seconds(now);
    let condition = |kind: &str| {
        json!({ "type": kind, "status": "True", "lastTransitionTime": time,
                "observedGeneration": pod.generation })
    };
    let address = if pod.spec.host_network { host } else { address };
    let runs = (json!({ "running": { "startedAt": time } }), true);
    let done = json!({ "terminated": { "exitCode": 0, "reason": "Completed", "startedAt": time, "finishedAt": time } });
    let mut status = json!({
        "phase": "Running",
        "hostIP": host.to_string(),
        "hostIPs": [{ "ip": host.to_string() }],
        "podIP": address.to_string(),
        "podIPs": [{ "ip": address.to_string() }],
        "startTime": time,
        "observedGeneration": pod.generation,
        "conditions": [
            condition("PodReadyToStartContainers"), condition("Initialized"),
            ready_condition(pod, now), condition("ContainersReady"),
        ],
        "containerStatuses": statuses(&pod.spec.containers, 0, |_| runs.clone()),
    });
    if !pod.spec.init_containers.is_empty() {
        let state =
            |it: &ContainerView| if it.is_sidecar { runs.clone() } else { (done.clone(), true) };
        status["initContainerStatuses"] = statuses(&pod.spec.init_containers, 0, state);
    }
    json!({ "metadata": { "uid": pod.uid() }, "status": status })
}

fn statuses(
    containers: &[ContainerView],
    restarts: i32,
    state: impl Fn(&ContainerView) -> (Value, bool),
) -> Value {
    containers.iter().map(|it| container_status(it, restarts, state(it))).collect()
}

fn container_status(
    container: &ContainerView,
    restarts: i32,
    (state, is_ready): (Value, bool),
) -> Value {
    let image = container.image.as_str();
    json!({
        "name": container.name.as_str(),
        "image": image,
        "imageID": format!("simulated://{image}"),
        "containerID": format!("simulated://{}", container.name.as_str()),
        "ready": is_ready,
        "started": state.get("running").is_some(),
        "restartCount": restarts,
        "state": state,
    })
}

/// Runs every pod of every living node. One reconciler for the whole fleet.
pub(crate) struct Pods {
    pub(crate) members: Arc<Members>,
    pub(crate) pods: Indexer<PodView>,
    pub(crate) addresses: Mutex<Addresses>,
}

impl Reconciler for Pods {
    type Key = ObjectKey;
    type Error = ApiError;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ApiError> {
        let pod = self.pods.get(key);
        self.stop_others(key, pod.as_deref());
        let Some(pod) = pod else {
            self.addresses().release(key);
            return Ok(Next::Settled);
        };
        let Some(member) = self.members.alive(&pod.node_name) else { return Ok(Next::Settled) };
        self.remember(key, &pod);
        let now = self.members.world.clock.now();
        match plan(&pod, now) {
            Step::Nothing => Ok(Next::Settled),
            Step::Wait(left) => Ok(Next::After(left)),
            Step::Run => {
                warn_of_script(key, &pod);
                let Some(address) = self.addresses().assign(key) else {
                    tracing::warn!(pod = %key, "no free pod address in the simulated range");
                    return Ok(Next::After(Duration::from_secs(10)));
                };
                self.members.containers().start(key, pod.uid(), &member.name);
                patch_status(&member, key, &running(&pod, address, member.address, now)).await
            }
            Step::Show { is_ready, since } => {
                patch_status(&member, key, &shown(&pod, is_ready, since, now)).await
            }
            Step::Restart => patch_status(&member, key, &restarted(&pod, now)).await,
            Step::End(code) => {
                self.members.containers().stop(key, pod.uid());
                patch_status(&member, key, &ended(&pod, code, now)).await
            }
            Step::ShowReady | Step::ShowGated => {
                patch_status(&member, key, &ready(&pod, now)).await
            }
            Step::Remove => {
                self.members.containers().stop(key, pod.uid());
                let options = DeleteOptions {
                    grace_period_seconds: Some(0),
                    preconditions: Preconditions {
                        uid: Some(pod.uid().to_owned()),
                        resource_version: None,
                    },
                    ..DeleteOptions::default()
                };
                settle(member.client.api::<Pod>().delete(&key.namespace, &key.name, options).await)
            }
        }
    }
}

fn warn_of_script(key: &ObjectKey, pod: &PodView) {
    let script = script(pod);
    if let Some(Err(error)) = script {
        tracing::warn!(pod = %key, annotation = SIMULATION, %error, "the pod runs on");
    }
}

async fn patch_status(member: &Member, key: &ObjectKey, body: &Value) -> Result<Next, ApiError> {
    let body = Bytes::from(body.to_string());
    let api = member.client.api::<Pod>();
    settle(
        api.patch_status(&key.namespace, &key.name, PatchKind::Strategic, body).await.map(|_| ()),
    )
}

/// A pod that vanished or was replaced meanwhile needs nothing more.
fn settle(outcome: Result<(), ApiError>) -> Result<Next, ApiError> {
    match outcome {
        Err(err) if !(err.is_not_found() || err.is_conflict()) => Err(err),
        _ => Ok(Next::Settled),
    }
}

impl Pods {
    fn addresses(&self) -> std::sync::MutexGuard<'_, Addresses> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Living nodes stop the containers of pods that were there before.
    fn stop_others(&self, key: &ObjectKey, pod: Option<&PodView>) {
        let is_other = |uid: &str, node: &str| {
            pod.is_none_or(|it| it.uid() != uid) && self.members.alive(node).is_some()
        };
        self.members.containers().stop_if(key, is_other);
    }

    fn remember(&self, key: &ObjectKey, pod: &PodView) {
        if let Some(address) = pod.addresses.first().and_then(|it| it.parse().ok()) {
            self.addresses().observe(key, address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    use super::{PodView, Step, plan};

    fn check(pod: Value, now: &str, expected: &Step) {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(&plan(&PodView::from(&pod), now.parse::<Timestamp>().unwrap()), expected);
    }

    #[test]
    fn a_pending_pod_runs_and_a_running_one_is_left_alone() {
        check(json!({ "status": { "phase": "Pending" } }), "2026-01-01T00:00:00Z", &Step::Run);
        let running = |ready: &str| json!({ "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] } });
        check(running("True"), "2026-01-01T00:00:00Z", &Step::Nothing);
        // The node was held for dead meanwhile.
        check(running("False"), "2026-01-01T00:00:00Z", &Step::ShowReady);
        check(json!({ "status": { "phase": "Failed" } }), "2026-01-01T00:00:00Z", &Step::Nothing);
    }

    #[test]
    fn a_running_pod_is_ready_while_its_readiness_gates_are_open() {
        let pod = |gate: &str, ready: &str| {
            json!({
                "spec": { "containers": [], "readinessGates": [{ "conditionType": "a/b" }] },
                "status": { "phase": "Running", "conditions": [
                    { "type": "a/b", "status": gate }, { "type": "Ready", "status": ready },
                ] },
            })
        };
        let now = "2026-01-01T00:00:00Z";
        check(pod("False", "False"), now, &Step::Nothing);
        check(pod("True", "False"), now, &Step::ShowReady);
        check(pod("True", "True"), now, &Step::Nothing);
        check(pod("False", "True"), now, &Step::ShowGated);
    }

    fn scripted(script: &str, restarts: i32) -> Value {
        let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let status = json!({ "name": "a", "image": "", "imageID": "", "ready": true, "restartCount": restarts });
        json!({ "metadata": { "annotations": { "simulator.xebec.local/containers": script } },
                "status": { "phase": "Running", "conditions": [ready], "containerStatuses": [status] } })
    }

    #[test]
    fn containers_end_and_restart_as_the_annotation_says() {
        let wait = Step::Wait(Duration::from_secs(2));
        check(scripted("after=5 exit=3", 0), "2026-01-01T00:00:03Z", &wait);
        check(scripted("after=5 exit=3", 0), "2026-01-01T00:00:05Z", &Step::End(3));
        check(scripted("after=5 restarts=2", 1), "2026-01-01T00:00:05Z", &Step::Restart);
        check(scripted("after=5 restarts=2", 2), "2026-01-01T00:00:05Z", &Step::End(0));
        check(scripted("nonsense", 0), "2026-01-01T00:00:05Z", &Step::Nothing);
    }

    #[test]
    fn containers_that_run_on_are_not_always_ready() {
        let pod = |script: &str, is_ready: bool, restarts: i32| {
            let mut pod = scripted(script, restarts);
            pod["status"]["startTime"] = json!("2026-01-01T00:00:00Z");
            pod["status"]["conditions"][0]["status"] =
                json!(if is_ready { "True" } else { "False" });
            pod
        };
        let show = |is_ready: bool, since: &str| Step::Show {
            is_ready,
            since: format!("2026-01-01T00:00:{since}Z").parse().unwrap(),
        };
        let at = |second: &str| format!("2026-01-01T00:{second}Z");
        check(pod("unready=5", true, 0), &at("00:03"), &Step::Wait(Duration::from_secs(2)));
        check(pod("unready=5", true, 0), &at("00:05"), &show(false, "00"));
        check(pod("unready=5", false, 0), &at("00:06"), &Step::Nothing);
        // Its node was held for dead.
        check(pod("unready=50", false, 0), &at("00:06"), &show(true, "00"));
        check(pod("crashes=100", true, 0), &at("00:12"), &Step::Restart);
        check(pod("crashes=100", true, 1), &at("00:12"), &Step::Wait(Duration::from_secs(8)));
        check(pod("crashes=100 flaps=100", true, 2), &at("00:21"), &show(false, "20"));
        check(pod("crashes=100 flaps=100", true, 12), &at("06:00"), &Step::Nothing);
    }

    #[test]
    fn a_deleted_pod_that_somebody_holds_shows_its_end_first() {
        let held = |phase: &str| {
            json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/hold"] },
                    "status": { "phase": phase } })
        };
        check(held("Running"), "2026-01-01T00:00:05Z", &Step::End(137));
        check(held("Failed"), "2026-01-01T00:00:05Z", &Step::Remove);
    }

    #[test]
    fn a_deleted_pod_goes_when_its_containers_have_stopped_and_never_after_its_grace() {
        let deleted = |grace: i64, deadline: &str| {
            json!({ "metadata": { "deletionTimestamp": deadline, "deletionGracePeriodSeconds": grace },
                    "status": { "phase": "Running" } })
        };
        check(
            deleted(30, "2026-01-01T00:00:30Z"),
            "2026-01-01T00:00:00Z",
            &Step::Wait(Duration::from_secs(1)),
        );
        check(deleted(30, "2026-01-01T00:00:30Z"), "2026-01-01T00:00:01Z", &Step::Remove);
        check(deleted(0, "2026-01-01T00:00:00Z"), "2026-01-01T00:00:00Z", &Step::Remove);
    }
}
