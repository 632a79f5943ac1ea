//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::node::Node;

use super::plan::{plan, seconds};
use crate::garbage::Draw;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let wanted = seconds(draw.below(256) * 20, draw.flag().then(|| u32::from(draw.byte())));
    usize::from(plan(&draw.view::<Node, _>(), wanted).is_some())
}
