//! The objects of one resource in the order of their paths, as a tree whose nodes are shared: see
//! ADR 16.
//!
//! A copy of the whole tree costs one pointer. A write changes the nodes on its way in place,
//! unless a copy shares them: then these few are copied first. So a list takes its copy under the
//! lock and is collected after it, however long it is, and what it was taken of goes on changing
//! meanwhile.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::Arc;

use api::Stored;
use apimachinery::ObjectKey;

/// Entries in a node. What a write has to copy beside a list is this many pointers for each of the
/// three or four levels.
const NODE_MAX: usize = 32;
/// A node with less is joined with its neighbor, if one node can hold both.
const NODE_MIN: usize = NODE_MAX / 4;

#[derive(Clone, Default)]
pub(crate) struct Tree {
    root: Arc<Node>,
}

/// All leaves are at the same depth. No node but the root is empty.
#[derive(Clone)]
enum Node {
    /// In order of their paths, which are not kept: an object's key says its path.
    Leaf(Vec<Arc<Stored>>),
    Branch(Vec<Child>),
}

/// What is in a child's node is not before its `from`, and before the `from` of the next one. The
/// `from` of the first is not looked at.
#[derive(Clone)]
struct Child {
    from: Arc<str>,
    node: Arc<Node>,
}

impl Default for Node {
    fn default() -> Self {
        Self::Leaf(Vec::new())
    }
}

impl Tree {
    pub(crate) fn get(&self, path: &str) -> Option<&Arc<Stored>> {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Branch(children) => node = &children[child_of(children, path)].node,
                Node::Leaf(objects) => return Some(&objects[position(objects, path).ok()?]),
            }
        }
    }

    /// Counted leaf by leaf.
    pub(crate) fn len(&self) -> usize {
        fn of(node: &Node) -> usize {
            match node {
                Node::Leaf(objects) => objects.len(),
                Node::Branch(children) => children.iter().map(|it| of(&it.node)).sum(),
            }
        }
        of(&self.root)
    }

    /// Returns what was there before.
    pub(crate) fn insert(&mut self, object: Arc<Stored>) -> Option<Arc<Stored>> {
        let path = path_of(&object.meta.key);
        let (previous, split) = Node::insert(Arc::make_mut(&mut self.root), &path, object);
        if let Some(right) = split {
            let left = Child { from: "".into(), node: std::mem::take(&mut self.root) };
            self.root = Arc::new(Node::Branch(vec![left, right]));
        }
        previous
    }

    pub(crate) fn remove(&mut self, path: &str) -> Option<Arc<Stored>> {
        // What is not there is not worth a copy of anything.
        self.get(path)?;
        let previous = Node::remove(Arc::make_mut(&mut self.root), path);
        while let Node::Branch(children) = &*self.root {
            let [only] = children.as_slice() else { break };
            self.root = only.node.clone();
        }
        previous
    }

    /// Objects whose path is `from` or after it, inside one namespace if given, in order.
    pub(crate) fn range<'a>(
        &'a self,
        namespace: Option<&'a str>,
        from: &str,
    ) -> impl Iterator<Item = &'a Arc<Stored>> {
        let start = namespace.map(|it| format!("{it}/")).unwrap_or_default();
        let start = if from > start.as_str() { from } else { &start };
        let is_inside = move |it: &&Arc<Stored>| {
            namespace.is_none_or(|namespace| it.meta.key.namespace == namespace)
        };
        self.walk(start).take_while(is_inside)
    }

    fn walk(&self, from: &str) -> Walk<'_> {
        let mut walk = Walk { branches: Vec::new(), leaf: [].iter() };
        let mut node = &*self.root;
        loop {
            match node {
                Node::Branch(children) => {
                    let at = child_of(children, from);
                    walk.branches.push(children[at + 1..].iter());
                    node = &children[at].node;
                }
                Node::Leaf(objects) => {
                    let at = position(objects, from).unwrap_or_else(|it| it);
                    walk.leaf = objects[at..].iter();
                    return walk;
                }
            }
        }
    }
}

impl FromIterator<Arc<Stored>> for Tree {
    fn from_iter<I: IntoIterator<Item = Arc<Stored>>>(objects: I) -> Self {
        let mut tree = Self::default();
        for object in objects {
            tree.insert(object);
        }
        tree
    }
}

