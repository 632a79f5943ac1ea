//! Claims to devices, and what else is off by default, in a whole cluster under paused time.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use client::{Client, DeleteOptions, ListOptions, PatchKind};
use k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::api::resource::v1alpha3::ResourcePoolStatusRequest;
use k8s_openapi::api::resource::v1beta2::DeviceTaintRule;
use serde_json::{Value, json};
use testkit::{Cluster, Options};

const MINUTE: Duration = Duration::from_secs(60);

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

fn options() -> Options {
    Options { seed: 7, nodes: 1 }
}

/// With what pods need: the account of their namespace.
async fn start() -> Cluster {
    let cluster = Cluster::start(options()).await.unwrap();
    tokio::time::sleep(MINUTE).await;
    cluster
}

macro_rules! from {
    ($manifest:expr) => {
        serde_json::from_value($manifest).unwrap()
    };
}

fn pod(name: &str, node: &str, claim: Value) -> Pod {
    let node = Some(node).filter(|it| !it.is_empty());
    from!(json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": node,
            "resourceClaims": [claim],
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "xebec.local/toolbox"}],
        },
    }))
}

fn template() -> ResourceClaimTemplate {
    let request = json!({"name": "r", "exactly": {"deviceClassName": "gpu.example.org"}});
    from!(json!({
        "metadata": {"name": "gpu", "namespace": "default"},
        "spec": {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": [request]}}},
    }))
}

async fn claims(admin: &Client) -> Vec<ResourceClaim> {
    let list = admin.api::<ResourceClaim>().list("default", ListOptions::default()).await.unwrap();
    list.items.iter().map(|it| ResourceClaim::clone(&it.shared().unwrap())).collect()
}

async fn reasons(admin: &Client) -> Vec<String> {
    let list = admin.api::<Event>().list("default", ListOptions::default()).await.unwrap();
    let events = list.items.iter().map(|it| it.shared::<Event>().unwrap());
    events.map(|it| it.reason.clone().unwrap_or_default()).collect()
}

/// As the scheduler would: allocates the device gpu-0 to a claim, for a pod.
async fn allocate(admin: &Client, claim: &ResourceClaim, pod: &Pod) {
    let mut claim = claim.clone();
    claim.metadata.finalizers = Some(vec!["resource.kubernetes.io/delete-protection".to_owned()]);
    let claim = admin.api().update(claim).await.unwrap().object().unwrap();
    let mut claim = ResourceClaim::clone(&claim);
    let (name, uid) = (pod.metadata.name.clone(), pod.metadata.uid.clone());
    let result =
        json!({"request": "r", "driver": "example.org", "pool": "pool", "device": "gpu-0"});
    claim.status = Some(from!(json!({
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
    })));
    admin.api().update_status(claim).await.unwrap();
}

#[test]
fn a_claim_is_made_from_its_template_named_in_its_pod_and_given_back() {
    run(async {
        let cluster = start().await;
        let admin = &cluster.admin;
        let claim = json!({"name": "gpu", "resourceClaimTemplateName": "gpu"});
        // Held back, so that nobody places it without its device.
        let mut waiting = pod("web", "", claim);
        waiting.spec.as_mut().unwrap().scheduling_gates =
            Some(vec![from!(json!({"name": "a.b/c"}))]);
        admin.api().create(waiting).await.unwrap();
        let complains = async |it: &Client| {
            reasons(it).await.iter().any(|it| it == "FailedResourceClaimCreation")
        };
        assert!(cluster.until(MINUTE, complains).await, "{:?}", reasons(admin).await);
        admin.api().create(template()).await.unwrap();
        let named = async |admin: &Client| {
            let pod = admin.api::<Pod>().get("default", "web").await.unwrap();
            let status = pod.status.clone().unwrap_or_default();
            let statuses = status.resource_claim_statuses.unwrap_or_default();
            statuses.first().and_then(|it| it.resource_claim_name.clone())
        };
        assert!(cluster.until(MINUTE, async |it| named(it).await.is_some()).await);
        let [made] = &claims(admin).await[..] else { panic!("one claim") };
        assert_eq!(made.metadata.name, named(admin).await);
        assert!(made.metadata.name.as_ref().unwrap().starts_with("web-gpu-"));
        let web = admin.api::<Pod>().get("default", "web").await.unwrap();
        allocate(admin, made, &web).await;
        tokio::time::sleep(MINUTE).await;
        assert!(claims(admin).await[0].status.as_ref().unwrap().allocation.is_some());
        // With the pod its claim goes, finalizer or not.
        admin.api::<Pod>().delete("default", "web", DeleteOptions::default()).await.unwrap();
        let is_gone = async |admin: &Client| claims(admin).await.is_empty();
        assert!(cluster.until(MINUTE, is_gone).await, "{:?}", claims(admin).await);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_shared_claim_outlives_its_pods_without_its_device() {
    run(async {
        let cluster = start().await;
        let admin = &cluster.admin;
        let shared: ResourceClaim = from!(json!({
            "metadata": {"name": "shared", "namespace": "default"},
            "spec": {"devices": {"requests": [
                {"name": "r", "exactly": {"deviceClassName": "gpu.example.org"}},
            ]}},
        }));
        admin.api().create(shared).await.unwrap();
        let claim = json!({"name": "gpu", "resourceClaimName": "shared"});
        admin.api().create(pod("web", "sim-0", claim)).await.unwrap();
        let web = admin.api::<Pod>().get("default", "web").await.unwrap();
        allocate(admin, &claims(admin).await[0], &web).await;
        tokio::time::sleep(MINUTE).await;
        admin.api::<Pod>().delete("default", "web", DeleteOptions::default()).await.unwrap();
        let is_free = async |admin: &Client| {
            let status = claims(admin).await[0].status.clone().unwrap_or_default();
            status.allocation.is_none() && status.reserved_for.unwrap_or_default().is_empty()
        };
        assert!(cluster.until(MINUTE, is_free).await, "{:?}", claims(admin).await);
        let finalizers = async |admin: &Client| claims(admin).await[0].metadata.finalizers.clone();
        let has_none =
            async |admin: &Client| finalizers(admin).await.unwrap_or_default().is_empty();
        assert!(cluster.until(MINUTE, has_none).await);
        cluster.stop().await.unwrap();
    });
}

/// A pod with the device gpu-0, which is the only one.
async fn run_with_device(admin: &Client) {
    let slice: ResourceSlice = from!(json!({
        "metadata": {"name": "s"},
        "spec": {
            "driver": "example.org",
            "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
            "allNodes": true,
            "devices": [{"name": "gpu-0"}],
        },
    }));
    admin.api().create(slice).await.unwrap();
    let claim: ResourceClaim = from!(json!({
        "metadata": {"name": "shared", "namespace": "default"},
        "spec": {"devices": {"requests": [
            {"name": "r", "exactly": {"deviceClassName": "gpu.example.org"}},
        ]}},
    }));
    admin.api().create(claim).await.unwrap();
    let claim = json!({"name": "gpu", "resourceClaimName": "shared"});
    admin.api().create(pod("web", "sim-0", claim)).await.unwrap();
    let web = admin.api::<Pod>().get("default", "web").await.unwrap();
    allocate(admin, &claims(admin).await[0], &web).await;
}

#[test]
fn a_pod_leaves_a_device_that_its_driver_gives_up() {
    run(async {
        let cluster = start().await;
        let admin = &cluster.admin;
        run_with_device(admin).await;
        tokio::time::sleep(MINUTE).await;
        assert!(admin.api::<Pod>().get("default", "web").await.is_ok());
        let taints = json!([{"key": "broken", "effect": "NoExecute"}]);
        let patch = json!({"spec": {"devices": [{"name": "gpu-0", "taints": taints}]}}).to_string();
        let slices = admin.api::<ResourceSlice>();
        slices.patch("", "s", PatchKind::Merge, patch.into()).await.unwrap();
        let is_gone =
            async |admin: &Client| admin.api::<Pod>().get("default", "web").await.is_err();
        assert!(cluster.until(MINUTE, is_gone).await);
        let told = async |it: &Client| {
            reasons(it).await.iter().any(|it| it == "DeviceTaintManagerEviction")
        };
        assert!(cluster.until(MINUTE, told).await, "{:?}", reasons(admin).await);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn what_its_gate_switches_on_runs() {
    run(async {
        let gates = "ClusterTrustBundle=true,PodCertificateRequest=true,GenericWorkload=true";
        let serve = "certificates.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha2=true";
        let cluster = Cluster::start_with_gates(options(), gates, serve).await.unwrap();
        let admin = &cluster.admin;
        let names = async |admin: &Client| -> Vec<String> {
            let list = admin.api::<ClusterTrustBundle>().list("", ListOptions::default()).await;
            list.unwrap().items.iter().map(|it| it.meta.key.name.clone()).collect()
        };
        let is_published = async |admin: &Client| names(admin).await.len() == 1;
        assert!(cluster.until(MINUTE, is_published).await);
        let prefix = "kubernetes.io:kube-apiserver-serving:";
        assert!(names(admin).await[0].starts_with(prefix), "{:?}", names(admin).await);
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_pod_leaves_a_device_that_a_rule_takes() {
    run(async {
        let (gate, served) = ("DRADeviceTaintRules=true", "resource.k8s.io/v1beta2=true");
        let cluster = Cluster::start_with_gates(options(), gate, served).await.unwrap();
        let admin = &cluster.admin;
        tokio::time::sleep(MINUTE).await;
        run_with_device(admin).await;
        let rule = |name: &str, device: &str| -> DeviceTaintRule {
            from!(json!({
                "metadata": {"name": name},
                "spec": {
                    "deviceSelector": {"driver": "example.org", "device": device},
                    "taint": {"key": "upkeep", "effect": "NoExecute"},
                },
            }))
        };
        admin.api().create(rule("other", "gpu-1")).await.unwrap();
        tokio::time::sleep(MINUTE).await;
        assert!(admin.api::<Pod>().get("default", "web").await.is_ok());
        admin.api().create(rule("its", "gpu-0")).await.unwrap();
        let is_gone =
            async |admin: &Client| admin.api::<Pod>().get("default", "web").await.is_err();
        assert!(cluster.until(MINUTE, is_gone).await);
        let message = async |admin: &Client, name: &str| {
            let rule = admin.api::<DeviceTaintRule>().get("", name).await.unwrap();
            let all = rule.status.clone().and_then(|it| it.conditions).unwrap_or_default();
            all.first().map(|it| format!("{} {}", it.reason, it.message)).unwrap_or_default()
        };
        let done = "Completed 1 pod evicted since starting the controller.";
        assert!(cluster.until(MINUTE, async |it| message(it, "its").await == done).await);
        assert_eq!(message(admin, "other").await, "NotStarted ");
        cluster.stop().await.unwrap();
    });
}

#[test]
fn a_question_about_pools_is_answered_once_and_goes() {
    run(async {
        let (gate, served) = ("DRAResourcePoolStatus=true", "resource.k8s.io/v1alpha3=true");
        let cluster = Cluster::start_with_gates(options(), gate, served).await.unwrap();
        let admin = &cluster.admin;
        tokio::time::sleep(MINUTE).await;
        run_with_device(admin).await;
        let request: ResourcePoolStatusRequest = from!(json!({
            "metadata": {"name": "q"}, "spec": {"driver": "example.org"},
        }));
        admin.api().create(request).await.unwrap();
        let answer = async |admin: &Client| -> Option<Value> {
            let request = admin.api::<ResourcePoolStatusRequest>().get("", "q").await.ok()?;
            request.status.clone().map(|it| serde_json::to_value(it).unwrap())
        };
        assert!(cluster.until(MINUTE, async |it| answer(it).await.is_some()).await);
        let said = answer(admin).await.unwrap();
        let pool = &said["pools"][0];
        assert_eq!((&said["poolCount"], &pool["poolName"]), (&json!(1), &json!("pool")));
        assert_eq!((&pool["allocatedDevices"], &pool["availableDevices"]), (&json!(1), &json!(0)));
        assert_eq!(said["conditions"][0]["message"], "Calculated status for 1 pools");
        tokio::time::sleep(61 * MINUTE).await;
        assert!(admin.api::<ResourcePoolStatusRequest>().get("", "q").await.is_err());
        cluster.stop().await.unwrap();
    });
}
