//! Webhooks that fail closed for everything, and nobody who answers: the cluster starts all the same,
//! and whoever keeps a webhook's own pods away is told.

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

/// A store that has nothing but the configurations of two dead webhooks for everything.
async fn restored() -> Arc<kvstore::memory::Memory> {
    let before = Arc::new(kvstore::memory::Memory::new());
    let site = Site::start_over(before.clone()).await;
    let webhook = Webhook::start(&site.harness.tasks).await;
    let mut connection = site.connect(ADMIN).await;
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
    let after = Arc::new(kvstore::memory::Memory::new());
    for kind in ["mutating", "validating"] {
        let body = json!({"metadata": {"name": "everything"}, "webhooks": [hook]});
        let path = format!("{CONFIGURATIONS}/{kind}webhookconfigurations");
        let (code, answer) = connection.call("POST", &path, &body).await;
        assert_eq!(code, 201, "{answer}");
        let key = format!(
            "/registry/admissionregistration.k8s.io/{kind}webhookconfigurations/everything"
        );
        let short = format!("/registry/{kind}webhookconfigurations/everything");
        for key in [key, short] {
            let request = RangeRequest::latest(KeyRange::one(key.as_bytes()));
            for entry in before.range(request).await.expect("read").entries {
                let put = Op::put(key.clone(), entry.value.clone());
                after.txn(Txn::of(vec![put])).await.expect("written");
            }
        }
    }
    assert!(after.revision().0 > 1, "the configurations are there");
    after
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
    let site = Site::start_over(restored().await).await;
    let mut connection = site.connect(ADMIN).await;
    // They are there, and they hold.
    let map = json!({"metadata": {"name": "m"}});
    let (code, answer) = connection.call("POST", super::MAPS, &map).await;
    assert_eq!(code, 500, "{answer}");
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
    // Whoever is to mend it can: nobody is asked about configurations.
    for kind in ["mutating", "validating"] {
        let path = format!("{CONFIGURATIONS}/{kind}webhookconfigurations/everything");
        assert_eq!(connection.call("DELETE", &path, &Value::Null).await.0, 200);
    }
    assert_eq!(connection.call("POST", super::MAPS, &map).await.0, 201);
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
