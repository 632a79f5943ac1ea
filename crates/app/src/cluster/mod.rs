//! The clusters of this machine, which do not meet: what each is called and has, and how a new one
//! gets what nobody else has. A cluster's own directory is the truth; the registry only says where
//! directories are. See docs/adr/0015-several-clusters-on-one-machine.md.

mod choice;
mod claim;
mod local;
mod name;
mod neighborhood;
mod ports;
mod registry;
mod selection;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use node_api::ClusterId;
use serde::{Deserialize, Deserializer, Serialize};
use stdx::{Cidr, Family};

use crate::commands::network::{Cidrs, PortRange};
use crate::data_dir::write_private;

#[cfg(test)]
pub(crate) use choice::tests::cluster as sample;
pub(crate) use choice::{ContainerRuntime, NodeWishes, Wishes, node_addresses};
pub(crate) use claim::{Claim, claim, claim_node, listen, plan_node};
pub(crate) use local::{LocalNode, LocalNodes, switch_group};
pub(crate) use name::Name;
pub(crate) use neighborhood::process_in_namespace_of;
pub(crate) use registry::{Known, Registry, VARIABLE as REGISTRY_VARIABLE};
pub(crate) use selection::{Selection, table};

const FILE: &str = "cluster.json";
/// What a node had, before clusters had ids.
const FILE_BEFORE: &str = "node.json";

/// Of the addresses of one node's pods, as upstream's `--node-cidr-mask-size-ipv4` and `-ipv6`.
fn node_prefix(family: Family) -> u8 {
    match family {
        Family::V4 => 24,
        Family::V6 => 64,
    }
}

/// What a cluster is and has. Kept in its directory, so that a restart has the same and `down
/// --purge` finds what `up` made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Cluster {
    #[serde(with = "id_as_text")]
    pub(crate) id: ClusterId,
    pub(crate) name: Name,
    /// The one it was last started in, as a number of an inode: what others have counts in the same
    /// one only.
    pub(crate) network_namespace: u64,
    pub(crate) bind_address: IpAddr,
    pub(crate) https_port: u16,
    #[serde(rename = "serviceCidr")]
    pub(crate) service_cidrs: Cidrs,
    #[serde(rename = "podCidr")]
    pub(crate) pod_cidrs: Cidrs,
    pub(crate) node_ports: PortRange,
    /// `None`: it never had one.
    pub(crate) node: Option<Node>,
    /// Of a machine that is a node of a cluster elsewhere: all that is here is that node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) joined: Option<Joined>,
    /// `None`: the machine is one node at the most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) local_nodes: Option<LocalNodes>,
}

/// Where the cluster is that a machine has joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Joined {
    /// `192.0.2.1:6443`
    pub(crate) server: String,
    /// All that were known of, for when that one is away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) others: Vec<SocketAddr>,
}

impl Joined {
    /// Where nobody knows of others yet.
    pub(crate) fn at(server: &str) -> Self {
        Self { server: server.to_owned(), others: Vec::new() }
    }
}

/// The node on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Node {
    pub(crate) name: String,
    /// Those that were asked for, one of each family at the most. (One alone was `ip` before.)
    #[serde(alias = "ip", deserialize_with = "one_or_many")]
    pub(crate) ips: Vec<IpAddr>,
    pub(crate) bridge: String,
    pub(crate) cgroup_root: String,
    pub(crate) kubelet_port: u16,
    /// Its parts of the pod network, if they are not the first ones. (There was one node before.)
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pod_cidrs: Vec<Cidr>,
    /// The socket of the runtime that has the pods; `None`: we ourselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) container_runtime: Option<PathBuf>,
}

impl Cluster {
    pub(crate) fn save(&self, data_dir: &Path) -> Result<()> {
        let json = serde_json::to_vec_pretty(self).context("encoding what the cluster has")?;
        let path = data_dir.join(FILE);
        write_private(&path, &json).with_context(|| format!("writing {}", path.display()))
    }

