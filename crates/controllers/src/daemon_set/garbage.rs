//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::node::Node;
use api::core::pod::Pod;

use super::backoff::Backoff;
use super::plan::{Observed, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let mut observed = Observed {
        set: draw.object(),
        hashes: (0..draw.below(3)).map(|_| draw.name().to_owned()).collect(),
        nodes: draw.views::<Node, _>(),
        pods: draw.views::<Pod, _>(),
        backoff: Backoff::default(),
        now: now(),
    };
    // What failed is remembered.
    observed.backoff = plan(&observed).backoff;
    let plan = plan(&observed);
    plan.create.len() + plan.delete.len() + plan.waits.len()
}
