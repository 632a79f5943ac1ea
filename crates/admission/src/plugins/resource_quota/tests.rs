//! Quotas and a write in, what is charged or the refusal out.

use std::path::Path;
use std::sync::Arc;

use api::core::{Pod, Secret, Service};
use api::{ApiObject, Resource as _};
use apimachinery::User;
use serde_json::{Value, json};
use stdx::SystemClock;

use super::ResourceQuotas;
use crate::attributes::Operation;
use crate::chain::{Phase, Plugin as _};
use crate::configuration::Configuration;
use crate::plugins::fixture::{Case, Nobody, Objects, decode, encode, now, pod};

fn quota(name: &str, spec: Value, status: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "spec": spec, "status": status,
        "metadata": {"name": name, "namespace": "ns", "labels": {"kept": "yes"}},
    })
}

fn bound(hard: Value, used: Value) -> Objects {
    Objects::default().with(
        "resourcequotas",
        &quota("q", json!({"hard": hard}), json!({"hard": hard, "used": used})),
    )
}

fn plugin() -> ResourceQuotas {
    ResourceQuotas::new(&Configuration::default(), Arc::new(SystemClock)).unwrap()
}

/// What is used of each quota afterwards, or the refusal.
fn judge(
    case: &Case<'_>,
    objects: &Objects,
    object: &dyn ApiObject,
    old: Option<&dyn ApiObject>,
) -> Result<Vec<Value>, String> {
    let plugin = plugin();
    case.with((objects, &Nobody), (Some(object), old), |context| {
        if !plugin.handles(Phase::Validate, &context.request) {
            return Ok(Vec::new());
        }
        let reserved = now(plugin.validate(context)).map_err(|err| err.to_string())?;
        let beside = reserved.map(|it| it.beside()).unwrap_or_default();
        Ok(beside.iter().map(|it| encode(it.object.as_ref())["status"]["used"].clone()).collect())
    })
}

fn create(objects: &Objects, resource: &str, object: &dyn ApiObject) -> Result<Vec<Value>, String> {
    let user = User::new("alice", &[]);
    judge(&Case::of(Operation::Create, resource, &user), objects, object, None)
}

fn sized(cpu: &str) -> Pod {
    decode(&pod(&json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})))
}

#[test]
fn a_write_is_charged_to_every_quota_that_counts_it() {
    let hard = json!({"pods": "2", "requests.cpu": "1", "secrets": "1"});
    let objects = bound(hard, json!({"pods": "1", "requests.cpu": "500m", "secrets": "0"}))
        .with(
            "resourcequotas",
            &quota(
                "r",
                json!({"hard": {"count/pods": "9"}}),
                json!({"hard": {"count/pods": "9"}, "used": {"count/pods": "3"}}),
            ),
        )
        .with("resourcequotas", &quota("s", json!({}), json!({})));
    let charged = create(&objects, "/pods", &sized("250m")).unwrap();
    let expected =
        [json!({"pods": "2", "requests.cpu": "750m", "secrets": "0"}), json!({"count/pods": "4"})];
    assert_eq!(charged, expected);
    let secret: Secret = decode(&json!({"metadata": {"name": "web", "namespace": "ns"}}));
    let charged = create(&objects, "/secrets", &secret).unwrap();
    assert_eq!(charged, [json!({"pods": "1", "requests.cpu": "500m", "secrets": "1"})]);
}

#[test]
fn refusals_are_in_upstreams_words() {
    let hard = json!({"pods": "2", "requests.cpu": "1"});
    let check = |objects: &Objects, pod: &Pod, expected: &str| {
        let refusal = create(objects, "/pods", pod).unwrap_err();
        assert_eq!(refusal, format!("pods \"web\" is forbidden: {expected}"));
    };
    let full = bound(hard.clone(), json!({"pods": "2", "requests.cpu": "750m"}));
    check(
        &full,
        &sized("500m"),
        "exceeded quota: q, requested: pods=1,requests.cpu=500m, used: pods=2,requests.cpu=750m, \
         limited: pods=2,requests.cpu=1",
    );
    let half = bound(hard.clone(), json!({"pods": "0", "requests.cpu": "750m"}));
    check(
        &half,
        &sized("500m"),
        "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=750m, \
         limited: requests.cpu=1",
    );
    let bare = decode(&pod(&json!({"containers": [{"name": "c"}]})));
    check(&half, &bare, "failed quota: q: must specify requests.cpu for: c");
    let unknown = bound(hard, json!({"pods": "0"}));
    check(&unknown, &sized("1"), "status unknown for quota: q, resources: pods,requests.cpu");
}

