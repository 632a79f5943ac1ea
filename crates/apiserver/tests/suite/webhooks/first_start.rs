//! Webhooks and policies that fail closed for everything, and nobody who answers, or nothing that can be
//! evaluated: the cluster starts all the same, and whoever keeps a webhook's own pods away is told.

use std::sync::Arc;

use api::coordination::Lease;
use api::core::Node;
use apimachinery::User;
use kvstore::{KeyRange, Op, RangeRequest, Store as _, Txn};
use serde_json::{Value, json};

use super::failures::events_of;
use super::server::{Webhook, rule};
use super::{CONFIGURATIONS, PODS, Setting, with};
use crate::harness::wire::{ADMIN, Site};

const PREFIX: &str = "/registry/";

/// A store that has nothing but these, each given by its resource and its body; made on `site`, which
/// keeps `before`.
async fn restored(
    (site, before): (&Site, &kvstore::memory::Memory),
    configurations: &[(&str, Value)],
) -> Arc<kvstore::memory::Memory> {
    let mut connection = site.connect(ADMIN).await;
    let after = Arc::new(kvstore::memory::Memory::new());
    let mut n_copied = 0;
    for (resource, body) in configurations {
        let path = format!("{CONFIGURATIONS}/{resource}");
        let (code, answer) = connection.call("POST", &path, body).await;
        assert_eq!(code, 201, "{answer}");
        let name = body["metadata"]["name"].as_str().expect("a name");
        for group in ["admissionregistration.k8s.io/", ""] {
            let key = format!("{PREFIX}{group}{resource}/{name}");
            let request = RangeRequest::latest(KeyRange::one(key.as_bytes()));
            for entry in before.range(request).await.expect("read").entries {
                let put = Op::put(key.clone(), entry.value.clone());
                after.txn(Txn::of(vec![put])).await.expect("written");
                n_copied += 1;
            }
        }
    }
    assert_eq!(n_copied, configurations.len(), "they are there");
    after
}

/// Of both kinds, for everything; nobody answers for them.
fn dead_webhooks(webhook: &Webhook) -> Vec<(&'static str, Value)> {
    let hook = with(webhook.hook("broken"), "rules", json!([rule(&["*"], "*", "*", "*/*")]));
    let hook = with(hook, "timeoutSeconds", json!(1));
    let hook = with(
        hook,
        "clientConfig",
        json!({
            "service": {"namespace": "default", "name": "nobody"},
            "caBundle": webhook.client_config("")["caBundle"],
        }),
    );
    let body = json!({"metadata": {"name": "everything"}, "webhooks": [hook]});
    vec![("mutatingwebhookconfigurations", body.clone()), ("validatingwebhookconfigurations", body)]
}

/// For everything, and nothing of them can be evaluated: a validation, a mutation, the parameter of a
/// third, and the condition of a webhook.
fn broken_policies(webhook: &Webhook) -> Vec<(&'static str, Value)> {
    let everything = json!({"resourceRules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"],
    }]});
    let policy = |name: &str, field: &str, value: Value| {
        let mut spec = json!({"matchConstraints": everything, "failurePolicy": "Fail"});
        spec[field] = value;
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let validations = |it: &str| json!([{"expression": it}]);
    let mutation = json!({
        "patchType": "ApplyConfiguration",
        "applyConfiguration": {
            "expression": "Object{metadata: Object.metadata{labels: {'a': object.nothing}}}",
        },
    });
    let mut mutating = policy("mutating", "mutations", json!([mutation]));
    mutating["spec"]["reinvocationPolicy"] = json!("Never");
    let mut parametrized = policy("parametrized", "validations", validations("params.a == 'b'"));
    parametrized["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let param = json!({
        "name": "absent", "namespace": "default", "parameterNotFoundAction": "Deny",
    });
    let bound = |name: &str| json!({"policyName": name, "validationActions": ["Deny"]});
    let binding = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let to_param = with(bound("parametrized"), "paramRef", param);
    let hook = with(webhook.hook("allow"), "rules", json!([rule(&["*"], "*", "*", "*/*")]));
    let condition = json!([{"name": "c", "expression": "object.nothing == 1"}]);
    let hook = with(hook, "matchConditions", condition);
    let validating = policy("validating", "validations", validations("object.nothing == 1"));
    vec![
        ("validatingadmissionpolicies", validating),
        ("validatingadmissionpolicybindings", binding("validating", bound("validating"))),
        ("validatingadmissionpolicies", parametrized),
        ("validatingadmissionpolicybindings", binding("parametrized", to_param)),
        ("mutatingadmissionpolicies", mutating),
        ("mutatingadmissionpolicybindings", binding("mutating", json!({"policyName": "mutating"}))),
        (
            "validatingwebhookconfigurations",
            json!({"metadata": {"name": "conditional"}, "webhooks": [hook]}),
        ),
    ]
}

fn lease(name: &str, namespace: &str) -> Lease {
    serde_json::from_value(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": 40},
    }))
    .expect("a lease")
}

#[tokio::test]
async fn a_cluster_starts_though_nobody_answers_for_anything() {
    starts_in_spite_of(dead_webhooks, 500).await;
}

#[tokio::test]
async fn a_cluster_starts_though_no_policy_can_be_evaluated() {
    starts_in_spite_of(broken_policies, 403).await;
}

