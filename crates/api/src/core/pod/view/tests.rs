//! A pod's JSON in, its view out.

use std::sync::Arc;

use serde_json::{Value, json};

use super::PodView;
use crate::core::pod::Pod;
use crate::object::meta_of;
use crate::{Identified as _, Resource as _, Stored};

fn stored(pod: &Value) -> Stored {
    let bytes = bytes::Bytes::from(pod.to_string());
    let whole = Pod::decode(&bytes).unwrap();
    Stored::new(meta_of(whole.metadata(), Vec::new()), bytes)
}

fn view(pod: &Value) -> Arc<PodView> {
    stored(pod).view().unwrap()
}

fn check(pod: &Value, expected: (Option<&str>, &str, bool, Option<&str>)) {
    let stored = stored(pod);
    let view = stored.view::<PodView>().unwrap();
    let created = view.created.map(|it| it.to_string());
    let found = (view.node(), view.phase.as_str(), view.is_terminal(), created.as_deref());
    assert_eq!(found, expected);
    assert_eq!(view.key().name, "a");
    // One of each for all who ask.
    assert!(Arc::ptr_eq(&view, &stored.view::<PodView>().unwrap()));
    let pod = stored.view::<Pod>().unwrap();
    assert!(Arc::ptr_eq(&pod, &stored.view::<Pod>().unwrap()));
    assert!(Arc::ptr_eq(&view, &stored.view::<PodView>().unwrap()));
}

#[test]
fn a_pod_says_where_it_runs_and_whether_it_ended() {
    check(&json!({"metadata": {"name": "a"}}), (None, "", false, None));
    check(
        &json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "c"}], "nodeName": "n1"},
            "status": {"phase": "Failed", "podIP": "10.0.0.1"},
        }),
        (Some("n1"), "Failed", true, Some("2026-01-01T00:00:00Z")),
    );
    check(
        &json!({"metadata": {"name": "a"}, "spec": {"containers": [], "nodeName": ""}, "status": {"phase": "Running"}}),
        (None, "Running", false, None),
    );
}

#[test]
fn a_pod_waits_for_every_readiness_gate() {
    let is_gated = |conditions: &Value| {
        let gates = json!([{"conditionType": "a/b"}, {"conditionType": "c/d"}]);
        let status = json!({ "conditions": conditions });
        view(&json!({ "metadata": {"name": "a"}, "spec": {"readinessGates": gates}, "status": status }))
            .is_gated
    };
    let said = |kind: &str, status: &str| json!({ "type": kind, "status": status });
    assert!(is_gated(&json!([])));
    assert!(is_gated(&json!([said("a/b", "True")])));
    assert!(is_gated(&json!([said("a/b", "True"), said("c/d", "False")])));
    assert!(!is_gated(&json!([said("a/b", "True"), said("c/d", "True")])));
    assert!(!view(&json!({ "metadata": {"name": "a"} })).is_gated);
}

#[test]
fn a_pod_says_how_it_is() {
    let pod = view(&json!({
        "metadata": {
            "name": "a", "generation": 2, "deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30,
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": "-5", "other": "x"},
        },
        "status": {
            "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "containerStatuses": [
                {"name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 1},
                {"name": "b", "image": "", "imageID": "", "ready": true, "restartCount": 3},
            ],
        },
    }));
    assert!(pod.is_ready && pod.is_deleting() && !pod.is_active());
    assert_eq!(pod.ready_since.unwrap().to_string(), "2026-01-01T00:00:00Z");
    let deletion = pod.deletion.as_ref().unwrap();
    assert_eq!(
        (deletion.deadline.to_string().as_str(), deletion.grace_seconds),
        ("2026-01-01T00:00:30Z", 30)
    );
    assert_eq!((pod.generation, pod.deletion_cost, pod.restarts), (Some(2), -5, 3));
    assert_eq!(&*pod.addresses, [Box::from("10.0.0.1"), Box::from("fd00::1")]);
    let old = view(&json!({"metadata": {"name": "a"}, "status": {"podIP": "10.0.0.1"}}));
    assert_eq!(&*old.addresses, [Box::from("10.0.0.1")]);
}