#[test]
fn a_quota_that_its_controller_has_not_seen_is_not_enforced() {
    let objects = Objects::default()
        .with("resourcequotas", &quota("q", json!({"hard": {"pods": "0"}}), json!({})));
    assert!(create(&objects, "/pods", &sized("1")).unwrap().is_empty());
}

#[test]
fn an_update_is_charged_the_difference() {
    let user = User::new("alice", &[]);
    let service = |type_: &str, n_ports: u16| -> Service {
        let ports: Vec<Value> = (1..=n_ports).map(|it| json!({"port": it})).collect();
        let metadata = json!({"name": "web", "namespace": "ns"});
        decode(&json!({"metadata": metadata, "spec": {"type": type_, "ports": ports}}))
    };
    let hard = json!({"services": "1", "services.nodeports": "2"});
    let objects = bound(hard.clone(), json!({"services": "1", "services.nodeports": "1"}));
    let case = Case::of(Operation::Update, "/services", &user);
    let change = |old: Service, new: Service| judge(&case, &objects, &new, Some(&old));
    assert_eq!(
        change(service("NodePort", 1), service("NodePort", 2)).unwrap(),
        [json!({"services": "1", "services.nodeports": "2"})]
    );
    assert!(change(service("NodePort", 2), service("ClusterIP", 2)).unwrap().is_empty());
    let refusal = change(service("ClusterIP", 2), service("NodePort", 2)).unwrap_err();
    let expected = "services \"web\" is forbidden: exceeded quota: q, \
        requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2";
    assert_eq!(refusal, expected);
}

#[test]
fn a_pod_is_charged_when_it_is_resized_or_changes_its_scope() {
    let user = User::new("alice", &[]);
    let hard = json!({"pods": "5", "requests.cpu": "2"});
    let objects = bound(hard, json!({"pods": "1", "requests.cpu": "1"}));
    let resize = Case::of(Operation::Update, "/pods/resize", &user);
    let charged = judge(&resize, &objects, &sized("1500m"), Some(&sized("1")));
    assert_eq!(charged.unwrap(), [json!({"pods": "1", "requests.cpu": "1500m"})]);
    assert!(judge(&resize, &objects, &sized("3"), Some(&sized("1"))).is_err());
    let update = Case::of(Operation::Update, "/pods", &user);
    assert!(judge(&update, &objects, &sized("3"), Some(&sized("1"))).unwrap().is_empty());
    let scoped = json!({"hard": {"pods": "5"}, "scopes": ["Terminating"]});
    let status = json!({"hard": {"pods": "5"}, "used": {"pods": "0"}});
    let objects = Objects::default().with("resourcequotas", &quota("q", scoped, status));
    let mut ending = sized("1");
    ending.spec.as_mut().unwrap().active_deadline_seconds = Some(5);
    let charged = judge(&update, &objects, &ending, Some(&sized("1")));
    assert_eq!(charged.unwrap(), [json!({"pods": "1"})]);
}

#[test]
fn all_else_of_the_quota_stays() {
    let objects = bound(json!({"pods": "2"}), json!({"pods": "1"}));
    let user = User::new("alice", &[]);
    let plugin = plugin();
    let case = Case::of(Operation::Create, "/pods", &user);
    case.with((&objects, &Nobody), (Some(&sized("1")), None), |context| {
        let reserved = now(plugin.validate(context)).unwrap().unwrap();
        let beside = reserved.beside();
        let mut expected = quota(
            "q",
            json!({"hard": {"pods": "2"}}),
            json!({"hard": {"pods": "2"}, "used": {"pods": "2"}}),
        );
        expected["metadata"]["resourceVersion"] = json!("0");
        assert_eq!(encode(beside[0].object.as_ref()), expected);
        assert_eq!(beside[0].resource.resource, api::core::ResourceQuota::FACTS.plural);
    });
}

