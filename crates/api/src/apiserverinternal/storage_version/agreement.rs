//! What all servers that store a resource agree on. Pure.

use k8s_openapi::api::apiserverinternal::v1alpha1::{
    StorageVersionCondition, StorageVersionStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const ALL_EQUAL: &str = "AllEncodingVersionsEqual";

/// What all servers write, and whether they agree. `generation` is the object's.
pub fn agree(status: &mut StorageVersionStatus, generation: Option<i64>, now: Time) {
    let mut all = status.storage_versions.iter().flatten().map(|it| it.encoding_version.as_str());
    let first = all.next();
    let common = first.filter(|first| all.all(|it| it == *first)).map(str::to_owned);
    let before = std::mem::replace(&mut status.common_encoding_version, common.clone());
    let (holds, reason, message) = match common {
        Some(_) => ("True", "CommonEncodingVersionSet", "Common encoding version set"),
        None => ("False", "CommonEncodingVersionUnset", "Common encoding version unset"),
    };
    let all = status.conditions.get_or_insert_default();
    let stored = all.iter().find(|it| it.type_ == ALL_EQUAL);
    // Another version is another agreement.
    let is_other = before.is_some() && common.is_some() && before != common;
    let since = stored.filter(|it| it.status == holds && !is_other);
    let since = since.and_then(|it| it.last_transition_time.clone());
    let condition = StorageVersionCondition {
        type_: ALL_EQUAL.to_owned(),
        status: holds.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: generation,
        last_transition_time: since.or(Some(now)),
    };
    match all.iter_mut().find(|it| it.type_ == ALL_EQUAL) {
        Some(stored) => *stored = condition,
        None => all.push(condition),
    }
}
