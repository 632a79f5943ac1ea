//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use std::time::Duration;

use super::plan::plan;
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    plan(&draw.object(), Duration::from_secs(3600), now());
    1
}
