//! Objects in, what they count for out.

mod fields;

use apimachinery::GroupResource;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Classes, Counted, counts, plainly_counted, unspecified};
use crate::amounts::{self, Amounts};

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn pod(spec: Value, status: Value) -> k8s_openapi::api::core::v1::Pod {
    read(json!({"metadata": {"name": "web"}, "spec": spec, "status": status}))
}

fn sized(requests: Value, limits: Value) -> Value {
    json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
}

fn check(counted: Counted<'_>, expected: &str) {
    assert_eq!(amounts::shown(&counted.usage(now())), expected);
}

#[test]
fn a_pod_counts_by_requests_and_limits() {
    let container = sized(
        json!({"cpu": "100m", "memory": "1Gi", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"}),
        json!({"cpu": "1", "ephemeral-storage": "1G", "example.com/gpu": "2"}),
    );
    let spec = json!({"containers": [container], "overhead": {"cpu": "50m", "memory": "1Mi"}});
    let expected = "count/pods=1,cpu=150m,hugepages-2Mi=4Mi,limits.cpu=1050m,\
        limits.ephemeral-storage=1G,memory=1025Mi,pods=1,requests.cpu=150m,\
        requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi,requests.memory=1025Mi";
    check(Counted::Pod(&pod(spec, json!({}))), expected);
}

#[test]
fn a_pod_that_has_ended_is_only_there() {
    let spec = json!({"containers": [sized(json!({"cpu": "1"}), json!({}))]});
    for phase in ["Failed", "Succeeded"] {
        check(Counted::Pod(&pod(spec.clone(), json!({"phase": phase}))), "count/pods=1");
    }
    let mut stuck = pod(spec, json!({"phase": "Running"}));
    stuck.metadata = read(json!({
        "deletionTimestamp": "2025-12-31T23:59:00Z", "deletionGracePeriodSeconds": 60,
    }));
    check(Counted::Pod(&stuck), "count/pods=1,cpu=1,pods=1,requests.cpu=1");
    stuck.metadata.deletion_grace_period_seconds = Some(59);
    check(Counted::Pod(&stuck), "count/pods=1");
    stuck.metadata.deletion_grace_period_seconds = Some(i64::MAX);
    check(Counted::Pod(&stuck), "count/pods=1,cpu=1,pods=1,requests.cpu=1");
}

#[test]
fn init_containers_count_at_their_peak_and_pods_by_what_they_say_themselves() {
    let one = |name: &str, cpu: &str, policy: Value| json!({"name": name, "restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}});
    let mut spec = json!({
        "containers": [one("c", "1", Value::Null)],
        "initContainers": [one("s", "1", json!("Always")), one("i", "3", Value::Null)],
    });
    check(Counted::Pod(&pod(spec.clone(), json!({}))), "count/pods=1,cpu=4,pods=1,requests.cpu=4");
    spec["resources"] = json!({"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}});
    let expected = "count/pods=1,cpu=2,limits.memory=1Gi,pods=1,requests.cpu=2";
    check(Counted::Pod(&pod(spec, json!({}))), expected);
}

#[test]
fn what_is_being_resized_counts_by_the_most_of_it() {
    let spec = json!({"containers": [sized(json!({"cpu": "1"}), json!({"cpu": "2"}))]});
    let statuses = json!([{
        "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "allocatedResources": {"cpu": "3"},
        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}},
    }]);
    let status = json!({"containerStatuses": statuses});
    let expected = "count/pods=1,cpu=3,limits.cpu=4,pods=1,requests.cpu=3";
    check(Counted::Pod(&pod(spec, status.clone())), expected);
    // What can never be given does not count.
    let wish = json!({"containers": [sized(json!({"cpu": "9"}), json!({"cpu": "9"}))]});
    let mut refused = status;
    refused["conditions"] =
        json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    check(Counted::Pod(&pod(wish, refused)), expected);
}

#[test]
fn services_count_ports_of_nodes_and_load_balancers() {
    let service = |spec: Value| read(json!({"metadata": {}, "spec": spec}));
    let ports = json!([{"port": 1, "nodePort": 30001}, {"port": 2}]);
    let check_spec = |spec: Value, n_ports: u8, n_balancers: u8| {
        let expected = format!(
            "count/services=1,services=1,services.loadbalancers={n_balancers},\
             services.nodeports={n_ports}"
        );
        check(Counted::Service(&service(spec)), &expected);
    };
    check_spec(json!({"type": "ClusterIP", "ports": ports}), 0, 0);
    check_spec(json!({"type": "NodePort", "ports": ports}), 2, 0);
    check_spec(json!({"type": "LoadBalancer", "ports": ports}), 2, 1);
    let bare =
        json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false});
    check_spec(bare, 1, 1);
}

#[test]
fn claims_count_in_all_and_by_class() {
    let claim = |storage: &str, status: Value| {
        read(json!({
            "metadata": {},
            "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": storage}}},
            "status": status,
        }))
    };
    let expected = |storage: &str| {
        format!(
            "count/persistentvolumeclaims=1,\
             gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             gold.storageclass.storage.k8s.io/requests.storage={storage},\
             persistentvolumeclaims=1,requests.storage={storage}"
        )
    };
    check(Counted::VolumeClaim(&claim("1Gi", json!({}))), &expected("1Gi"));
    check(Counted::VolumeClaim(&claim("1500m", json!({}))), &expected("2"));
    let growing = json!({"allocatedResources": {"storage": "2Gi"}});
    check(Counted::VolumeClaim(&claim("1Gi", growing)), &expected("2Gi"));
}

