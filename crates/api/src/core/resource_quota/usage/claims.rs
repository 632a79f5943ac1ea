//! PersistentVolumeClaims: how many and how much, in all and of each class.

use std::collections::BTreeSet;

use apimachinery::GroupResource;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;

use super::{count_name, one};
use crate::amounts::{Amounts, Written};

const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// After the name of a class, before what is bounded of it.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) fn counts(name: &str) -> bool {
    let of_class = name.split_once(OF_CLASS).map(|it| it.1);
    matches!(of_class.unwrap_or(name), CLAIMS | STORAGE)
}

fn class_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    let annotations = claim.metadata.annotations.as_ref();
    let annotated = annotations.and_then(|it| it.get(CLASS_ANNOTATION));
    let named = claim.spec.as_ref().and_then(|it| it.storage_class_name.as_ref());
    annotated.or(named).map(String::as_str).filter(|it| !it.is_empty())
}

/// What is asked for, or what an expansion that has begun has taken already, in whole bytes.
fn storage(claim: &PersistentVolumeClaim) -> Option<Written> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    let asked = Written::parse(resources.requests.as_ref()?.get("storage")?)?;
    let status = claim.status.as_ref();
    let allocated = status.and_then(|it| it.allocated_resources.as_ref()?.get("storage"));
    let allocated = allocated.and_then(Written::parse);
    let most = allocated.filter(|it| it.amount > asked.amount).unwrap_or(asked);
    Some(most.rounded_up())
}

pub(super) fn usage(claim: &PersistentVolumeClaim) -> Amounts {
    let mut usage = Amounts::from([
        (count_name(&GroupResource::new("", CLAIMS)), one()),
        (CLAIMS.to_owned(), one()),
    ]);
    let storage = storage(claim);
    usage.extend(storage.map(|it| (STORAGE.to_owned(), it)));
    if let Some(class) = class_of(claim) {
        usage.insert(format!("{class}{OF_CLASS}{CLAIMS}"), one());
        usage.extend(storage.map(|it| (format!("{class}{OF_CLASS}{STORAGE}"), it)));
    }
    usage
}

/// The VolumeAttributesClasses that it has, wants or is on its way to.
pub(super) fn attributes_classes(claim: &PersistentVolumeClaim) -> BTreeSet<&str> {
    let wanted = claim.spec.as_ref().and_then(|it| it.volume_attributes_class_name.as_deref());
    let status = claim.status.as_ref();
    let current = status.and_then(|it| it.current_volume_attributes_class_name.as_deref());
    let target = status.and_then(|it| it.modify_volume_status.as_ref());
    let target = target.and_then(|it| it.target_volume_attributes_class_name.as_deref());
    [wanted, current, target].into_iter().flatten().filter(|it| !it.is_empty()).collect()
}
