//! A Service, nodes or a pool, and who else has ports in; addresses out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::core::node::{Node, NodeView};
use api::core::pod::{Pod, PodView};
use api::core::service::Service;
use api::discovery::endpoint_slice::EndpointSlice;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::plan::{
    FINALIZER, Holder, Observed, Outcome, Source, given, holders_of_pods, plan, protected,
    unprotected,
};
use super::pool::parse_ranges;

/// `name port [families=4,6] [ip=..] [asks=..] [local] [class] [deleting] [ClusterIP]`
fn service(text: &str) -> Service {
    let words: Vec<&str> = text.split(' ').collect();
    let has = |word: &str| words.contains(&word);
    let value = |key: &str| words.iter().find_map(|it| it.strip_prefix(key)?.strip_prefix('='));
    let families = value("families").unwrap_or("4").split(',').map(|it| format!("IPv{it}"));
    let mut service = json!({
        "metadata": {"name": words[0], "namespace": "default", "uid": words[0]},
        "spec": {
            "type": if has("ClusterIP") { "ClusterIP" } else { "LoadBalancer" },
            "ipFamilies": families.collect::<Vec<_>>(),
            "ports": [{"port": words[1].parse::<i32>().unwrap()}],
            "loadBalancerIP": value("ip"),
        },
    });
    if let Some(asks) = value("asks") {
        service["metadata"]["annotations"] = json!({"xebec.local/load-balancer-ips": asks});
    }
    if has("local") {
        service["spec"]["externalTrafficPolicy"] = json!("Local");
    }
    if has("class") {
        service["spec"]["loadBalancerClass"] = json!("example.com/x");
    }
    if has("deleting") {
        service["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    serde_json::from_value(service).unwrap()
}

/// `name address[,address] [NotReady] [excluded] [external=..]`
fn node(text: &str) -> Arc<NodeView> {
    let words: Vec<&str> = text.split(' ').collect();
    let has = |word: &str| words.contains(&word);
    let internal = words[1].split(',').map(|it| json!({"type": "InternalIP", "address": it}));
    let external = words.iter().filter_map(|it| it.strip_prefix("external="));
    let external = external.map(|it| json!({"type": "ExternalIP", "address": it}));
    let mut labels = json!({});
    if has("excluded") {
        labels["node.kubernetes.io/exclude-from-external-load-balancers"] = json!("");
    }
    let node = json!({
        "metadata": {"name": words[0], "labels": labels},
        "status": {
            "addresses": internal.chain(external).collect::<Vec<Value>>(),
            "conditions": [
                {"type": "Ready", "status": if has("NotReady") { "False" } else { "True" }},
            ],
        },
    });
    Arc::new(NodeView::from(&serde_json::from_value::<Node>(node).unwrap()))
}

/// A few Services over nodes or a pool.
#[derive(Default)]
struct Model {
    nodes: Vec<Arc<NodeView>>,
    pool: Vec<&'static str>,
    services: BTreeMap<String, Service>,
    pods: Vec<Arc<PodView>>,
    slices: Vec<Arc<EndpointSlice>>,
    server: Option<Holder>,
}

impl Model {
    fn of_nodes(nodes: &[&str]) -> Self {
        Self { nodes: nodes.iter().map(|it| node(it)).collect(), ..Self::default() }
    }

    fn of_pool(pool: &[&'static str]) -> Self {
        Self { pool: pool.to_vec(), ..Self::default() }
    }

    fn plan(&self, name: &str) -> Outcome {
        let others = self.services.iter().filter(|(other, _)| *other != name);
        let mut holders: Vec<Holder> =
            others.map(|(_, it)| Holder::of_service(it, given(it))).collect();
        holders.extend(self.server.clone());
        let source = if self.pool.is_empty() {
            holders.extend(holders_of_pods(&self.nodes, &self.pods));
            Source::Nodes(self.nodes.clone())
        } else {
            Source::Pool(self.pool.iter().map(|it| parse_ranges(it).unwrap()).collect())
        };
        let service = Arc::new(self.services[name].clone());
        plan(&Observed { service, source, holders, slices: self.slices.clone() })
    }

    fn apply(&mut self, name: &str, outcome: &Outcome) {
        let Some(service) = self.services.get_mut(name) else { return };
        let none = BTreeSet::new();
        let (finalizers, addresses) = match outcome {
            Outcome::Settled => return,
            Outcome::Hold(_) if given(service).is_empty() => return,
            Outcome::Hold(_) => (protected(service), &none),
            Outcome::Give(addresses) => (protected(service), addresses),
            Outcome::Release => (unprotected(service), &none),
        };
        let ingress: Vec<Value> =
            addresses.iter().map(|it| json!({"ip": it.to_string()})).collect();
        service.metadata.finalizers = Some(finalizers);
        let status = json!({"loadBalancer": {"ingress": ingress}});
        service.status = Some(serde_json::from_value(status).unwrap());
    }

    /// What becomes of a Service that is new or has changed: its addresses, or why it has none.
    fn set(&mut self, text: &str) -> String {
        let mut new = service(text);
        let name = new.metadata.name.clone().unwrap();
        if let Some(old) = self.services.get(&name) {
            new.metadata.finalizers.clone_from(&old.metadata.finalizers);
            new.status.clone_from(&old.status);
        }
        self.services.insert(name.clone(), new);
        self.look(&name)
    }

    fn look(&mut self, name: &str) -> String {
        let outcome = self.plan(name);
        self.apply(name, &outcome);
        match outcome {
            Outcome::Hold(why) => why,
            Outcome::Release => "released".to_owned(),
            Outcome::Settled | Outcome::Give(_) => {
                let all = given(&self.services[name]);
                all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

#[test]
fn a_pool_gives_each_service_an_address_of_its_own() {
    let mut model = Model::of_pool(&["192.0.2.0/30", "fd00::1-fd00::2"]);
    assert_eq!(model.set("a 80"), "192.0.2.1");
    assert_eq!(model.set("b 80 families=6,4"), "192.0.2.2 fd00::1");
    assert_eq!(model.set("c 80"), "--load-balancer-pool has no IPv4 address left");
    // One family is better than none.
    assert_eq!(model.set("d 80 families=4,6"), "fd00::2");
    assert_eq!(model.look("a"), "192.0.2.1");
    assert_eq!(model.set("a 81"), "192.0.2.1");
    assert_eq!(model.set("a 81 deleting"), "released");
    assert!(model.services["a"].metadata.finalizers.as_ref().unwrap().is_empty());
    model.services.remove("a");
    assert_eq!(model.look("c"), "192.0.2.1");
}

#[test]
fn who_asks_for_an_address_gets_that_one_and_may_share_it() {
    let mut model = Model::of_pool(&["192.0.2.0/28"]);
    assert_eq!(model.set("a 80 ip=192.0.2.9"), "192.0.2.9");
    assert_eq!(model.set("b 81 asks=192.0.2.9"), "192.0.2.9");
    assert_eq!(
        model.set("c 80 ip=192.0.2.9"),
        "port 80/TCP of 192.0.2.9 is taken by Service default/a"
    );
    assert_eq!(model.set("d 80 ip=192.0.2.99"), "192.0.2.99 is not in --load-balancer-pool");
    assert_eq!(model.set("e 80 ip=here"), "\"here\" is no address");
    assert_eq!(model.set("d 80"), "192.0.2.1");
    assert_eq!(model.set("d 80 ip=192.0.2.5"), "192.0.2.5");
}

#[test]
fn without_a_pool_services_share_the_nodes_port_by_port() {
    let mut model = Model::of_nodes(&["n1 10.0.0.1,fd00::1", "n2 10.0.0.2 external=192.0.2.7"]);
    assert_eq!(model.set("a 80"), "10.0.0.1 192.0.2.7");
    assert_eq!(model.set("b 81 families=6"), "fd00::1");
    assert_eq!(model.set("c 80"), "port 80/TCP of 10.0.0.1 is taken by Service default/a");
    assert_eq!(model.set("d 82 ip=10.0.0.1"), "10.0.0.1");
    assert_eq!(model.set("e 82"), "192.0.2.7");
    assert_eq!(model.set("f 83 ip=10.9.9.9"), "10.9.9.9 is no address of a node that can have it");
    assert_eq!(model.set("g 80 class"), "");
    model.set("a 80 ClusterIP");
    assert_eq!(model.look("c"), "10.0.0.1 192.0.2.7");
}

#[test]
fn nodes_that_are_not_ready_or_excluded_are_left_out() {
    let mut model = Model::of_nodes(&["n1 10.0.0.1 NotReady", "n2 10.0.0.2 excluded"]);
    assert_eq!(model.set("a 80"), "there are no available nodes for LoadBalancer");
    model.nodes = vec![node("n1 10.0.0.1"), node("n2 10.0.0.2 excluded")];
    assert_eq!(model.look("a"), "10.0.0.1");
    assert_eq!(model.set("b 80 families=6"), "no node has an address of the Service's families");
    let many: Vec<String> = (1..40).map(|it| format!("n{it:02} 10.0.0.{it}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut model = Model::of_nodes(&many);
    assert_eq!(model.set("a 80").split(' ').count(), 16);
}

#[test]
fn traffic_that_stays_on_its_node_is_for_nodes_with_endpoints() {
    let mut model = Model::of_nodes(&["n1 10.0.0.1", "n2 10.0.0.2"]);
    let why = "no node has an endpoint, and externalTrafficPolicy is Local";
    assert_eq!(model.set("a 80 local"), why);
    let slice = json!({
        "metadata": {"name": "a-1"}, "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.1.0.1"], "nodeName": "n2", "conditions": {"ready": true}},
            {"addresses": ["10.1.0.2"], "nodeName": "n1", "conditions": {"ready": false}},
        ],
    });
    model.slices = vec![Arc::new(serde_json::from_value(slice).unwrap())];
    assert_eq!(model.look("a"), "10.0.0.2");
}

#[test]
fn ports_of_pods_and_of_the_server_are_taken() {
    let mut model = Model::of_nodes(&["n1 10.0.0.1", "n2 10.0.0.2"]);
    let ports = json!([{"containerPort": 8080, "hostPort": 80}]);
    let pod = json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "ports": ports}]},
        "status": {"phase": "Running"},
    });
    model.pods = vec![Arc::new(PodView::from(&serde_json::from_value::<Pod>(pod).unwrap()))];
    assert_eq!(model.set("a 80"), "10.0.0.2");
    assert_eq!(model.set("b 80 ip=10.0.0.1"), "port 80/TCP of 10.0.0.1 is taken by Pod default/p");
    let slice = json!({
        "metadata": {"name": "kubernetes"}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 6443}],
    });
    model.server = Some(Holder::of_server(&serde_json::from_value(slice).unwrap()));
    assert_eq!(
        model.set("c 6443 ip=10.0.0.1"),
        "port 6443/TCP of 10.0.0.1 is taken by the API server"
    );
}

