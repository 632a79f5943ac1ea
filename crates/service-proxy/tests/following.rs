//! The whole proxy over a scripted API and the real kernel, in a network namespace of its own.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::core::node::Node;
use api::core::service::Service;
use api::discovery::EndpointSlice;
use api::object::meta_of;
use api::{Resource, Stored};
use apimachinery::ApiError;
use bytes::Bytes;
use client::{
    Client, Discovered, Reply, Request, Transport, WatchEvent, WatchEventKind, WatchStream,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use informer::Factory;
use lifecycle::Tasks;
use linux::netlink::nftables::{Nftables, Observed, TableFamily, TableId};
use linux::network_namespace::NetworkNamespace;
use serde_json::{Value, json};
use service_proxy::Config;
use stdx::World;
use tokio::sync::mpsc;

type Events = mpsc::UnboundedReceiver<WatchEvent>;

/// Each resource is watched once; what the test sends is what comes.
struct Server {
    services: Mutex<Option<Events>>,
    slices: Mutex<Option<Events>>,
    nodes: Mutex<Option<Events>>,
}

impl Transport for Server {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
        panic!("only watches, not {}", request.verb.name())
    }

    fn watch(&self, request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        let events = match request.resource.resource.as_str() {
            "services" => &self.services,
            "nodes" => {
                assert_eq!(request.list.field_selector.as_deref(), Some("metadata.name=here"));
                &self.nodes
            }
            _ => &self.slices,
        };
        let events = events.lock().unwrap().take().expect("watched once");
        let next = |mut events: Events| async { Some((Ok(events.recv().await?), events)) };
        async move { Ok(stream::unfold(events, next).boxed()) }.boxed()
    }

    fn get_path(&self, _path: String) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        async { Err(ApiError::no_such_resource()) }.boxed()
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

fn event<T: Resource>(kind: WatchEventKind, json: &Value) -> WatchEvent {
    let bytes = Bytes::from(json.to_string());
    let object = T::decode(&bytes).unwrap();
    let object = Arc::new(Stored::new(meta_of(object.metadata(), Vec::new()), bytes));
    WatchEvent { kind, object, is_initial_end: kind == WatchEventKind::Bookmark }
}

/// With these ClusterIPs.
fn service_at(version: u64, addresses: &[&str]) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": "default", "name": "web", "resourceVersion": version.to_string()},
        "spec": {
            "type": "ClusterIP", "clusterIP": addresses[0], "clusterIPs": addresses,
            "ports": [{"port": 80, "protocol": "TCP"}],
        },
    })
}

fn service(version: u64) -> Value {
    service_at(version, &["10.96.0.10"])
}

fn slice(version: u64, n_endpoints: usize) -> Value {
    slice_of(version, "IPv4", (2..n_endpoints + 2).map(|it| format!("10.244.0.{it}")).collect())
}

fn slice_of(version: u64, family: &str, addresses: Vec<String>) -> Value {
    let endpoint = |it| json!({"addresses": [it], "nodeName": "here"});
    let endpoints: Vec<_> = addresses.into_iter().map(endpoint).collect();
    let name = format!("web-{}", family.to_lowercase());
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
        "metadata": {
            "namespace": "default", "name": name, "resourceVersion": version.to_string(),
            "labels": {"kubernetes.io/service-name": "web"},
        },
        "ports": [{"port": 8080}], "endpoints": endpoints,
    })
}

fn node(version: u64, zone: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "here", "resourceVersion": version.to_string(),
            "labels": {"topology.kubernetes.io/zone": zone},
        },
    })
}

/// One endpoint for zone a, two for zone b.
fn hinted(version: u64) -> Value {
    let mut slice = slice(version, 3);
    for (index, zone) in ["a", "b", "b"].into_iter().enumerate() {
        slice["endpoints"][index]["hints"] = json!({"forZones": [{"name": zone}]});
    }
    slice
}

fn config() -> Config {
    Config {
        cluster: "00c0ffee".parse().unwrap(),
        node_name: "here".to_owned(),
        mode: service_proxy::backends::mode("nftables").unwrap(),
        pod_cidrs: ["10.244.0.0/16", "fd00:10:244::/56"].map(|it| it.parse().unwrap()).into(),
        service_cidrs: ["10.96.0.0/12", "fd00:10:96::/108"].map(|it| it.parse().unwrap()).into(),
        node_port_addresses: None,
        worker: None,
        pods_cgroup: "xebec-test".to_owned(),
    }
}

