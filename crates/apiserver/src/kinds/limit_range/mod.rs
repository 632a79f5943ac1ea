//! A LimitRange without a name gets one: it is never spoken of.

use admission::Draft;
use api::ApiObject;

use crate::pipeline::hooks::{Hooks, Of};
use crate::pipeline::{Core, Request};

pub(crate) struct LimitRanges;

impl Hooks for LimitRanges {
    fn of(&self) -> &'static [Of] {
        &[("", "limitranges")]
    }

    fn complete(
        &self,
        core: &Core,
        _request: &Request,
        draft: &mut Draft,
        old: Option<&dyn ApiObject>,
    ) {
        let has_name = draft.object().meta().name.as_ref().is_some_and(|it| !it.is_empty());
        if old.is_none() && !has_name {
            draft.change().meta_mut().name = Some(core.world.random.uuid());
        }
    }
}
