//! Refuses pods whose hard rules no plugin implements yet, instead of placing them wrongly.

#[cfg(test)]
mod tests;

use super::{Plugin, Reasons};
use crate::node::NodeState;
use crate::pod::PodRequirements;

pub struct Unsupported;

impl Plugin for Unsupported {
    fn name(&self) -> &'static str {
        "Unsupported"
    }

    fn applies(&self, pod: &PodRequirements) -> bool {
        pod.unsupported.is_some()
    }

    fn filter(&self, pod: &PodRequirements, _node: &NodeState) -> Result<(), Reasons> {
        pod.unsupported
            .map_or(Ok(()), |why| Err(Reasons::one(format!("node(s) could not be judged: {why}"))))
    }
}
