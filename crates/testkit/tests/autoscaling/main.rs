//! Autoscalers under paused time: usage of simulated pods is what their annotation says.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod adapters;

use std::time::Duration;

use client::{Client, ListOptions, PatchKind};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Event, Pod};
use serde_json::{Value, json};
use testkit::{Cluster, Options};

const USAGE: &str = "simulator.xebec.local/usage";

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

/// Of pods that each request one processor.
async fn create_deployment(admin: &Client, replicas: i32, usage: &str) {
    let deployment = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}, "annotations": {USAGE: usage}},
                "spec": {"containers": [{
                    "name": "main", "image": "xebec.local/toolbox",
                    "resources": {"requests": {"cpu": "100m"}},
                }]},
            },
        },
    });
    let deployment = serde_json::from_value(deployment).unwrap();
    admin.api::<Deployment>().create(deployment).await.unwrap();
}

async fn create_autoscaler(admin: &Client, target: Value) {
    let autoscaler = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 8,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    });
    let autoscaler = serde_json::from_value(autoscaler).unwrap();
    admin.api::<HorizontalPodAutoscaler>().create(autoscaler).await.unwrap();
}

fn web() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

async fn status(admin: &Client) -> Value {
    json!(admin.api::<HorizontalPodAutoscaler>().get("default", "web").await.unwrap().status)
}

/// `True SucceededGetScale`, and the message.
async fn condition(admin: &Client, kind: &str) -> (String, String) {
    let status = status(admin).await;
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|it| it["type"] == kind).cloned().unwrap_or_default();
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    (format!("{} {}", text("status"), text("reason")), text("message"))
}

async fn replicas(admin: &Client) -> i32 {
    let deployment = admin.api::<Deployment>().get("default", "web").await.unwrap();
    deployment.spec.as_ref().unwrap().replicas.unwrap()
}

async fn until_replicas(cluster: &Cluster, minutes: u64, wanted: i32) {
    let limit = Duration::from_secs(minutes * 60);
    let is_right = cluster.until(limit, async |admin| replicas(admin).await == wanted).await;
    let status = status(&cluster.admin).await;
    assert!(is_right, "not {wanted}, but {}: {status}", replicas(&cluster.admin).await);
}

/// Every pod uses this from now on, and so do those to come.
async fn use_cpu(admin: &Client, cpu: &str) {
    let annotations = json!({"metadata": {"annotations": {USAGE: format!("cpu={cpu}")}}});
    let template = json!({"spec": {"template": annotations}}).to_string();
    let api = admin.api::<Deployment>();
    api.patch("default", "web", PatchKind::Merge, template.into()).await.unwrap();
}

