//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::Secret;

use super::plan::plan;
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    plan(&draw.view::<Secret, _>(), now());
    1
}
