//! All that is known of pods, policies, namespaces and nodes, and the tables that follow from it.
//! Pure: whoever has it tells the kernel ([`State::take_changes`]).
//!
//! A change costs what it concerns: selectors are found by labels, each thing that rules ask for is
//! kept once, and only that of policies that select a pod of this node.

mod decide;
mod pods;
mod policies;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use api::Pairs;
use apimachinery::ObjectKey;
use linux::netlink::nftables::{Change, Table};
use node_api::{PodUid, SandboxId};
use stdx::Family;

pub use decide::{Connection, Decision};

use super::anchors::Anchors;
use super::model::{ClusterPolicy, Pod, Policy, Protocol};
use super::tables::Side;
use super::terms::Terms;
use super::{chains, tables};
use policies::{Content, GroupId, Groups, HeldPolicy, PolicyId};

/// A name server of the cluster that is no pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameServer {
    pub address: IpAddr,
    /// With their names.
    pub ports: Vec<super::model::NamedPort>,
}

#[derive(Debug)]
pub struct State {
    /// This one.
    node: String,
    sides: Vec<Side>,
    pods: BTreeMap<ObjectKey, Pod>,
    attached: BTreeMap<ObjectKey, BTreeMap<SandboxId, Attached>>,
    /// Of those that are attached: whose the address is, whatever the API says of others.
    claims: BTreeMap<IpAddr, ObjectKey>,
    /// Who has the address, as far as the API knows.
    by_address: BTreeMap<IpAddr, BTreeSet<ObjectKey>>,
    namespaces: BTreeMap<String, Pairs>,
    nodes: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Pods on the network of their node, by node.
    on_host: BTreeMap<String, BTreeSet<ObjectKey>>,
    name_servers: BTreeSet<NameServer>,
    terms: Terms,
    policies: BTreeMap<PolicyId, HeldPolicy>,
    policy_ids: BTreeMap<ObjectKey, PolicyId>,
    policy_slots: super::slots::Slots,
    /// By namespace; those of the cluster under none.
    selecting: BTreeMap<String, Anchors<PolicyId>>,
    groups: Groups,
    /// The pods of this node, with what holds for each of their addresses.
    subjects: BTreeMap<ObjectKey, BTreeMap<IpAddr, Applied>>,
    /// Two pods may have one address while one of them ends: then the last counts.
    by_subject_address: BTreeMap<IpAddr, BTreeMap<ObjectKey, Applied>>,
    /// Addresses whose connections may not be allowed any more.
    suspects: BTreeSet<IpAddr>,
}

#[derive(Clone, Debug)]
struct Attached {
    uid: PodUid,
    addresses: Vec<IpAddr>,
}

/// `None`: not isolated in this direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Applied {
    ingress: Option<GroupId>,
    egress: Option<GroupId>,
}

/// The namespace and the label that upstream's policies know cluster DNS by.
const DNS_NAMESPACE: &str = "kube-system";
const DNS_LABEL: (&str, &str) = ("k8s-app", "kube-dns");

/// No pod has such a name.
fn dns_key(server: &NameServer) -> ObjectKey {
    ObjectKey::new(DNS_NAMESPACE, format!("name server {}", server.address))
}

impl State {
    /// For the pods of this node, in these families.
    pub fn new(node: impl Into<String>, families: &[Family]) -> Self {
        Self {
            node: node.into(),
            sides: families.iter().map(|it| Side::new(*it)).collect(),
            pods: BTreeMap::new(),
            attached: BTreeMap::new(),
            claims: BTreeMap::new(),
            by_address: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            nodes: BTreeMap::new(),
            on_host: BTreeMap::new(),
            name_servers: BTreeSet::new(),
            terms: Terms::default(),
            policies: BTreeMap::new(),
            policy_ids: BTreeMap::new(),
            policy_slots: super::slots::Slots::default(),
            selecting: BTreeMap::new(),
            groups: Groups::default(),
            subjects: BTreeMap::new(),
            by_subject_address: BTreeMap::new(),
            suspects: BTreeSet::new(),
        }
    }

