//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use std::time::Duration;

use api::core::node::Node;

use super::plan::{Observed, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let observed = Observed {
        node: draw.view::<Node, _>(),
        seen: draw.time(),
        now: now(),
        grace: Duration::from_secs(50),
        startup_grace: Duration::from_secs(60),
    };
    plan(&observed);
    1
}