#[test]
fn what_is_no_write_of_something_counted_is_not_looked_at() {
    let user = User::new("alice", &[]);
    let objects = bound(json!({"pods": "0"}), json!({"pods": "0"}));
    let check = |operation: Operation, resource: &str| {
        let case = Case::of(operation, resource, &user);
        assert!(judge(&case, &objects, &sized("1"), None).unwrap().is_empty(), "{resource}");
    };
    check(Operation::Delete, "/pods");
    check(Operation::Update, "/pods/status");
    check(Operation::Create, "/pods/binding");
    check(Operation::Create, "/events");
    check(Operation::Connect, "/pods/exec");
}

/// What is said of a write where only what quotas bound can be had.
fn limited(limits: &Value, objects: &Objects, resource: &str, object: &dyn ApiObject) -> String {
    let settings = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "ResourceQuotaConfiguration",
        "limitedResources": limits,
    });
    let list = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "ResourceQuota", "configuration": settings}],
    });
    let files = Configuration::load(Path::new("/a"), move |_| Ok(list.to_string())).unwrap();
    let plugin = ResourceQuotas::new(&files, Arc::new(SystemClock)).unwrap();
    let user = User::new("alice", &[]);
    let case = Case::of(Operation::Create, resource, &user);
    case.with((objects, &Nobody), (Some(object), None), |context| {
        let outcome = now(plugin.validate(context));
        outcome.err().map(|err| err.message().to_owned()).unwrap_or_default()
    })
}

#[test]
fn what_is_limited_needs_a_quota_that_bounds_it() {
    let limits = json!([{"resource": "pods", "matchContains": ["requests.cpu", "limits."]}]);
    let none = Objects::default();
    assert_eq!(
        limited(&limits, &none, "/pods", &sized("1")),
        "pods \"web\" is forbidden: insufficient quota to consume: requests.cpu"
    );
    let hard = json!({"requests.cpu": "2"});
    let bound_cpu = bound(hard, json!({"requests.cpu": "0"}));
    assert_eq!(limited(&limits, &bound_cpu, "/pods", &sized("1")), "");
    let bound_pods = bound(json!({"pods": "2"}), json!({"pods": "0"}));
    assert_ne!(limited(&limits, &bound_pods, "/pods", &sized("1")), "");
    // Others are not meant.
    let secret: Secret = decode(&json!({"metadata": {"name": "web", "namespace": "ns"}}));
    assert_eq!(limited(&limits, &none, "/secrets", &secret), "");
}

#[test]
fn a_limited_scope_needs_a_quota_of_that_scope() {
    let scope =
        |values: Value| json!({"scopeName": "PriorityClass", "operator": "In", "values": values});
    let limits = json!([{"resource": "pods", "matchScopes": [scope(json!(["high", "higher"]))]}]);
    let class = |name: &str| -> Pod {
        decode(&pod(&json!({"containers": [{"name": "c"}], "priorityClassName": name})))
    };
    let none = Objects::default();
    assert_eq!(limited(&limits, &none, "/pods", &class("low")), "");
    assert_eq!(
        limited(&limits, &none, "/pods", &class("high")),
        "pods \"web\" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [high higher]}]"
    );
    let of = |values: Value| {
        let spec =
            json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [scope(values)]}});
        let status = json!({"hard": {"pods": "1"}, "used": {"pods": "0"}});
        Objects::default().with("resourcequotas", &quota("q", spec, status))
    };
    assert_eq!(limited(&limits, &of(json!(["high"])), "/pods", &class("high")), "");
    assert_ne!(limited(&limits, &of(json!(["higher"])), "/pods", &class("high")), "");
}
