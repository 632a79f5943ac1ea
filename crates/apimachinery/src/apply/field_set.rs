//! Sets of field paths, held in the form that `fieldsV1` has on the wire, so that reading and
//! writing managedFields costs nothing.
//!
//! `{"f:spec": {"f:replicas": {}, "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image":
//! {}}}}}` has the members spec.replicas, spec.containers[name=a] and
//! spec.containers[name=a].image. A node is a member when it is empty or has `.`; otherwise it only
//! leads to its children.

use serde_json::{Map, Value};

const SELF: &str = ".";
/// How many paths are written out.
const PATHS_MAX: usize = 1_001;

pub(super) type Node = Map<String, Value>;

/// A set of paths. The root is never a member.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSet(Node);

impl FieldSet {
    pub(super) fn new(root: Option<Node>) -> Self {
        Self(root.unwrap_or_default())
    }

    pub fn to_json(&self) -> Value {
        Value::Object(self.0.clone())
    }

    pub fn into_json(self) -> Value {
        Value::Object(self.0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn root(&self) -> &Node {
        &self.0
    }

    pub(super) fn into_root(self) -> Node {
        self.0
    }

    pub fn union_with(&mut self, other: &Self) {
        for (element, theirs) in &other.0 {
            union_child(&mut self.0, element, theirs);
        }
    }

    /// Removes the members of `other`; what lies below them stays.
    pub fn subtract(&mut self, other: &Self) {
        subtract_children(&mut self.0, &other.0);
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(intersect_children(&self.0, &other.0))
    }

    /// Removes a path and all that lies below it; the path is in dotted form, of plain fields.
    pub fn remove_tree(&mut self, path: &str) {
        let fields: Vec<&str> = path.split('.').filter(|it| !it.is_empty()).collect();
        remove_tree(&mut self.0, &fields);
    }

    /// Removes all but these paths and what lies below them; `*` stands for any item of a list.
    pub fn retain_trees(&mut self, paths: &[&str]) {
        let paths: Vec<Vec<&str>> = paths.iter().map(|it| it.split('.').collect()).collect();
        retain_trees(&mut self.0, &paths.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }

    /// The members as clients see them, as many as anybody reads:
    /// `.spec.containers[name="a"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        collect_paths(&self.0, &mut String::new(), &mut paths);
        paths
    }
}

/// Reads `fieldsV1`; gives it back when it is not one.
impl TryFrom<Value> for FieldSet {
    type Error = Value;

    fn try_from(fields: Value) -> Result<Self, Value> {
        match fields {
            Value::Object(root) if is_well_formed(&root) => Ok(Self(root)),
            other => Err(other),
        }
    }
}

pub(super) fn is_member(node: &Node) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

pub(super) fn mark_member(node: &mut Node) {
    if !node.is_empty() {
        node.insert(SELF.to_owned(), Value::Object(Map::new()));
    }
}

/// The elements below a node, without the mark that the node is itself a member.
pub(super) fn children(node: &Node) -> impl Iterator<Item = (&String, &Node)> {
    node.iter()
        .filter(|(element, _)| *element != SELF)
        .filter_map(|(element, child)| Some((element, child.as_object()?)))
}

fn is_well_formed(node: &Node) -> bool {
    node.iter().all(|(element, child)| {
        let is_element =
            element == SELF || ["f:", "k:", "v:", "i:"].iter().any(|it| element.starts_with(it));
        is_element && child.as_object().is_some_and(is_well_formed)
    })
}

fn union_child(mine: &mut Node, element: &str, theirs: &Value) {
    let Some(theirs) = theirs.as_object() else {
        return;
    };
    let Some(Value::Object(node)) = mine.get_mut(element) else {
        mine.insert(element.to_owned(), Value::Object(theirs.clone()));
        return;
    };
    let is_in = is_member(node) || is_member(theirs);
    for (element, child) in theirs.iter().filter(|(it, _)| *it != SELF) {
        union_child(node, element, child);
    }
    if is_in {
        mark_member(node);
    }
}

fn subtract_children(mine: &mut Node, theirs: &Node) {
    // The smaller of the two is walked: an object may have many owners of little, and a change may
    // be large.
    let in_both: Vec<String> = if mine.len() < theirs.len() {
        mine.keys().filter(|it| *it != SELF && theirs.contains_key(*it)).cloned().collect()
    } else {
        theirs.keys().filter(|it| *it != SELF && mine.contains_key(*it)).cloned().collect()
    };
    for element in &in_both {
        let Some(their_child) = theirs.get(element).and_then(Value::as_object) else {
            continue;
        };
        let Some(Value::Object(node)) = mine.get_mut(element) else {
            continue;
        };
        let stays = is_member(node) && !is_member(their_child);
        node.remove(SELF);
        subtract_children(node, their_child);
        if stays {
            mark_member(node);
        } else if node.is_empty() {
            mine.remove(element);
        }
    }
}

fn intersect_children(mine: &Node, theirs: &Node) -> Node {
    let mut result = Node::new();
    for (element, my_child) in children(mine) {
        let Some(their_child) = theirs.get(element).and_then(Value::as_object) else {
            continue;
        };
        let mut node = intersect_children(my_child, their_child);
        let is_in = is_member(my_child) && is_member(their_child);
        if is_in {
            mark_member(&mut node);
        }
        if is_in || !node.is_empty() {
            result.insert(element.clone(), Value::Object(node));
        }
    }
    result
}

fn remove_tree(node: &mut Node, fields: &[&str]) {
    let Some((first, rest)) = fields.split_first() else {
        return;
    };
    let element = format!("f:{first}");
    let is_done = match node.get_mut(&element) {
        _ if rest.is_empty() => true,
        Some(Value::Object(child)) => {
            // A member without children has nothing to remove and stays.
            let was_leaf = child.is_empty();
            remove_tree(child, rest);
            !was_leaf && child.is_empty()
        }
        _ => false,
    };
    if is_done {
        node.remove(&element);
    }
}

/// What is on the way to a path, and no part of it, stays no member.
fn retain_trees(node: &mut Node, paths: &[&[&str]]) {
    let matches = |element: &str, wanted: &str| match wanted {
        "*" => element != SELF && !element.starts_with("f:"),
        field => element.strip_prefix("f:") == Some(field),
    };
    node.retain(|element, child| {
        let below: Vec<&[&str]> = paths
            .iter()
            .filter_map(|it| it.split_first())
            .filter(|(first, _)| matches(element, first))
            .map(|(_, rest)| rest)
            .collect();
        if below.iter().any(|it| it.is_empty()) {
            return true;
        }
        let Value::Object(child) = child else { return false };
        retain_trees(child, &below);
        !child.is_empty()
    });
}

fn collect_paths(node: &Node, path: &mut String, paths: &mut Vec<String>) {
    for (element, child) in children(node) {
        if paths.len() >= PATHS_MAX {
            return;
        }
        let length = path.len();
        push_element(path, element);
        if is_member(child) {
            paths.push(path.clone());
        }
        collect_paths(child, path, paths);
        path.truncate(length);
    }
}

fn push_element(path: &mut String, element: &str) {
    let (kind, text) = element.split_at_checked(2).unwrap_or((element, ""));
    match kind {
        "f:" => {
            path.push('.');
            path.push_str(text);
        }
        "k:" => {
            let keys: Node = serde_json::from_str(text).unwrap_or_default();
            let pairs: Vec<String> = keys.iter().map(|(key, it)| format!("{key}={it}")).collect();
            path.push_str(&format!("[{}]", pairs.join(",")));
        }
        "v:" => path.push_str(&format!("[={text}]")),
        _ => path.push_str(&format!("[{text}]")),
    }
}
