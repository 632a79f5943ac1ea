//! A control plane in memory, a node in memory, and a kubelet between them, under paused time.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::User;
use authn::pki::{Authority, Rotating};
use client::{Client, DeleteOptions, ListOptions};
use features::{Gates, RuntimeConfig};
use informer::Factory;
use k8s_openapi::api::core::v1::{Event, Pod};
use kubelet::{Config, Machine, Parts};
use lifecycle::Tasks;
use node_api::fake::Node as FakeNode;
use node_api::images::ImageConfig;
use serde_json::{Value, json};
use telemetry::Registry;
use testkit::{Cluster, Options};

pub(crate) const IMAGE: &str = "xebec.local/toolbox:1";

pub(crate) struct Setup {
    pub(crate) cluster: Cluster,
    pub(crate) node: FakeNode,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) metrics: Registry,
    kubelet: Option<Tasks>,
}

pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(test)
}

impl Setup {
    pub(crate) async fn start() -> Self {
        let cluster = Cluster::start_with(Options { seed: 1, nodes: 0 }, |config| {
            let gates = "ClusterTrustBundle=true,ClusterTrustBundleProjection=true,\
                         PodCertificateRequest=true";
            config.gates = Gates::parse(gates).unwrap();
            let kinds = "certificates.k8s.io/v1beta1=true";
            config.runtime_config = RuntimeConfig::parse(kinds).unwrap();
        });
        let cluster = cluster.await.unwrap();
        let node = FakeNode::new(&cluster.world);
        node.add_image(IMAGE, ImageConfig::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("manifests")).unwrap();
        let metrics = Registry::default();
        let mut setup = Self { cluster, node, folder, metrics, kubelet: None };
        setup.start_kubelet().await;
        setup
            .until("the default ServiceAccount is there", async |it: &Client| {
                it.api::<k8s_openapi::api::core::v1::ServiceAccount>()
                    .get("default", "default")
                    .await
                    .is_ok()
            })
            .await;
        setup
    }

    pub(crate) async fn start_kubelet(&mut self) {
        let world = &self.cluster.world;
        let tasks = Tasks::new();
        let user = User::new("system:node:n1", &["system:nodes"]);
        let client = self.cluster.server.client(user, "kubelet");
        let authority = Authority::create("test", world.clock.now(), &world.random).unwrap();
        let parts = Parts {
            sandboxes: Arc::new(self.node.clone()),
            containers: Arc::new(self.node.clone()),
            images: Arc::new(self.node.clone()),
            volumes: Arc::new(self.node.clone()),
            cgroups: Arc::new(self.node.clone()),
            factory: Factory::new(client.clone(), world.clone(), &tasks),
            client,
            serving: Rotating::new(&authority.identity()).unwrap(),
            client_ca: authority.certificate_pem().to_owned(),
            machine: Machine {
                cpus: 4,
                memory: 8 << 30,
                ephemeral_storage: 100 << 30,
                architecture: "amd64".to_owned(),
                ..Machine::default()
            },
            metrics: self.metrics.clone(),
        };
        kubelet::start(config(self.folder.path()), parts, world, &tasks).await.unwrap();
        self.kubelet = Some(tasks);
    }

    /// As a crash: what runs on the node goes on.
    pub(crate) async fn stop_kubelet(&mut self) {
        if let Some(tasks) = self.kubelet.take() {
            tasks.shutdown(Duration::from_secs(10)).await.unwrap();
        }
    }

    pub(crate) fn admin(&self) -> &Client {
        &self.cluster.admin
    }

    pub(crate) async fn until(&self, what: &str, is_right: impl AsyncFnMut(&Client) -> bool) {
        let is_so = self.cluster.until(Duration::from_secs(900), is_right).await;
        assert!(is_so, "never: {what}; calls: {:#?}", self.node.calls());
    }

    /// `spec` gets the node's name and no token.
    pub(crate) async fn create(&self, name: &str, mut spec: Value) -> Arc<Pod> {
        spec["nodeName"] = json!("n1");
        if spec["automountServiceAccountToken"].is_null() {
            spec["automountServiceAccountToken"] = json!(false);
        }
        let pod = json!({ "metadata": { "name": name, "namespace": "default" }, "spec": spec });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.admin().api::<Pod>().create(pod).await.unwrap().object().unwrap()
    }

    pub(crate) async fn delete(&self, name: &str, grace: Option<i64>) {
        let options = DeleteOptions { grace_period_seconds: grace, ..DeleteOptions::default() };
        self.admin().api::<Pod>().delete("default", name, options).await.unwrap();
    }

    pub(crate) async fn get(&self, name: &str) -> Option<Arc<Pod>> {
        self.admin().api::<Pod>().get("default", name).await.ok()
    }

    /// Waits until the pod's status, as JSON, is right.
    pub(crate) async fn until_status(
        &self,
        name: &str,
        is_right: impl Fn(&Value) -> bool,
    ) -> Value {
        for _ in 0..1200 {
            if let Some(pod) = self.get(name).await {
                let status = json!(pod.status);
                if is_right(&status) {
                    return status;
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let last = self.get(name).await;
        panic!(
            "never: {:#}; {:#?}",
            json!(last.and_then(|it| it.status.clone())),
            self.node.calls()
        );
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        self.until(&format!("{name} is gone"), async |it: &Client| {
            it.api::<Pod>().get("default", name).await.is_err()
        })
        .await;
    }

    /// `reason: message` of the events about this object, in the order of their names in time.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let list = self.admin().api::<Event>().list("", ListOptions::default()).await.unwrap();
        let mut events: Vec<_> = list
            .items
            .iter()
            .map(|it| it.shared::<Event>().unwrap())
            .filter(|it| it.involved_object.name.as_deref() == Some(name))
            .map(|it| {
                let version: u64 =
                    it.metadata.resource_version.as_deref().unwrap().parse().unwrap();
                let text = |it: &Option<String>| it.clone().unwrap_or_default();
                (version, format!("{}: {}", text(&it.reason), text(&it.message)))
            })
            .collect();
        events.sort();
        events.into_iter().map(|(_, text)| text).filter(|it| !it.starts_with("Scheduled")).collect()
    }
}

fn config(folder: &Path) -> Config {
    Config {
        node_name: "n1".to_owned(),
        node_addresses: vec!["192.0.2.1".parse().unwrap()],
        listen: "127.0.0.1:0".parse().unwrap(),
        pod_cidrs: vec!["10.244.0.0/24".parse().unwrap()],
        cluster_dns: vec!["10.96.0.10".parse().unwrap()],
        cluster_domain: "cluster.local".to_owned(),
        directory: folder.join("kubelet"),
        log_directory: folder.join("logs"),
        static_pod_directory: Some(folder.join("manifests")),
        version: "v1.36.0+xebec".to_owned(),
        max_pods: 110,
        labels: BTreeMap::new(),
        taints: Vec::new(),
        is_registering: true,
        annotations: BTreeMap::new(),
        allowed_unsafe_sysctls: Vec::new(),
        has_trust_bundles: true,
        has_pod_certificates: true,
    }
}

pub(crate) fn phase(name: &'static str) -> impl Fn(&Value) -> bool {
    move |it| it["phase"] == name
}

pub(crate) fn is_ready(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}
