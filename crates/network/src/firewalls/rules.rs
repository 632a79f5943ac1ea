//! The rules by which packets from and to pods pass. Pure.
//!
//! They know pods by their addresses: that is all that iptables, whose tables they may be in, can
//! show of them. A rule that it cannot show would keep it, and who calls it, from working at all.

use linux::netlink::nftables::{Rule, TableFamily};
use node_api::ClusterId;
use stdx::{Cidr, Family};

/// One, in both forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    comment: String,
    side: Side,
    pods: Cidr,
    /// The table has packets of both families.
    is_in_both: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    From,
    To,
}

/// Those that a table of this family should have.
pub(super) fn passes(cluster: ClusterId, pods: &[Cidr], family: TableFamily) -> Vec<Pass> {
    let is_of = |it: &&Cidr| match family {
        TableFamily::Inet => true,
        TableFamily::Ip => it.family() == Family::V4,
        TableFamily::Ip6 => it.family() == Family::V6,
    };
    let pass = |pods: Cidr, side: Side| {
        let words = if side == Side::From { "from" } else { "to" };
        let comment = format!("{}packets {words} pods pass", prefix(cluster));
        Pass { comment, side, pods, is_in_both: family == TableFamily::Inet }
    };
    let both = |it: &Cidr| [pass(*it, Side::From), pass(*it, Side::To)];
    pods.iter().filter(is_of).flat_map(both).collect()
}

/// How the comments of a cluster's rules begin.
pub(super) fn prefix(cluster: ClusterId) -> String {
    format!("xebec-{cluster}: ")
}

impl Pass {
    pub(super) fn rule(&self) -> Rule {
        let draft = Rule::draft(self.pods.family(), self.comment.clone());
        let draft = if self.is_in_both { draft.is_of_family() } else { draft };
        match self.side {
            Side::From => draft.source_in(self.pods).accept(),
            Side::To => draft.destination_in(self.pods).accept(),
        }
    }

    pub(super) fn comment(&self) -> &str {
        &self.comment
    }

    /// As iptables says it.
    pub(super) fn words(&self) -> String {
        let side = match self.side {
            Side::From => "-s",
            Side::To => "-d",
        };
        let Self { pods, comment, .. } = self;
        format!("{side} {pods} -m comment --comment \"{comment}\" -j ACCEPT")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_rules_of_its_families() {
        let pods = ["10.244.0.0/16", "fd00:10:244::/56"].map(|it| it.parse().unwrap());
        let cluster = "00c0ffee".parse().unwrap();
        let check = |family: TableFamily, expected: &[&str]| {
            let passes = passes(cluster, &pods, family);
            assert!(passes.iter().all(|it| it.comment().starts_with(&prefix(cluster))));
            let shown: Vec<_> = passes.iter().map(Pass::words).collect();
            assert_eq!(shown, expected);
        };
        let [v4_from, v4_to] = [("-s", "from"), ("-d", "to")].map(|(side, words)| {
            format!(
                "{side} 10.244.0.0/16 -m comment --comment \"xebec-00c0ffee: packets {words} pods pass\" -j ACCEPT"
            )
        });
        let v6 = |it: &str| it.replace("10.244.0.0/16", "fd00:10:244::/56");
        let (v6_from, v6_to) = (v6(&v4_from), v6(&v4_to));
        check(TableFamily::Ip, &[&v4_from, &v4_to]);
        check(TableFamily::Ip6, &[&v6_from, &v6_to]);
        check(TableFamily::Inet, &[&v4_from, &v4_to, &v6_from, &v6_to]);
    }
}