#[test]
fn a_deployment_grows_with_its_usage_and_shrinks_after_a_while() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 3 }).await.unwrap();
        create_deployment(&cluster.admin, 2, "cpu=100m memory=1Mi").await;
        create_autoscaler(&cluster.admin, web()).await;
        // Twice the target: first there are four, which take as much each, and so on.
        until_replicas(&cluster, 30, 8).await;
        assert_eq!(condition(&cluster.admin, "ScalingActive").await.0, "True ValidMetricFound");
        let limited = cluster.until(Duration::from_secs(600), async |admin| {
            condition(admin, "ScalingLimited").await.0 == "True TooManyReplicas"
        });
        assert!(limited.await, "{}", status(&cluster.admin).await);
        let events = cluster.admin.api::<Event>().list("default", ListOptions::default()).await;
        let events: Vec<Value> = events
            .unwrap()
            .items
            .iter()
            .map(|it| serde_json::from_slice(&it.bytes).unwrap())
            .collect();
        let rescaled = |it: &&Value| it["reason"] == "SuccessfulRescale";
        let message = events.iter().find(rescaled).unwrap()["message"].as_str().unwrap();
        assert_eq!(
            message,
            "New size: 4; reason: cpu resource utilization (percentage of request) above target"
        );
        let seen = status(&cluster.admin).await;
        assert_eq!(seen["currentMetrics"][0]["resource"]["current"]["averageUtilization"], 100);
        use_cpu(&cluster.admin, "10m").await;
        until_replicas(&cluster, 60, 2).await;
        assert_eq!(testkit::violations(&cluster.admin).await.unwrap(), [""; 0]);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn what_is_wrong_is_said_and_put_right_later() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 1 }).await.unwrap();
        let admin = &cluster.admin;
        create_autoscaler(admin, web()).await;
        let is_said = async |kind: &str, wanted: &str| {
            let is_right = async |admin: &Client| condition(admin, kind).await.0 == wanted;
            let is_right = cluster.until(Duration::from_secs(60), is_right).await;
            assert!(is_right, "not {wanted}: {}", status(&cluster.admin).await);
            condition(&cluster.admin, kind).await.1
        };
        let message = is_said("AbleToScale", "False FailedGetScale").await;
        assert_eq!(
            message,
            "the HPA controller was unable to get the target's current scale: \
             deployments.apps \"web\" not found"
        );
        // Nobody says what these pods use.
        create_deployment(admin, 2, "").await;
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {USAGE: null}}}}});
        let api = admin.api::<Deployment>();
        let patch = patch.to_string().into();
        api.patch("default", "web", PatchKind::Merge, patch).await.unwrap();
        let message = is_said("ScalingActive", "False FailedGetResourceMetric").await;
        assert_eq!(
            message,
            "the HPA was unable to compute the replica count: failed to get cpu utilization: \
             unable to get metrics for resource cpu: no metrics returned from resource metrics API"
        );
        use_cpu(admin, "50m").await;
        until_replicas(&cluster, 10, 2).await;
        let is_right = async |admin: &Client| {
            condition(admin, "ScalingActive").await.0 == "True ValidMetricFound"
        };
        assert!(cluster.until(Duration::from_secs(600), is_right).await);
        // Who wants none gets none.
        let none = json!({"spec": {"replicas": 0}}).to_string().into();
        api.patch("default", "web", PatchKind::Merge, none).await.unwrap();
        is_said("ScalingActive", "False ScalingDisabled").await;
        assert_eq!(replicas(admin).await, 0);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn metrics_of_other_apis_are_said_to_be_absent() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 1 }).await.unwrap();
        let admin = &cluster.admin;
        create_deployment(admin, 1, "cpu=50m").await;
        create_autoscaler(admin, web()).await;
        let patch = |metric: Value| {
            let patch = json!({"spec": {"metrics": [metric]}}).to_string().into();
            let api = admin.api::<HorizontalPodAutoscaler>();
            async move { api.patch("default", "web", PatchKind::Merge, patch).await.unwrap() }
        };
        let said = async |reason: &str| {
            let wanted = format!("False {reason}");
            let is_right =
                async |admin: &Client| condition(admin, "ScalingActive").await.0 == wanted;
            assert!(cluster.until(Duration::from_secs(60), is_right).await, "{reason}");
            condition(&cluster.admin, "ScalingActive").await.1
        };
        let target = json!({"type": "AverageValue", "averageValue": "1"});
        patch(json!({"type": "Pods", "pods": {"metric": {"name": "rps"}, "target": target}})).await;
        assert_eq!(
            said("FailedGetPodsMetric").await,
            "the HPA was unable to compute the replica count: unable to get metric rps: unable \
             to fetch metrics from custom metrics API: no custom metrics API \
             (custom.metrics.k8s.io) registered"
        );
        let metric = json!({"name": "queue"});
        patch(json!({"type": "External", "external": {"metric": metric, "target": target}})).await;
        assert_eq!(
            said("FailedGetExternalMetric").await,
            "the HPA was unable to compute the replica count: unable to get external metric \
             default/queue/nil: unable to fetch metrics from external metrics API: the server \
             could not find the requested resource (get queue.external.metrics.k8s.io)"
        );
        cluster.stop().await.unwrap();
    });
}

