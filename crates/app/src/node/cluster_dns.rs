//! The Service `kube-system/kube-dns`: it leads to the DNS of the node that asks, else to that of any
//! node that is ready. Nodes do not write it; the control plane does, from what the Nodes say.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::core::node::NodeView;
use apimachinery::ApiError;
use client::{Api, Client};
use informer::{EventHandler, Factory, Indexer};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use lifecycle::Tasks;
use stdx::{Backoff, Cidr, Family, World};
use tokio::sync::Notify;

use super::dns::PORT;

/// Of Nodes whose DNS the Service leads to.
pub(super) const LABEL: &str = "xebec.local/dns";
const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-dns";
/// `kubectl cluster-info` says of Services with this label that they answer at
/// `services/NAME/proxy`. There is no such path here.
const ANSWERS_BY_PROXY: &str = "kubernetes.io/cluster-service";
/// (port's name, protocol)
const PORTS: &[(&str, &str)] = &[("dns", "UDP"), ("dns-tcp", "TCP")];
/// More do not fit into a slice; the nodes beyond ask these.
const ENDPOINTS_MAX: usize = 1000;
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Returns at once. `cluster_ips` are those of the Service, its first family's first.
pub(crate) fn spawn(client: Client, cluster_ips: Vec<IpAddr>, tasks: &Tasks, world: &World) {
    let factory = Factory::new(client.clone(), world.clone(), tasks);
    let nodes = factory.informer::<NodeView>();
    let changed = Arc::new(Notify::new());
    nodes.add_event_handler(Arc::new(Changes(changed.clone())));
    let publisher = Publisher { client, nodes: nodes.indexer(), cluster_ips };
    let synced = factory.clone();
    tasks.spawn("cluster-dns", move |shutdown| async move {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = publisher.follow(&synced, &changed) => {}
        }
    });
    factory.start();
}

/// Tells when what is published may be another.
struct Changes(Arc<Notify>);

impl EventHandler<NodeView> for Changes {
    fn on_add(&self, _node: &Arc<NodeView>, _is_initial: bool) {
        self.0.notify_one();
    }

    fn on_update(&self, old: &Arc<NodeView>, new: &Arc<NodeView>) {
        if server_of(old) != server_of(new) {
            self.0.notify_one();
        }
    }

    fn on_delete(&self, _last: &Arc<NodeView>) {
        self.0.notify_one();
    }
}

struct Publisher {
    client: Client,
    nodes: Indexer<NodeView>,
    cluster_ips: Vec<IpAddr>,
}

impl Publisher {
    /// Ends never.
    async fn follow(&self, factory: &Factory, changed: &Notify) {
        factory.wait_for_sync().await;
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX);
        loop {
            changed.notified().await;
            while let Err(err) = self.publish().await {
                let delay = backoff.step();
                tracing::warn!(error = %err, ?delay, "the Service of DNS is not as it should be yet");
                tokio::time::sleep(delay).await;
            }
            backoff.reset();
        }
    }

    async fn publish(&self) -> Result<(), ApiError> {
        let servers: Vec<Server> =
            self.nodes.list().iter().filter_map(|it| server_of(it)).collect();
        let services = self.client.api::<Service>();
        match services.get(NAMESPACE, NAME).await {
            Ok(known) => {
                if let Some(corrected) = corrected(&known, &self.cluster_ips) {
                    services.update(corrected).await?;
                }
            }
            // Nobody answers yet.
            Err(err) if err.is_not_found() && servers.is_empty() => return Ok(()),
            Err(err) if err.is_not_found() => {
                services.create(service(&self.cluster_ips)).await?;
            }
            Err(err) => return Err(err),
        }
        let slices = self.client.api::<EndpointSlice>();
        for (index, cluster_ip) in self.cluster_ips.iter().enumerate() {
            let wanted = endpoint_slice(index, Family::of(*cluster_ip), &servers);
            publish_slice(&slices, wanted).await?;
        }
        Ok(())
    }
}

