//! What this controller makes of objects that nobody has validated: see `crate::garbage`.

use api::core::PersistentVolume;

use super::plan;
use crate::garbage::Draw;
use crate::protection;

pub(crate) fn plan_any(draw: &mut Draw<'_>) -> usize {
    let volume = draw.object::<PersistentVolume>();
    let users = plan::users(&volume);
    protection::explain("claims", &users);
    usize::from(protection::plan(&*volume, plan::FINALIZER, !users.is_empty()).is_some())
}