#[test]
fn a_pod_says_why_it_has_no_node() {
    let waiting = |status: &str| {
        let condition = json!({"type": "PodScheduled", "status": status, "reason": "Unschedulable", "message": "full"});
        view(&json!({"metadata": {"name": "a"}, "status": {"conditions": [condition]}}))
    };
    let why = waiting("False").unscheduled.clone().unwrap();
    assert_eq!((why.reason.as_str(), &*why.message, why.since), ("Unschedulable", "full", None));
    assert_eq!(waiting("True").unscheduled, None);
    assert!(!waiting("True").is_ready);
}

fn spec(name: &str, node: &str, image: &str) -> Arc<PodView> {
    view(&json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "containers": [{
                "name": "c", "image": image, "resources": {"requests": {"memory": "1Gi", "cpu": "1"}},
                "ports": [{"name": "web", "containerPort": 80, "hostPort": 8080, "hostIP": "::1", "protocol": "UDP"}],
            }],
            "initContainers": [{"name": "i", "restartPolicy": "Always"}, {"name": "j"}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
            "schedulingGates": [{"name": "g"}],
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
            "volumes": [
                {"name": format!("token-{name}"), "projected": {"sources": []}},
                {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
            ],
            "hostNetwork": true, "hostname": "h", "subdomain": "s", "priority": 7, "schedulerName": "x",
            "nodeSelector": {"zone": "z"}, "overhead": {"cpu": "1m"},
        },
    }))
}

#[test]
fn pods_that_ask_for_the_same_share_it_wherever_they_run() {
    let (one, two) = (spec("a", "n1", "i:1"), spec("b", "n2", "i:1"));
    assert!(Arc::ptr_eq(&one.spec, &two.spec) && one.node_name != two.node_name);
    assert!(!Arc::ptr_eq(&one.spec, &spec("c", "n1", "i:2").spec));
}

#[test]
fn what_a_pod_asks_for_is_kept() {
    let pod = spec("a", "n", "i:1");
    let spec = &*pod.spec;
    let container = &spec.containers[0];
    let requests: Vec<_> = container.requests.iter().collect();
    assert_eq!(requests, [("cpu", "1"), ("memory", "1Gi")]);
    let port = &container.ports[0];
    assert_eq!((port.name.as_str(), port.number, port.host_port), ("web", 80, 8080));
    assert_eq!((port.host_ip.as_str(), port.protocol.as_str()), ("::1", "UDP"));
    assert_eq!(container.image.as_str(), "i:1");
    let sidecars: Vec<bool> = spec.init_containers.iter().map(|it| it.is_sidecar).collect();
    assert_eq!(sidecars, [true, false]);
    assert!(spec.has_gates && spec.must_spread && spec.has_claims && !spec.has_ephemeral_claims);
    assert!(spec.host_network && spec.affinity.as_ref().unwrap().pod_affinity.is_some());
    assert_eq!((spec.hostname.as_str(), spec.subdomain.as_str()), ("h", "s"));
    assert_eq!((spec.priority, spec.scheduler_name.as_str()), (7, "x"));
    assert_eq!((spec.node_selector.get("zone"), spec.overhead.get("cpu")), (Some("z"), Some("1m")));
    assert_eq!(spec.tolerations[0].key.as_deref(), Some("k"));
}