async fn publish_slice(slices: &Api<EndpointSlice>, wanted: EndpointSlice) -> Result<(), ApiError> {
    let name = wanted.metadata.name.clone().unwrap_or_default();
    match slices.get(NAMESPACE, &name).await {
        Ok(known) if known.endpoints == wanted.endpoints && known.ports == wanted.ports => Ok(()),
        Ok(known) => {
            let mut changed = Arc::unwrap_or_clone(known);
            changed.endpoints = wanted.endpoints;
            changed.ports = wanted.ports;
            slices.update(changed).await.map(|_| ())
        }
        Err(err) if err.is_not_found() => slices.create(wanted).await.map(|_| ()),
        Err(err) => Err(err),
    }
}

/// The DNS of one node, which listens on the first address of each of its ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Server {
    node: String,
    listens: Vec<IpAddr>,
    is_ready: bool,
}

/// `None`: the node has none, or nobody knows where.
fn server_of(node: &NodeView) -> Option<Server> {
    let has_dns = node.meta.labels.iter().any(|(key, value)| key == LABEL && value == "true");
    let ranges = node.pod_cidrs.iter().filter_map(|it| it.parse::<Cidr>().ok());
    let listens: Vec<IpAddr> = ranges.filter_map(|it| it.nth(1)).collect();
    let is_there = has_dns && !node.meta.is_deleting && !listens.is_empty();
    is_there.then(|| Server { node: node.name().to_owned(), listens, is_ready: node.is_ready() })
}

fn labels(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
    Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

fn metadata(pairs: &[(&str, &str)]) -> ObjectMeta {
    ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        labels: labels(pairs),
        ..ObjectMeta::default()
    }
}

/// The Service of a cluster from when it had the label, or one family.
fn corrected(known: &Service, cluster_ips: &[IpAddr]) -> Option<Service> {
    let mut service = known.clone();
    service.metadata.labels.get_or_insert_default().remove(ANSWERS_BY_PROXY);
    let spec = service.spec.get_or_insert_default();
    if let Some(policy) = policy(cluster_ips) {
        spec.ip_family_policy = Some(policy);
    }
    (service != *known).then_some(service)
}

/// `None`: one family, as Services have without saying so.
fn policy(cluster_ips: &[IpAddr]) -> Option<String> {
    (cluster_ips.len() > 1).then(|| "PreferDualStack".to_owned())
}

