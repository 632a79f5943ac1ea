//! Owners and dependents in, deletions out.

use std::collections::BTreeSet;

use api::Meta;
use apimachinery::{GroupVersionResource, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use proptest::prelude::*;

use super::graph::{Graph, Node};
use super::plan::{Owner, plan_dependent, plan_foreground, plan_orphaning};

/// `uid owner,owner finalizer`, `-` for none; `!owner` blocks the owner's deletion. A finalizer means
/// that the object is being deleted.
fn node(text: &str) -> Node {
    let words: Vec<&str> = text.split(' ').collect();
    let list = |position: usize| -> Vec<&str> {
        let word = words.get(position).copied().unwrap_or("-");
        word.split(',').filter(|it| *it != "-").collect()
    };
    let finalizers: Vec<String> = list(2).into_iter().map(str::to_owned).collect();
    let meta = Meta {
        key: ObjectKey::new("default", words[0]),
        uid: words[0].to_owned(),
        owner_references: list(1).into_iter().map(owner).collect(),
        is_deleting: !finalizers.is_empty(),
        finalizers,
        ..Meta::default()
    };
    Node::new(&GroupVersionResource::new("", "v1", "things"), &meta)
}

fn owner(text: &str) -> OwnerReference {
    let uid = text.trim_start_matches('!');
    OwnerReference {
        uid: uid.to_owned(),
        name: uid.to_owned(),
        block_owner_deletion: Some(text.starts_with('!')),
        ..OwnerReference::default()
    }
}

fn graph(nodes: &[&str]) -> Graph {
    let mut graph = Graph::default();
    for text in nodes {
        graph.upsert(node(text));
    }
    graph
}

fn check_owners(owners: &[Owner], has_dependents: bool, expected: &str) {
    let owners: Vec<(OwnerReference, Owner)> =
        owners.iter().enumerate().map(|(n, it)| (owner(&format!("o{n}")), *it)).collect();
    let action = plan_dependent(&owners, &[], has_dependents);
    assert_eq!(action.map_or_else(|| "keep".to_owned(), |it| format!("{it:?}")), expected);
}

#[test]
fn an_object_goes_with_its_last_owner() {
    use Owner::{Absent, Solid, WaitsForDependents};
    check_owners(&[], false, "keep");
    check_owners(&[Solid], false, "keep");
    check_owners(&[Absent], false, "Delete(Background)");
    check_owners(&[Solid, Absent], false, r#"DropOwners(["o1"])"#);
    check_owners(&[WaitsForDependents], false, "Delete(Background)");
    check_owners(&[WaitsForDependents], true, "Delete(Foreground)");
    check_owners(&[WaitsForDependents, Solid], true, r#"DropOwners(["o0"])"#);
}

#[test]
fn a_foreground_owner_waits_for_dependents_that_block_it() {
    let check = |nodes: &[&str], expected: &str| {
        let graph = graph(nodes);
        let action = plan_foreground("a", &graph.dependents("a"));
        assert_eq!(action.map_or_else(|| "wait".to_owned(), |it| format!("{it:?}")), expected);
    };
    let done = r#"RemoveFinalizer("foregroundDeletion")"#;
    check(&["a - foregroundDeletion", "b !a"], "wait");
    check(&["a - foregroundDeletion", "b a"], done);
    check(&["a - foregroundDeletion"], done);
}

#[test]
fn orphaning_frees_every_dependent_before_the_owner() {
    let graph = graph(&["a - orphan", "b a", "c a"]);
    let actions = plan_orphaning(&graph.dependents("a"));
    assert_eq!(actions.len(), 3);
    assert_eq!(format!("{:?}", actions[2]), r#"RemoveFinalizer("orphan")"#);
}

#[test]
fn a_deletion_wakes_dependents_and_owners_that_wait() {
    let set =
        |uids: &[&str]| -> BTreeSet<String> { uids.iter().map(|it| (*it).to_owned()).collect() };
    let mut graph = graph(&["a - foregroundDeletion", "b !a", "c b"]);
    assert_eq!(graph.remove("b"), set(&["a", "c"]));
    assert!(graph.dependents("a").is_empty());
    assert_eq!(graph.upsert(node("c b")), set(&[]));
    assert_eq!(graph.upsert(node("c -")), set(&[]));
}

proptest! {
    #[test]
    fn removing_every_object_leaves_no_edges(
        edges in prop::collection::vec((0..10u8, 0..10u8), 0..30),
    ) {
        let mut graph = Graph::default();
        for (from, to) in &edges {
            graph.upsert(node(&format!("n{from} n{to}")));
        }
        for number in 0..10u8 {
            graph.remove(&format!("n{number}"));
        }
        for number in 0..10u8 {
            let left = graph.dependents(&format!("n{number}")).len();
            prop_assert_eq!(left, 0);
        }
    }
}
