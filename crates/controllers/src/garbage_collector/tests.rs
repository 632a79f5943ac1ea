//! Owners and dependents in, deletions out.

use std::collections::{BTreeMap, BTreeSet};

use api::Meta;
use apimachinery::{GroupVersionResource, ObjectKey, Scope};
use client::Propagation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use proptest::prelude::*;
use reconcile::testing::converges;

use super::graph::{Graph, Node};
use super::plan::{
    Action, Dependents, Fate, Owner, doubtful, found, invalid_namespace_text, known,
    namespace_of_owner, out_of_reach, plan_dependent, plan_owner,
};

/// `uid owner,owner finalizer`, `-` for none; `!owner` blocks the owner's deletion. A finalizer
/// means that the object is being deleted.
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
        api_version: "v1".to_owned(),
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

fn check_owners(owners: &[Owner], dependents: Dependents, expected: &str) {
    let owners: Vec<(OwnerReference, Owner)> =
        owners.iter().enumerate().map(|(n, it)| (owner(&format!("o{n}")), *it)).collect();
    let action = plan_dependent(&owners, &[], dependents);
    assert_eq!(action.map_or_else(|| "keep".to_owned(), |it| format!("{it:?}")), expected);
}

#[test]
fn an_object_goes_with_its_last_owner() {
    use Dependents::{None, Stay};
    use Owner::{Absent, Solid, WaitsForDependents};
    check_owners(&[], None, "keep");
    check_owners(&[Solid], None, "keep");
    check_owners(&[Absent], None, "Delete(Background)");
    check_owners(&[Solid, Absent], None, r#"DropOwners(["o1"])"#);
    check_owners(&[WaitsForDependents], None, "Delete(Background)");
    check_owners(&[WaitsForDependents], Stay, "Delete(Foreground)");
    check_owners(&[WaitsForDependents, Solid], Stay, r#"DropOwners(["o0"])"#);
}

#[test]
fn an_owner_in_another_namespace_is_complained_about() {
    let mut graph = graph(&["a", "b a"]);
    let mut elsewhere = node("c a");
    elsewhere.key.namespace = "shop".to_owned();
    graph.upsert(elsewhere.clone());
    assert!(out_of_reach(&graph, &node("b a,x")).is_empty());
    let found = out_of_reach(&graph, &elsewhere);
    assert_eq!(found.len(), 1);
    assert_eq!(
        invalid_namespace_text(&elsewhere.key, found[0]),
        r#"ownerRef [v1/, namespace: shop, name: a, uid: a] does not exist in namespace "shop""#
    );
}

#[test]
fn an_owner_under_a_wrong_name_is_looked_up() {
    let graph = graph(&["a", "b a"]);
    let check = |change: fn(&mut OwnerReference), expected: Option<Owner>| {
        let mut reference = owner("a");
        change(&mut reference);
        assert_eq!(known(&graph, &node("b a"), &reference), expected, "{reference:?}");
    };
    check(|_| {}, Some(Owner::Solid));
    check(|it| it.name = "z".to_owned(), None);
    check(|it| it.api_version = "apps/v1".to_owned(), None);
    check(|it| it.api_version = "v2".to_owned(), Some(Owner::Solid));
    check(|it| it.api_version = "a/b/c".to_owned(), None);
}

#[test]
fn a_foreground_owner_waits_for_dependents_that_block_it() {
    let check = |nodes: &[&str], expected: &str| {
        let actions = plan_owner(&graph(nodes), &node(nodes[0]));
        let told = actions.first().map_or_else(|| "wait".to_owned(), |it| format!("{it:?}"));
        assert_eq!(told, expected);
    };
    let done = r#"RemoveFinalizer("foregroundDeletion")"#;
    check(&["a - foregroundDeletion", "b !a"], "wait");
    check(&["a - foregroundDeletion", "b a"], done);
    check(&["a - foregroundDeletion"], done);
}

#[test]
fn orphaning_frees_every_dependent_before_the_owner() {
    let actions = plan_owner(&graph(&["a - orphan", "b a", "c a"]), &node("a - orphan"));
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

#[test]
fn the_server_is_asked_only_about_owners_that_may_be_gone() {
    let mut graph = graph(&["a -", "b - foregroundDeletion", "c a,b,d"]);
    let dependent = node("c a,b,d");
    let doubted: Vec<&str> =
        doubtful(&graph, &dependent).into_iter().map(|it| it.uid.as_str()).collect();
    assert_eq!(doubted, ["b", "d"]);
    assert_eq!(known(&graph, &dependent, &owner("b")), Some(Owner::WaitsForDependents));
    assert_eq!(known(&graph, &dependent, &owner("d")), None);
    // An owner in another namespace is none, even if its uid is right.
    let mut elsewhere = node("d -");
    elsewhere.key.namespace = "elsewhere".to_owned();
    graph.upsert(elsewhere.clone());
    assert_eq!(known(&graph, &dependent, &owner("d")), None);
    elsewhere.key.namespace = String::new();
    graph.upsert(Node { is_deleting: true, ..elsewhere });
    assert_eq!(known(&graph, &dependent, &owner("d")), Some(Owner::Solid));
}

#[test]
fn an_owner_is_looked_for_where_it_can_be_and_known_by_its_uid() {
    let (namespaced, cluster) = (ObjectKey::new("default", "x"), ObjectKey::cluster("x"));
    assert_eq!(namespace_of_owner(Scope::Namespaced, &namespaced), Some("default"));
    assert_eq!(namespace_of_owner(Scope::Cluster, &namespaced), Some(""));
    assert_eq!(namespace_of_owner(Scope::Namespaced, &cluster), None);
    let things = GroupVersionResource::new("", "v1", "things");
    let live = |uid: &str, finalizers: &[&str]| Meta {
        uid: uid.to_owned(),
        is_deleting: !finalizers.is_empty(),
        finalizers: finalizers.iter().map(|it| (*it).to_owned()).collect(),
        ..Meta::default()
    };
    let check =
        |live: Option<&Meta>, expected| assert_eq!(found(&things, &owner("a"), live), expected);
    check(None, Owner::Absent);
    check(Some(&live("b", &[])), Owner::Absent);
    check(Some(&live("a", &[])), Owner::Solid);
    check(Some(&live("a", &["example.com/hold"])), Owner::Solid);
    check(Some(&live("a", &["foregroundDeletion"])), Owner::WaitsForDependents);
}

/// What happens to one object of a cluster, by its uid.
#[derive(Debug, PartialEq)]
enum Event {
    Fate(String, Fate),
    Action(String, Action),
}

/// One round of the collector over all objects; the graph is the server's truth.
fn collect(nodes: &BTreeMap<String, Node>) -> Vec<Event> {
    let mut graph = Graph::default();
    for node in nodes.values() {
        graph.upsert(node.clone());
    }
    let mut events = Vec::new();
    for node in nodes.values() {
        let actions = plan_owner(&graph, node).into_iter();
        events.extend(actions.map(|it| Event::Action(node.uid.clone(), it)));
        if !node.is_deleting {
            let state = |it: &OwnerReference| known(&graph, node, it).unwrap_or(Owner::Absent);
            let owners: Vec<_> = node.owners.iter().map(|it| (it.clone(), state(it))).collect();
            let fate = plan_dependent(&owners, &[], Dependents::of(&graph, &node.uid));
            events.extend(fate.map(|it| Event::Fate(node.uid.clone(), it)));
        }
    }
    events
}

/// To an object that is still there.
fn happen(nodes: &mut BTreeMap<String, Node>, event: Event) {
    let mut drop_owners = |uid: &str, owners: &[String]| {
        if let Some(node) = nodes.get_mut(uid) {
            node.owners.retain(|it| !owners.contains(&it.uid));
        }
    };
    match event {
        Event::Fate(uid, Fate::DropOwners(owners)) => drop_owners(&uid, &owners),
        Event::Action(owner, Action::Orphan { uid, .. }) => drop_owners(&uid, &[owner]),
        Event::Fate(uid, Fate::Unblock) => {
            let owners = nodes.get_mut(&uid).into_iter().flat_map(|it| &mut it.owners);
            owners.for_each(|it| it.block_owner_deletion = Some(false));
        }
        Event::Fate(uid, Fate::Delete(Propagation::Foreground)) => {
            if let Some(node) = nodes.get_mut(&uid) {
                (node.is_deleting, node.is_foreground) = (true, true);
            }
        }
        // What has no finalizer goes at once; and nothing here has two.
        Event::Fate(uid, Fate::Delete(_)) | Event::Action(uid, Action::RemoveFinalizer(_)) => {
            nodes.remove(&uid);
        }
    }
}

#[test]
fn a_circle_of_owners_goes_as_a_whole() {
    let circle = ["a !c foregroundDeletion", "b !a", "c !b"];
    let nodes = circle.map(|it| (it[..1].to_owned(), node(it))).into_iter().collect();
    let rested = converges(collect, happen, nodes, 30).unwrap();
    assert_eq!(rested.keys().collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Ten objects; owners have smaller numbers than their dependents, or do not exist.
fn cluster(edges: &[(u8, u8, bool)], deleted: &BTreeMap<u8, bool>) -> BTreeMap<String, Node> {
    let describe = |number: u8| {
        let owners = edges.iter().filter(|(from, to, _)| *from == number && (to < from || *to > 9));
        let owners: Vec<String> = owners
            .map(|(_, to, blocks)| format!("{}n{to}", if *blocks { "!" } else { "" }))
            .collect();
        let owners = if owners.is_empty() { "-".to_owned() } else { owners.join(",") };
        let finalizer = match deleted.get(&number) {
            None => "-",
            Some(true) => "foregroundDeletion",
            Some(false) => "orphan",
        };
        format!("n{number} {owners} {finalizer}")
    };
    (0..10).map(|it| (format!("n{it}"), node(&describe(it)))).collect()
}

proptest! {
    #[test]
    fn a_cluster_comes_to_rest_without_objects_whose_owners_are_gone(
        edges in prop::collection::vec((0..10u8, 0..12u8, any::<bool>()), 0..20),
        deleted in prop::collection::btree_map(0..10u8, any::<bool>(), 0..3),
    ) {
        let rested = converges(collect, happen, cluster(&edges, &deleted), 30).unwrap();
        for node in rested.values() {
            let is_there = |it: &OwnerReference| rested.contains_key(&it.uid);
            prop_assert!(!node.is_deleting, "{} waits for ever", node.uid);
            prop_assert!(node.owners.iter().all(is_there), "{} lost an owner", node.uid);
        }
    }

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
