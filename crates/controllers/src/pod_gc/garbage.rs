//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::node::{Node, NodeView};
use api::core::pod::Pod;

use super::plan::{excess, place, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let node = draw.flag().then(|| draw.view::<Node, NodeView>());
    let pods = draw.views::<Pod, _>();
    for pod in &pods {
        plan(pod, place(pod, node.as_deref()), draw.time(), now());
    }
    let threshold = draw.below(3);
    excess(pods, threshold).len()
}
