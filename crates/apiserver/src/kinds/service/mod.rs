//! Services get their addresses and ports with the write that makes them.

mod allocator;
mod pool;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use api::ApiObject;
use api::core::Service;
use apimachinery::{ApiError, GroupResource};
use stdx::{Cidr, Random};

use self::allocator::Allocator;
use crate::cache::Change;
use crate::pipeline::hooks::{Hooks, Of, Reserved};
use crate::pipeline::{Core, Draft};

pub(crate) struct Addresses {
    allocator: Allocator,
}

impl Addresses {
    pub(crate) fn new(cidrs: &[Cidr], ports: RangeInclusive<u16>, random: Random) -> Self {
        Self { allocator: Allocator::new(cidrs, ports, random) }
    }
}

impl Hooks for Addresses {
    fn of(&self) -> &'static [Of] {
        &[("", "services")]
    }

    fn observe(&self, _resource: &GroupResource, change: &Change) {
        self.allocator.follow(change);
    }

    fn reserve(
        &self,
        core: &Core,
        draft: &mut Draft,
        old: Option<&dyn ApiObject>,
    ) -> Result<Reserved, ApiError> {
        let service = draft.change().downcast_mut::<Service>().expect("the kind is Service");
        let old = old.and_then(|it| it.downcast_ref::<Service>());
        self.allocator.reserve(service, old, core.cache.revision()).map(Reserved::new)
    }
}