#[test]
fn claims_to_devices_count_the_most_that_they_may_get() {
    let claim = read(json!({"metadata": {}, "spec": {"devices": {"requests": [
        {"name": "a", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}},
        {"name": "b", "firstAvailable": [
            {"name": "x", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1},
            {"name": "y", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 4},
            {"name": "z", "deviceClassName": "nic", "allocationMode": "All"},
        ]},
    ]}}}));
    let classes = Classes::from([("gpu".to_owned(), "example.com/gpu".to_owned())]);
    let usage = |of_pod: Option<&Amounts>| {
        let counted = Counted::DeviceClaim { claim: &claim, classes: &classes, of_pod };
        amounts::shown(&counted.usage(now()))
    };
    let devices = "count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=6,\
        nic.deviceclass.resource.k8s.io/devices=32,\
        requests.deviceclass.resource.kubernetes.io/gpu=6,\
        requests.deviceclass.resource.kubernetes.io/nic=32";
    assert_eq!(usage(None), format!("{devices},requests.example.com/gpu=6"));
    // What the pod counts for already is not counted again.
    let of_pod =
        Amounts::from([("requests.example.com/gpu".to_owned(), amounts::Written::count(6))]);
    assert_eq!(usage(Some(&of_pod)), devices);
}

#[test]
fn every_name_is_of_its_resource() {
    let classes = Classes::from([("gpu".to_owned(), "example.com/gpu".to_owned())]);
    let check = |name: &str, expected: &[&str]| {
        let all = ["pods", "services", "persistentvolumeclaims", "secrets", "configmaps"];
        let core = all.map(|it| GroupResource::new("", it));
        let others = [
            GroupResource::new("resource.k8s.io", "resourceclaims"),
            GroupResource::new("apps", "deployments"),
        ];
        let all = core.into_iter().chain(others);
        let found: Vec<String> =
            all.filter(|it| counts(it, name, &classes)).map(|it| it.resource).collect();
        assert_eq!(found, expected, "{name}");
    };
    for name in ["pods", "count/pods", "cpu", "limits.memory", "requests.ephemeral-storage"] {
        check(name, &["pods"]);
    }
    check("hugepages-2Mi", &["pods"]);
    check("requests.hugepages-2Mi", &["pods"]);
    check("requests.example.com/gpu", &["pods", "resourceclaims"]);
    check("requests.example.com/other", &["pods"]);
    check("services.nodeports", &["services"]);
    check("requests.storage", &["persistentvolumeclaims"]);
    check("gold.storageclass.storage.k8s.io/requests.storage", &["persistentvolumeclaims"]);
    check("gpu.deviceclass.resource.k8s.io/devices", &["resourceclaims"]);
    check("secrets", &["secrets"]);
    check("count/deployments.apps", &["deployments"]);
    check("deployments", &[]);
    let plain = |name| plainly_counted(name).map(|it| it.to_string());
    assert_eq!(plain("count/widgets.example.com").as_deref(), Some("widgets.example.com"));
    assert_eq!(plain("configmaps").as_deref(), Some("configmaps"));
    assert_eq!(plain("count/pods"), None);
    assert_eq!(plain("cpu"), None);
}