#[test]
fn a_pod_says_which_claims_its_volumes_are() {
    let claims = |volumes: &Value| {
        let pod = view(&json!({"metadata": {"name": "a"}, "spec": {"volumes": volumes}}));
        let part = pod.volume_claims.as_deref()?;
        let texts = |it: &[Box<str>]| it.join(" ");
        assert_eq!(part.names().count(), part.named.len() + part.ephemeral.len());
        Some((texts(&part.named), texts(&part.ephemeral)))
    };
    let claim = |name: &str| json!({"name": "v", "persistentVolumeClaim": {"claimName": name}});
    let scratch = json!({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
    let map = json!({"name": "m", "configMap": {"name": "c"}});
    let both = Some(("c1 c2".to_owned(), "a-scratch".to_owned()));
    assert_eq!(claims(&json!([claim("c1"), map, scratch, claim("c2")])), both);
    assert_eq!(claims(&json!([map])), None);
    assert_eq!(claims(&json!(null)), None);
}

fn of_job(rest: &Value, status: &Value) -> Arc<PodView> {
    let mut metadata = json!({"name": "a", "finalizers": ["batch.kubernetes.io/job-tracking"]});
    metadata.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    let sidecar = json!([{"name": "side", "restartPolicy": "Always"}, {"name": "first"}]);
    let spec = json!({"containers": [{"name": "main"}], "initContainers": sidecar});
    view(&json!({"metadata": metadata, "spec": spec, "status": status}))
}

#[test]
fn a_pod_of_a_job_says_which_completion_it_is_for_and_how_it_ended() {
    let annotations = json!({"annotations": {
        "batch.kubernetes.io/job-completion-index": "7", "batch.kubernetes.io/job-index-failure-count": "2",
        "batch.kubernetes.io/job-index-ignored-failure-count": "x",
    }});
    let ended = |name: &str, code: i32, at: &str| {
        json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 1,
               "state": {"terminated": {"exitCode": code, "finishedAt": at}}})
    };
    let pod = of_job(
        &annotations,
        &json!({
            "phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            "containerStatuses": [ended("main", 3, "2026-01-01T00:00:05Z")],
            "initContainerStatuses": [ended("first", 0, "2026-01-01T00:00:01Z"), ended("side", 2, "2026-01-01T00:00:07Z")],
        }),
    );
    let job = pod.job.as_ref().unwrap();
    assert_eq!((job.completion_index, job.index_failures, job.restarts), (Some(7), 2, 3));
    assert_eq!(job.index_ignored_failures, 0);
    assert_eq!(job.ended.unwrap().to_string(), "2026-01-01T00:00:07Z");
    let exits: Vec<_> = job.exits.iter().map(|it| (it.container.as_str(), it.code)).collect();
    assert_eq!(exits, [("main", 3), ("side", 2)]);
    assert_eq!(job.conditions[0].0.as_str(), "DisruptionTarget");
    assert_eq!(view(&json!({"metadata": {"name": "a"}})).job, None);
}

#[test]
fn a_pod_of_a_job_whose_containers_say_nothing_ended_when_it_was_not_ready() {
    let not_ready =
        json!([{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let pod = of_job(&json!({}), &json!({"phase": "Running", "conditions": not_ready}));
    let job = pod.job.as_ref().unwrap();
    assert_eq!(job.ended.unwrap().to_string(), "2026-01-01T00:00:00Z");
    assert!(job.conditions.is_empty() && job.exits.is_empty());
}

#[test]
fn while_a_pod_is_resized_the_most_of_what_is_asked_agreed_and_in_force_counts() {
    let counted = |asked: &str, agreed: &str, actual: &str, reason: Option<&str>| {
        let conditions =
            reason.map(|it| json!([{"type": "PodResizePending", "status": "True", "reason": it}]));
        let pod = view(&json!({
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": asked}}}]},
            "status": {"conditions": conditions, "containerStatuses": [{
                "name": "c", "restartCount": 0, "image": "", "imageID": "", "ready": true,
                "allocatedResources": {"cpu": agreed}, "resources": {"requests": {"cpu": actual}},
            }]},
        }));
        let container = &pod.spec.containers[0];
        (container.counted().get("cpu").unwrap().to_owned(), container.held.is_empty())
    };
    let check = |asked, agreed, actual, reason, expected: &str, is_asked| {
        assert_eq!(counted(asked, agreed, actual, reason), (expected.to_owned(), is_asked));
    };
    check("1", "1", "1", None, "1", true);
    check("2", "1", "1", Some("Deferred"), "2", true);
    check("1", "1", "2", None, "2", false);
    check("1", "3", "2", None, "3", false);
    check("5", "1", "2", Some("Infeasible"), "2", false);
    check("5", "1", "2", Some("Deferred"), "5", true);
}
