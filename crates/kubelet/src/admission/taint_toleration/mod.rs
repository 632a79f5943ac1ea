//! Whether the pod tolerates what drives pods from this node. Static pods are asked for by the node
//! itself: they stay.

use api::core::node::fit::tolerates;

use super::{Candidate, Handler, Rejection};
use crate::sources::mirror::ANNOTATION_SOURCE;

pub(super) struct TaintToleration;

impl Handler for TaintToleration {
    fn admit(&self, candidate: &Candidate<'_>) -> Result<(), Rejection> {
        let annotations = candidate.pod.metadata.annotations.as_ref();
        let source = annotations.and_then(|it| it.get(ANNOTATION_SOURCE));
        if source.is_some_and(|it| it != "api") {
            return Ok(());
        }
        let tolerations = candidate.spec.tolerations.as_deref().unwrap_or_default();
        let taints = candidate.node.and_then(|it| it.spec.as_ref()?.taints.as_deref());
        let mut driving = taints.unwrap_or_default().iter().filter(|it| it.effect == "NoExecute");
        if driving.all(|taint| tolerations.iter().any(|it| tolerates(it, taint))) {
            return Ok(());
        }
        let message =
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
        Err(("TaintToleration".to_owned(), message.to_owned()))
    }
}
