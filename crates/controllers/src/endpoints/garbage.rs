//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::pod::Pod;

use super::plan::{Observed, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let observed = Observed {
        service: draw.object(),
        pods: draw.views::<Pod, _>(),
        endpoints: draw.flag().then(|| draw.object()),
        trigger: draw.flag().then(now),
    };
    usize::from(plan(&observed).is_some())
}