/// Everybody else is refused with `code`.
async fn starts_in_spite_of(
    configurations: impl Fn(&Webhook) -> Vec<(&'static str, Value)>,
    code: u16,
) {
    let before = Arc::new(kvstore::memory::Memory::new());
    let first = Site::start_over(before.clone()).await;
    let webhook = Webhook::start(&first.harness.tasks).await;
    let configurations = configurations(&webhook);
    let site = Site::start_over(restored((&first, &before), &configurations).await).await;
    let mut connection = site.connect(ADMIN).await;
    // They are there, and they hold.
    let map = json!({"metadata": {"name": "m"}});
    let (seen, answer) = connection.call("POST", super::MAPS, &map).await;
    assert_eq!(seen, code, "{answer}");
    for path in [
        "/api/v1/namespaces/kube-system",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
        "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/exempt",
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps",
        "/api/v1/namespaces/default/services/kubernetes",
        "/api/v1/namespaces/default/endpoints/kubernetes",
    ] {
        let (code, answer) = connection.call("GET", path, &Value::Null).await;
        assert_eq!(code, 200, "{path}: {answer}");
    }
    goes_on_living(&site).await;
    // Whoever is to mend it can: nobody is asked about configurations.
    for (resource, body) in &configurations {
        let name = body["metadata"]["name"].as_str().expect("a name");
        let path = format!("{CONFIGURATIONS}/{resource}/{name}");
        assert_eq!(connection.call("DELETE", &path, &Value::Null).await.0, 200);
    }
    assert_eq!(connection.call("POST", super::MAPS, &map).await.0, 201);
}

/// A node joins, says that it lives and is ready; somebody leads, and goes on leading.
async fn goes_on_living(site: &Site) {
    let server = &site.harness.server;
    let node = User::new("system:node:n1", &["system:nodes", "system:authenticated"]);
    let node = server.client(node, "kubelet");
    let wanted = json!({"metadata": {"name": "n1"}, "spec": {}});
    let wanted: Node = serde_json::from_value(wanted).expect("a node");
    node.api::<Node>().create(wanted).await.expect("a node joins");
    node.api::<Lease>().create(lease("n1", "kube-node-lease")).await.expect("it lives");
    let mut found = (*node.api::<Node>().get("", "n1").await.expect("found")).clone();
    let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    found.status = serde_json::from_value(ready).expect("a status");
    node.api::<Node>().update_status(found).await.expect("it is ready");
    let found = node.api::<Lease>().get("kube-node-lease", "n1").await.expect("found");
    node.api::<Lease>().update((*found).clone()).await.expect("it goes on");
    for name in ["kube-controller-manager", "kube-scheduler"] {
        let user = User::new(format!("system:{name}"), &["system:authenticated"]);
        let leases = server.client(user, name).api::<Lease>();
        leases.create(lease(name, "kube-system")).await.expect("somebody leads");
        let found = leases.get("kube-system", name).await.expect("found");
        leases.update((*found).clone()).await.expect("it goes on leading");
    }
}

/// Each step of its own pods: they are bound, get ready, and become endpoints.
#[tokio::test]
async fn who_stops_its_own_pods_on_their_way_is_told() {
    let mut on = Setting::start().await;
    let service = json!({
        "metadata": {"name": "hook"},
        "spec": {"selector": {"app": "hook"}, "ports": [{"port": 443}]},
    });
    on.create("/api/v1/namespaces/default/services", &service).await;
    let pod = |app: &str| {
        json!({
            "metadata": {"name": app, "labels": {"app": app}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        })
    };
    for app in ["hook", "web"] {
        on.create(PODS, &pod(app)).await;
    }
    let slice = |service: &str| {
        json!({
            "metadata": {"generateName": "s-", "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4", "endpoints": [], "ports": [],
        })
    };
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let binding =
        |it: &str| json!({"metadata": {"name": it}, "target": {"kind": "Node", "name": "n"}});
    let status = |_: &str| json!({"status": {"phase": "Running"}});
    let below = |it: &str, part: &str| format!("{PODS}/{it}/{part}");
    let cases = [
        ("bindings", rule(&["CREATE"], "", "v1", "pods/binding"), "from being bound to nodes"),
        ("states", rule(&["UPDATE"], "", "v1", "pods/status"), "from being said to be ready"),
        (
            "slices",
            rule(&["*"], "discovery.k8s.io", "v1", "endpointslices"),
            "keeps its own endpoints from being written",
        ),
    ];
    for (name, rule, expected) in cases {
        let hook = with(
            on.own_hook("allow", rule),
            "clientConfig",
            json!({
                "service": {"namespace": "default", "name": "hook"},
            }),
        );
        on.configure("validating", name, &[hook]).await;
        for app in ["web", "hook"] {
            let (method, path, body) = match name {
                "bindings" => ("POST", below(app, "binding"), binding(app)),
                "states" => ("PATCH", below(app, "status"), status(app)),
                _ => ("POST", slices.to_owned(), slice(app)),
            };
            let kind =
                if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            let (head, answer) =
                on.connection.send(method, &path, &[("content-type", kind)], &body).await;
            assert_eq!(head.status, 500, "{name}: {}", String::from_utf8_lossy(&answer));
            let warning = head.headers.get("warning").map(|it| it.to_str().expect("text"));
            assert_eq!(warning.is_some(), app == "hook", "{name} {app}: {warning:?}");
            assert!(warning.is_none_or(|it| it.contains(expected)), "{warning:?}");
        }
        let found = events_of(&mut on, name).await;
        assert_eq!((found.len(), &found[0]["reason"]), (1, &json!("WebhookBlocksItself")));
        let path = format!("{CONFIGURATIONS}/validatingwebhookconfigurations/{name}");
        assert_eq!(on.connection.call("DELETE", &path, &Value::Null).await.0, 200);
    }
}
