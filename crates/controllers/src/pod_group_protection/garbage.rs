//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use super::plan::plan;
use crate::garbage::Draw;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    usize::from(plan(&draw.object(), draw.below(3)).is_some())
}
