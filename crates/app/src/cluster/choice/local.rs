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

#[cfg(test)]
mod tests {
    use super::super::choose;
    use super::super::tests::{around, neighbor, wishes};
    use super::super::{Neighborhood, Wishes};
    use crate::cluster::Cluster;
    use crate::commands::network::parse_pod_cidrs;

    /// The network and the names, or what is wrong.
    fn show(wishes: &Wishes, kept: Option<&Cluster>, around: &Neighborhood<'_>) -> String {
        match choose(wishes, kept, around) {
            Err(problems) => problems.join("\n"),
            Ok(Cluster { local_nodes: None, .. }) => "none".to_owned(),
            Ok(Cluster { local_nodes: Some(local), .. }) => {
                let names: Vec<&str> = local.nodes.iter().map(|it| it.name.as_str()).collect();
                format!("{} {}", local.ranges, names.join(" "))
            }
        }
    }

    fn of(nodes: u8) -> Wishes {
        Wishes { nodes: Some(nodes), ..wishes() }
    }

    #[test]
    fn there_are_as_many_as_are_wished_and_as_there_were() {
        let alone = || around(Vec::new());
        assert_eq!(show(&wishes(), None, &alone()), "none");
        assert_eq!(show(&of(1), None, &alone()), "none");
        assert_eq!(show(&of(3), None, &alone()), "10.234.0.0/24 host-2 host-3");
        let kept = choose(&of(3), None, &alone()).unwrap();
        assert_eq!(show(&wishes(), Some(&kept), &alone()), "10.234.0.0/24 host-2 host-3");
        let said = show(&of(2), Some(&kept), &alone());
        assert!(said.starts_with("--nodes 2: this cluster has 3 nodes"), "{said}");
        // Those that there are keep their names.
        let mut renamed = of(4);
        renamed.node.as_mut().unwrap().name = Some("other".to_owned());
        assert_eq!(show(&renamed, Some(&kept), &alone()), "10.234.0.0/24 host-2 host-3 other-4");
        // Nor does a start without the machine's own node lose them.
        let without = Wishes { node: None, ..wishes() };
        assert_eq!(show(&without, Some(&kept), &alone()), "10.234.0.0/24 host-2 host-3");
        let said = show(&Wishes { node: None, ..of(3) }, None, &alone());
        assert_eq!(said, "--nodes 3: without a node there are no further ones");
    }

    #[test]
    fn their_network_meets_no_other_and_has_the_families_of_pods() {
        let alone = || around(Vec::new());
        let first = choose(&of(2), None, &alone()).unwrap();
        let beside = || around(vec![neighbor(first.clone(), None)]);
        let again = Wishes { fresh_id: "0000000c".parse().unwrap(), ..of(2) };
        assert_eq!(show(&again, None, &beside()), "10.235.0.0/24 host-2");
        let cidrs = |text: &str| Some(parse_pod_cidrs(text).unwrap());
        let dual = cidrs("10.244.0.0/16,fd00:10:244::/56");
        let both = || Wishes { pod_cidrs: dual.clone(), ..of(2) };
        assert_eq!(show(&both(), None, &alone()), "10.234.0.0/24,fd00:10:234::/64 host-2");
        let check = |wishes: Wishes, expected: &str| {
            let said = show(&wishes, None, &alone());
            assert!(said.contains(expected), "{said}");
        };
        check(
            Wishes { node_cidrs: cidrs("192.168.7.0/24"), ..both() },
            "pods have IPv6 addresses and nodes have none, 192.168.7.0/24",
        );
        check(
            Wishes { node_cidrs: cidrs("10.244.7.0/24"), ..of(2) },
            "the addresses of nodes, 10.244.7.0/24, overlap 10.244.0.0/16",
        );
        check(
            Wishes { node_cidrs: cidrs("192.168.7.0/28"), ..of(15) },
            "--node-cidr: 192.168.7.0/28 has no addresses for 15 nodes",
        );
        check(Wishes { node_cidrs: cidrs("192.168.7.0/28"), ..of(14) }, "192.168.7.0/28 host-2");
        check(Wishes { node_cidrs: cidrs("192.168.7.0/28"), ..of(1) }, "--node-cidr: there is one");
        check(of(101), "--nodes 101: at most 100");
        let mut long = of(2);
        long.node.as_mut().unwrap().name = Some("a".repeat(62));
        check(long, "must be no more than 63 bytes");
        let kept =
            show(&Wishes { node_cidrs: cidrs("10.9.0.0/24"), ..of(2) }, Some(&first), &alone());
        assert!(kept.contains("have addresses of 10.234.0.0/24, and keep them"), "{kept}");
    }
}
