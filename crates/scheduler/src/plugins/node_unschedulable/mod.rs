//! Cordoned nodes take no pods, unless the pod tolerates that taint.

#[cfg(test)]
mod tests;

use api::core::node::fit::tolerates;
use k8s_openapi::api::core::v1::Taint;

use super::{Plugin, Reasons};
use crate::node::NodeState;
use crate::pod::PodRequirements;

pub struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn filter(&self, pod: &PodRequirements, node: &NodeState) -> Result<(), Reasons> {
        if !node.is_unschedulable {
            return Ok(());
        }
        let taint = Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        if pod.tolerations().iter().any(|it| tolerates(it, &taint)) {
            return Ok(());
        }
        Err(Reasons::one("node(s) were unschedulable"))
    }
}
