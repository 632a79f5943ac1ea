//! Autoscalers by what others measure: `custom.metrics.k8s.io` and `external.metrics.k8s.io`, by an
//! adapter of this test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Client, ListOptions, PatchKind};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use testkit::{Cluster, Options};

use super::{condition, create_autoscaler, create_deployment, replicas, run, status, web};

/// What an adapter of metrics knows.
#[derive(Default)]
struct Adapter {
    /// Names of pods, which share `load`.
    pods: Vec<String>,
    load: u32,
    hits: u32,
    queues: Vec<&'static str>,
    asked: Vec<String>,
}

const CUSTOM: &str = "/apis/custom.metrics.k8s.io";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io";

impl Adapter {
    fn answer(&mut self, path: &str) -> Option<Value> {
        if path == CUSTOM {
            let version =
                json!({"groupVersion": "custom.metrics.k8s.io/v1beta2", "version": "v1beta2"});
            return Some(json!({"kind": "APIGroup", "versions": [version]}));
        }
        if !self.asked.iter().any(|it| it == path) {
            self.asked.push(path.to_owned());
        }
        let (path, _) = path.split_once('?').unwrap_or((path, ""));
        let of = |kind: &str, name: &str, value: String| {
            json!({"describedObject": {"kind": kind, "namespace": "default", "name": name},
                   "timestamp": "2026-01-01T00:00:00Z", "windowSeconds": 60, "value": value})
        };
        let namespace = format!("{CUSTOM}/v1beta2/namespaces/default");
        let items: Vec<Value> = if path == format!("{namespace}/pods/*/rps") {
            let each = self.load * 1000 / u32::try_from(self.pods.len().max(1)).unwrap();
            self.pods.iter().map(|it| of("Pod", it, format!("{each}m"))).collect()
        } else if path == format!("{namespace}/services/front/hits") {
            vec![of("Service", "front", self.hits.to_string())]
        } else if path == format!("{EXTERNAL}/v1beta1/namespaces/default/queue") {
            let time = "2026-01-01T00:00:00Z";
            let value = |it: &&str| json!({"metricName": "queue", "timestamp": time, "value": it});
            self.queues.iter().map(value).collect()
        } else {
            return None;
        };
        Some(json!({"kind": "List", "metadata": {}, "items": items}))
    }
}

async fn measure_by(admin: &Client, metric: Value) {
    let patch = json!({"spec": {"metrics": [metric]}}).to_string().into();
    let api = admin.api::<HorizontalPodAutoscaler>();
    api.patch("default", "web", PatchKind::Merge, patch).await.unwrap();
}

/// While the adapter sees which pods there are.
async fn until_measured(cluster: &Cluster, adapter: &Mutex<Adapter>, minutes: u64, wanted: i32) {
    let limit = Duration::from_secs(minutes * 60);
    let is_right = cluster.until(limit, async |admin| {
        let pods = admin.api::<Pod>().list("default", ListOptions::default()).await.unwrap();
        let names = pods.items.iter().map(|it| it.meta.key.name.clone()).collect();
        adapter.lock().unwrap().pods = names;
        replicas(admin).await == wanted
            && status(admin).await["currentReplicas"] == wanted
            && condition(admin, "ScalingActive").await.0 == "True ValidMetricFound"
    });
    let is_right = is_right.await;
    let (status, asked) = (status(&cluster.admin).await, adapter.lock().unwrap().asked.clone());
    assert!(is_right, "not {wanted}, but {}: {status} {asked:?}", replicas(&cluster.admin).await);
}

/// With a load that all pods share.
async fn start(load: u32) -> (Cluster, Arc<Mutex<Adapter>>) {
    let cluster = Cluster::start(Options { seed: 1, nodes: 3 }).await.unwrap();
    let adapter = Arc::new(Mutex::new(Adapter { load, ..Adapter::default() }));
    for root in [CUSTOM, EXTERNAL] {
        let adapter = adapter.clone();
        cluster.extensions.serve(root, move |path| adapter.lock().unwrap().answer(path));
    }
    (cluster, adapter)
}