#[test]
fn custom_resources_with_a_scale_are_scaled() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 1 }).await.unwrap();
        let admin = &cluster.admin;
        let definition = json!({
            "metadata": {"name": "boats.example.org"},
            "spec": {
                "group": "example.org", "scope": "Namespaced",
                "names": {"plural": "boats", "kind": "Boat"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                    "subresources": {"status": {}, "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector"}},
                }],
            },
        });
        type Definition = k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
        let definition: Definition = serde_json::from_value(definition).unwrap();
        admin.api::<Definition>().create(definition).await.unwrap();
        let boats = apimachinery::GroupVersionResource::new("example.org", "v1", "boats");
        let boat = json!({
            "apiVersion": "example.org/v1", "kind": "Boat",
            "metadata": {"name": "b", "namespace": "default"}, "spec": {"replicas": 12},
        });
        let boat = api::Dynamic::decode(boat.to_string().as_bytes()).unwrap();
        let api = admin.dynamic(boats);
        let made = cluster
            .until(Duration::from_secs(60), async |_| api.create(boat.clone()).await.is_ok());
        assert!(made.await);
        let target = json!({"apiVersion": "example.org/v1", "kind": "Boat", "name": "b"});
        create_autoscaler(admin, target).await;
        let scaled = cluster.until(Duration::from_secs(60), async |_| {
            let boat = api.get("default", "b").await.unwrap();
            let boat: Value = serde_json::from_slice(&boat.bytes).unwrap();
            boat["spec"]["replicas"] == 8
        });
        assert!(scaled.await, "{}", status(admin).await);
        let is_right = async |admin: &Client| {
            condition(admin, "ScalingActive").await.0 == "False InvalidSelector"
        };
        assert!(cluster.until(Duration::from_secs(60), is_right).await);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn an_autoscaler_that_rests_writes_nothing() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 1 }).await.unwrap();
        let admin = &cluster.admin;
        create_deployment(admin, 2, "cpu=50m").await;
        create_autoscaler(admin, web()).await;
        let is_right = async |admin: &Client| {
            condition(admin, "AbleToScale").await.0 == "True ReadyForNewScale"
        };
        assert!(cluster.until(Duration::from_secs(900), is_right).await);
        let version = async || {
            let api = admin.api::<HorizontalPodAutoscaler>();
            api.get("default", "web").await.unwrap().metadata.resource_version.clone()
        };
        tokio::time::sleep(Duration::from_secs(60)).await;
        let before = version().await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(version().await, before);
        let pods = admin.api::<Pod>().list("default", ListOptions::default()).await.unwrap();
        assert_eq!(pods.items.len(), 2);
        cluster.stop().await.unwrap();
    });
}

/// `default/web-1 cpu=50m` of each pod, without what is random in names.
async fn measured(
    admin: &Client,
    namespace: &str,
    options: ListOptions,
) -> Result<Vec<String>, apimachinery::ApiError> {
    let pods = apimachinery::GroupVersionResource::new("metrics.k8s.io", "v1beta1", "pods");
    let list = admin.dynamic(pods).list(namespace, options).await?;
    let short = |it: &std::sync::Arc<api::Stored>| {
        let tree: Value = serde_json::from_slice(&it.bytes).unwrap();
        let usage = &tree["containers"][0]["usage"];
        format!("{} {} {}", it.meta.key, usage["cpu"], usage["memory"]).replace('"', "")
    };
    Ok(list.items.iter().map(short).collect())
}

type Registration = k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

/// Another server for metrics.k8s.io.
async fn register_another(admin: &Client) {
    let registration = json!({
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {"group": "metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100,
            "versionPriority": 100, "insecureSkipTLSVerify": true,
            "service": {"name": "metrics-server", "namespace": "kube-system"}},
    });
    let registration: Registration = serde_json::from_value(registration).unwrap();
    admin.api::<Registration>().create(registration).await.unwrap();
}

