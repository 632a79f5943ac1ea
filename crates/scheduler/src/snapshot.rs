//! All nodes with the pods on them, changed in place as events arrive: no rebuild per pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Interned;
use api::core::node::NodeView;
use api::core::pod::PodView;
use apimachinery::ObjectKey;

use crate::node::NodeState;
use crate::pod::PodRequirements;

/// Invariant: a pod is in `placed` exactly when its requirements are counted on that node.
#[derive(Default)]
pub(crate) struct Snapshot {
    /// By name.
    #[expect(
        clippy::vec_box,
        reason = "a node that comes or goes moves the pointers of others, not them"
    )]
    nodes: Vec<Box<NodeState>>,
    placed: BTreeMap<ObjectKey, Placed>,
}

struct Placed {
    node: Interned,
    /// What follows from it is not kept, but computed again when it is given back.
    pod: Arc<PodView>,
    /// Assumed by us and not yet seen as bound.
    is_assumed: bool,
}

impl Snapshot {
    /// In name order, with those whose pods are known and they themselves are not.
    pub(crate) fn nodes(&self) -> &[Box<NodeState>] {
        &self.nodes
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.nodes.binary_search_by(|it| it.name.as_str().cmp(name))
    }

    fn node(&mut self, name: &str) -> &mut NodeState {
        let index = self.find(name).unwrap_or_else(|index| {
            let state = NodeState { name: name.to_owned(), ..NodeState::default() };
            self.nodes.insert(index, Box::new(state));
            index
        });
        &mut self.nodes[index]
    }

    pub(crate) fn observe_node(&mut self, node: &NodeView) {
        self.node(node.name()).observe(node);
    }

    /// The pods on it stay counted until they are seen deleted.
    pub(crate) fn forget_node(&mut self, name: &str) {
        let Ok(index) = self.find(name) else { return };
        self.nodes[index].is_known = false;
        self.remove_unused(index);
    }

    fn remove_unused(&mut self, index: usize) {
        if !self.nodes[index].is_known && self.nodes[index].n_pods == 0 {
            self.nodes.remove(index);
        }
    }

    /// A pod that has a node, as the API shows it. Counts it, moves it, or drops it when it has
    /// finished.
    pub(crate) fn observe_bound(&mut self, pod: &Arc<PodView>) {
        if let Some(placed) = self.placed.get_mut(&pod.meta.key)
            && !pod.is_terminal()
            && placed.node == pod.node_name
            && placed.pod.spec == pod.spec
        {
            placed.pod = pod.clone();
            placed.is_assumed = false;
            return;
        }
        self.forget_pod(&pod.meta.key);
        if !pod.is_terminal() {
            self.place(&PodRequirements::of(pod), pod.node_name.clone(), false);
        }
    }

    /// Counts a pod on the node chosen for it, before the binding is known to have worked.
    pub(crate) fn assume(&mut self, pod: &PodRequirements, node: &str) {
        self.place(pod, node.into(), true);
    }

    /// Takes an assumption back. A pod that the API has shown as bound meanwhile stays.
    pub(crate) fn forget_assumed(&mut self, key: &ObjectKey) {
        if self.placed.get(key).is_some_and(|it| it.is_assumed) {
            self.forget_pod(key);
        }
    }

    pub(crate) fn forget_pod(&mut self, key: &ObjectKey) {
        let Some(placed) = self.placed.remove(key) else { return };
        let Ok(index) = self.find(&placed.node) else { return };
        self.nodes[index].give_back(&PodRequirements::of(&placed.pod));
        self.remove_unused(index);
    }

    fn place(&mut self, pod: &PodRequirements, node: Interned, is_assumed: bool) {
        self.node(&node).take(pod);
        let placed = Placed { node, pod: pod.pod.clone(), is_assumed };
        self.placed.insert(pod.key().clone(), placed);
    }

    pub(crate) fn holds(&self, key: &ObjectKey) -> bool {
        self.placed.contains_key(key)
    }
}
