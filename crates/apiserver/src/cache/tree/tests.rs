//! The tree against a map of paths, and copies of it that must not change.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Meta, Stored};
use apimachinery::ObjectKey;
use proptest::prelude::*;

use super::{Node, Tree};

/// Namespaces that sort otherwise beside a slash than alone, and the names of cluster scope.
const NAMESPACES: &[&str] = &["", "a", "a-b", "a.b", "a0", "b"];

fn object(key: ObjectKey, version: u64) -> Arc<Stored> {
    let meta = Meta { key, resource_version: version, ..Meta::default() };
    Arc::new(Stored::new(meta, bytes::Bytes::new()))
}

fn texts<'a>(objects: impl Iterator<Item = &'a Arc<Stored>>) -> Vec<String> {
    objects.map(|it| format!("{}@{}", it.meta.key, it.meta.resource_version)).collect()
}

fn expected(model: &BTreeMap<String, u64>, namespace: Option<&str>, from: &str) -> Vec<String> {
    let prefix = namespace.map(|it| format!("{it}/")).unwrap_or_default();
    let inside = model.range(from.to_owned()..).filter(|(path, _)| path.starts_with(&prefix));
    inside.map(|(path, version)| format!("{path}@{version}")).collect()
}

/// Depths are the same, nothing is empty or too long, and bounds hold.
fn check_shape(node: &Node, is_root: bool) -> usize {
    assert!(node.len() <= super::NODE_MAX && (is_root || node.len() > 0));
    let Node::Branch(children) = node else { return 0 };
    assert!(!is_root || children.len() > 1);
    let depths: Vec<usize> = children.iter().map(|it| check_shape(&it.node, false)).collect();
    assert!(depths.iter().all(|it| *it == depths[0]));
    for pair in children.windows(2) {
        let first = first_path(&pair[1].node);
        assert!(*pair[1].from <= *first && last_path(&pair[0].node) < pair[1].from.to_string());
    }
    depths[0] + 1
}

fn first_path(node: &Node) -> String {
    match node {
        Node::Leaf(objects) => objects[0].meta.key.to_string(),
        Node::Branch(children) => first_path(&children[0].node),
    }
}

fn last_path(node: &Node) -> String {
    match node {
        Node::Leaf(objects) => objects[objects.len() - 1].meta.key.to_string(),
        Node::Branch(children) => last_path(&children[children.len() - 1].node),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(ObjectKey),
    Remove(ObjectKey),
    /// Everything of one namespace: nodes empty and join.
    Clear(&'static str),
    /// A list begins: what it sees stays.
    Copy,
}

fn key() -> impl Strategy<Value = ObjectKey> {
    let namespace = prop::sample::select(NAMESPACES);
    (namespace, 0..60_u32).prop_map(|(namespace, n)| ObjectKey::new(namespace, format!("n{n}")))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => key().prop_map(Step::Insert),
        6 => key().prop_map(Step::Remove),
        1 => prop::sample::select(NAMESPACES).prop_map(Step::Clear),
        1 => Just(Step::Copy),
    ]
}

proptest! {
    #[test]
    fn the_tree_is_a_map_of_paths_and_its_copies_stay(
        steps in prop::collection::vec(step(), 1..600),
        from in key(),
    ) {
        let (mut tree, mut model, mut copies) = (Tree::default(), BTreeMap::new(), Vec::new());
        for (version, step) in (1_u64..).zip(steps) {
            match step {
                Step::Insert(key) => {
                    let before = tree.insert(object(key.clone(), version));
                    let known = model.insert(key.to_string(), version);
                    prop_assert_eq!(before.map(|it| it.meta.resource_version), known);
                }
                Step::Remove(key) => {
                    let before = tree.remove(&key.to_string());
                    let known = model.remove(&key.to_string());
                    prop_assert_eq!(before.map(|it| it.meta.resource_version), known);
                }
                Step::Clear(namespace) => {
                    let gone: Vec<_> = tree.range(Some(namespace), "").cloned().collect();
                    for object in gone {
                        let path = object.meta.key.to_string();
                        prop_assert!(tree.remove(&path).is_some());
                        model.remove(&path);
                    }
                }
                Step::Copy => copies.push((tree.clone(), model.clone())),
            }
            check_shape(&tree.root, true);
        }
        copies.push((tree, model));
        for (tree, model) in copies {
            prop_assert_eq!(texts(tree.range(None, "")), expected(&model, None, ""));
            let from = from.to_string();
            prop_assert_eq!(texts(tree.range(None, &from)), expected(&model, None, &from));
            for namespace in NAMESPACES.iter().copied().filter(|it| !it.is_empty()) {
                let inside = expected(&model, Some(namespace), "");
                prop_assert_eq!(texts(tree.range(Some(namespace), "")), inside);
            }
            for (path, version) in &model {
                let found = tree.get(path).map(|it| it.meta.resource_version);
                prop_assert_eq!(found, Some(*version));
            }
        }
    }
}

#[test]
fn a_write_beside_a_copy_copies_the_nodes_on_its_way_alone() {
    let mut tree: Tree =
        (0..10_000).map(|n| object(ObjectKey::new("a", format!("{n:05}")), 1)).collect();
    let copy = tree.clone();
    tree.insert(object(ObjectKey::new("a", "05000"), 2));
    let (mut shared, mut own) = (0, 0);
    count(&tree.root, &copy.root, &mut shared, &mut own);
    assert!(own <= 4 && shared > 20, "{own} nodes copied, {shared} shared");
    assert_eq!(copy.get("a/05000").unwrap().meta.resource_version, 1);
}

/// Nodes that both trees have, and those that only the first has, where the two have the same
/// shape.
fn count(node: &Arc<Node>, other: &Arc<Node>, shared: &mut usize, own: &mut usize) {
    if Arc::ptr_eq(node, other) {
        *shared += 1;
        return;
    }
    *own += 1;
    if let (Node::Branch(children), Node::Branch(others)) = (&**node, &**other) {
        for (child, other) in children.iter().zip(others) {
            count(&child.node, &other.node, shared, own);
        }
    }
}
