//! What a back end's link is called, where somebody else may have flannel's name. Pure.
//!
//! Several clusters may live on one machine, or flannel itself beside one of ours. What is taken is
//! left alone: then names and numbers follow from the cluster's id, and peers are told of them.

use stdx::Family;

use crate::node::ThisNode;

/// Names of one kind of links.
pub(super) struct Names {
    pub(super) v4: &'static str,
    pub(super) v6: &'static str,
    /// How those of whoever came later begin. With eight digits and a family's, 15 characters are
    /// the most that the kernel takes.
    pub(super) derived: &'static str,
}

pub(super) struct Device {
    pub(super) name: String,
    /// It has the name that flannel gives.
    pub(super) is_first: bool,
}

/// One that is there keeps its name. `is_taken`: something else of it has been taken by somebody.
pub(super) fn device(node: &ThisNode, family: Family, names: &Names, is_taken: bool) -> Device {
    let (first, digit) = match family {
        Family::V4 => (names.v4, '4'),
        Family::V6 => (names.v6, '6'),
    };
    let derived = format!("{}{digit}-{}", names.derived, node.cluster);
    let around = &node.surroundings;
    let is_ours = |it: &str| around.own_links.contains(it);
    let is_first =
        is_ours(first) || !(is_ours(&derived) || around.other_links.contains(first) || is_taken);
    Device { name: if is_first { first.to_owned() } else { derived }, is_first }
}

/// A number of a cluster's own between the first and the last, which nobody has.
pub(super) fn number(
    node: &ThisNode,
    first: u32,
    last: u32,
    is_taken: impl Fn(u32) -> bool,
) -> u32 {
    let count = last - first + 1;
    let start = node.cluster.link_group() % count;
    let mut candidates = (0..count.min(1000)).map(|it| first + (start + it) % count);
    candidates.find(|it| !is_taken(*it)).unwrap_or(first + start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::node;

    const NAMES: Names = Names { v4: "flannel.1", v6: "flannel-v6.1", derived: "vx" };

    #[test]
    fn flannels_name_is_of_whoever_comes_first_and_a_link_that_is_there_keeps_its_own() {
        let check = |own: &[&str], others: &[&str], is_taken: bool, expected: &str| {
            let mut node = node();
            node.surroundings.own_links = own.iter().map(|it| (*it).to_owned()).collect();
            node.surroundings.other_links = others.iter().map(|it| (*it).to_owned()).collect();
            let device = device(&node, Family::V4, &NAMES, is_taken);
            assert_eq!((device.name.as_str(), device.is_first), (expected, expected == NAMES.v4));
            assert!(device.name.len() <= 15);
        };
        check(&[], &[], false, "flannel.1");
        check(&["flannel.1"], &["eth0"], false, "flannel.1");
        check(&[], &["flannel.1"], false, "vx4-00c0ffee");
        check(&["vx4-00c0ffee"], &[], false, "vx4-00c0ffee");
        check(&[], &[], true, "vx4-00c0ffee");
    }

    #[test]
    fn a_number_that_is_taken_is_passed_over() {
        let node = node();
        let first = number(&node, 2, 100, |_| false);
        assert!((2..=100).contains(&first));
        assert_ne!(number(&node, 2, 100, |it| it == first), first);
    }
}
