//! One decision: filter every node, score what is left, take the best. Pure but for the tie-break, which is drawn
//! from the given randomness.

use stdx::Random;

use crate::diagnosis::Diagnosis;
use crate::node::NodeState;
use crate::plugins::{self, Plugin};
use crate::pod::PodRequirements;

/// The index of the chosen node, or why there is none.
pub(crate) fn choose(
    pod: &PodRequirements,
    nodes: &[&NodeState],
    random: &Random,
) -> Result<usize, Diagnosis> {
    let active: Vec<&dyn Plugin> =
        plugins::ALL.iter().copied().filter(|it| it.applies(pod)).collect();
    let mut diagnosis = Diagnosis::new(nodes.len());
    let feasible: Vec<usize> = (0..nodes.len())
        .filter(|index| passes(&active, pod, nodes[*index], &mut diagnosis))
        .collect();
    match feasible.as_slice() {
        [] => Err(diagnosis),
        [only] => Ok(*only),
        _ => Ok(best(&active, pod, nodes, &feasible, random)),
    }
}

fn passes(
    active: &[&dyn Plugin],
    pod: &PodRequirements,
    node: &NodeState,
    diagnosis: &mut Diagnosis,
) -> bool {
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

fn best(
    active: &[&dyn Plugin],
    pod: &PodRequirements,
    nodes: &[&NodeState],
    feasible: &[usize],
    random: &Random,
) -> usize {
    let mut totals = vec![0i64; feasible.len()];
    for plugin in active.iter().filter(|it| it.weight() > 0) {
        let mut scores: Vec<i64> =
            feasible.iter().map(|index| plugin.score(pod, nodes[*index])).collect();
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
