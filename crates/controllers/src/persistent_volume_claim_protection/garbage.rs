//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::PersistentVolumeClaim;
use api::core::pod::{Pod, PodView};

use super::plan;
use crate::garbage::Draw;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let claim = draw.object::<PersistentVolumeClaim>();
    let (cached, live) = (draw.views::<Pod, PodView>(), draw.views::<Pod, PodView>());
    let live = draw.flag().then_some(&live[..]);
    let step = plan::plan(&claim, &cached, live);
    usize::from(matches!(step, plan::Step::Write(_)))
}
