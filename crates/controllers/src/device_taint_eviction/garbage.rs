//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::pod::Pod;

use super::plan::{Used, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let used = |draw: &mut Draw<'_>| Used {
        claim: draw.object(),
        is_made: draw.flag(),
        slices: draw.objects(),
    };
    let used: Vec<Used> = (0..draw.below(3)).map(|_| used(draw)).collect();
    plan(&draw.view::<Pod, _>(), &used, &draw.objects(), now());
    1
}
