//! A pod that gets its node gets the node's zone and region as labels, so that it can learn them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::ready;

use api::core::{Binding, Node, Pod};
use apimachinery::ObjectKey;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;

const COPIED: &[&str] = &["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

pub struct PodTopologyLabels;

/// The node that the pod gets.
fn node_of<'a>(context: &'a Context<'_>) -> Option<&'a str> {
    if let Some(binding) = context.object_as::<Binding>() {
        let target = &binding.target;
        let is_node = target.kind.as_deref() == Some("Node");
        return target.name.as_deref().filter(|_| is_node);
    }
    context.object_as::<Pod>()?.spec.as_ref()?.node_name.as_deref()
}

/// A node that is not known has none.
fn labels_of(context: &Context<'_>) -> BTreeMap<String, String> {
    let node = node_of(context).filter(|it| !it.is_empty());
    let node = node.and_then(|it| context.lookup.get::<Node>(&ObjectKey::cluster(it)));
    let labels = node.as_ref().and_then(|it| it.metadata.labels.as_ref());
    let copied = |key: &&str| labels?.get(*key).map(|it| ((*key).to_owned(), it.clone()));
    COPIED.iter().filter_map(copied).collect()
}

impl Plugin for PodTopologyLabels {
    fn name(&self) -> &'static str {
        "PodTopologyLabels"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate
            && request.operation == Operation::Create
            && (request.is("", "pods", "binding") || request.is("", "pods", ""))
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        let labels = labels_of(context);
        if !labels.is_empty()
            && let Some(draft) = context.draft_mut()
        {
            draft.change().meta_mut().labels.get_or_insert_default().extend(labels);
        }
        Box::pin(ready(Ok(())))
    }
}
