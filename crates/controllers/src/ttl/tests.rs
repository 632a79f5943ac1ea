//! A number of nodes in, seconds out; a node in, an annotation out.

use api::core::node::{Node, NodeView};
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::json;

use super::plan::{plan, seconds};

#[test]
fn more_nodes_mean_more_seconds_and_those_that_are_stay_within_the_overlap() {
    let check = |n_nodes, current, expected| assert_eq!(seconds(n_nodes, current), expected);
    check(1, None, 0);
    check(100, None, 0);
    check(95, Some(15), 15);
    check(101, Some(0), 15);
    check(89, Some(15), 0);
    check(460, Some(0), 15);
    check(460, Some(30), 30);
    check(460, Some(300), 30);
    check(5000, Some(0), 300);
    check(0, Some(300), 0);
    check(10, Some(7), 0);
}

fn node(ttl: Option<&str>) -> NodeView {
    let annotations = ttl.map(|it| json!({"node.alpha.kubernetes.io/ttl": it}));
    let node = json!({"metadata": {"name": "n", "annotations": annotations}});
    NodeView::from(&serde_json::from_value::<Node>(node).unwrap())
}

#[test]
fn a_node_that_says_otherwise_is_corrected() {
    assert_eq!(plan(&node(None), 0).as_deref(), Some("0"));
    assert_eq!(plan(&node(Some("soon")), 15).as_deref(), Some("15"));
    assert_eq!(plan(&node(Some("0")), 15).as_deref(), Some("15"));
    assert_eq!(plan(&node(Some("15")), 15), None);
}

proptest! {
    #[test]
    fn one_write_is_enough(ttl in prop::option::of("[0-9a-z-]{0,4}"), wanted in 0..400u32) {
        let rested = converges(
            |node: &NodeView| plan(node, wanted).into_iter().collect(),
            |node, text: String| node.ttl = Some(text.into()),
            node(ttl.as_deref()),
            1,
        );
        prop_assert!(rested.is_ok(), "{rested:?}");
    }

    #[test]
    fn the_same_number_of_nodes_changes_nothing(n_nodes in 0..3000usize, current in 0..400u32) {
        let first = seconds(n_nodes, Some(current));
        prop_assert_eq!(seconds(n_nodes, Some(first)), first);
    }
}
