//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use super::plan::plan;
use crate::garbage::Draw;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let namespace = draw.flag().then(|| draw.object());
    let stored = draw.flag().then(|| draw.object());
    usize::from(plan(namespace.as_deref(), stored.as_deref(), "CA").is_some())
}
