//! What objects count for in a quota: one answer for those who admit a write and for those who
//! count anew. Names and rules as upstream's evaluators have them (pkg/quota/v1/evaluator/core).

mod claims;
mod devices;
mod pods;
mod scopes;
mod services;
#[cfg(test)]
mod tests;

use apimachinery::GroupResource;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, Pod, ResourceQuota, ScopedResourceSelectorRequirement, Service,
};
use k8s_openapi::api::resource::v1::ResourceClaim;

use crate::amounts::{Amounts, Written};
use crate::core::resource_names::{REQUESTS, is_native};

pub use self::devices::{Classes, is_for_extended_resource, owner_pod};
pub use self::pods::{counts_until, is_alive, is_terminating, unspecified};
pub use self::scopes::of as scopes_of;

/// The name by which a quota bounds how many objects of any resource there are.
const COUNT: &str = "count/";

/// Core resources whose number has a name of its own as well.
const BY_PLURAL: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

/// An object that a quota may count. What is counted beyond its number depends on its resource.
#[derive(Clone, Copy)]
pub enum Counted<'a> {
    Pod(&'a Pod),
    Service(&'a Service),
    VolumeClaim(&'a PersistentVolumeClaim),
    DeviceClaim {
        claim: &'a ResourceClaim,
        classes: &'a Classes,
        /// Of the pod whose extended resources the claim stands for: they are not counted twice.
        of_pod: Option<&'a Amounts>,
    },
    Other(&'a GroupResource),
}

/// `count/deployments.apps`
fn count_name(resource: &GroupResource) -> String {
    match resource.group.as_str() {
        "" => format!("{COUNT}{}", resource.resource),
        group => format!("{COUNT}{}.{group}", resource.resource),
    }
}

fn one() -> Written {
    Written::count(1)
}

/// Whether the resource is one whose objects are looked into, rather than only counted.
pub fn is_measured(resource: &GroupResource) -> bool {
    matches!(
        (resource.group.as_str(), resource.resource.as_str()),
        ("", "pods" | "services" | "persistentvolumeclaims") | (devices::GROUP, "resourceclaims")
    )
}

/// Whether counting objects of the resource by this name needs the DeviceClasses.
pub fn needs_classes(resource: &GroupResource, name: &str) -> bool {
    resource.group == devices::GROUP
        && resource.resource == "resourceclaims"
        && name.starts_with(REQUESTS)
        && (!is_native(name) || name[REQUESTS.len()..].starts_with(devices::IMPLICIT))
}

/// Whether objects of the resource can count for something that has this name in a quota.
pub fn counts(resource: &GroupResource, name: &str, classes: &Classes) -> bool {
    if name == count_name(resource) {
        return true;
    }
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => pods::counts(name),
        ("", "services") => services::counts(name),
        ("", "persistentvolumeclaims") => claims::counts(name),
        (devices::GROUP, "resourceclaims") => devices::counts(name, classes),
        ("", plural) => BY_PLURAL.contains(&plural) && plural == name,
        _ => false,
    }
}

/// The resource whose objects are counted by nothing but their number, if the name is of such a
/// one: `count/widgets.example.com`, `secrets`.
pub fn plainly_counted(name: &str) -> Option<GroupResource> {
    if BY_PLURAL.contains(&name) {
        return Some(GroupResource::new("", name));
    }
    let counted = name.strip_prefix(COUNT)?;
    let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
    Some(GroupResource::new(group, plural)).filter(|it| !is_measured(it))
}

impl Counted<'_> {
    /// What it counts for now.
    pub fn usage(self, now: Timestamp) -> Amounts {
        match self {
            Self::Pod(pod) => pods::usage(pod, now),
            Self::Service(service) => services::usage(service),
            Self::VolumeClaim(claim) => claims::usage(claim),
            Self::DeviceClaim { claim, classes, of_pod } => devices::usage(claim, classes, of_pod),
            Self::Other(resource) => {
                let plural = resource.resource.as_str();
                let is_named = resource.group.is_empty() && BY_PLURAL.contains(&plural);
                let plain = is_named.then(|| plural.to_owned());
                plain.into_iter().chain([count_name(resource)]).map(|it| (it, one())).collect()
            }
        }
    }

    /// Whether the quota's scopes take it in. Without scopes, all is.
    pub fn is_in_scope(self, quota: &ResourceQuota) -> bool {
        scopes::of(quota).iter().all(|it| scopes::is_in(self, it))
    }

    /// Whether it is in one scope.
    pub fn is_matched_by(self, scope: &ScopedResourceSelectorRequirement) -> bool {
        scopes::is_in(self, scope)
    }
}