    /// `None`: no cluster was started on the directory yet.
    pub(crate) fn load(data_dir: &Path) -> Result<Option<Self>> {
        let path = data_dir.join(FILE);
        match std::fs::read(&path) {
            Ok(json) => serde_json::from_slice(&json)
                .map(Some)
                .with_context(|| format!("reading {}", path.display())),
            Err(err)
                if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                anyhow::ensure!(
                    !data_dir.join(FILE_BEFORE).exists(),
                    "{} was made by a xebec from before clusters had ids: save its objects with `xebec store snapshot`, end it with that \
                     xebec's `down --purge`, and restore them",
                    data_dir.display()
                );
                Ok(None)
            }
            Err(err) => Err(err).with_context(|| format!("reading {}", path.display())),
        }
    }

    /// The node's parts of the pod network: those that it was given, else what the first node gets,
    /// the first of each family.
    pub(crate) fn node_cidrs(&self) -> Vec<Cidr> {
        let given = self.node.as_ref().map(|it| it.pod_cidrs.clone()).unwrap_or_default();
        // One that has joined is given some, and until then has none.
        if !given.is_empty() || self.joined.is_some() {
            return given;
        }
        let part = |whole: &Cidr| {
            let prefix_length = whole.prefix_length().max(node_prefix(whole.family()));
            whole.subnet(prefix_length, 0).unwrap_or(*whole)
        };
        self.pod_cidrs.all().iter().map(part).collect()
    }

    /// The first address of each of the node's parts.
    pub(crate) fn gateways(&self) -> Vec<IpAddr> {
        self.node_cidrs().iter().filter_map(|it| it.nth(1)).collect()
    }

    /// Where the machine's own node is found: where it was said to be, else where its further nodes
    /// reach it. Empty: wherever the machine is.
    pub(crate) fn node_ips(&self) -> Vec<IpAddr> {
        let given = self.node.as_ref().map(|it| it.ips.clone()).unwrap_or_default();
        match (&given[..], &self.local_nodes) {
            ([], Some(local)) => local.gateways(),
            _ => given,
        }
    }

    /// Names of all nodes of this machine.
    pub(crate) fn nodes_here(&self) -> Vec<&str> {
        let further = self.local_nodes.iter().flat_map(|it| &it.nodes);
        let own = self.node.iter().map(|it| it.name.as_str());
        own.chain(further.map(|it| it.name.as_str())).collect()
    }

    /// Where clients on this machine reach the API server.
    pub(crate) fn server(&self) -> String {
        let own = SocketAddr::new(self.bind_address, self.https_port);
        let own = || crate::api_server::reachable(own).to_string();
        self.joined.as_ref().map_or_else(own, |it| it.server.clone())
    }

    /// Whether machines elsewhere reach the API server, and so may become nodes.
    pub(crate) fn takes_nodes(&self) -> bool {
        self.joined.is_none() && !self.bind_address.is_loopback()
    }
}

/// Where there was one address, or none, before there were two families.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<IpAddr>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Many(Vec<IpAddr>),
        One(Option<IpAddr>),
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::Many(addresses) => addresses,
        Written::One(address) => address.into_iter().collect(),
    })
}

mod id_as_text {
    use node_api::ClusterId;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(id: &ClusterId, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(id)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<ClusterId, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_before_there_were_two_families_is_read() {
        let node = r#""name": "a", "bridge": "xebec0", "cgroupRoot": "x", "kubeletPort": 1"#;
        let check = |ip: &str, expected: &[&str]| {
            let json = format!(
                r#"{{"id": "0000000a", "name": "a", "networkNamespace": 1, "bindAddress": "127.0.0.1",
                "httpsPort": 1, "serviceCidr": {{"address": "10.96.0.0", "prefix_length": 16}},
                "podCidr": {{"address": "10.244.0.0", "prefix_length": 16}},
                "nodePorts": {{"first": 1, "last": 2}}, "node": {{"ip": {ip}, {node}}}}}"#
            );
            let cluster: Cluster = serde_json::from_str(&json).unwrap();
            let ips = cluster.node.as_ref().map(|it| it.ips.clone()).unwrap_or_default();
            let shown: Vec<_> = ips.iter().map(ToString::to_string).collect();
            assert_eq!(shown, expected);
            assert_eq!(cluster.node_cidrs(), ["10.244.0.0/24".parse().unwrap()]);
            let again = serde_json::to_string(&cluster).unwrap();
            assert_eq!(serde_json::from_str::<Cluster>(&again).unwrap(), cluster);
        };
        check("null", &[]);
        check(r#""192.0.2.1""#, &["192.0.2.1"]);
    }

    #[test]
    fn a_node_has_the_first_part_of_each_range() {
        let check = |pods: &str, expected: &[&str], gateways: &[&str]| {
            let pod_cidrs = crate::commands::network::parse_pod_cidrs(pods).unwrap();
            let cluster = Cluster { pod_cidrs, ..choice::tests::cluster("a") };
            let show = |it: Vec<Cidr>| it.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(show(cluster.node_cidrs()), expected);
            let found: Vec<_> = cluster.gateways().iter().map(ToString::to_string).collect();
            assert_eq!(found, gateways);
        };
        check("10.244.0.0/16", &["10.244.0.0/24"], &["10.244.0.1"]);
        check("10.244.0.0/26", &["10.244.0.0/26"], &["10.244.0.1"]);
        check(
            "fd00:10:244::/56,10.244.0.0/16",
            &["fd00:10:244::/64", "10.244.0.0/24"],
            &["fd00:10:244::1", "10.244.0.1"],
        );
        check("fd00::/112", &["fd00::/112"], &["fd00::1"]);
    }
}
