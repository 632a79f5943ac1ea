//! What others break while we look on is mended, told of, and not mended without end.

use std::sync::Arc;
use std::time::Duration;

use lifecycle::Tasks;
use linux::netlink::nftables::{Nftables, TableFamily, TableId};
use linux::netlink::route::{Link, LinkChange, Route, RouteSocket};
use linux::network_namespace::NetworkNamespace;
use linux::sysctl;
use network::Network;
use node_api::network::{Attachment, HostPort, Loss, Protocol, Status};
use node_api::{PodNetwork as _, SandboxId};
use tokio::sync::watch;

use crate::places::{At, GATEWAY, Node, Server, ask, bring_up_loopback, cluster, ip, pod_ref};

/// So long only a broken network lets us wait.
const PATIENCE: Duration = Duration::from_secs(20);

/// A network that is followed, with two pods that listen: `a` (10.244.1.2) and `b` (10.244.1.3),
/// which has host port 80.
struct Followed {
    node: Node,
    network: Network,
    pods: Vec<NetworkNamespace>,
    runtime: tokio::runtime::Runtime,
    tasks: Tasks,
}

impl Followed {
    fn start() -> Option<Self> {
        let node = Node::start()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let network = node.namespace.run(|| Network::open(node.config())).unwrap().unwrap();
        let tasks = runtime.block_on(async { Tasks::new() });
        let mut followed = Self { node, network, pods: Vec::new(), runtime, tasks };
        let port = HostPort {
            protocol: Protocol::Tcp,
            host_address: None,
            host_port: 80,
            container_port: 8080,
        };
        followed.attach("a", &[]);
        followed.attach("b", &[port]);
        for pod in &followed.pods {
            Server::start(pod, "0.0.0.0:8080");
        }
        followed.runtime.block_on(async { followed.network.follow(&followed.tasks) }).unwrap();
        Some(followed)
    }

    fn attach(&mut self, name: &str, host_ports: &[HostPort]) {
        let namespace = NetworkNamespace::create().unwrap();
        bring_up_loopback(&namespace);
        let attachment = Attachment {
            pod: pod_ref(name),
            sandbox: SandboxId::new(name),
            namespace: Arc::new(At(namespace.path())),
            host_ports: host_ports.to_vec(),
        };
        self.runtime.block_on(self.network.attach(attachment)).unwrap();
        self.pods.push(namespace);
    }

    fn wait_for(
        &self,
        status: &mut watch::Receiver<Status>,
        what: &str,
        is_right: impl FnMut(&Status) -> bool,
    ) -> Status {
        let wait = async { tokio::time::timeout(PATIENCE, status.wait_for(is_right)).await };
        match self.runtime.block_on(wait) {
            Ok(status) => status.unwrap().clone(),
            Err(_) => panic!("{what}: never"),
        }
    }

    /// Everybody reaches everybody, at the address that they always had.
    fn check(&self, what: &str) {
        let [a, b] = &self.pods[..2] else { panic!("two pods") };
        assert_eq!(ask(a, "10.244.1.3:8080").unwrap(), "10.244.1.2", "{what}");
        assert_eq!(ask(b, "10.244.1.2:8080").unwrap(), "10.244.1.3", "{what}");
        assert_eq!(ask(&self.node.namespace, "10.244.1.2:8080").unwrap(), GATEWAY, "{what}");
        assert_eq!(ask(&self.node.namespace, "127.0.0.1:80").unwrap(), GATEWAY, "{what}");
    }
}

fn veth(node: &Node, octet: u8) -> Link {
    let links = node.routes().links().unwrap();
    let is_it =
        |it: &&Link| it.name.starts_with("veth") && it.address.is_some_and(|it| it.0[5] == octet);
    links.iter().find(is_it).unwrap().clone()
}

fn bridge(node: &Node) -> Link {
    node.routes().link("xebec0").unwrap().unwrap()
}

