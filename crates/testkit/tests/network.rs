//! What belongs to Services, in a whole cluster under paused time: copies of Endpoints made by
//! hand, ranges of addresses, and load balancers.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::time::Duration;

use api::Resource;
use client::{Client, DeleteOptions, ListOptions, PatchKind};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::{Endpoints, Event, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::ServiceCIDR;
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

async fn start(nodes: usize) -> Cluster {
    Cluster::start(Options { seed: 11, nodes }).await.unwrap()
}

async fn create<T: Resource>(admin: &Client, object: Value) {
    let object = T::decode(object.to_string().as_bytes()).unwrap();
    admin.api::<T>().create(object).await.unwrap();
}

async fn patch<T: Resource>(admin: &Client, namespace: &str, name: &str, patch: Value) {
    let patch = patch.to_string().into();
    admin.api::<T>().patch(namespace, name, PatchKind::Merge, patch).await.unwrap();
}

async fn delete<T: Resource>(admin: &Client, namespace: &str, name: &str) {
    admin.api::<T>().delete(namespace, name, DeleteOptions::default()).await.unwrap();
}

async fn events(admin: &Client, reason: &str) -> Vec<String> {
    let list = admin.api::<Event>().list("default", ListOptions::default()).await.unwrap();
    let all = list.items.iter().map(|it| it.shared::<Event>().unwrap());
    let wanted = all.filter(|it| it.reason.as_deref() == Some(reason));
    wanted.filter_map(|it| it.message.clone()).collect()
}

/// Nobody writes such objects from now on.
async fn refuse(admin: &Client, group: &str, resource: &str) {
    let rule = json!({
        "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource],
        "operations": ["CREATE", "UPDATE"],
    });
    create::<ValidatingAdmissionPolicy>(
        admin,
        json!({
            "metadata": {"name": "never"},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false", "message": "never"}],
            },
        }),
    )
    .await;
    create::<ValidatingAdmissionPolicyBinding>(
        admin,
        json!({
            "metadata": {"name": "never"},
            "spec": {"policyName": "never", "validationActions": ["Deny"]},
        }),
    )
    .await;
    tokio::time::sleep(MINUTE).await;
}

#[test]
fn slices_that_cannot_be_written_are_said_in_an_event() {
    run(async {
        let cluster = start(0).await;
        refuse(&cluster.admin, "discovery.k8s.io", "endpointslices").await;
        let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80}]});
        let service = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": spec});
        create::<Service>(&cluster.admin, service).await;
        let reason = "FailedToUpdateEndpointSlices";
        let is_said = async |admin: &Client| !events(admin, reason).await.is_empty();
        assert!(cluster.until(MINUTE, is_said).await);
        let said = events(&cluster.admin, reason).await;
        let expected = "Error updating Endpoint Slices for Service default/web: \
                        failed to create EndpointSlice for Service default/web: \
                        endpointslices.discovery.k8s.io \"web-";
        assert!(said.iter().all(|it| it.starts_with(expected)), "{said:?}");
        assert!(said[0].ends_with("denied request: never"), "{said:?}");
        cluster.stop().await.unwrap();
    });
}

/// Of the copies of `web`: `10.0.0.1,10.0.0.2`.
async fn copies(admin: &Client) -> Vec<String> {
    let list = admin.api::<EndpointSlice>().list("default", ListOptions::default()).await.unwrap();
    let manager = "endpointslicemirroring-controller.k8s.io";
    let is_copy = |it: &EndpointSlice| {
        let labels = it.metadata.labels.clone().unwrap_or_default();
        labels.get("endpointslice.kubernetes.io/managed-by").is_some_and(|it| it == manager)
    };
    let all = list.items.iter().map(|it| it.shared::<EndpointSlice>().unwrap());
    let addresses = |slice: &EndpointSlice| {
        let endpoints = slice.endpoints.iter().flatten();
        endpoints.flat_map(|it| it.addresses.clone()).collect::<Vec<_>>().join(",")
    };
    all.filter(|it| is_copy(it)).map(|it| addresses(&it)).collect()
}

