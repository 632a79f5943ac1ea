//! Addresses of Services as IPAddresses, and their ranges as ServiceCIDRs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::Resource as _;
use api::core::Service;
use api::networking::{IPAddress, ServiceCIDR};
use apimachinery::ApiError;
use apiserver::Config;
use client::{DeleteOptions, ListOptions, PatchKind};
use futures_util::future::join_all;
use kvstore::memory::Memory;
use kvstore::{Op, Store as _, Txn};
use serde_json::{Value, json};
use stdx::World;

use crate::harness::{self, Harness};

async fn start(memory: &Arc<Memory>, range: &str) -> Harness {
    let service_cidrs = range.split(',').map(|it| it.parse().expect("a range")).collect();
    let config = Config { service_cidrs, ..Config::default() };
    let started = harness::try_start_over(World::simulated(1), memory.clone(), config).await;
    started.expect("the server starts")
}

async fn settled() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

async fn create(server: &Harness, name: &str, spec: Value) -> Result<String, ApiError> {
    let mut whole = json!({"ports": [{"port": 80}]});
    let Value::Object(spec) = spec else { panic!("an object") };
    whole.as_object_mut().expect("an object").extend(spec);
    let value = json!({"metadata": {"name": name, "namespace": "default"}, "spec": whole});
    let service = Service::decode(value.to_string().as_bytes()).expect("a Service");
    let created = server.client.api::<Service>().create(service).await?;
    let spec = created.object().expect("decoded").spec.clone().expect("a spec");
    Ok(spec.cluster_ip.unwrap_or_default())
}

async fn delete(server: &Harness, name: &str) {
    let services = server.client.api::<Service>();
    services.delete("default", name, DeleteOptions::default()).await.expect("deleted");
}

/// The names of all IPAddresses.
async fn objects(server: &Harness) -> BTreeSet<String> {
    let list = server.client.api::<IPAddress>().list("", ListOptions::default()).await;
    list.expect("listed").items.iter().map(|it| it.meta.key.name.clone()).collect()
}

async fn range(server: &Harness, name: &str) -> Option<ServiceCIDR> {
    settled().await;
    let found = server.client.api::<ServiceCIDR>().get("", name).await;
    found.ok().map(|it| it.as_ref().clone())
}

fn ready(range: &ServiceCIDR) -> Vec<(String, String)> {
    let conditions = range.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.map(|it| (it.status.clone(), it.message.clone())).collect()
}

async fn create_range(server: &Harness, name: &str, cidr: &str) {
    let value = json!({"metadata": {"name": name}, "spec": {"cidrs": [cidr]}});
    let range = ServiceCIDR::decode(value.to_string().as_bytes()).expect("a range");
    server.client.api::<ServiceCIDR>().create(range).await.expect("created");
}

#[tokio::test(start_paused = true)]
async fn a_server_starts_with_its_range_and_its_own_address() {
    let server = start(&Arc::new(Memory::new()), "10.96.0.0/24").await;
    let default = range(&server, "kubernetes").await.expect("made");
    let message = "Kubernetes default Service CIDR is ready".to_owned();
    assert_eq!(ready(&default), [("True".to_owned(), message)]);
    // Protecting it is for a controller.
    assert_eq!(default.metadata.finalizers, None);
    assert_eq!(objects(&server).await, ["10.96.0.1".to_owned()].into());
}