/// Damage to what pods share is told as a fault, to a pod as its loss.
#[test]
fn what_others_break_is_noticed_told_and_mended() {
    let Some(followed) = Followed::start() else { return };
    let node = &followed.node;
    followed.check("nothing");
    let check = |what: &str, damage: &dyn Fn(), is_told: &dyn Fn(&Status) -> bool| {
        let mut status = followed.network.status();
        damage();
        followed.wait_for(&mut status, what, |it| is_told(it));
        followed.wait_for(&mut status, what, |it| {
            it.fault.is_none() && it.losses.values().all(|it| it.is_mended)
        });
        followed.check(what);
    };
    let times = |status: &Status, name: &str| {
        status.losses.get(&SandboxId::new(name)).map_or(0, |it| it.times)
    };
    check("a pod's link", &|| node.routes().delete_link(&veth(node, 2)).unwrap(), &|it| {
        times(it, "a") == 1 && times(it, "b") == 0
    });
    let down = LinkChange { is_up: Some(false), ..LinkChange::default() };
    check("a link down", &|| node.routes().change_link(&veth(node, 3), down).unwrap(), &|it| {
        times(it, "b") == 1
    });
    check("the bridge", &|| node.routes().delete_link(&bridge(node)).unwrap(), &|it| {
        it.fault.is_some() || (times(it, "a") == 2 && times(it, "b") == 2)
    });
    let delete_route = || {
        let link = veth(node, 2);
        let is_it = |it: &Route| it.link == Some(link.index) && it.destination.address.is_ipv4();
        let route = node.routes().routes().unwrap().into_iter().find(is_it).unwrap();
        node.routes().delete_route(&route).unwrap();
    };
    check("a route", &delete_route, &|it| times(it, "a") == 3);
    let delete_address = || node.routes().delete_address(&bridge(node), ip(GATEWAY), 32).unwrap();
    check("the gateway", &delete_address, &|it| it.fault.is_some() || times(it, "b") == 3);
}

#[test]
fn flushed_rules_and_switched_off_forwarding_are_put_back() {
    let Some(followed) = Followed::start() else { return };
    let node = &followed.node;
    let mut status = followed.network.status();
    status.mark_unchanged();
    let id = TableId::new(TableFamily::Ip, cluster().table("network"));
    let flush = || Nftables::open(id.clone()).unwrap().purge().unwrap();
    node.namespace.run(flush).unwrap();
    let table = node.namespace.run(|| Nftables::open(id.clone()).unwrap()).unwrap();
    let table = std::sync::Mutex::new(table);
    let until = |what: &str, is_right: &dyn Fn() -> bool| {
        let is_right = (0..2000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            is_right()
        });
        assert!(is_right, "{what}");
    };
    until("rules", &|| table.lock().unwrap().observe().unwrap().is_some());
    followed.check("rules");
    let forwarding =
        || node.namespace.run(|| sysctl::read("net/ipv4/ip_forward").unwrap()).unwrap();
    node.namespace.run(|| sysctl::write("net/ipv4/ip_forward", "0").unwrap()).unwrap();
    until("forwarding", &|| forwarding().as_deref() == Some("1"));
    followed.check("forwarding");
}

#[test]
fn a_bridge_that_cannot_be_made_is_told_until_it_can() {
    let Some(followed) = Followed::start() else { return };
    let mut status = followed.network.status();
    let mut routes = followed.node.routes();
    routes.delete_link(&bridge(&followed.node)).unwrap();
    // Somebody else's, before ours is back; or after, then ours is taken away again.
    let is_placed = (0..1000).any(|_| {
        if let Some(link) = routes.link("xebec0").unwrap() {
            routes.delete_link(&link).unwrap();
        }
        routes.create_bridge("xebec0", 0x0bad_cafe, 1500).is_ok()
    });
    assert!(is_placed);
    let told = followed.wait_for(&mut status, "a stranger's bridge", |it| {
        it.not_ready().is_some_and(|it| it.contains("in link group 0badcafe"))
    });
    assert!(told.fault.unwrap().contains("xebec0 is not of this cluster (00c0ffee)"));
    let stranger = bridge(&followed.node);
    assert_eq!((stranger.group, stranger.master), (0x0bad_cafe, None));
    routes.delete_link(&stranger).unwrap();
    followed.wait_for(&mut status, "our own bridge", |it| it.not_ready().is_none());
    followed.check("our own bridge");
}