#[test]
fn addresses_that_somebody_else_gave_stay() {
    let mut model = Model::of_pool(&["192.0.2.0/28"]);
    let mut other = service("a 80");
    let status = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.1"}]}});
    other.status = Some(serde_json::from_value(status).unwrap());
    model.services.insert("a".to_owned(), other.clone());
    assert_eq!(model.look("a"), "198.51.100.1");
    other.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    model.services.insert("a".to_owned(), other);
    assert_eq!(model.look("a"), "192.0.2.1");
}

#[test]
fn ranges_are_read_and_others_refused() {
    let first =
        |text: &str| parse_ranges(text).map(|it| it.addresses().next().unwrap().to_string()).ok();
    assert_eq!(first("192.0.2.0/24").as_deref(), Some("192.0.2.1"));
    assert_eq!(first("192.0.2.7/32").as_deref(), Some("192.0.2.7"));
    assert_eq!(first("192.0.2.10 - 192.0.2.20").as_deref(), Some("192.0.2.10"));
    assert_eq!(first("fd00::/8").as_deref(), Some("fd00::1"));
    assert_eq!(first("fd00::7").as_deref(), Some("fd00::7"));
    for text in ["", "192.0.2.9-192.0.2.1", "192.0.2.1-fd00::1", "192.0.2.0/33", "web"] {
        assert_eq!(first(text), None, "{text}");
    }
    // More than could be walked.
    assert!(parse_ranges("::/0").unwrap().addresses().count() < 100_000);
}