/// What is still to come, from the outermost branch to the leaf.
struct Walk<'a> {
    branches: Vec<std::slice::Iter<'a, Child>>,
    leaf: std::slice::Iter<'a, Arc<Stored>>,
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a Arc<Stored>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(object) = self.leaf.next() {
                return Some(object);
            }
            match self.branches.last_mut()?.next().map(|it| &*it.node) {
                None => {
                    self.branches.pop();
                }
                Some(Node::Branch(children)) => self.branches.push(children.iter()),
                Some(Node::Leaf(objects)) => self.leaf = objects.iter(),
            }
        }
    }
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(objects) => objects.len(),
            Self::Branch(children) => children.len(),
        }
    }

    /// Returns what was there before, and the right half of this node if it had to be split.
    fn insert(&mut self, path: &str, object: Arc<Stored>) -> (Option<Arc<Stored>>, Option<Child>) {
        let previous = match self {
            Self::Leaf(objects) => match position(objects, path) {
                Ok(at) => Some(std::mem::replace(&mut objects[at], object)),
                Err(at) => {
                    objects.insert(at, object);
                    None
                }
            },
            Self::Branch(children) => {
                let at = child_of(children, path);
                let child = Arc::make_mut(&mut children[at].node);
                let (previous, split) = child.insert(path, object);
                if let Some(right) = split {
                    children.insert(at + 1, right);
                }
                previous
            }
        };
        (previous, self.split())
    }

    fn split(&mut self) -> Option<Child> {
        if self.len() <= NODE_MAX {
            return None;
        }
        let half = self.len() / 2;
        let (from, right) = match self {
            Self::Leaf(objects) => {
                let right = objects.split_off(half);
                (path_of(&right[0].meta.key).into(), Self::Leaf(right))
            }
            Self::Branch(children) => {
                let right = children.split_off(half);
                (right[0].from.clone(), Self::Branch(right))
            }
        };
        Some(Child { from, node: Arc::new(right) })
    }

    fn remove(&mut self, path: &str) -> Option<Arc<Stored>> {
        match self {
            Self::Leaf(objects) => position(objects, path).ok().map(|at| objects.remove(at)),
            Self::Branch(children) => {
                let at = child_of(children, path);
                let previous = Arc::make_mut(&mut children[at].node).remove(path);
                if children[at].node.len() < NODE_MIN {
                    join(children, at);
                }
                previous
            }
        }
    }

    /// Takes over what is after its own.
    fn append(&mut self, from: Arc<str>, right: Self) {
        match (self, right) {
            (Self::Leaf(objects), Self::Leaf(right)) => objects.extend(right),
            (Self::Branch(children), Self::Branch(mut right)) => {
                // What was looked at in its parent alone is looked at here from now on.
                right[0].from = from;
                children.extend(right);
            }
            _ => unreachable!("neighbors have the same depth"),
        }
    }
}

/// Puts a child that got small together with a neighbor, or takes it away if nothing is left of it.
fn join(children: &mut Vec<Child>, at: usize) {
    if children[at].node.len() == 0 {
        children.remove(at);
        return;
    }
    let left = at.saturating_sub(1);
    let right = left + 1;
    let is_too_much = |right: &Child| children[left].node.len() + right.node.len() > NODE_MAX / 2;
    if children.get(right).is_none_or(is_too_much) {
        return;
    }
    let Child { from, node } = children.remove(right);
    Arc::make_mut(&mut children[left].node).append(from, Arc::unwrap_or_clone(node));
}

/// The child that has the path, if any has.
fn child_of(children: &[Child], path: &str) -> usize {
    children[1..].partition_point(|it| &*it.from <= path)
}

fn position(objects: &[Arc<Stored>], path: &str) -> Result<usize, usize> {
    objects.binary_search_by(|it| compare(&it.meta.key, path))
}

fn path_of(key: &ObjectKey) -> String {
    key.to_string()
}

/// As `path_of(key).cmp(path)`, without making it.
fn compare(key: &ObjectKey, path: &str) -> Ordering {
    let (namespace, name, path) = (key.namespace.as_bytes(), key.name.as_bytes(), path.as_bytes());
    if namespace.is_empty() {
        return name.cmp(path);
    }
    match path.strip_prefix(namespace).and_then(|it| it.strip_prefix(b"/")) {
        Some(rest) => name.cmp(rest),
        None => namespace.iter().chain(b"/").cmp(path.iter()),
    }
}