/// A pod that may change its own network takes nothing away but its own.
#[test]
fn a_pod_that_keeps_deleting_its_link_is_mended_ever_more_seldom_and_does_not_count() {
    let Some(followed) = Followed::start() else { return };
    let mut status = followed.network.status();
    let mut in_pod = RouteSocket::open_in(&followed.pods[0].path()).unwrap();
    let loss = |it: &Status| -> Option<Loss> { it.losses.get(&SandboxId::new("a")).cloned() };
    #[expect(
        clippy::disallowed_methods,
        reason = "what is tried is how long the kernel is left alone"
    )]
    let started = std::time::Instant::now();
    for times in 1..=4 {
        // In the middle of being mended it would be the same loss.
        followed.wait_for(&mut status, "whole", |it| {
            loss(it).is_none_or(|it| it.is_mended && it.times == times - 1)
        });
        let link = in_pod.link("eth0").unwrap().unwrap();
        in_pod.delete_link(&link).unwrap();
        let told = followed
            .wait_for(&mut status, "told", |it| loss(it).is_some_and(|it| it.times >= times));
        assert_eq!(told.not_ready(), None);
    }
    // 200 and 400 ms at the least lie between the first three.
    assert!(started.elapsed() > Duration::from_millis(550));
    let [_, b] = &followed.pods[..] else { panic!("two pods") };
    assert_eq!(ask(b, &format!("{GATEWAY}:80")).unwrap(), GATEWAY);
    followed
        .wait_for(&mut status, "mended in the end", |it| loss(it).is_some_and(|it| it.is_mended));
}

#[test]
fn a_pod_that_has_taken_the_links_name_is_told_of_and_the_node_is_not() {
    let Some(followed) = Followed::start() else { return };
    let mut status = followed.network.status();
    let mut in_pod = RouteSocket::open_in(&followed.pods[0].path()).unwrap();
    let link = in_pod.link("eth0").unwrap().unwrap();
    in_pod.delete_link(&link).unwrap();
    let is_placed = (0..1000).any(|_| {
        if let Some(link) = in_pod.link("eth0").unwrap() {
            in_pod.delete_link(&link).unwrap();
        }
        in_pod.create_bridge("eth0", 0, 1500).is_ok()
    });
    assert!(is_placed);
    let told = followed.wait_for(&mut status, "the pod's own doing", |it| {
        let loss = it.losses.get(&SandboxId::new("a"));
        loss.is_some_and(|it| it.is_pods_own && !it.is_mended)
    });
    assert_eq!(told.not_ready(), None);
}

#[test]
fn after_a_restart_pods_without_a_link_are_connected_again() {
    let Some(mut node) = Node::start() else { return };
    let (a, b) = (node.attach("a", &[]), node.attach("b", &[]));
    let _server = Server::start(&a.namespace, "0.0.0.0:8080");
    for octet in [2, 3] {
        node.routes().delete_link(&veth(&node, octet)).unwrap();
    }
    node.routes().delete_link(&bridge(&node)).unwrap();
    node.open();
    assert!(ask(&node.namespace, "10.244.1.2:8080").is_err());
    node.keep_only(&[("a", &a.namespace), ("b", &b.namespace)]);
    assert_eq!(ask(&node.namespace, "10.244.1.2:8080").unwrap(), GATEWAY);
    assert_eq!(ask(&b.namespace, "10.244.1.2:8080").unwrap(), "10.244.1.3");
    let status = node.network().status().borrow().clone();
    assert_eq!(status.not_ready(), None);
    let counted: Vec<_> = status.losses.values().map(|it| (it.times, it.is_mended)).collect();
    assert_eq!(counted, [(1, true), (1, true)]);
}

#[test]
fn the_end_of_a_sandbox_is_no_loss() {
    let Some(mut followed) = Followed::start() else { return };
    let links = |node: &Node| node.routes().links().unwrap().len();
    let before = links(&followed.node);
    followed.attach("c", &[]);
    drop(followed.pods.pop());
    // The kernel takes namespaces down in its own time.
    let is_gone = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        links(&followed.node) == before
    });
    assert!(is_gone);
    followed.runtime.block_on(followed.network.detach(&SandboxId::new("a"))).unwrap();
    // Something that is told after it, so that it was looked at.
    let mut status = followed.network.status();
    followed.node.routes().delete_link(&veth(&followed.node, 3)).unwrap();
    let has = |it: &Status, id: &str| it.losses.contains_key(&SandboxId::new(id));
    let told = followed.wait_for(&mut status, "b's link", |it| has(it, "b"));
    // A link goes a moment before its namespace does: for that long the end of `c` looks like a
    // loss, and is forgotten.
    assert!(!has(&told, "a"), "{told:?}");
    followed.runtime.block_on(followed.network.detach(&SandboxId::new("c"))).unwrap();
    followed.wait_for(&mut status, "c forgotten", |it| !has(it, "c"));
}
