//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use super::plan::{Observed, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let missing = (0..draw.below(3)).map(|_| draw.name().to_owned()).collect();
    let observed = Observed { cron_job: draw.object(), jobs: draw.objects(), missing, now: now() };
    let plan = plan(&observed);
    plan.events.len() + plan.replace.len() + plan.forget.len() + usize::from(plan.start.is_some())
}