    /// `None`: it is gone.
    pub fn set_pod(&mut self, key: &ObjectKey, pod: Option<Pod>) {
        if self.pods.get(key) == pod.as_ref() {
            return;
        }
        self.change(BTreeSet::from([key.clone()]), |it| {
            it.forget_places(key);
            match pod {
                Some(pod) => {
                    it.remember_places(key, &pod);
                    it.pods.insert(key.clone(), pod);
                }
                None => {
                    it.pods.remove(key);
                }
            }
        });
    }

    /// The pod gets these addresses now. Its policies hold when the kernel was told.
    pub fn attach(
        &mut self,
        sandbox: &SandboxId,
        (key, uid): (&ObjectKey, &PodUid),
        addresses: &[IpAddr],
    ) {
        let attached = Attached { uid: uid.clone(), addresses: addresses.to_vec() };
        self.change(self.keys_at(key, addresses), |it| {
            it.attached.entry(key.clone()).or_default().insert(sandbox.clone(), attached);
            it.claims.extend(addresses.iter().map(|it| (*it, key.clone())));
        });
    }

    pub fn detach(&mut self, sandbox: &SandboxId, key: &ObjectKey) {
        let of_pod = self.attached.get(key).and_then(|it| it.get(sandbox));
        let Some(addresses) = of_pod.map(|it| it.addresses.clone()) else { return };
        self.change(self.keys_at(key, &addresses), |it| {
            let Some(of_pod) = it.attached.get_mut(key) else { return };
            of_pod.remove(sandbox);
            let left: BTreeSet<_> = of_pod.values().flat_map(|it| it.addresses.clone()).collect();
            if of_pod.is_empty() {
                it.attached.remove(key);
            }
            it.claims.retain(|address, owner| {
                owner != key || left.contains(address) || !addresses.contains(address)
            });
        });
    }

    pub fn set_namespace(&mut self, name: &str, labels: Option<Pairs>) {
        if self.namespaces.get(name) == labels.as_ref() {
            return;
        }
        self.change(self.pods_of(name), |it| {
            match labels {
                Some(labels) => it.namespaces.insert(name.to_owned(), labels),
                None => it.namespaces.remove(name),
            };
        });
    }

    /// All of its addresses: also those that its own processes have among pods.
    pub fn set_node(&mut self, name: &str, addresses: Option<BTreeSet<IpAddr>>) {
        if self.nodes.get(name) == addresses.as_ref() {
            return;
        }
        self.change(self.on_host.get(name).cloned().unwrap_or_default(), |it| {
            match addresses {
                Some(addresses) => it.nodes.insert(name.to_owned(), addresses),
                None => it.nodes.remove(name),
            };
        });
    }

    /// Those that are no pods count as one `k8s-app=kube-dns` of kube-system each.
    pub fn set_name_servers(&mut self, servers: BTreeSet<NameServer>) {
        let before = std::mem::take(&mut self.name_servers);
        for gone in before.difference(&servers) {
            self.set_pod(&dns_key(gone), None);
        }
        for come in &servers {
            let pod = Pod {
                labels: [DNS_LABEL].into_iter().collect(),
                addresses: vec![come.address],
                ports: come.ports.clone(),
                ..Pod::default()
            };
            self.set_pod(&dns_key(come), Some(pod));
        }
        let keys = |servers: &BTreeSet<NameServer>| {
            let ports =
                servers.iter().flat_map(|it| it.ports.iter().map(|port| (it.address, port)));
            let key = |(address, port): (IpAddr, &super::model::NamedPort)| {
                (address, port.protocol, port.number)
            };
            ports.map(key).collect::<BTreeSet<_>>()
        };
        let (old, new) = (keys(&before), keys(&servers));
        for (address, protocol, port) in old.difference(&new) {
            if let Some(side) = side(&mut self.sides, *address) {
                side.remove(chains::DNS, &tables::port(*address, *protocol, *port));
            }
        }
        for (address, protocol, port) in new.difference(&old) {
            if let Some(side) = side(&mut self.sides, *address) {
                side.put(chains::DNS, tables::port(*address, *protocol, *port), None);
            }
        }
        self.name_servers = servers;
    }

