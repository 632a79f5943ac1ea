//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::pod::Pod;

use super::plan::{Observed, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let zone = |draw: &mut Draw<'_>| (draw.name().to_owned(), draw.name().to_owned());
    let zones = (0..draw.below(4)).map(|_| zone(draw)).collect();
    let share = |draw: &mut Draw<'_>| (draw.name().to_owned(), f64::from(draw.number()));
    let shares = draw.flag().then(|| (0..draw.below(4)).map(|_| share(draw)).collect());
    let observed = Observed {
        service: draw.object(),
        pods: draw.views::<Pod, _>(),
        zones,
        slices: draw.objects(),
        endpoints_per_slice: 1 + draw.below(4),
        trigger: draw.flag().then(now),
        shares,
    };
    plan(&observed);
    1
}
