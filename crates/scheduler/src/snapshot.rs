//! All nodes with the pods on them, changed in place as events arrive: no rebuild per pod.

use std::collections::BTreeMap;

use apimachinery::ObjectKey;
use k8s_openapi::api::core::v1::{Node, Pod};

use crate::node::NodeState;
use crate::pod::{PodRequirements, holds_resources};

/// Invariant: a pod is in `placed` exactly when its requirements are counted on that node.
#[derive(Default)]
pub(crate) struct Snapshot {
    nodes: BTreeMap<String, NodeState>,
    placed: BTreeMap<ObjectKey, Placed>,
}

struct Placed {
    node: String,
    pod: PodRequirements,
    /// Assumed by us and not yet seen as bound.
    is_assumed: bool,
}

impl Snapshot {
    /// Nodes that exist, in name order.
    pub(crate) fn nodes(&self) -> Vec<&NodeState> {
        self.nodes.values().filter(|it| it.is_known).collect()
    }

    pub(crate) fn observe_node(&mut self, node: &Node) {
        let name = node.metadata.name.clone().unwrap_or_default();
        let state = self.nodes.entry(name.clone()).or_default();
        state.name = name;
        state.observe(node);
    }

    /// The pods on it stay counted until they are seen deleted.
    pub(crate) fn forget_node(&mut self, name: &str) {
        let Some(state) = self.nodes.get_mut(name) else { return };
        state.is_known = false;
        if state.n_pods == 0 {
            self.nodes.remove(name);
        }
    }

    /// A pod that has a node, as the API shows it. Counts it, moves it, or drops it when it has finished.
    pub(crate) fn observe_bound(&mut self, pod: &Pod) {
        let requirements = PodRequirements::of(pod);
        let node = requirements.node_name.clone();
        self.forget_pod(&requirements.key);
        if holds_resources(pod) {
            self.place(requirements, node, false);
        }
    }

    /// Counts a pod on the node chosen for it, before the binding is known to have worked.
    pub(crate) fn assume(&mut self, pod: PodRequirements, node: String) {
        self.place(pod, node, true);
    }

    /// Takes an assumption back. A pod that the API has shown as bound meanwhile stays.
    pub(crate) fn forget_assumed(&mut self, key: &ObjectKey) {
        if self.placed.get(key).is_some_and(|it| it.is_assumed) {
            self.forget_pod(key);
        }
    }

    pub(crate) fn forget_pod(&mut self, key: &ObjectKey) {
        let Some(placed) = self.placed.remove(key) else { return };
        let Some(state) = self.nodes.get_mut(&placed.node) else { return };
        state.give_back(&placed.pod);
        if !state.is_known && state.n_pods == 0 {
            self.nodes.remove(&placed.node);
        }
    }

    fn place(&mut self, pod: PodRequirements, node: String, is_assumed: bool) {
        let state = self.nodes.entry(node.clone()).or_default();
        state.name.clone_from(&node);
        state.take(&pod);
        self.placed.insert(pod.key.clone(), Placed { node, pod, is_assumed });
    }

    pub(crate) fn holds(&self, key: &ObjectKey) -> bool {
        self.placed.contains_key(key)
    }
}
