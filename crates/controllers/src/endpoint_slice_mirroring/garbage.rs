//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use super::plan::{Observed, plan};
use crate::garbage::Draw;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let observed = Observed {
        endpoints: draw.flag().then(|| draw.object()),
        service: draw.flag().then(|| draw.object()),
        slices: draw.objects(),
        max_per_subset: draw.below(4),
    };
    plan(&observed);
    1
}
