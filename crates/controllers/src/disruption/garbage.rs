//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::pod::Pod;
use api::policy::PodDisruptionBudget;

use super::plan::{Observed, Scale, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let budget = draw.object::<PodDisruptionBudget>();
    let pods = draw.views::<Pod, _>();
    let scale = |draw: &mut Draw<'_>| {
        let uid = draw.name().to_owned();
        Scale { uid, replicas: draw.number() }
    };
    let owners: Vec<Scale> = (0..draw.below(4)).map(|_| scale(draw)).collect();
    let observed = Observed { budget: &budget, pods: Ok(&pods), owners: Ok(&owners), now: now() };
    let plan = plan(&observed);
    plan.events.len() + usize::from(plan.write.is_some())
}
