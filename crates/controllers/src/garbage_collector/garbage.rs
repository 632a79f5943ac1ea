//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::ConfigMap;
use api::object::meta_of;
use apimachinery::GroupVersionResource;

use super::graph::{Graph, Node};
use super::plan::{self, Dependents, plan_dependent, plan_owner};
use crate::garbage::Draw;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let resource = GroupVersionResource::new("", "v1", "configmaps");
    let mut graph = Graph::default();
    let mut nodes: Vec<Node> = Vec::new();
    for _ in 0..draw.below(6) {
        let object = draw.object::<ConfigMap>();
        let node = Node::new(&resource, &meta_of(&object.metadata, Vec::new()));
        graph.upsert(node.clone());
        nodes.push(node);
    }
    let mut n_actions = 0;
    for node in &nodes {
        n_actions += plan_owner(&graph, node).len();
        let of = draw.object::<ConfigMap>();
        let owners = of.metadata.owner_references.clone().unwrap_or_default();
        let known = owners.into_iter().filter_map(|it| {
            let owner = plan::known(&graph, node, &it)?;
            Some((it, owner))
        });
        let (known, finalizers) = (known.collect::<Vec<_>>(), of.metadata.finalizers.clone());
        let dependents = Dependents::of(&graph, &node.uid);
        n_actions += plan::doubtful(&graph, node).len() + plan::out_of_reach(&graph, node).len();
        plan_dependent(&known, &finalizers.unwrap_or_default(), dependents);
        if draw.flag() {
            graph.remove(&node.uid);
        }
    }
    n_actions
}
