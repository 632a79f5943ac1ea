//! Services get their addresses and ports with the write that makes them.

mod allocator;
mod pool;
mod proxy;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;
use std::sync::Arc;

use api::core::Service;
use api::{ApiObject, Dynamic};
use apimachinery::{ApiError, GroupResource};
use stdx::{Cidr, Random};

use self::allocator::Allocator;
use crate::cache::Change;
use crate::pipeline::hooks::{Exchange, Hooks, Of, Reserved, Streaming};
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

    fn stream_options(&self, exchange: &Exchange) -> Result<Option<Dynamic>, ApiError> {
        Ok(Some(crate::proxy::options("ServiceProxyOptions", exchange)))
    }

    fn connect<'a>(&'a self, core: &'a Arc<Core>, exchange: Exchange) -> Streaming<'a> {
        Box::pin(proxy::connect(core, exchange))
    }
}
