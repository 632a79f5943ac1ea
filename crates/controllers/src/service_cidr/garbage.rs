//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use super::plan::{Observed, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let (range, ranges) = (draw.object(), draw.objects());
    plan(&Observed { range, ranges, addresses: draw.objects(), now: now() });
    1
}
