//! A volume says since when it has been in its phase: the server's time, which the rules of the
//! kind do not know.

use admission::Draft;
use api::ApiObject;
use api::core::PersistentVolume;
use api::core::persistent_volume::needs_transition_time;

use crate::pipeline::hooks::{Hooks, Of};
use crate::pipeline::{self, Core, Request};

pub(crate) struct PersistentVolumes;

impl Hooks for PersistentVolumes {
    fn of(&self) -> &'static [Of] {
        &[("", "persistentvolumes")]
    }

    fn complete(
        &self,
        core: &Core,
        _request: &Request,
        draft: &mut Draft,
        old: Option<&dyn ApiObject>,
    ) {
        let old = old.and_then(|it| it.downcast_ref());
        let volume = draft.object().downcast_ref::<PersistentVolume>();
        if volume.is_some_and(|it| needs_transition_time(it, old))
            && let Some(volume) = draft.change().downcast_mut::<PersistentVolume>()
        {
            let status = volume.status.get_or_insert_default();
            status.last_phase_transition_time = Some(pipeline::now(core));
        }
    }
}
