//! One decision: filter nodes until enough are left, score these, take the best. Pure but for the
//! tie-break, which is drawn from the given randomness.

use std::borrow::Borrow;

use stdx::Random;

use crate::diagnosis::Diagnosis;
use crate::node::NodeState;
use crate::plugins::{self, Plugin};
use crate::pod::PodRequirements;

/// So many nodes are always compared, if they are there and fit.
const ENOUGH_MIN: usize = 100;

/// How many nodes that fit are enough to choose from: upstream's numbers (numFeasibleNodesToFind in
/// pkg/scheduler/schedule_one.go), half of a small cluster and a twentieth of a large one.
fn enough(n_nodes: usize) -> usize {
    let percentage = 50_usize.saturating_sub(n_nodes / 125).max(5);
    (n_nodes * percentage / 100).max(ENOUGH_MIN)
}

/// A choice among nodes.
pub(crate) struct Choice {
    /// By its index.
    pub(crate) node: usize,
    /// Where the next one should start, so that all nodes have their turn.
    pub(crate) next_start: usize,
}

/// Looks at nodes from `start` on, until enough of them fit. Why there is no choice, if there is
/// none: then all were looked at.
pub(crate) fn choose<N: Borrow<NodeState>>(
    pod: &PodRequirements,
    nodes: &[N],
    start: usize,
    random: &Random,
) -> Result<Choice, Diagnosis> {
    let active: Vec<&dyn Plugin> =
        plugins::ALL.iter().copied().filter(|it| it.applies(pod)).collect();
    let mut diagnosis = Diagnosis::default();
    let enough = enough(nodes.len());
    let start = if start < nodes.len() { start } else { 0 };
    let mut next_start = start;
    let mut feasible = Vec::new();
    for index in (start..nodes.len()).chain(0..start) {
        let node = nodes[index].borrow();
        if node.is_known && passes(&active, pod, node, &mut diagnosis) {
            feasible.push(index);
        }
        if feasible.len() == enough {
            next_start = index + 1;
            break;
        }
    }
    let node = match feasible.as_slice() {
        [] => return Err(diagnosis),
        [only] => *only,
        _ => best(&active, pod, nodes, &feasible, random),
    };
    Ok(Choice { node, next_start })
}

fn passes(
    active: &[&dyn Plugin],
    pod: &PodRequirements,
    node: &NodeState,
    diagnosis: &mut Diagnosis,
) -> bool {
    diagnosis.n_nodes += 1;
    for plugin in active {
        if let Err(reasons) = plugin.filter(pod, node) {
            for reason in &reasons.0 {
                diagnosis.add(reason);
            }
            return false;
        }
    }
    true
}

fn best<N: Borrow<NodeState>>(
    active: &[&dyn Plugin],
    pod: &PodRequirements,
    nodes: &[N],
    feasible: &[usize],
    random: &Random,
) -> usize {
    let mut totals = vec![0i64; feasible.len()];
    for plugin in active.iter().filter(|it| it.weight() > 0) {
        let mut scores: Vec<i64> =
            feasible.iter().map(|index| plugin.score(pod, nodes[*index].borrow())).collect();
        plugin.normalize(&mut scores);
        for (total, score) in totals.iter_mut().zip(scores) {
            *total += score * plugin.weight();
        }
    }
    let largest = totals.iter().copied().max().unwrap_or(0);
    let ties: Vec<usize> = feasible
        .iter()
        .zip(&totals)
        .filter(|(_, total)| **total == largest)
        .map(|(index, _)| *index)
        .collect();
    ties[random.below(ties.len() as u64) as usize]
}

#[cfg(test)]
mod tests;