#[test]
fn scopes_take_in_the_pods_that_they_name() {
    let quota = |spec: Value| read(json!({"metadata": {}, "spec": spec}));
    let selector = |scope: &str, operator: &str, values: Value| {
        let it = json!({"scopeName": scope, "operator": operator, "values": values});
        json!({"scopeSelector": {"matchExpressions": [it]}})
    };
    let plain = json!({"containers": [{"name": "c"}]});
    let with = |field: &str, value: Value| {
        let mut spec = plain.clone();
        spec[field] = value;
        spec
    };
    let check = |scope: Value, spec: &Value, expected: bool| {
        let pod = pod(spec.clone(), json!({}));
        assert_eq!(
            Counted::Pod(&pod).is_in_scope(&quota(scope.clone())),
            expected,
            "{scope} {spec}"
        );
    };
    let ending = with("activeDeadlineSeconds", json!(5));
    let sized = json!({"containers": [sized(json!({"cpu": "1"}), json!({}))]});
    check(json!({}), &plain, true);
    check(json!({"scopes": ["Terminating"]}), &plain, false);
    check(json!({"scopes": ["Terminating"]}), &ending, true);
    check(json!({"scopes": ["NotTerminating"]}), &ending, false);
    check(json!({"scopes": ["BestEffort"]}), &plain, true);
    check(json!({"scopes": ["BestEffort", "Terminating"]}), &plain, false);
    check(json!({"scopes": ["NotBestEffort"]}), &sized, true);
    let high = with("priorityClassName", json!("high"));
    check(selector("PriorityClass", "In", json!(["high"])), &high, true);
    check(selector("PriorityClass", "In", json!(["low"])), &high, false);
    check(selector("PriorityClass", "NotIn", json!(["low"])), &high, true);
    check(selector("PriorityClass", "NotIn", json!(["low"])), &plain, true);
    check(selector("PriorityClass", "Exists", Value::Null), &plain, false);
    check(selector("PriorityClass", "DoesNotExist", Value::Null), &plain, true);
    let near = |term: Value| {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        with("affinity", json!({"podAntiAffinity": required}))
    };
    let scope = json!({"scopes": ["CrossNamespacePodAffinity"]});
    check(scope.clone(), &near(json!({"topologyKey": "h"})), false);
    check(scope.clone(), &near(json!({"topologyKey": "h", "namespaces": ["b"]})), true);
    check(scope, &near(json!({"topologyKey": "h", "namespaceSelector": {}})), true);
    check(selector("VolumeAttributesClass", "Exists", Value::Null), &plain, false);
}

#[test]
fn scopes_take_in_the_claims_of_a_class() {
    let claim = read(json!({
        "metadata": {}, "spec": {"volumeAttributesClassName": "new"},
        "status": {"currentVolumeAttributesClassName": "old"},
    }));
    let bare = read(json!({"metadata": {}, "spec": {}}));
    let check = |operator: &str, values: Value, expected: [bool; 2]| {
        let it =
            json!({"scopeName": "VolumeAttributesClass", "operator": operator, "values": values});
        let quota =
            read(json!({"metadata": {}, "spec": {"scopeSelector": {"matchExpressions": [it]}}}));
        let found = [&claim, &bare].map(|it| Counted::VolumeClaim(it).is_in_scope(&quota));
        assert_eq!(found, expected, "{operator}");
    };
    check("Exists", Value::Null, [true, false]);
    check("In", json!(["old"]), [true, false]);
    check("In", json!(["new"]), [true, false]);
    check("In", json!(["other"]), [false, false]);
    check("DoesNotExist", Value::Null, [false, true]);
}

#[test]
fn bounded_cpu_and_memory_must_be_said() {
    let check = |spec: Value, bounded: &[&str], expected: Option<&str>| {
        let pod = pod(spec, json!({}));
        assert_eq!(unspecified(&pod, bounded.iter().copied()).as_deref(), expected);
    };
    let spec = json!({
        "containers": [{"name": "b"}, {"name": "a"}, sized(json!({"cpu": "1"}), json!({}))],
    });
    check(spec.clone(), &["pods", "requests.ephemeral-storage"], None);
    let both = "must specify limits.cpu for: a,b,c; requests.cpu for: a,b";
    check(spec.clone(), &["pods", "requests.cpu", "limits.cpu"], Some(both));
    check(spec.clone(), &["cpu"], Some("must specify cpu for: a,b"));
    let mut whole = spec;
    whole["resources"] = json!({"limits": {"cpu": "1"}});
    check(whole, &["cpu", "limits.memory"], None);
}

proptest! {
    #[test]
    fn no_amount_is_too_absurd(texts in proptest::collection::vec("[-+0-9.eEinumkKMGTP]{0,12}", 4)) {
        let container = sized(json!({"cpu": texts[0], "memory": texts[1]}), json!({"cpu": texts[2]}));
        let containers = vec![container; 3];
        let spec = json!({"containers": containers, "overhead": {"cpu": texts[3]}});
        let usage = Counted::Pod(&pod(spec, json!({}))).usage(now());
        prop_assert!(usage.contains_key("pods"));
    }
}