proptest! {
    /// However Services come, they come to rest, and no two have one port of one address.
    #[test]
    fn no_port_of_an_address_has_two_owners(
        texts in prop::collection::vec("[a-f] 8[0-2]( families=(4|6|4,6))?( ip=10\\.0\\.0\\.[1-3])?", 1..8),
        is_pooled: bool,
    ) {
        let mut model = if is_pooled {
            Model::of_pool(&["10.0.0.0/29", "fd00::1-fd00::3"])
        } else {
            Model::of_nodes(&["n1 10.0.0.1,fd00::1", "n2 10.0.0.2"])
        };
        for text in &texts {
            model.set(text);
        }
        let names: Vec<String> = model.services.keys().cloned().collect();
        let rested = converges(
            |model: &Model| {
                let plans = names.iter().map(|it| (it.clone(), model.plan(it)));
                let first = plans.into_iter().find(|(name, it)| match it {
                    Outcome::Hold(_) => !given(&model.services[name]).is_empty(),
                    other => *other != Outcome::Settled,
                });
                first.into_iter().collect()
            },
            |model, (name, outcome)| model.apply(&name, &outcome),
            model,
            20,
        );
        let model = rested.unwrap();
        let mut owners = BTreeMap::new();
        for (name, service) in &model.services {
            let port = service.spec.as_ref().unwrap().ports.as_ref().unwrap()[0].port;
            for address in given(service) {
                let before = owners.insert((address, port), name.clone());
                prop_assert_eq!(before, None, "{} {}", address, port);
            }
        }
    }
}