#[test]
fn metrics_of_pods_objects_and_the_outside_scale_a_deployment() {
    run(async {
        let (cluster, adapter) = start(50).await;
        let admin = &cluster.admin;
        create_deployment(admin, 2, "cpu=1m").await;
        create_autoscaler(admin, web()).await;
        let each = json!({"type": "AverageValue", "averageValue": "10"});
        let target = || each.clone();

        let metric = json!({"name": "rps", "selector": {"matchLabels": {"verb": "GET"}}});
        measure_by(admin, json!({"type": "Pods", "pods": {"metric": metric, "target": target()}}))
            .await;
        until_measured(&cluster, &adapter, 30, 5).await;
        let seen = status(admin).await["currentMetrics"][0].clone();
        assert_eq!(seen["pods"]["current"]["averageValue"], "10", "{seen}");

        adapter.lock().unwrap().hits = 70;
        let front = json!({"apiVersion": "v1", "kind": "Service", "name": "front"});
        let object =
            json!({"describedObject": front, "metric": {"name": "hits"}, "target": target()});
        measure_by(admin, json!({"type": "Object", "object": object})).await;
        until_measured(&cluster, &adapter, 30, 7).await;
        let seen = status(admin).await["currentMetrics"][0].clone();
        assert_eq!(seen["object"]["current"]["averageValue"], "10", "{seen}");

        // Fewer only when the time of calm is over.
        adapter.lock().unwrap().queues = vec!["25", "5"];
        let external = json!({"metric": {"name": "queue"}, "target": target()});
        measure_by(admin, json!({"type": "External", "external": external})).await;
        until_measured(&cluster, &adapter, 60, 3).await;
        let seen = status(admin).await["currentMetrics"][0].clone();
        assert_eq!(seen["external"]["current"]["averageValue"], "10", "{seen}");

        let mut asked = adapter.lock().unwrap().asked.clone();
        asked.sort();
        assert_eq!(
            asked,
            [
                "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/rps\
                 ?labelSelector=app%3Dweb&metricLabelSelector=verb%3DGET",
                "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/services/front/hits",
                "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue",
            ]
        );
        cluster.stop().await.unwrap();
    });
}

#[test]
fn numbers_beyond_all_bounds_end_in_a_condition_that_says_so() {
    run(async {
        let (cluster, adapter) = start(0).await;
        let admin = &cluster.admin;
        create_deployment(admin, 2, "cpu=1m").await;
        create_autoscaler(admin, web()).await;
        let by = |value: &'static str, target: &str| {
            adapter.lock().unwrap().queues = vec![value; 3];
            let target = json!({"type": "AverageValue", "averageValue": target});
            json!({"type": "External", "external": {"metric": {"name": "queue"}, "target": target}})
        };
        let said = async |metric: Value, kind: &str, wanted: &str| {
            measure_by(admin, metric).await;
            let limit = Duration::from_secs(1800);
            let is_right = async |admin: &Client| condition(admin, kind).await.0 == wanted;
            assert!(cluster.until(limit, is_right).await, "not {wanted}: {}", status(admin).await);
            condition(admin, kind).await.1
        };
        let message =
            said(by("9223372036854775807", "1m"), "ScalingLimited", "True TooManyReplicas").await;
        assert_eq!(message, "the desired replica count is more than the maximum replica count");
        until_measured(&cluster, &adapter, 30, 8).await;
        let api = admin.api::<HorizontalPodAutoscaler>();
        let two = json!({"spec": {"minReplicas": 2}}).to_string().into();
        api.patch("default", "web", PatchKind::Merge, two).await.unwrap();
        let message =
            said(by("1", "9223372036854775807"), "ScalingLimited", "True TooFewReplicas").await;
        assert_eq!(message, "the desired replica count is less than the minimum replica count");
        until_measured(&cluster, &adapter, 60, 2).await;
        // What cannot be stored is refused, with the place.
        let none = json!({"spec": {"maxReplicas": -1}}).to_string().into();
        let refused = api.patch("default", "web", PatchKind::Merge, none).await.map(|_| ());
        let refused = refused.unwrap_err().message().to_owned();
        assert!(refused.contains("spec.maxReplicas: Invalid value: -1"), "{refused}");
        cluster.stop().await.unwrap();
    });
}
