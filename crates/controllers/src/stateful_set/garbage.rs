//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::apps::StatefulSet;
use api::core::persistent_volume_claim::PersistentVolumeClaim;
use api::core::pod::{Pod, PodView};

use super::plan::{Observed, explain, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let set = draw.object::<StatefulSet>();
    let pods = draw.views::<Pod, PodView>();
    let claim = draw.flag().then(|| draw.object::<PersistentVolumeClaim>());
    let stranger = draw.flag().then(|| draw.view::<Pod, PodView>());
    let observed = Observed {
        set,
        current: draw.object(),
        update: draw.object(),
        pods,
        claim: &|_| claim.clone(),
        pod: &|_| stranger.clone(),
        allows_max_unavailable: draw.flag(),
        now: now(),
    };
    let plan = plan(&observed);
    explain(&plan);
    plan.tasks.len() + plan.waits.len()
}
