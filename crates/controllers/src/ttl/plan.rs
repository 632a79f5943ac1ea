//! For how long, by the number of nodes. Pure.

use api::core::node::NodeView;

/// Fewest and most nodes, and seconds. They overlap, so that a node that comes and goes does not
/// change all others each time.
const STEPS: &[(usize, usize, u32)] =
    &[(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, usize::MAX, 300)];

/// What holds for so many nodes. `current` stays as long as it can; otherwise it is the nearest
/// that can be.
pub(crate) fn seconds(n_nodes: usize, current: Option<u32>) -> u32 {
    let mut fitting =
        STEPS.iter().filter(|(min, max, _)| (*min..=*max).contains(&n_nodes)).map(|it| it.2);
    let lowest = fitting.clone().next().unwrap_or_default();
    match current {
        Some(current) if fitting.clone().any(|it| it == current) => current,
        Some(current) if current > lowest => fitting.next_back().unwrap_or(lowest),
        _ => lowest,
    }
}

/// The annotation to write, if it is another.
pub(crate) fn plan(node: &NodeView, seconds: u32) -> Option<String> {
    let current: Option<i64> = node.ttl.as_deref().and_then(|it| it.parse().ok());
    (current != Some(i64::from(seconds))).then(|| seconds.to_string())
}
