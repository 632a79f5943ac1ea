//! An API server and a kubelet on loopback, with one pod, and the ways to reach them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use api::Resource;
use api::core::{Node as NodeObject, Pod, ServiceAccount};
use api::rbac::{ClusterRole, ClusterRoleBinding};
use apimachinery::User;
use apiserver::{Config, Parts, Server};
use authn::pki::{Authority, Identity, ServiceAccountKey, client_config, server_config};
use base64::Engine as _;
use client::Client;
use kubelet::server::{self, ContainerOnNode, ContainerRun, PodDirectory, PodOnNode};
use lifecycle::{Readiness, Tasks};
use node_api::containers::ContainerConfig;
use node_api::fake::{Node, Program};
use node_api::images::ImageConfig;
use node_api::sandboxes::SandboxConfig;
use node_api::{ContainerId, Containers, PodRef, PodUid, Sandboxes};
use serde_json::{Value, json};
use stdx::World;
use telemetry::Registry;
use tokio::net::TcpListener;

use crate::host::Host;

pub(crate) struct Site {
    pub(crate) tasks: Tasks,
    pub(crate) node: Node,
    pub(crate) container: ContainerId,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) authority: Authority,
    pub(crate) world: World,
    pub(crate) api_address: std::net::SocketAddr,
    pub(crate) kubelet_address: std::net::SocketAddr,
    client: Client,
}

#[derive(Default)]
pub(crate) struct Pods(pub(crate) Mutex<BTreeMap<(String, String), PodOnNode>>);

impl PodDirectory for Pods {
    fn find(&self, namespace: &str, name: &str, uid: Option<&PodUid>) -> Option<PodOnNode> {
        let found = self.0.lock().unwrap().get(&(namespace.to_owned(), name.to_owned())).cloned();
        found.filter(|it| uid.is_none_or(|uid| it.uid == *uid))
    }

    fn pods(&self) -> Vec<Arc<Pod>> {
        Vec::new()
    }
}

fn decode<T: Resource>(value: &Value) -> T {
    T::decode(value.to_string().as_bytes()).unwrap()
}

impl Site {
    pub(crate) async fn start() -> Self {
        let (world, tasks) = (World::system(), Tasks::new());
        let (now, random) = (world.clock.now(), &world.random);
        let authority = Authority::create("test", now, random).unwrap();
        let local: IpAddr = [127, 0, 0, 1].into();
        let issue = |name| authority.issue_server(name, &["localhost"], &[local], now, random);
        let kubelet_client = authority.issue_client(
            "kube-apiserver-kubelet-client",
            &["system:masters"],
            now,
            random,
        );
        let ca = authority.certificate_pem();
        let kubelet_tls = client_config(ca, Some(&kubelet_client.unwrap())).unwrap();
        let parts = Parts {
            store: Arc::new(kvstore::memory::Memory::new()),
            world: world.clone(),
            tasks: tasks.clone(),
            readiness: Readiness::default(),
            metrics: Registry::default(),
            service_account_keys: vec![Arc::new(ServiceAccountKey::create().unwrap())],
        };
        let config = Config { kubelet_tls: Some(Arc::new(kubelet_tls)), ..Config::default() };
        let server = Server::start(config, parts).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api_address = listener.local_addr().unwrap();
        server.serve(listener, Arc::new(server_config(&issue("apiserver").unwrap(), ca).unwrap()));
        let client = server.client(User::new("admin", &["system:masters"]), "test");

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let kubelet_address = listener.local_addr().unwrap();
        let node = Node::new(&world);
        let pods = Arc::new(Pods::default());
        let tls = server_config(&issue("system:node:one").unwrap(), ca).unwrap();
        let parts = server::Parts {
            node_name: "one".to_owned(),
            pods: pods.clone(),
            containers: Arc::new(Host(node.clone())),
            sandboxes: Arc::new(node.clone()),
            cgroups: Arc::new(node.clone()),
            memory: 1 << 30,
            client: server.client(User::new("system:node:one", &["system:nodes"]), "kubelet"),
            world: world.clone(),
            metrics: Registry::default(),
        };
        server::serve(listener, Arc::new(tls), parts, &tasks);
        let directory = tempfile::tempdir().unwrap();
        create_objects(&client, kubelet_address.port()).await;
        let container = run_pod(&node, &pods, directory.path().join("0.log")).await;
        Self {
            tasks,
            node,
            container,
            directory,
            authority,
            world,
            api_address,
            kubelet_address,
            client,
        }
    }

