//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use super::plan::{Observed, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let (request, slices, claims) = (draw.object(), draw.objects(), draw.objects());
    plan(&Observed { request: &request, slices: &slices, claims: &claims, now: now() });
    1
}
