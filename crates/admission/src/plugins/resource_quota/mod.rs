//! A namespace takes no more than its quotas allow. What a write takes is added to the quota's
//! status in one transaction with it: either both happen or neither, whatever ends the request and
//! however many servers write, and nothing ever has to be given back.

mod charge;
mod limited;
#[cfg(test)]
mod tests;
mod turns;

use std::sync::Arc;

use api::core::resource_quota::usage::{
    Classes, Counted, is_for_extended_resource, is_terminating, owner_pod,
};
use api::core::{PersistentVolumeClaim, Pod, ResourceQuota, Service};
use api::resource::{DeviceClass, ResourceClaim};
use api::{ApiObject, Resource as _, Stored, amounts};
use apimachinery::{ApiError, GroupResource, GroupVersionResource};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuotaStatus;
use stdx::SharedClock;

use self::charge::{Asked, Known, charge};
use self::limited::{Limited, ResourceQuotaSettings};
use self::turns::{Turn, Turns};
use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::configuration::{Configuration, Error};
use crate::context::Context;
use crate::reservation::{Beside, Reservation};

const PLUGIN: &str = "ResourceQuota";

pub struct ResourceQuotas {
    clock: SharedClock,
    turns: Turns,
    limited: Vec<Limited>,
}

impl ResourceQuotas {
    pub fn new(files: &Configuration, clock: SharedClock) -> Result<Self, Error> {
        let settings: ResourceQuotaSettings = files.settings()?.unwrap_or_default();
        Ok(Self { clock, turns: Turns::default(), limited: settings.limited_resources })
    }
}

impl Plugin for ResourceQuotas {
    fn name(&self) -> &'static str {
        PLUGIN
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        let names = request.kind.names();
        let is_free = names.plural == "events" || request.is_of("", "namespaces");
        if phase != Phase::Validate || request.namespace.is_empty() || is_free {
            return false;
        }
        let resource = (names.group.as_str(), names.plural.as_str());
        match (request.operation, request.subresource) {
            (Operation::Create, "") => true,
            (Operation::Update, "") => matches!(
                resource,
                ("", "pods" | "services" | "persistentvolumeclaims")
                    | ("resource.k8s.io", "resourceclaims")
            ),
            (Operation::Update, "resize") => resource == ("", "pods"),
            (Operation::Update, "status") => resource == ("", "persistentvolumeclaims"),
            _ => false,
        }
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(self.reserve(context))
    }
}

impl ResourceQuotas {
    async fn reserve(
        &self,
        context: &Context<'_>,
    ) -> Result<Option<Box<dyn Reservation>>, ApiError> {
        let now = self.clock.now();
        if decide(context, &self.limited, now)?.is_empty() || context.request.is_dry_run() {
            return Ok(None);
        }
        // One after the other: those of one server do not refuse each other's transactions.
        let turn = self.turns.wait(context.request.namespace).await;
        let changes = decide(context, &self.limited, now)?;
        Ok(Some(Box::new(Charged { changes, _turn: turn })))
    }
}

/// What a write adds to quotas, and the turn of its namespace until the request is over.
struct Charged {
    changes: Vec<Beside>,
    _turn: Turn,
}

impl Reservation for Charged {
    fn keep(&mut self) {}

    fn beside(&self) -> Vec<Beside> {
        self.changes.clone()
    }
}

fn quotas_of(context: &Context<'_>) -> Vec<Arc<Stored>> {
    let resource = GroupResource::new("", ResourceQuota::FACTS.plural);
    context.lookup.list(&resource, Some(context.request.namespace))
}

