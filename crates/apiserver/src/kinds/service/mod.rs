//! Services get their addresses and ports with the write that makes them. Addresses are objects,
//! and so are the ranges that they come from.

mod allocator;
mod node_port_range;
mod objects;
mod pool;
mod proxy;
mod ranges;
#[cfg(test)]
mod tests;
mod upkeep;

use std::ops::RangeInclusive;
use std::sync::Arc;

use api::core::Service;
use api::networking::IPAddress;
use api::{ApiObject, Dynamic, Kind};
use apimachinery::{ApiError, GroupResource};
use bytes::Bytes;
use kvstore::{Compare, Op};
use stdx::{Cidr, Random};

use self::allocator::Allocator;
use self::upkeep::Upkeep;
use crate::cache::{Change, ObjectPath};
use crate::pipeline::hooks::{Exchange, Hooks, Of, Reserved, Streaming};
use crate::pipeline::{Core, Draft};

pub(crate) use objects::plan;

const GROUP: &str = "networking.k8s.io";

pub(crate) struct Addresses {
    allocator: Allocator,
    upkeep: Arc<Upkeep>,
}

impl Addresses {
    pub(crate) fn new(cidrs: &[Cidr], ports: RangeInclusive<u16>, random: Random) -> Self {
        Self { allocator: Allocator::new(cidrs, ports, random), upkeep: Arc::default() }
    }
}

impl Hooks for Addresses {
    fn of(&self) -> &'static [Of] {
        &[("", "services"), (GROUP, "ipaddresses"), (GROUP, "servicecidrs")]
    }

    fn observe(&self, resource: &GroupResource, change: &Change) {
        match resource.resource.as_str() {
            "ipaddresses" => {
                self.allocator.follow_object(change);
                self.upkeep.follow_object(change);
            }
            "servicecidrs" => {
                self.allocator.follow_range(change);
                self.upkeep.follow_range();
            }
            _ => {
                self.allocator.follow(change);
                self.upkeep.follow_service(change);
            }
        }
    }

    fn observe_other(&self, key: &str, value: Option<(&Bytes, u64)>) {
        if key == node_port_range::KEY {
            self.allocator.follow_kept(value);
        }
    }

    fn spawn(self: Arc<Self>, core: &Arc<Core>) {
        let (upkeep, its) = (self.upkeep.clone(), core.clone());
        core.tasks.spawn("service-addresses", |shutdown| upkeep.run(its, shutdown));
    }

    fn reserve(
        &self,
        core: &Core,
        draft: &mut Draft,
        old: Option<&dyn ApiObject>,
    ) -> Result<Reserved, ApiError> {
        if let Some(object) = draft.object().downcast_ref::<IPAddress>() {
            return self.reserve_object(object, old.is_none());
        }
        if draft.object().downcast_ref::<Service>().is_none() {
            return Ok(Reserved::default());
        }
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

    fn beside(
        &self,
        core: &Core,
        kind: &dyn Kind,
        path: &ObjectPath,
        new: Option<&dyn ApiObject>,
    ) -> Vec<(Option<Compare>, Op)> {
        match kind.names().plural.as_str() {
            "services" => {
                let stored = core.cache.get(kind, path);
                let old = stored.as_ref().and_then(|it| it.shared::<Service>().ok());
                let ports = new.and_then(|it| it.downcast_ref());
                let ports = self.allocator.beside(old.as_deref(), ports);
                objects::beside(core, stored.as_deref(), new).into_iter().chain(ports).collect()
            }
            _ => Vec::new(),
        }
    }
}

impl Addresses {
    /// What has no address for a name is refused by its rules.
    fn reserve_object(&self, object: &IPAddress, is_new: bool) -> Result<Reserved, ApiError> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let Some(address) = name.parse().ok().filter(|_| is_new) else {
            return Ok(Reserved::default());
        };
        let taken = || ApiError::already_exists(&GroupResource::new(GROUP, "ipaddresses"), name);
        self.allocator.reserve_object(address).map(Reserved::new).ok_or_else(taken)
    }
}
