//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::node::{Node, NodeView};
use api::core::pod::{Pod, PodView};

use super::plan::{Observed, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let (node, pod) = (draw.view::<Node, NodeView>(), draw.view::<Pod, PodView>());
    let since = draw.flag().then(|| draw.time());
    let (taints, tolerations) = (&node.taints, &pod.spec.tolerations);
    plan(&Observed { taints, tolerations, since, now: now() });
    1
}
