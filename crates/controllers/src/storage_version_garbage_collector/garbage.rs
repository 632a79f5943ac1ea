//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use super::plan::plan;
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    usize::from(plan(&draw.object(), |it| it == "a", now()).is_some())
}