    /// `None`: it is gone.
    pub fn set_policy(&mut self, key: &ObjectKey, policy: Option<Policy>) {
        self.change_policy(key, policy.map(|it| Content::Namespaced(Arc::new(it))));
    }

    /// `None`: it is gone.
    pub fn set_cluster_policy(&mut self, name: &str, policy: Option<ClusterPolicy>) {
        let after = policy.map(|it| Content::Cluster(Arc::new(it)));
        self.change_policy(&ObjectKey::cluster(name), after);
    }

    /// The tables of each family as they should be; `None`: there should be none.
    pub fn tables(&self) -> impl Iterator<Item = (Family, Option<&Table>)> {
        self.sides.iter().map(|it| (it.family, it.table()))
    }

    /// What makes of the tables that the kernel was told of last those of now.
    pub fn take_changes(&mut self) -> Vec<(Family, Vec<Change>)> {
        let changes = self.sides.iter_mut().map(|it| (it.family, it.take_changes())).collect();
        self.settle();
        changes
    }

    /// The kernel has, or will have, all of [`State::tables`].
    pub fn know_told(&mut self) {
        self.sides.iter_mut().for_each(Side::know_told);
        self.settle();
    }

    fn settle(&mut self) {
        self.terms.settle();
        self.groups.settle();
        self.policy_slots.settle();
    }

    /// Addresses of which connections may have been forbidden since this was asked last.
    pub fn take_suspects(&mut self) -> BTreeSet<IpAddr> {
        std::mem::take(&mut self.suspects)
    }

    /// They are to be asked for again.
    pub(super) fn suspect(&mut self, suspects: BTreeSet<IpAddr>) {
        self.suspects.extend(suspects);
    }

    /// The sandboxes that are attached, with their pods.
    pub fn sandboxes(&self) -> Vec<(SandboxId, ObjectKey)> {
        let of_pod = |(key, all): (&ObjectKey, &BTreeMap<SandboxId, Attached>)| {
            all.keys().map(|it| (it.clone(), key.clone())).collect::<Vec<_>>()
        };
        self.attached.iter().flat_map(of_pod).collect()
    }

    pub fn policy_keys(&self) -> Vec<ObjectKey> {
        self.policy_ids.keys().filter(|it| !it.namespace.is_empty()).cloned().collect()
    }

    pub fn cluster_policy_names(&self) -> Vec<String> {
        let keys = self.policy_ids.keys().take_while(|it| it.namespace.is_empty());
        keys.map(|it| it.name.clone()).collect()
    }

    pub fn pod_keys(&self) -> Vec<ObjectKey> {
        let is_dns =
            |it: &&ObjectKey| self.name_servers.iter().any(|server| dns_key(server) == **it);
        self.pods.keys().filter(|it| !is_dns(it)).cloned().collect()
    }

    pub fn namespace_names(&self) -> Vec<String> {
        self.namespaces.keys().cloned().collect()
    }

    pub fn node_names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    pub fn is_name_server(&self, address: IpAddr, protocol: Protocol, port: u16) -> bool {
        self.name_servers.iter().any(|it| {
            let is_port =
                |it: &super::model::NamedPort| (it.protocol, it.number) == (protocol, port);
            it.address == address && it.ports.iter().any(is_port)
        })
    }
}

/// Of the address's family.
fn side(sides: &mut [Side], address: IpAddr) -> Option<&mut Side> {
    sides.iter_mut().find(|it| it.family == Family::of(address))
}