/// Without a selector: its endpoints are ours to write.
fn service(cluster_ips: &[IpAddr]) -> Service {
    let port_of = |(name, protocol): &(&str, &str)| ServicePort {
        name: Some((*name).to_owned()),
        port: 53,
        protocol: Some((*protocol).to_owned()),
        target_port: Some(IntOrString::Int(PORT.into())),
        ..ServicePort::default()
    };
    Service {
        metadata: metadata(&[("k8s-app", "kube-dns"), ("kubernetes.io/name", "CoreDNS")]),
        spec: Some(ServiceSpec {
            cluster_ip: cluster_ips.first().map(ToString::to_string),
            ip_family_policy: policy(cluster_ips),
            ports: Some(PORTS.iter().map(port_of).collect()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// The first has the name that it had when there was one.
fn endpoint_slice(index: usize, family: Family, servers: &[Server]) -> EndpointSlice {
    let port_of = |(name, protocol): &(&str, &str)| EndpointPort {
        name: Some((*name).to_owned()),
        port: Some(PORT.into()),
        protocol: Some((*protocol).to_owned()),
        ..EndpointPort::default()
    };
    let mut endpoints: Vec<Endpoint> =
        servers.iter().filter_map(|it| endpoint(it, family)).collect();
    endpoints.sort_by(|one, two| one.node_name.cmp(&two.node_name));
    endpoints.truncate(ENDPOINTS_MAX);
    let family = family.to_string();
    let suffix = if index == 0 { String::new() } else { format!("-{}", family.to_lowercase()) };
    let labels =
        [("kubernetes.io/service-name", NAME), ("endpointslice.kubernetes.io/managed-by", "xebec")];
    EndpointSlice {
        metadata: ObjectMeta { name: Some(format!("{NAME}{suffix}")), ..metadata(&labels) },
        address_type: family,
        endpoints: Some(endpoints),
        ports: Some(PORTS.iter().map(port_of).collect()),
    }
}

/// The hint makes a node ask its own.
fn endpoint(server: &Server, family: Family) -> Option<Endpoint> {
    let address = server.listens.iter().find(|it| Family::of(**it) == family)?;
    let for_node = ForNode { name: server.node.clone() };
    Some(Endpoint {
        addresses: vec![address.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(server.is_ready),
            serving: Some(server.is_ready),
            terminating: Some(false),
        }),
        node_name: Some(server.node.clone()),
        hints: Some(EndpointHints { for_nodes: Some(vec![for_node]), ..EndpointHints::default() }),
        ..Endpoint::default()
    })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use api::core::node::NodeView;
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;
    use stdx::Family;

    use super::{ANSWERS_BY_PROXY, corrected, endpoint_slice, labels, server_of, service};

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|it| it.parse().unwrap()).collect()
    }

    #[test]
    fn the_service_does_not_claim_to_answer_by_proxy() {
        let cluster_ips = addresses(&["10.96.0.10"]);
        let made = service(&cluster_ips);
        assert_eq!(corrected(&made, &cluster_ips), None);
        let mut old = made.clone();
        let claim = labels(&[(ANSWERS_BY_PROXY, "true")]).into_iter().flatten();
        old.metadata.labels.get_or_insert_default().extend(claim);
        assert_eq!(corrected(&old, &cluster_ips), Some(made));
    }

    #[test]
    fn a_service_gets_the_family_that_its_cluster_gets() {
        let before = service(&addresses(&["10.96.0.10"]));
        let both = addresses(&["10.96.0.10", "fd00::a"]);
        let after = corrected(&before, &both).unwrap();
        assert_eq!(after.spec.unwrap().ip_family_policy.as_deref(), Some("PreferDualStack"));
        let families = both.iter().map(|it| Family::of(*it));
        let slices = families.enumerate().map(|(index, it)| endpoint_slice(index, it, &[]));
        let names: Vec<_> =
            slices.map(|it| format!("{} {}", it.metadata.name.unwrap(), it.address_type)).collect();
        assert_eq!(names, ["kube-dns IPv4", "kube-dns-ipv6 IPv6"]);
    }

    #[test]
    fn each_node_with_dns_is_an_endpoint_for_itself_first() {
        let node = |name: &str, label: &str, ranges: &[&str], ready: &str| {
            let node: Node = serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"xebec.local/dns": label}},
                "spec": {"podCIDRs": ranges},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            }))
            .unwrap();
            server_of(&NodeView::from(&node))
        };
        let servers: Vec<_> = [
            node("b", "true", &["10.244.1.0/24", "fd00:0:0:1::/64"], "False"),
            node("a", "true", &["10.244.0.0/24"], "True"),
            node("without", "false", &["10.244.2.0/24"], "True"),
            node("new", "true", &[], "True"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let show = |family: Family| -> Vec<String> {
            let slice = endpoint_slice(0, family, &servers);
            let endpoints = slice.endpoints.unwrap().into_iter();
            endpoints
                .map(|it| {
                    let hint = it.hints.unwrap().for_nodes.unwrap().remove(0).name;
                    let is_ready = it.conditions.unwrap().ready.unwrap();
                    format!("{} for {hint}, ready {is_ready}", it.addresses[0])
                })
                .collect()
        };
        let of_a = "10.244.0.1 for a, ready true";
        assert_eq!(show(Family::V4), [of_a, "10.244.1.1 for b, ready false"]);
        assert_eq!(show(Family::V6), ["fd00:0:0:1::1 for b, ready false"]);
    }
}
