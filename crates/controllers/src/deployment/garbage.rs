//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use super::plan::{Observed, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let observed = Observed {
        deployment: draw.object(),
        current: draw.flag().then(|| draw.object()),
        old: draw.objects(),
        has_old_pods: draw.flag(),
        now: now(),
    };
    plan(&observed).actions.len()
}
