//! What controllers of replicas make of objects that nobody has validated: see `crate::garbage`.

use std::collections::BTreeMap;

use api::apps::replica_set::ReplicaSet;
use api::core::pod::Pod;
use apimachinery::selector::Labels;

use super::plan::{Observed, plan};
use crate::garbage::{Draw, now};

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let set = draw.object::<ReplicaSet>();
    let selector = set.spec.as_ref().map(|it| &it.selector);
    let Ok(selector) = Labels::from_selector(selector) else { return 0 };
    let observed = Observed {
        owner_uid: draw.name().to_owned(),
        is_deleting: draw.flag(),
        replicas: draw.number(),
        selector,
        candidates: draw.views::<Pod, _>(),
        related_per_node: Box::new(BTreeMap::new),
        is_cache_current: true,
        now: now(),
    };
    let plan = plan(&observed);
    plan.adopt.len() + plan.release.len() + plan.delete.len() + plan.create
}