#[test]
fn usage_is_found_by_label_and_name_and_is_somebody_elses_if_they_say_so() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 2 }).await.unwrap();
        let admin = &cluster.admin;
        for (name, usage) in [("a", "cpu=50m memory=64Mi"), ("b", "cpu=1"), ("silent", "")] {
            let annotations = match usage {
                "" => json!({}),
                usage => json!({USAGE: usage}),
            };
            let pod = json!({
                "metadata": {"name": name, "namespace": "default", "labels": {"app": name},
                    "annotations": annotations},
                "spec": {"containers": [{"name": "main", "image": "xebec.local/toolbox"}]},
            });
            // Not before its namespace has a ServiceAccount.
            let made = cluster.until(Duration::from_secs(60), async |admin| {
                let pod = serde_json::from_value(pod.clone()).unwrap();
                admin.api::<Pod>().create(pod).await.is_ok()
            });
            assert!(made.await);
        }
        let all = ["default/a 50m 64Mi", "default/b 1 0"];
        let is_there = cluster.until(Duration::from_secs(60), async |admin| {
            measured(admin, "", ListOptions::default()).await.unwrap() == all
        });
        assert!(is_there.await);
        let labels = |it: &str| ListOptions {
            label_selector: Some(it.to_owned()),
            ..ListOptions::default()
        };
        let fields = |it: &str| ListOptions {
            field_selector: Some(it.to_owned()),
            ..ListOptions::default()
        };
        let found = |options| measured(admin, "default", options);
        assert_eq!(found(labels("app=b")).await.unwrap(), ["default/b 1 0"]);
        assert_eq!(found(labels("app!=b")).await.unwrap(), ["default/a 50m 64Mi"]);
        assert_eq!(found(fields("metadata.name=a")).await.unwrap(), ["default/a 50m 64Mi"]);
        assert_eq!(measured(admin, "other", ListOptions::default()).await.unwrap(), [""; 0]);

        let group = |plural: &str| {
            apimachinery::GroupVersionResource::new("metrics.k8s.io", "v1beta1", plural)
        };
        let one = admin.dynamic(group("pods")).get("default", "a").await.unwrap();
        assert_eq!(one.meta.key.name, "a");
        let missing = admin.dynamic(group("pods")).get("default", "silent").await.unwrap_err();
        assert_eq!(missing.message(), "pods.metrics.k8s.io \"silent\" not found");
        let nodes = admin.dynamic(group("nodes")).list("", ListOptions::default()).await.unwrap();
        let cpu: Vec<Value> = nodes
            .items
            .iter()
            .map(|it| serde_json::from_slice::<Value>(&it.bytes).unwrap()["usage"]["cpu"].clone())
            .collect();
        assert_eq!(cpu.len(), 2, "{cpu:?}");
        let options = client::DeleteOptions::default;
        let refused = admin.dynamic(group("pods")).delete("default", "a", options()).await;
        assert_eq!(refused.unwrap_err().code(), 405);

        register_another(admin).await;
        let refused = measured(admin, "", ListOptions::default()).await.unwrap_err();
        assert_eq!(refused.code(), 503);
        let services = admin.api::<Registration>();
        services.delete("", "v1beta1.metrics.k8s.io", options()).await.unwrap();
        assert_eq!(measured(admin, "", ListOptions::default()).await.unwrap(), all);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn no_replica_at_all_is_allowed_by_a_gate() {
    let create = |gates: &'static str| {
        run(async move {
            let cluster = Cluster::start_with(Options { seed: 1, nodes: 1 }, |config| {
                config.gates = features::Gates::parse(gates).unwrap();
            });
            let cluster = cluster.await.unwrap();
            let tolerance = json!({"scaleUp": {"tolerance": "50m"}});
            let autoscaler = json!({
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {
                    "scaleTargetRef": web(), "minReplicas": 0, "maxReplicas": 8,
                    "behavior": tolerance,
                    "metrics": [{"type": "External", "external": {
                        "metric": {"name": "queue"},
                        "target": {"type": "AverageValue", "averageValue": "1"}}}],
                },
            });
            let autoscaler = serde_json::from_value(autoscaler).unwrap();
            let api = cluster.admin.api::<HorizontalPodAutoscaler>();
            let created = api.create(autoscaler).await;
            let created = match created {
                Ok(it) => {
                    let behavior = it.object().unwrap().spec.behavior.clone().unwrap();
                    let tolerance = behavior.scale_up.unwrap().tolerance;
                    tolerance.map_or_else(|| "no tolerance".to_owned(), |it| it.0)
                }
                Err(err) => err.message().to_owned(),
            };
            cluster.stop().await.unwrap();
            created
        })
    };
    assert_eq!(create("HPAScaleToZero=true"), "50m");
    assert_eq!(create("HPAScaleToZero=true,HPAConfigurableTolerance=false"), "no tolerance");
    assert_eq!(
        create(""),
        "HorizontalPodAutoscaler.autoscaling \"web\" is invalid: spec.minReplicas: Invalid value: \
         0: must be greater than or equal to 1"
    );
}
