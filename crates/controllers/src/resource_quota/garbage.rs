//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::amounts::Amounts;
use api::core::resource_quota::ResourceQuota;

use super::plan::{is_new, is_stale, plan, resources};
use crate::garbage::Draw;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let quota = draw.object::<ResourceQuota>();
    let (_, _) = (is_new(&quota), is_stale(&quota));
    resources(&quota).len() + usize::from(plan(&quota, &Amounts::new()).is_some())
}
