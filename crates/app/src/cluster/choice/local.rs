//! The further nodes of a machine: how many, what they are called, and in which network.

use apimachinery::validation::is_dns_subdomain;

use super::{Choosing, NODES};
use crate::cluster::{Cluster, LocalNode, LocalNodes};
use crate::commands::network::Cidrs;

/// As many as have addresses in the network that is chosen, with some to spare.
const NODES_MAX: u8 = 100;
/// Of a value of a label, and of what the kernel takes for the name of a machine.
const NAME_MAX: usize = 63;

impl Choosing<'_> {
    /// Of a cluster whose other ranges are chosen. Nodes that there are stay, with their names.
    pub(super) fn local_nodes(&mut self, cluster: &Cluster) -> Option<LocalNodes> {
        let kept = self.kept.and_then(|it| it.local_nodes.clone());
        let n_kept = 1 + kept.as_ref().map_or(0, |it| it.nodes.len());
        let wanted = self.wishes.nodes.map_or(n_kept, usize::from);
        if wanted < n_kept {
            self.problems.push(format!(
                "--nodes {wanted}: this cluster has {n_kept} nodes on this machine, and they stay; end it with `xebec down --purge` for fewer"
            ));
        }
        if wanted > usize::from(NODES_MAX) {
            self.problems.push(format!("--nodes {wanted}: at most {NODES_MAX}"));
        }
        let wishes = self.wishes.node.as_ref();
        if wanted <= 1 || wanted > usize::from(NODES_MAX) {
            if self.wishes.node_cidrs.is_some() {
                self.problems.push("--node-cidr: there is one node alone: see --nodes".to_owned());
            }
            return kept;
        }
        let Some(wishes) = wishes else {
            // What there is goes on without the machine's own node until that comes back.
            if self.wishes.nodes.is_some() {
                self.problems
                    .push(format!("--nodes {wanted}: without a node there are no further ones"));
            }
            return kept;
        };
        let ranges = self.ranges_between(cluster, kept.as_ref());
        let first = self.node_name(wishes);
        let mut nodes = kept.map(|it| it.nodes).unwrap_or_default();
        for number in 2..=u8::try_from(wanted).unwrap_or(NODES_MAX) {
            if nodes.iter().all(|it| it.number != number) {
                nodes.push(LocalNode::beside(&first, number));
            }
        }
        self.validate_nodes(&ranges, &nodes);
        Some(LocalNodes { ranges, nodes })
    }

    /// With every family that pods have: the ways between nodes are of these.
    fn ranges_between(&mut self, cluster: &Cluster, kept: Option<&LocalNodes>) -> Cidrs {
        let kept = kept.map(|it| it.ranges.clone());
        let given = self.wishes.node_cidrs.clone();
        if let (Some(kept), Some(given)) =
            (&kept, given.as_ref().filter(|it| kept.as_ref() != Some(it)))
        {
            self.problems.push(format!(
                "--node-cidr {given}: the nodes of this machine have addresses of {kept}, and keep them"
            ));
        }
        let families = cluster.pod_cidrs.families();
        let others = [&cluster.pod_cidrs, &cluster.service_cidrs];
        let ranges = self.cidrs(&NODES, kept.or(given), &families, &others);
        if let Some(family) = families.into_iter().find(|it| ranges.of(*it).is_none()) {
            self.problems.push(format!(
                "pods have {family} addresses and nodes have none, {ranges}: choose others with --node-cidr"
            ));
        }
        if let Some(other) = others.into_iter().find(|it| it.overlaps(&ranges)) {
            self.problems.push(format!(
                "the addresses of nodes, {ranges}, overlap {other}: choose others with --node-cidr"
            ));
        }
        ranges
    }

    fn validate_nodes(&mut self, ranges: &Cidrs, nodes: &[LocalNode]) {
        for LocalNode { name, .. } in nodes {
            let mut problems = is_dns_subdomain(name);
            if name.len() > NAME_MAX {
                problems.push(format!("must be no more than {NAME_MAX} bytes"));
            }
            let say =
                |it| format!("--nodes: the name {name:?}: {it}; choose a shorter --node-name");
            self.problems.extend(problems.into_iter().map(say));
        }
        let last = nodes.iter().map(|it| it.number).max().unwrap_or(1);
        for range in ranges.all() {
            // The last address of IPv4 is everybody's.
            if range.nth(u128::from(last) + 1).is_none() {
                self.problems.push(format!(
                    "--node-cidr: {range} has no addresses for {last} nodes: choose a larger one"
                ));
            }
        }
    }
}
