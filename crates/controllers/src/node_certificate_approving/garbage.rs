//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::node::Node;

use super::plan::{Verdict, around, plan};
use crate::garbage::Draw;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let request = draw.object();
    let nodes = draw.views::<Node, _>();
    let services = draw.objects();
    let verdict = plan(&request, &around(nodes, &services, &draw.objects()));
    usize::from(matches!(verdict, Verdict::Approve(_)))
}
