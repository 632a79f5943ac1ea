//! A LimitRange without a name gets one: it is never spoken of.

use admission::Draft;
use api::ApiObject;
use apimachinery::ApiError;

use crate::pipeline::Core;
use crate::pipeline::hooks::{Hooks, Of, Reserved};

pub(crate) struct LimitRanges;

impl Hooks for LimitRanges {
    fn of(&self) -> &'static [Of] {
        &[("", "limitranges")]
    }

    fn reserve(
        &self,
        core: &Core,
        draft: &mut Draft,
        old: Option<&dyn ApiObject>,
    ) -> Result<Reserved, ApiError> {
        let has_name = draft.object().meta().name.as_ref().is_some_and(|it| !it.is_empty());
        if old.is_none() && !has_name {
            draft.change().meta_mut().name = Some(core.world.random.uuid());
        }
        Ok(Reserved::default())
    }
}
