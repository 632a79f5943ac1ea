//! Addresses and ranges as objects: an IPAddress for every address of a Service, written and removed
//! in one transaction with it, and the ServiceCIDR `kubernetes` for what the server was started
//! with. What an earlier server or a hand has left otherwise is mended at the start. Whether other
//! ranges are ready, and when they may go, is for the service-cidr-controller.

use std::net::IpAddr;

use api::core::Service;
use api::networking::{IPAddress, ServiceCIDR};
use api::{ApiObject, Lookup, Stored};
use apimachinery::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::api::networking::v1::{
    IPAddressSpec, ParentReference, ServiceCIDRSpec, ServiceCIDRStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use kvstore::{Compare, Op};
use stdx::{Cidr, Family};

use super::allocator::addresses;
use crate::cache::{ObjectPath, store_key};
use crate::pipeline::{self, Core};
use crate::plan::Plan;

const LABEL_FAMILY: &str = "ipaddress.kubernetes.io/ip-family";
const LABEL_MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
const MANAGER: &str = "ipallocator.k8s.io";
/// Of the server's own ranges.
const DEFAULT: &str = "kubernetes";
const READY: &str = "Ready";

/// The object of an address that a Service has.
fn object(address: IpAddr, service: &ObjectMeta) -> IPAddress {
    let family = Family::of(address).to_string();
    let labels = [(LABEL_FAMILY, family.as_str()), (LABEL_MANAGED_BY, MANAGER)];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    IPAddress {
        metadata: ObjectMeta {
            name: Some(address.to_string()),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        spec: IPAddressSpec {
            parent_ref: ParentReference {
                group: None,
                resource: "services".to_owned(),
                namespace: service.namespace.clone(),
                name: service.name.clone().unwrap_or_default(),
            },
        },
    }
}

/// Whether it is one that this server keeps, of that Service.
fn is_of(object: &IPAddress, service: &ObjectMeta) -> bool {
    let parent = &object.spec.parent_ref;
    is_managed(object)
        && parent.namespace == service.namespace
        && Some(&parent.name) == service.name.as_ref()
}

fn is_managed(object: &IPAddress) -> bool {
    let labels = object.metadata.labels.as_ref();
    let parent = &object.spec.parent_ref;
    labels.and_then(|it| it.get(LABEL_MANAGED_BY)).is_some_and(|it| it == MANAGER)
        && parent.group.as_deref().unwrap_or_default().is_empty()
        && parent.resource == "services"
}

fn find(core: &Core, address: &str) -> Option<std::sync::Arc<IPAddress>> {
    let lookup: &dyn Lookup = core.cache.as_ref();
    lookup.get::<IPAddress>(&ObjectKey::cluster(address))
}

/// Addresses that come, and those that go, where a Service changes from one to the other.
pub(super) fn changed(old: Option<&Service>, new: Option<&Service>) -> (Vec<IpAddr>, Vec<IpAddr>) {
    let had = old.map(addresses).unwrap_or_default();
    let has = new.map(addresses).unwrap_or_default();
    let come = has.iter().filter(|it| !had.contains(it)).copied().collect();
    let go = had.iter().filter(|it| !has.contains(it)).copied().collect();
    (come, go)
}

/// What is written together with a Service, and what must hold for that. It is one IPAddress at
/// most: two of one revision could be torn apart by a watch that ends between them. `Upkeep` sees to
/// the other one of a Service that has two.
pub(super) fn beside(
    core: &Core,
    old: Option<&Stored>,
    new: Option<&dyn ApiObject>,
) -> Vec<(Option<Compare>, Op)> {
    let old = old.and_then(|it| it.shared::<Service>().ok());
    let new = new.and_then(|it| it.downcast_ref::<Service>());
    let (come, go) = changed(old.as_deref(), new);
    let kind = core.kind_of::<IPAddress>();
    let key_of = |address: &IpAddr| {
        let path = ObjectPath::of(kind.as_ref(), "", &address.to_string()).ok()?;
        Some(store_key(kind.as_ref(), &path))
    };
    if let (Some(new), Some(address)) = (new, come.first()) {
        let Some(key) = key_of(address) else { return Vec::new() };
        let mut object = object(*address, &new.metadata);
        object.metadata.uid = Some(core.world.random.uuid());
        object.metadata.creation_timestamp = Some(pipeline::now(core));
        let absent = Compare::absent(&key);
        return vec![(Some(absent), core.cache.put(kind.as_ref(), key, &object))];
    }
    let is_own = |address: &&IpAddr| {
        let found = find(core, &address.to_string());
        found.zip(old.as_ref()).is_some_and(|(it, old)| is_of(&it, &old.metadata))
    };
    let gone = go.first().filter(is_own).and_then(key_of);
    gone.map(|key| (None, Op::delete(&key))).into_iter().collect()
}

/// What the start finds missing or left over. `first` is the Service that is made with it, if it is
/// not there yet.
pub(crate) fn plan(core: &Core, first: &Service, plan: &mut Plan) {
    let lookup: &dyn Lookup = core.cache.as_ref();
    plan_default(core, plan);
    let key = api::object::key_of(&first.metadata);
    let is_new = lookup.get::<Service>(&key).is_none();
    let mut held = std::collections::BTreeSet::new();
    let stored = lookup.all::<Service>(None);
    for service in stored.iter().map(AsRef::as_ref).chain(is_new.then_some(first)) {
        for address in addresses(service) {
            // Of two that have the same, the first.
            if held.insert(address.to_string()) {
                plan.ensure(core, object(address, &service.metadata), |_, _| None);
            }
        }
    }
    for object in lookup.all::<IPAddress>(None) {
        let is_held = object.metadata.name.as_ref().is_some_and(|it| held.contains(it));
        if is_managed(&object) && !is_held {
            plan.remove(core, object.as_ref());
        }
    }
}

/// The ranges that the server was started with.
pub(super) fn plan_default(core: &Core, plan: &mut Plan) {
    let cidrs: Vec<String> = core.config.service_cidrs.iter().map(ToString::to_string).collect();
    if cidrs.is_empty() {
        return;
    }
    let default = default_range(&cidrs, pipeline::now(core).0);
    plan.ensure(core, default, |old, _| with_second_family(old, &cidrs));
}

/// The object of one address is there if the Service has the address, and not if it has not.
pub(super) fn plan_one(core: &Core, address: IpAddr, service: &ObjectKey, plan: &mut Plan) {
    let lookup: &dyn Lookup = core.cache.as_ref();
    let holder = lookup.get::<Service>(service);
    if let Some(holder) = holder.filter(|it| addresses(it).contains(&address)) {
        return plan.ensure(core, object(address, &holder.metadata), |_, _| None);
    }
    let meta = ObjectMeta {
        namespace: Some(service.namespace.clone()),
        name: Some(service.name.clone()),
        ..ObjectMeta::default()
    };
    if let Some(left) = find(core, &address.to_string()).filter(|it| is_of(it, &meta)) {
        plan.remove(core, left.as_ref());
    }
}

/// Whose the address was, if it was a Service's.
pub(super) fn holder_of(object: &IPAddress) -> Option<(IpAddr, ObjectKey)> {
    let parent = &object.spec.parent_ref;
    let namespace = parent.namespace.clone().unwrap_or_default();
    let address = object.metadata.name.as_ref()?.parse().ok()?;
    is_managed(object).then(|| (address, ObjectKey::new(namespace, parent.name.as_str())))
}

fn default_range(cidrs: &[String], now: Timestamp) -> ServiceCIDR {
    let mut range = ServiceCIDR {
        metadata: ObjectMeta { name: Some(DEFAULT.to_owned()), ..ObjectMeta::default() },
        spec: Some(ServiceCIDRSpec { cidrs: Some(cidrs.to_vec()) }),
        status: None,
    };
    let ready = Condition {
        type_: READY.to_owned(),
        status: "True".to_owned(),
        reason: String::new(),
        message: "Kubernetes default Service CIDR is ready".to_owned(),
        last_transition_time: Time(now),
        observed_generation: None,
    };
    range.status = Some(ServiceCIDRStatus { conditions: Some(vec![ready]) });
    range
}

/// A server that was started with a second family has a second range.
fn with_second_family(stored: &ServiceCIDR, cidrs: &[String]) -> Option<ServiceCIDR> {
    let old = stored.spec.as_ref().and_then(|it| it.cidrs.as_deref()).unwrap_or_default();
    let is_growing = old.len() == 1 && cidrs.len() == 2 && old[0] == cidrs[0];
    is_growing.then(|| ServiceCIDR {
        spec: Some(ServiceCIDRSpec { cidrs: Some(cidrs.to_vec()) }),
        ..stored.clone()
    })
}

fn ranges(range: &ServiceCIDR) -> Vec<Cidr> {
    let texts = range.spec.as_ref().and_then(|it| it.cidrs.as_deref()).unwrap_or_default();
    texts.iter().filter_map(|it| it.parse().ok()).collect()
}

/// What Services may get addresses from.
pub(super) fn ready_ranges(range: &ServiceCIDR) -> Vec<Cidr> {
    let conditions = range.status.as_ref().and_then(|it| it.conditions.as_deref());
    let mut all = conditions.unwrap_or_default().iter();
    let is_ready = all.any(|it| it.type_ == READY && it.status == "True");
    let is_leaving = range.metadata.deletion_timestamp.is_some();
    if is_ready && !is_leaving { ranges(range) } else { Vec::new() }
}