#[tokio::test(start_paused = true)]
async fn an_address_comes_and_goes_with_its_service() {
    let server = start(&Arc::new(Memory::new()), "10.96.0.0/24").await;
    let address = create(&server, "web", json!({})).await.expect("created");
    let object = server.client.api::<IPAddress>().get("", &address).await.expect("made");
    let parent = &object.spec.parent_ref;
    assert_eq!((&*parent.resource, parent.namespace.as_deref()), ("services", Some("default")));
    assert_eq!((&*parent.name, &parent.group), ("web", &None));
    let labels = object.metadata.labels.clone().expect("labels");
    let text = labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>();
    assert_eq!(
        text,
        [
            "ipaddress.kubernetes.io/ip-family=IPv4",
            "ipaddress.kubernetes.io/managed-by=ipallocator.k8s.io"
        ]
    );
    // A Service that is only a name has none.
    let external = json!({"spec": {
        "type": "ExternalName", "externalName": "example.org", "clusterIP": null, "clusterIPs": null,
    }});
    let services = server.client.api::<Service>();
    let patched = services.patch("default", "web", PatchKind::Merge, external.to_string().into());
    patched.await.expect("changed");
    assert_eq!(objects(&server).await.len(), 1);
    let inside = json!({"spec": {"type": "ClusterIP", "externalName": null}}).to_string();
    services.patch("default", "web", PatchKind::Merge, inside.into()).await.expect("changed");
    assert_eq!(objects(&server).await.len(), 2);
    delete(&server, "web").await;
    assert_eq!(objects(&server).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_service_of_two_families_has_two_objects_each_of_its_own_revision() {
    let server = start(&Arc::new(Memory::new()), "10.96.0.0/24,fd00:10:96::/112").await;
    let both = json!({"ipFamilyPolicy": "RequireDualStack"});
    create(&server, "web", both).await.expect("created");
    settled().await;
    let api = server.client.api::<IPAddress>();
    let list = api.list("", ListOptions::default()).await.expect("listed").items;
    assert_eq!(list.len(), 3);
    let revisions: BTreeSet<u64> = list.iter().map(|it| it.meta.resource_version).collect();
    assert_eq!(revisions.len(), 3, "a watch can go on after each of them");
    delete(&server, "web").await;
    settled().await;
    assert_eq!(objects(&server).await, ["10.96.0.1".to_owned()].into());
    let range = range(&server, "kubernetes").await.expect("made");
    let cidrs = range.spec.and_then(|it| it.cidrs).unwrap_or_default();
    assert_eq!(cidrs, ["10.96.0.0/24", "fd00:10:96::/112"]);
}

#[tokio::test(start_paused = true)]
async fn services_that_come_at_once_have_an_object_each() {
    let server = start(&Arc::new(Memory::new()), "10.96.0.0/24").await;
    let names: Vec<String> = (0..100).map(|it| format!("s{it}")).collect();
    let created = join_all(names.iter().map(|it| create(&server, it, json!({})))).await;
    let addresses: BTreeSet<String> = created.into_iter().map(|it| it.expect("created")).collect();
    assert_eq!(addresses.len(), 100);
    let mut objects = objects(&server).await;
    assert!(objects.remove("10.96.0.1"));
    assert_eq!(objects, addresses);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_somebody_else_has_is_not_given_out() {
    let server = start(&Arc::new(Memory::new()), "10.96.0.0/24").await;
    let object = |name: &str| {
        let parent = json!({"group": "example.org", "resource": "gateways", "name": "a"});
        let value = json!({"metadata": {"name": name}, "spec": {"parentRef": parent}});
        IPAddress::decode(value.to_string().as_bytes()).expect("an address")
    };
    let api = server.client.api::<IPAddress>();
    api.create(object("10.96.0.20")).await.expect("created");
    let wanted = || json!({"clusterIP": "10.96.0.20"});
    let refused = create(&server, "web", wanted()).await.expect_err("taken");
    assert!(refused.message().contains("provided IP is already allocated"), "{refused}");
    api.delete("", "10.96.0.20", DeleteOptions::default()).await.expect("deleted");
    assert_eq!(create(&server, "web", wanted()).await.expect("free"), "10.96.0.20");
    let refused = api.create(object("10.96.0.20")).await.expect_err("a Service has it");
    assert!(refused.is_already_exists(), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_under_its_service_comes_back() {
    let server = start(&Arc::new(Memory::new()), "10.96.0.0/24").await;
    let address = create(&server, "web", json!({})).await.expect("created");
    let api = server.client.api::<IPAddress>();
    let first = api.get("", &address).await.expect("made");
    api.delete("", &address, DeleteOptions::default()).await.expect("deleted");
    settled().await;
    let second = api.get("", &address).await.expect("made again");
    assert_ne!(first.metadata.uid, second.metadata.uid);
    assert_eq!(first.spec, second.spec);
}

#[tokio::test(start_paused = true)]
async fn a_start_mends_what_is_missing_and_left_over() {
    let memory = Arc::new(Memory::new());
    let first = start(&memory, "10.96.0.0/24").await;
    let kept = create(&first, "kept", json!({})).await.expect("created");
    create(&first, "gone", json!({})).await.expect("created");
    first.tasks.shutdown(Duration::from_secs(1)).await.expect("no task is late");
    // As if a server had been killed that wrote one without the other.
    let keys = [
        format!("/registry/ipaddresses/{kept}"),
        "/registry/services/specs/default/gone".to_owned(),
    ];
    let ops = keys.iter().map(|it| Op::delete(it.as_bytes())).collect();
    memory.txn(Txn::of(ops)).await.expect("deleted");
    let second = start(&memory, "10.96.0.0/24").await;
    assert_eq!(objects(&second).await, ["10.96.0.1".to_owned(), kept].into());
}

#[tokio::test(start_paused = true)]
async fn another_range_gives_addresses_while_it_is_ready_and_not_leaving() {
    let server = start(&Arc::new(Memory::new()), "10.96.0.0/29").await;
    // Of six addresses the server has one.
    for index in 0..5 {
        create(&server, &format!("s{index}"), json!({})).await.expect("free");
    }
    let full = create(&server, "web", json!({})).await.expect_err("full");
    assert!(full.message().contains("range is full"), "{full}");
    create_range(&server, "more", "10.97.0.0/28").await;
    let refused = create(&server, "web", json!({})).await.expect_err("it is not ready");
    assert!(refused.message().contains("range is full"), "{refused}");
    set_ready(&server, "more", "True").await;
    let address = create(&server, "web", json!({})).await.expect("free");
    assert!(address.starts_with("10.97.0."), "{address}");
    delete(&server, "web").await;
    set_ready(&server, "more", "False").await;
    let refused = create(&server, "web", json!({})).await.expect_err("it is not ready");
    assert!(refused.message().contains("range is full"), "{refused}");

    set_ready(&server, "more", "True").await;
    let ranges = server.client.api::<ServiceCIDR>();
    let kept = json!({"metadata": {"finalizers": ["example.com/kept"]}}).to_string();
    ranges.patch("", "more", PatchKind::Merge, kept.into()).await.expect("changed");
    ranges.delete("", "more", DeleteOptions::default()).await.expect("marked");
    assert!(range(&server, "more").await.is_some(), "it is kept");
    let refused = create(&server, "web", json!({})).await.expect_err("it is leaving");
    assert!(refused.message().contains("range is full"), "{refused}");
}

/// As the service-cidr-controller says it.
async fn set_ready(server: &Harness, name: &str, status: &str) {
    let condition = json!({
        "type": "Ready", "status": status, "reason": "", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let body = json!({"status": {"conditions": [condition]}}).to_string().into();
    let ranges = server.client.api::<ServiceCIDR>();
    ranges.patch_status("", name, PatchKind::Merge, body).await.expect("changed");
    settled().await;
}

/// Where upstream keeps which node ports are taken, and what it writes there when 30001 and 30012
/// are.
const PORTS_KEY: &str = "/registry/ranges/servicenodeports";
const PORTS_VALUE: &[u8] = b"k8s\x00\n\x15\n\x02v1\x12\x0fRangeAllocation\x12#\n\x10\n\x00\x12\x00\x1a\x00\"\x00*\x002\x008\x00B\x00\x12\x0b30000-32767\x1a\x02\x10\x02\x1a\x00\"\x00";

async fn start_beside_upstream(memory: &Arc<Memory>) -> Harness {
    let config = Config { compaction: apiserver::Compaction::ByServer, ..Config::default() };
    let started = harness::try_start_over(World::simulated(1), memory.clone(), config).await;
    started.expect("the server starts")
}

/// The ports whose bits are set.
async fn kept_ports(memory: &Memory) -> BTreeSet<u32> {
    let request = kvstore::RangeRequest::latest(kvstore::KeyRange::one(PORTS_KEY.as_bytes()));
    let found = memory.range(request).await.expect("read");
    let value = found.entries.first().expect("it is kept").value.clone();
    let name = b"30000-32767\x1a";
    let at = value.windows(name.len()).position(|it| it == name).expect("the range");
    let rest = &value[at + name.len()..];
    let (length, rest) = match rest {
        [low, high, rest @ ..] if low & 0x80 != 0 => {
            (usize::from(low & 0x7f) | usize::from(*high) << 7, rest)
        }
        [length, rest @ ..] => (usize::from(*length), rest),
        [] => panic!("no bits"),
    };
    let bits = rest[..length].iter().rev().enumerate();
    let set = bits.flat_map(|(n, byte)| {
        let n = u32::try_from(n).expect("a small number");
        (0..8).filter(move |it| byte & (1 << it) != 0).map(move |it| 30_000 + n * 8 + it)
    });
    set.collect()
}

async fn ports_of(server: &Harness) -> Vec<u32> {
    let list = server.client.api::<Service>().list("default", ListOptions::default()).await;
    let mut ports = Vec::new();
    for item in list.expect("listed").items {
        let service = item.shared::<Service>().expect("a Service");
        let spec = service.spec.clone().unwrap_or_default();
        let node_ports = spec.ports.into_iter().flatten().filter_map(|it| it.node_port);
        let all = node_ports.chain(spec.health_check_node_port);
        ports.extend(all.filter(|it| *it != 0).filter_map(|it| u32::try_from(it).ok()));
    }
    ports
}

#[tokio::test(start_paused = true)]
async fn a_node_port_that_upstream_gave_out_is_not_given_again_and_ours_are_told_to_it() {
    let memory = Arc::new(Memory::new());
    let put = |value: &'static [u8]| Txn::of(vec![Op::put(PORTS_KEY, value)]);
    memory.txn(put(PORTS_VALUE)).await.expect("written");
    let server = start_beside_upstream(&memory).await;
    let with_port =
        |port: u32| json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]});
    let refused = create(&server, "a", with_port(30_001)).await.expect_err("it is upstream's");
    assert!(refused.message().contains("provided port is already allocated"), "{refused}");
    create(&server, "a", with_port(30_500)).await.expect("free");
    assert_eq!(kept_ports(&memory).await, [30_001, 30_012, 30_500].into());

    let services = server.client.api::<Service>();
    let change = async |patch: Value| {
        let patch = json!({"spec": patch}).to_string();
        services.patch("default", "a", PatchKind::Merge, patch.into()).await.expect("changed");
    };
    let balanced = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    change(balanced).await;
    let kept = kept_ports(&memory).await;
    assert_eq!(kept.len(), 4, "one more, for health checks: {kept:?}");
    let held: BTreeSet<u32> = ports_of(&server).await.into_iter().collect();
    assert!(held.len() == 2 && held.is_subset(&kept));
    change(json!({"type": "NodePort", "externalTrafficPolicy": "Cluster"})).await;
    assert_eq!(kept_ports(&memory).await, [30_001, 30_012, 30_500].into());
    change(json!({"type": "ClusterIP", "externalTrafficPolicy": null, "ports": [{"port": 80, "nodePort": null}]})).await;
    assert_eq!(kept_ports(&memory).await, [30_001, 30_012].into());
    create(&server, "b", with_port(30_500)).await.expect("free again");
    delete(&server, "b").await;
    assert_eq!(kept_ports(&memory).await, [30_001, 30_012].into());
}

#[tokio::test(start_paused = true)]
async fn servers_at_once_give_out_no_port_and_no_address_twice() {
    let memory = Arc::new(Memory::new());
    let put = Txn::of(vec![Op::put(PORTS_KEY, PORTS_VALUE)]);
    memory.txn(put).await.expect("written");
    let (one, two) = (start_beside_upstream(&memory).await, start_beside_upstream(&memory).await);
    let servers = [&one, &two];
    let names: Vec<String> = (0..12).map(|it| format!("s{it}")).collect();
    let make = |n: usize| create(servers[n % 2], &names[n], json!({"type": "NodePort"}));
    // Who loses too often is told to try again.
    for _ in 0..names.len() {
        for made in join_all((0..names.len()).map(make)).await {
            let is_good = |it: &ApiError| it.is_conflict() || it.is_already_exists();
            assert!(made.as_ref().err().is_none_or(is_good), "{made:?}");
        }
    }
    assert_eq!(ports_of(&two).await.len(), names.len());
    settled().await;
    let ports = ports_of(&one).await;
    let distinct: BTreeSet<u32> = ports.iter().copied().collect();
    assert_eq!(ports.len(), distinct.len());
    let mut kept = kept_ports(&memory).await;
    assert!(kept.remove(&30_001) && kept.remove(&30_012));
    assert_eq!(kept, distinct);
    // One for each, and one for the server itself.
    assert_eq!(objects(&one).await.len(), names.len() + 1);
}
