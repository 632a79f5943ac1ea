//! What a quota's status says, of what was counted.

use std::collections::{BTreeMap, BTreeSet};

use api::amounts::{self, Amounts};
use api::core::ResourceQuota;
use api::core::resource_quota::usage::{Classes, Counted, counts, needs_classes, plainly_counted};
use apimachinery::GroupResource;
use k8s_openapi::api::core::v1::ResourceQuotaStatus;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Resources whose objects are looked into.
pub(super) const MEASURED: [(&str, &str); 4] = [
    ("", "persistentvolumeclaims"),
    ("", "pods"),
    ("", "services"),
    ("resource.k8s.io", "resourceclaims"),
];

/// What the quota bounds.
fn bounded(quota: &ResourceQuota) -> impl Iterator<Item = &str> {
    let hard = quota.spec.iter().flat_map(|it| it.hard.iter().flatten());
    hard.map(|(name, _)| name.as_str())
}

/// Whether objects of the resource can count for the quota.
pub(super) fn is_about(quota: &ResourceQuota, resource: &GroupResource) -> bool {
    let none = Classes::new();
    bounded(quota).any(|it| counts(resource, it, &none) || needs_classes(resource, it))
}

/// The resources that have to be listed to count what the quota bounds.
pub(super) fn resources(quota: &ResourceQuota) -> BTreeSet<GroupResource> {
    let measured = MEASURED.map(|(group, plural)| GroupResource::new(group, plural));
    let measured = measured.into_iter().filter(|it| is_about(quota, it));
    measured.chain(bounded(quota).filter_map(plainly_counted)).collect()
}

/// Whether objects of the resource are all out of the quota's scopes.
pub(super) fn is_out_of_scope(quota: &ResourceQuota, resource: &GroupResource) -> bool {
    !Counted::Other(resource).is_in_scope(quota)
}

/// Nothing of all that the quota bounds of a resource.
pub(super) fn nothing(
    quota: &ResourceQuota,
    resource: &GroupResource,
    classes: &Classes,
) -> Amounts {
    let of = bounded(quota).filter(|it| counts(resource, it, classes));
    of.map(|it| (it.to_owned(), amounts::Written::default())).collect()
}

/// The quota as it should be, unless it is. What could not be counted stays as it was.
pub(super) fn plan(quota: &ResourceQuota, counted: &Amounts) -> Option<Box<ResourceQuota>> {
    let status = quota.status.as_ref();
    let hard_before = amounts::parse(status.and_then(|it| it.hard.as_ref()));
    let used_before = amounts::parse(status.and_then(|it| it.used.as_ref()));
    let hard = quota.spec.as_ref().and_then(|it| it.hard.clone()).unwrap_or_default();
    let mut used = used_before.clone();
    used.extend(counted.iter().map(|(name, it)| (name.clone(), *it)));
    used.retain(|name, _| hard.contains_key(name));
    let is_same = amounts::is_same(&amounts::parse(Some(&hard)), &hard_before)
        && amounts::is_same(&used, &used_before);
    if is_same {
        return None;
    }
    let status = ResourceQuotaStatus { hard: Some(hard), used: Some(amounts::render(&used)) };
    Some(Box::new(ResourceQuota { status: Some(status), ..quota.clone() }))
}

type ResourceList = BTreeMap<String, Quantity>;
type Shape<'a> = (Option<&'a ResourceList>, Option<&'a ResourceList>, Vec<&'a str>);

/// What of a quota changes by something else than by use.
pub(super) fn shape(quota: &ResourceQuota) -> Shape<'_> {
    let status = quota.status.as_ref();
    let used = status.and_then(|it| it.used.as_ref());
    (
        quota.spec.as_ref().and_then(|it| it.hard.as_ref()),
        status.and_then(|it| it.hard.as_ref()),
        used.into_iter().flatten().map(|it| it.0.as_str()).collect(),
    )
}

/// Whether the status is not about what is bounded now.
pub(super) fn is_stale(quota: &ResourceQuota) -> bool {
    let (wanted, said, used) = shape(quota);
    wanted != said || !wanted.into_iter().flatten().map(|it| it.0.as_str()).eq(used)
}

/// Whether what is bounded has changed since the status was written: from then on writes are
/// charged, and those that were under way are not.
pub(super) fn is_new(quota: &ResourceQuota) -> bool {
    let spec = quota.spec.as_ref().and_then(|it| it.hard.as_ref());
    let status = quota.status.as_ref().and_then(|it| it.hard.as_ref());
    let names = |it: Option<&ResourceList>| {
        it.into_iter().flat_map(|it| it.keys().cloned()).collect::<BTreeSet<String>>()
    };
    names(spec) != names(status)
}
