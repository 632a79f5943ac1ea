//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::storage::VolumeAttributesClass;

use super::plan;
use crate::garbage::Draw;
use crate::protection;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let class = draw.object::<VolumeAttributesClass>();
    let (claims, volumes) = (draw.objects(), draw.objects());
    claims.iter().for_each(|it| drop(plan::classes_of_claim(it)));
    volumes.iter().for_each(|it| drop(plan::classes_of_volume(it)));
    let users = plan::users(&claims, &volumes);
    protection::explain("claims and volumes", &users);
    usize::from(protection::plan(&*class, plan::FINALIZER, !users.is_empty()).is_some())
}