    pub(crate) fn identity(&self, user: &str, groups: &[&str]) -> Identity {
        let now = self.world.clock.now();
        self.authority.issue_client(user, groups, now, &self.world.random).unwrap()
    }

    /// A ClusterRole with these rules, bound to the user of the same name.
    pub(crate) async fn grant(&self, user: &str, rules: &Value) {
        let role = json!({"metadata": {"name": user}, "rules": rules});
        self.client.api::<ClusterRole>().create(decode(&role)).await.unwrap();
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        });
        self.client.api::<ClusterRoleBinding>().create(decode(&binding)).await.unwrap();
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.directory.path().join("0.log")
    }

    /// Appends entries, as a container's holder does.
    pub(crate) fn log(&self, entries: &str) {
        let file = std::fs::File::options().create(true).append(true).open(self.log_path());
        file.unwrap().write_all(entries.as_bytes()).unwrap();
    }

    pub(crate) fn kubeconfig(&self, user: &str, groups: &[&str]) -> PathBuf {
        let encode = |it: &str| base64::engine::general_purpose::STANDARD.encode(it);
        let identity = self.identity(user, groups);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://{}", self.api_address),
                "certificate-authority-data": encode(self.authority.certificate_pem()),
            }}],
            "users": [{"name": "test", "user": {
                "client-certificate-data": encode(&identity.certificate_pem),
                "client-key-data": encode(&identity.private_key_pem),
            }}],
        });
        let path = self.directory.path().join(format!("{user}.kubeconfig"));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }
}

async fn create_objects(client: &Client, kubelet_port: u16) {
    let account = json!({"metadata": {"name": "default", "namespace": "default"}});
    client.api::<ServiceAccount>().create(decode(&account)).await.unwrap();
    let status = json!({
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet_port}},
    });
    let node = json!({"metadata": {"name": "one"}, "status": status});
    let nodes = client.api::<NodeObject>();
    nodes.create(decode(&node)).await.unwrap();
    nodes.update_status(decode(&node)).await.unwrap();
    let pod = |name: &str, node: &str, containers: &[&str]| {
        let containers: Vec<Value> =
            containers.iter().map(|it| json!({"name": it, "image": "x"})).collect();
        let mut spec = json!({"containers": containers, "automountServiceAccountToken": false});
        if !node.is_empty() {
            spec["nodeName"] = json!(node);
        }
        json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
            "status": {"phase": "Running"},
        })
    };
    let pods = client.api::<Pod>();
    for pod in [
        pod("web", "one", &["main"]),
        pod("two", "one", &["a", "b"]),
        pod("pending", "", &["main"]),
        pod("lost", "one", &["main"]),
    ] {
        pods.create(decode(&pod)).await.unwrap();
        pods.update_status(decode(&pod)).await.unwrap();
    }
}

async fn run_pod(node: &Node, pods: &Pods, log_path: PathBuf) -> ContainerId {
    node.script("main", [Program::forever().prints("hello from main\n")]);
    let image = node.add_image("x", ImageConfig::default()).unwrap();
    let uid = PodUid::new("1");
    let pod = PodRef { namespace: "default".into(), name: "web".into(), uid: uid.clone() };
    let sandbox = Sandboxes::create(
        node,
        SandboxConfig { cgroup: "kubepods/pod1".to_owned(), ..node_api::fake::plain_sandbox(pod) },
    );
    let sandbox = sandbox.await.unwrap().id;
    let config = ContainerConfig {
        log_path: log_path.clone(),
        ..node_api::fake::plain_container("main", image.id)
    };
    let id = Containers::create(node, &sandbox, config).await.unwrap();
    node.start(&id).await.unwrap();
    let run = ContainerRun { id: id.clone(), log_path };
    let main = ContainerOnNode { current: Some(run), ..ContainerOnNode::default() };
    let on_node = PodOnNode {
        uid,
        sandbox: Some(sandbox),
        containers: BTreeMap::from([("main".to_owned(), main)]),
    };
    let mut pods = pods.0.lock().unwrap();
    pods.insert(("default".to_owned(), "web".to_owned()), on_node.clone());
    let waiting =
        ContainerOnNode { waiting: Some("ContainerCreating".to_owned()), ..Default::default() };
    let containers = BTreeMap::from([("main".to_owned(), waiting)]);
    let lost = PodOnNode { sandbox: None, containers, ..on_node };
    pods.insert(("default".to_owned(), "lost".to_owned()), lost);
    id
}