/// Waits until the kernel has so many elements in this set; `None`: until there is no table.
async fn wait_for(nftables: &mut Nftables, set: &str, expected: Option<usize>) {
    let mut found = None;
    for _ in 0..1000 {
        let count = |it: Observed| it.sets.get(set).map_or(0, |it| it.elements.len());
        found = nftables.observe().unwrap().map(count);
        if found == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{set} has {found:?} elements, not {expected:?}");
}

async fn exercise() {
    use WatchEventKind::{Added, Bookmark, Deleted, Modified};
    let (services_tx, services_rx) = mpsc::unbounded_channel();
    let (slices_tx, slices_rx) = mpsc::unbounded_channel();
    let (nodes_tx, nodes_rx) = mpsc::unbounded_channel();
    let server = Server {
        services: Mutex::new(Some(services_rx)),
        slices: Mutex::new(Some(slices_rx)),
        nodes: Mutex::new(Some(nodes_rx)),
    };
    let (tasks, world) = (Tasks::new(), World::system());
    let client = Client::new(Arc::new(server), "test");
    let factory = Factory::new(client, world.clone(), &tasks);
    service_proxy::start(config(), &tasks, &world, &factory);
    factory.start();
    let id = TableId::new(TableFamily::Ip, config().cluster.table("services"));
    let mut nftables = Nftables::open(id).unwrap();

    nodes_tx.send(event::<Node>(Added, &node(1, "a"))).unwrap();
    nodes_tx.send(event::<Node>(Bookmark, &node(2, ""))).unwrap();
    // Nothing happens before both lists are whole.
    services_tx.send(event::<Service>(Added, &service(1))).unwrap();
    services_tx.send(event::<Service>(Bookmark, &service(2))).unwrap();
    slices_tx.send(event::<EndpointSlice>(Added, &slice(3, 2))).unwrap();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(nftables.observe().unwrap(), None);
    slices_tx.send(event::<EndpointSlice>(Bookmark, &slice(4, 0))).unwrap();
    wait_for(&mut nftables, "endpoints", Some(2)).await;

    slices_tx.send(event::<EndpointSlice>(Modified, &slice(5, 3))).unwrap();
    wait_for(&mut nftables, "endpoints", Some(3)).await;
    wait_for(&mut nftables, "no-endpoints", Some(0)).await;
    slices_tx.send(event::<EndpointSlice>(Deleted, &slice(6, 3))).unwrap();
    wait_for(&mut nftables, "no-endpoints", Some(1)).await;

    // Hints are for the zone that the node is in, also when it moves.
    slices_tx.send(event::<EndpointSlice>(Added, &hinted(6))).unwrap();
    wait_for(&mut nftables, "endpoints", Some(1)).await;
    nodes_tx.send(event::<Node>(Modified, &node(7, "b"))).unwrap();
    wait_for(&mut nftables, "endpoints", Some(2)).await;
    nodes_tx.send(event::<Node>(Modified, &node(8, "c"))).unwrap();
    wait_for(&mut nftables, "endpoints", Some(3)).await;
    slices_tx.send(event::<EndpointSlice>(Deleted, &hinted(9))).unwrap();
    wait_for(&mut nftables, "no-endpoints", Some(1)).await;

    // Somebody removes the table: the kernel tells, and it is made anew.
    service_proxy::purge(config().cluster).unwrap();
    wait_for(&mut nftables, "no-endpoints", Some(1)).await;
    slices_tx.send(event::<EndpointSlice>(Added, &slice(7, 1))).unwrap();
    wait_for(&mut nftables, "endpoints", Some(1)).await;

    // A second family has a table of its own.
    let id = TableId::new(TableFamily::Ip6, config().cluster.table("services"));
    let mut nftables_ipv6 = Nftables::open(id).unwrap();
    wait_for(&mut nftables_ipv6, "endpoints", Some(0)).await;
    let both = service_at(8, &["10.96.0.10", "fd00:10:96::a"]);
    services_tx.send(event::<Service>(Modified, &both)).unwrap();
    wait_for(&mut nftables_ipv6, "no-endpoints", Some(1)).await;
    let addresses = vec!["fd00:10:244::2".to_owned(), "fd00:10:244::3".to_owned()];
    let slice_ipv6 = slice_of(9, "IPv6", addresses);
    slices_tx.send(event::<EndpointSlice>(Added, &slice_ipv6)).unwrap();
    wait_for(&mut nftables_ipv6, "endpoints", Some(2)).await;
    wait_for(&mut nftables, "endpoints", Some(1)).await;

    // Stopping leaves everything in place.
    tasks.shutdown(Duration::from_secs(10)).await.unwrap();
    wait_for(&mut nftables, "endpoints", Some(1)).await;
}

#[test]
fn the_kernel_follows_the_api() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(exercise());
    };
    match NetworkNamespace::create() {
        Ok(namespace) => namespace.run(run).unwrap(),
        Err(err) => eprintln!("SKIPPED: {err}: {}", err.source),
    }
}
