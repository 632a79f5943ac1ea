//! The whole task over a scripted API and the real kernel, in a network namespace of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

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
use linux::netlink::nftables::{Nftables, TableFamily, TableId};
use linux::network_namespace::NetworkNamespace;
use network::Gate as _;
use network::policy::{Config, Policies, start};
use node_api::{PodRef, PodUid, SandboxId};
use serde_json::{Value, json};
use stdx::{Family, World};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::places::{cluster, ip};

type Events = mpsc::UnboundedReceiver<WatchEvent>;

/// Each resource is watched once; what the test sends is what comes.
struct Server(Mutex<BTreeMap<&'static str, Events>>);

impl Transport for Server {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
        panic!("only watches, not {}", request.verb.name())
    }

    fn watch(&self, request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        let resource = request.resource.resource.as_str();
        let events = self.0.lock().unwrap().remove(resource).expect("watched once");
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

struct Api {
    senders: BTreeMap<&'static str, mpsc::UnboundedSender<WatchEvent>>,
    version: u64,
}

const RESOURCES: [&str; 6] = [
    "customresourcedefinitions",
    "endpointslices",
    "namespaces",
    "networkpolicies",
    "nodes",
    "pods",
];
const CLUSTER_POLICIES: &str = "clusternetworkpolicies";

impl Api {
    fn start() -> (Self, Server) {
        let all = RESOURCES.into_iter().chain([CLUSTER_POLICIES]);
        let channels = all.map(|it| (it, mpsc::unbounded_channel()));
        let (mut senders, mut receivers) = (BTreeMap::new(), BTreeMap::new());
        for (resource, (tx, rx)) in channels {
            senders.insert(resource, tx);
            receivers.insert(resource, rx);
        }
        (Self { senders, version: 1 }, Server(Mutex::new(receivers)))
    }

    fn send(&mut self, resource: &str, kind: WatchEventKind, mut json: Value) {
        self.version += 1;
        json["metadata"]["resourceVersion"] = self.version.to_string().into();
        let bytes = Bytes::from(json.to_string());
        // All metadata is alike.
        let read = api::core::pod::Pod::decode(
            json!({"metadata": json["metadata"]}).to_string().as_bytes(),
        )
        .unwrap();
        let object = Arc::new(Stored::new(meta_of(read.metadata(), Vec::new()), bytes));
        let is_initial_end = kind == WatchEventKind::Bookmark;
        self.senders[resource].send(WatchEvent { kind, object, is_initial_end }).unwrap();
    }

    fn put(&mut self, resource: &str, json: Value) {
        self.send(resource, WatchEventKind::Added, json);
    }

    fn end_lists(&mut self) {
        for resource in RESOURCES {
            self.send(resource, WatchEventKind::Bookmark, json!({"metadata": {}}));
        }
    }
}

fn policy(spec: Value) -> Value {
    json!({"metadata": {"namespace": "x", "name": "p"}, "spec": spec})
}

fn definition(established: &str) -> Value {
    json!({
        "metadata": {"name": "clusternetworkpolicies.policy.networking.k8s.io"},
        "spec": {"versions": [{"name": "v1alpha2", "served": true}]},
        "status": {"conditions": [{"type": "Established", "status": established}]},
    })
}

fn pod(name: &str, address: &str) -> Value {
    json!({
        "metadata": {"namespace": "x", "name": name, "uid": name, "labels": {"app": name}},
        "spec": {"nodeName": "here", "containers": [{"name": "c"}]},
        "status": {"podIPs": [{"ip": address}]},
    })
}

/// Waits until the kernel has so many elements in this set; `None`: until there is no table.
async fn wait_for(nftables: &mut Nftables, set: &str, expected: Option<usize>) {
    let mut found = None;
    for _ in 0..1000 {
        let observed = nftables.observe().unwrap();
        found = observed.map(|it| it.sets.get(set).map_or(0, |it| it.elements.len()));
        if found == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{set} has {found:?} elements, not {expected:?}");
}

fn attach(policies: &Arc<Policies>, name: &str, address: &str) -> JoinHandle<()> {
    let (policies, name, address) = (policies.clone(), name.to_owned(), ip(address));
    let attach = move || {
        let uid = PodUid::new(name.clone());
        let pod = PodRef { namespace: "x".into(), name: name.clone(), uid };
        policies.wait().unwrap();
        policies.attach(&SandboxId::new(name), &pod, &[address]).unwrap();
    };
    tokio::task::spawn_blocking(attach)
}

async fn exercise() {
    let (mut api, server) = Api::start();
    let (tasks, world) = (Tasks::new(), World::system());
    let factory = Factory::new(Client::new(Arc::new(server), "test"), world, &tasks);
    let config = Config {
        cluster: cluster(),
        node_name: "here".to_owned(),
        families: vec![Family::V4, Family::V6],
    };
    let policies = start(config, &tasks, &factory).unwrap();
    factory.start();
    let id = TableId::new(TableFamily::Ip, cluster().table("policy"));
    let mut nftables = Nftables::open(id).unwrap();

    // Nothing happens before all lists are whole, and nobody is attached.
    api.put("networkpolicies", policy(json!({})));
    api.put("pods", pod("a", "10.244.0.2"));
    let early = attach(&policies, "early", "10.244.0.3");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(nftables.observe().unwrap().is_none() && !early.is_finished());
    api.end_lists();
    wait_for(&mut nftables, "ingress-of", Some(2)).await;
    early.await.unwrap();

    // A pod that is attached is in the kernel when that returns, whatever the API says.
    attach(&policies, "late", "10.244.0.4").await.unwrap();
    let observed = nftables.observe().unwrap().unwrap();
    assert_eq!(observed.sets["ingress-of"].elements.len(), 3);
    let other = json!({"podSelector": {"matchLabels": {"app": "a"}}});
    api.put("networkpolicies", policy(other));
    api.put("pods", pod("late", "10.244.0.4"));
    api.put("pods", pod("early", "10.244.0.3"));
    wait_for(&mut nftables, "ingress-of", Some(1)).await;

    // Somebody removes the table: the kernel tells, and it is made anew.
    network::policy::purge(cluster()).unwrap();
    wait_for(&mut nftables, "ingress-of", Some(1)).await;

    // Name servers that are no pods.
    api.put(
        "endpointslices",
        json!({
            "metadata": {"namespace": "kube-system", "name": "kube-dns",
                "labels": {"kubernetes.io/service-name": "kube-dns"}},
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.244.0.1"]}],
            "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}],
        }),
    );
    wait_for(&mut nftables, "dns", Some(1)).await;
    api.send("networkpolicies", WatchEventKind::Deleted, policy(json!({})));
    wait_for(&mut nftables, "ingress-of", None).await;

    // Policies of the cluster hold while their definition is there.
    let deny = json!({"action": "Deny", "from": [{"namespaces": {}}]});
    let spec =
        json!({"tier": "Admin", "priority": 1, "subject": {"namespaces": {}}, "ingress": [deny]});
    api.put(CLUSTER_POLICIES, json!({"metadata": {"name": "all"}, "spec": spec}));
    api.send(CLUSTER_POLICIES, WatchEventKind::Bookmark, json!({"metadata": {}}));
    api.put("customresourcedefinitions", definition("False"));
    api.put("customresourcedefinitions", definition("True"));
    wait_for(&mut nftables, "ingress-of", Some(3)).await;
    api.send("customresourcedefinitions", WatchEventKind::Deleted, definition("True"));
    wait_for(&mut nftables, "ingress-of", None).await;
    tasks.shutdown(Duration::from_secs(10)).await.unwrap();
}

#[test]
fn the_kernel_follows_the_api() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(exercise());
    };
    match NetworkNamespace::create() {
        Ok(namespace) => namespace.run(run).unwrap(),
        Err(err) => println!("SKIPPED: {err}: {}", err.source),
    }
}