fn by_hand(addresses: &[&str]) -> Value {
    let addresses: Vec<Value> = addresses.iter().map(|it| json!({"ip": it})).collect();
    json!({"subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]})
}

async fn until_copies(cluster: &Cluster, expected: &[&str]) {
    let is_right = async |admin: &Client| copies(admin).await == expected;
    assert!(cluster.until(MINUTE, is_right).await, "{:?}", copies(&cluster.admin).await);
}

#[test]
fn endpoints_made_by_hand_are_copied_into_slices_until_a_selector_comes() {
    run(async {
        let cluster = start(0).await;
        let admin = &cluster.admin;
        let meta = json!({"name": "web", "namespace": "default"});
        let service = json!({"metadata": meta, "spec": {"ports": [{"port": 80}]}});
        create::<Service>(admin, service).await;
        let mut endpoints = by_hand(&["10.1.0.1", "10.1.0.2"]);
        endpoints["metadata"] = meta;
        create::<Endpoints>(admin, endpoints).await;
        until_copies(&cluster, &["10.1.0.1,10.1.0.2"]).await;
        patch::<Endpoints>(admin, "default", "web", by_hand(&["10.1.0.3"])).await;
        until_copies(&cluster, &["10.1.0.3"]).await;
        let selector = json!({"spec": {"selector": {"app": "web"}}});
        patch::<Service>(admin, "default", "web", selector).await;
        until_copies(&cluster, &[]).await;
        let none = json!({"spec": {"selector": null}});
        patch::<Service>(admin, "default", "web", none).await;
        patch::<Endpoints>(admin, "default", "web", by_hand(&["10.1.0.4"])).await;
        until_copies(&cluster, &["10.1.0.4"]).await;
        delete::<Endpoints>(admin, "default", "web").await;
        until_copies(&cluster, &[]).await;
        cluster.stop().await.unwrap();
    });
}

#[test]
fn more_addresses_than_are_copied_are_told_of_once() {
    run(async {
        let cluster = start(0).await;
        let admin = &cluster.admin;
        let meta = json!({"name": "web", "namespace": "default"});
        create::<Service>(admin, json!({"metadata": meta, "spec": {"ports": [{"port": 80}]}}))
            .await;
        let addresses: Vec<String> =
            (0..1003).map(|it| format!("10.1.{}.{}", it / 250, it % 250)).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let mut endpoints = by_hand(&addresses);
        endpoints["metadata"] = meta;
        create::<Endpoints>(admin, endpoints).await;
        let told = "A max of 1000 addresses can be mirrored to EndpointSlices per Endpoints subset. \
                    3 addresses were skipped";
        let is_told =
            async |admin: &Client| events(admin, "TooManyAddressesToMirror").await == [told];
        assert!(cluster.until(MINUTE, is_told).await);
        let copies = copies(admin).await;
        assert_eq!(copies.len(), 1);
        assert_eq!(copies[0].split(',').count(), 1000);
        cluster.stop().await.unwrap();
    });
}

/// `True: message`, or nothing where the range is gone.
async fn ready(admin: &Client, name: &str) -> String {
    let Ok(range) = admin.api::<ServiceCIDR>().get("", name).await else { return String::new() };
    let conditions = range.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.map(|it| format!("{}: {}", it.status, it.message)).collect()
}

async fn until_ready(cluster: &Cluster, name: &str, expected: &str) {
    let is_right = async |admin: &Client| {
        let ready = ready(admin, name).await;
        if expected.is_empty() { ready.is_empty() } else { ready.starts_with(expected) }
    };
    assert!(cluster.until(MINUTE, is_right).await, "{}", ready(&cluster.admin, name).await);
}

#[test]
fn a_range_that_services_need_stays_until_they_are_gone() {
    run(async {
        let cluster = start(0).await;
        let admin = &cluster.admin;
        until_ready(&cluster, "kubernetes", "True: Kubernetes Service CIDR is ready").await;
        let range = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.50.0.0/28"]}});
        create::<ServiceCIDR>(admin, range).await;
        until_ready(&cluster, "more", "True: Kubernetes Service CIDR is ready").await;
        let made = admin.api::<ServiceCIDR>().get("", "more").await.unwrap();
        let finalizer = "networking.k8s.io/service-cidr-finalizer".to_owned();
        assert_eq!(made.metadata.finalizers, Some(vec![finalizer]));
        let service = json!({
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"clusterIP": "10.50.0.7", "ports": [{"port": 80}]},
        });
        create::<Service>(admin, service).await;
        delete::<ServiceCIDR>(admin, "", "more").await;
        let stuck = "False: There are still IPAddresses referencing the ServiceCIDR, please remove \
                     them or create a new ServiceCIDR: 10.50.0.7 of services default/web";
        until_ready(&cluster, "more", stuck).await;
        tokio::time::sleep(MINUTE).await;
        assert_eq!(ready(admin, "more").await, stuck);
        delete::<Service>(admin, "default", "web").await;
        until_ready(&cluster, "more", "").await;
        cluster.stop().await.unwrap();
    });
}

/// The addresses that a Service has, or none.
async fn balanced(admin: &Client, name: &str) -> String {
    let service = admin.api::<Service>().get("default", name).await.unwrap();
    let status = service.status.clone().unwrap_or_default();
    let ingress = status.load_balancer.and_then(|it| it.ingress).unwrap_or_default();
    let shown = ingress
        .into_iter()
        .map(|it| format!("{} {}", it.ip.unwrap_or_default(), it.ip_mode.unwrap_or_default()));
    shown.collect::<Vec<_>>().join(", ")
}

async fn until_balanced(cluster: &Cluster, name: &str, expected: &str) {
    let is_right = async |admin: &Client| balanced(admin, name).await == expected;
    assert!(cluster.until(MINUTE, is_right).await, "{}", balanced(&cluster.admin, name).await);
}

#[test]
fn load_balancers_have_the_nodes_addresses_and_who_comes_too_late_is_told_by_whom() {
    run(async {
        let cluster = start(0).await;
        let admin = &cluster.admin;
        create::<Node>(admin, json!({"metadata": {"name": "n1"}})).await;
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }});
        let status = status.to_string().into();
        let nodes = admin.api::<Node>();
        nodes.patch_status("", "n1", PatchKind::Strategic, status).await.unwrap();
        let service = |name: &str| {
            json!({
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
            })
        };
        create::<Service>(admin, service("first")).await;
        until_balanced(&cluster, "first", "192.0.2.1 VIP").await;
        let made = admin.api::<Service>().get("default", "first").await.unwrap();
        let finalizer = "service.kubernetes.io/load-balancer-cleanup".to_owned();
        assert_eq!(made.metadata.finalizers, Some(vec![finalizer]));
        create::<Service>(admin, service("second")).await;
        let told = "Error syncing load balancer: failed to ensure load balancer: port 80/TCP of \
                    192.0.2.1 is taken by Service default/first";
        let is_told =
            async |admin: &Client| events(admin, "SyncLoadBalancerFailed").await == [told];
        assert!(cluster.until(MINUTE, is_told).await);
        assert_eq!(balanced(admin, "second").await, "");
        delete::<Service>(admin, "default", "first").await;
        until_balanced(&cluster, "second", "192.0.2.1 VIP").await;
        let gone = admin.api::<Service>().get("default", "first").await;
        assert!(gone.unwrap_err().is_not_found());
        // Another type lets the address go, and the finalizer with it.
        let inside = json!({"spec": {"type": "ClusterIP"}});
        patch::<Service>(admin, "default", "second", inside).await;
        let is_free = async |admin: &Client| {
            let service = admin.api::<Service>().get("default", "second").await.unwrap();
            service.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
        };
        assert!(cluster.until(MINUTE, is_free).await);
        assert_eq!(events(admin, "EnsuredLoadBalancer").await.len(), 2);
        cluster.stop().await.unwrap();
    });
}
