//! Where everything of one further node is: on disk, in the kernel, in the network. Pure.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use node_api::ClusterId;
use stdx::Family;

use crate::cluster::{Cluster, LocalNode, LocalNodes};

/// Of the directory of the cluster.
const DIRECTORY: &str = "nodes";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(super) cluster: ClusterId,
    pub(crate) name: String,
    pub(super) number: u8,
    /// With what the node has in place of the machine's files, and the directory of its agent.
    pub(super) directory: PathBuf,
    /// Of the whole cluster.
    pub(super) cluster_directory: PathBuf,
    /// From the root of the machine's hierarchies; all of the node is below it.
    pub(super) cgroup: String,
    /// One of each family of the network between the nodes, with the length of its prefix.
    pub(super) addresses: Vec<(IpAddr, u8)>,
    /// The machine's own there.
    pub(super) gateways: Vec<IpAddr>,
    /// Where the machine answers for names.
    pub(super) machine_dns: Vec<IpAddr>,
}

impl Place {
    pub(crate) fn all(cluster: &Cluster, cluster_directory: &Path) -> Vec<Self> {
        let local = cluster.local_nodes.as_ref();
        let nodes = local.into_iter().flat_map(|it| it.nodes.iter().map(move |node| (it, node)));
        nodes.map(|(local, it)| Self::of(cluster, cluster_directory, local, it)).collect()
    }

    /// The node of this name; of another it says which there are.
    pub(crate) fn find(cluster: &Cluster, cluster_directory: &Path, name: &str) -> Result<Self> {
        let own = cluster.node.as_ref().map(|it| it.name.as_str()).unwrap_or_default();
        let mut all = Self::all(cluster, cluster_directory);
        if let Some(at) = all.iter().position(|it| it.name == name) {
            return Ok(all.swap_remove(at));
        }
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        let others = match &names[..] {
            [] => "there are none: see `xebec up --nodes`".to_owned(),
            names => format!("there are {}", names.join(", ")),
        };
        if name == own {
            bail!(
                "{name} is the node of `xebec up` itself, which runs the control plane as well: `xebec down` ends both; of further nodes {others}"
            );
        }
        bail!("{name} is no further node of this machine; {others}")
    }

    fn of(cluster: &Cluster, directory: &Path, local: &LocalNodes, node: &LocalNode) -> Self {
        let prefix = |it: &IpAddr| {
            let range = local.ranges.of(Family::of(*it));
            range.map_or_else(|| Family::of(*it).bits(), |it| it.prefix_length())
        };
        let addresses = local.addresses(node.number);
        Self {
            cluster: cluster.id,
            name: node.name.clone(),
            number: node.number,
            directory: folder(directory).join(&node.name),
            cluster_directory: directory.to_owned(),
            cgroup: format!("{}/{}", cgroup(cluster), node.name),
            addresses: addresses.into_iter().map(|it| (it, prefix(&it))).collect(),
            gateways: local.gateways(),
            machine_dns: cluster.gateways(),
        }
    }

    /// As `xebec join` keeps one.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Where the agent says that it is there: not beside the clusters of the machine.
    pub(super) fn registry(&self) -> PathBuf {
        self.directory.join("registry")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// Which process the node's first one is.
    pub(super) fn init(&self) -> PathBuf {
        self.directory.join("init.json")
    }

    pub(super) fn agent(&self) -> PathBuf {
        self.directory.join("agent.json")
    }

    /// The machine's end of its cable. `n100-00c0ffee` is not too long for a link.
    pub(super) fn port(&self) -> String {
        format!("n{}-{}", self.number, self.cluster)
    }

    pub(crate) fn cgroup(&self) -> &str {
        &self.cgroup
    }

    pub(crate) fn ips(&self) -> Vec<IpAddr> {
        self.addresses.iter().map(|(address, _)| *address).collect()
    }
}

/// Below which those of all further nodes are.
pub(super) fn cgroup(cluster: &Cluster) -> String {
    let root = cluster.node.as_ref().map(|it| it.cgroup_root.trim_matches('/'));
    match root.unwrap_or_default() {
        "" => DIRECTORY.to_owned(),
        root => format!("{root}/{DIRECTORY}"),
    }
}

/// What there is of all of them.
pub(super) fn folder(cluster_directory: &Path) -> PathBuf {
    cluster_directory.join(DIRECTORY)
}

/// The cluster and the node that a directory is the agent's of, if it is one.
pub(crate) fn owner(data: &Path) -> Option<(PathBuf, String)> {
    let node = data.parent().filter(|_| data.file_name().is_some_and(|it| it == "data"))?;
    let folder = node.parent().filter(|it| it.file_name().is_some_and(|it| it == DIRECTORY))?;
    let cluster = folder.parent()?.to_owned();
    let known = Cluster::load(&cluster).ok().flatten()?;
    let name = node.file_name()?.to_str()?.to_owned();
    let is_one = known.local_nodes?.nodes.iter().any(|it| it.name == name);
    is_one.then_some((cluster, name))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cluster::{LocalNode, LocalNodes};

    /// `host-2` and `host-3`, with both families.
    pub(in crate::local_nodes) fn places() -> Vec<Place> {
        Place::all(&cluster(), Path::new("/data/a"))
    }

    fn cluster() -> Cluster {
        let ranges = "10.234.0.0/24,fd00:10:234::/64";
        let nodes =
            [2, 3].map(|number| LocalNode { name: format!("host-{number}"), number }).into();
        let local = LocalNodes {
            ranges: crate::commands::network::parse_pod_cidrs(ranges).unwrap(),
            nodes,
        };
        Cluster { local_nodes: Some(local), ..crate::cluster::sample("a") }
    }

    #[test]
    fn each_node_has_places_of_its_own() {
        let [second, third] = &places()[..] else { panic!("there are two") };
        assert_eq!(second.data(), Path::new("/data/a/nodes/host-2/data"));
        assert_eq!(second.cgroup, "xebec-0000000a/nodes/host-2");
        assert_eq!(third.port(), "n3-0000000a");
        let shown = |it: &Place| {
            let addresses = it.addresses.iter().map(|(it, length)| format!("{it}/{length}"));
            addresses.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(second), "10.234.0.2/24 fd00:10:234::2/64");
        assert_eq!(shown(third), "10.234.0.3/24 fd00:10:234::3/64");
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_those_that_there_are() {
        let check = |name: &str, expected: &str| {
            let found = Place::find(&cluster(), Path::new("/data/a"), name);
            let said = found.map_or_else(|err| err.to_string(), |it| it.port());
            assert!(said.contains(expected), "{name}: {said}");
        };
        check("host-3", "n3-0000000a");
        check("host-4", "host-4 is no further node of this machine; there are host-2, host-3");
        check("host", "host is the node of `xebec up` itself");
    }
}