/// The quotas as they will be, those that change; or the refusal.
fn decide(
    context: &Context<'_>,
    limited: &[Limited],
    now: Timestamp,
) -> Result<Vec<Beside>, ApiError> {
    let stored = quotas_of(context);
    let is_idle = stored.is_empty() && limited.is_empty();
    let Some(object) = context.object().filter(|_| !is_idle) else {
        return Ok(Vec::new());
    };
    let old = context.old().map(|it| it.object());
    let resource = context.request.kind.names().group_resource();
    if !is_charged(&context.request, object, old) {
        return Ok(Vec::new());
    }
    let classes = classes_of(context, &resource);
    let of_pod = pod_of(context, object, now);
    let around = Around { resource: &resource, classes: &classes, of_pod: of_pod.as_ref() };
    let asked = Asked {
        resource: &resource,
        classes: &classes,
        new: around.counted(object),
        old: old.map(|it| around.counted(it)),
        is_status: context.request.subresource == "status",
        limited,
        now,
    };
    let quotas: Vec<Known> = stored.iter().filter_map(|it| Known::of(it)).collect();
    let charges = charge(&quotas, &asked).map_err(|why| context.forbidden(&why))?;
    charges.into_iter().map(|(index, used)| changed(&stored, &quotas[index], &used)).collect()
}

/// Pods change what they take by a resize, and which quotas they are of by a deadline.
fn is_charged(
    request: &Attributes<'_>,
    object: &dyn ApiObject,
    old: Option<&dyn ApiObject>,
) -> bool {
    if !request.is("", "pods", "") {
        return true;
    }
    let is_ending = |it: &dyn ApiObject| it.downcast_ref::<Pod>().is_some_and(is_terminating);
    old.is_none_or(|it| is_ending(it) != is_ending(object))
}

/// What is known of the cluster about what is counted.
struct Around<'a> {
    resource: &'a GroupResource,
    classes: &'a Classes,
    of_pod: Option<&'a amounts::Amounts>,
}

impl<'a> Around<'a> {
    fn counted(&self, object: &'a dyn ApiObject) -> Counted<'a> {
        let other = Counted::Other(self.resource);
        let claim =
            |claim| Counted::DeviceClaim { claim, classes: self.classes, of_pod: self.of_pod };
        None.or_else(|| object.downcast_ref::<Pod>().map(Counted::Pod))
            .or_else(|| object.downcast_ref::<Service>().map(Counted::Service))
            .or_else(|| object.downcast_ref::<PersistentVolumeClaim>().map(Counted::VolumeClaim))
            .or_else(|| object.downcast_ref::<ResourceClaim>().map(claim))
            .unwrap_or(other)
    }
}

/// DeviceClasses that are extended resources, where claims to devices are counted.
fn classes_of(context: &Context<'_>, resource: &GroupResource) -> Classes {
    if resource.resource != "resourceclaims" {
        return Classes::new();
    }
    let all = context.lookup.all::<DeviceClass>(None);
    let named = all.iter().filter_map(|it| {
        Some((it.metadata.name.clone()?, it.spec.extended_resource_name.clone()?))
    });
    named.collect()
}

/// What the pod takes whose extended resources the object is a claim for.
fn pod_of(
    context: &Context<'_>,
    object: &dyn ApiObject,
    now: Timestamp,
) -> Option<amounts::Amounts> {
    let claim = object.downcast_ref::<ResourceClaim>().filter(|it| is_for_extended_resource(it))?;
    let (key, uid) = owner_pod(claim)?;
    let pod = context.lookup.get::<Pod>(&key)?;
    let is_owner = pod.metadata.uid.as_deref() == Some(uid);
    is_owner.then(|| Counted::Pod(&pod).usage(now))
}

/// The quota with what will be used of it, as it is stored in all else.
fn changed(
    stored: &[Arc<Stored>],
    known: &Known,
    used: &amounts::Amounts,
) -> Result<Beside, ApiError> {
    let is_it = |it: &&Arc<Stored>| it.meta.key.name == known.name();
    let stored = stored.iter().find(is_it).expect("it was read from there");
    let mut quota = ResourceQuota::decode(&stored.bytes)
        .map_err(|err| ApiError::internal("a stored quota cannot be read").with_source(err))?;
    quota.metadata.resource_version = Some(stored.meta.resource_version.to_string());
    let status = quota.status.get_or_insert_with(ResourceQuotaStatus::default);
    status.used = Some(amounts::render(used));
    let facts = ResourceQuota::FACTS;
    let resource = GroupVersionResource::new(facts.group, facts.version, facts.plural);
    Ok(Beside { resource, object: Arc::new(quota) })
}
