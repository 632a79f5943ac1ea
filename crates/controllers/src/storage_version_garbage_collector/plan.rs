//! What is left of a StorageVersion without the servers that are gone. Pure.

use api::apiserverinternal::StorageVersion;
use api::coordination::lease::Lease;
use jiff::Timestamp;
use k8s_openapi::api::apiserverinternal::v1alpha1::{
    ServerStorageVersion, StorageVersionCondition, StorageVersionStatus,
};

use crate::conditions;

/// On the Leases that servers hold as long as they live.
const IDENTITY: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");
const ALL_EQUAL: &str = "AllEncodingVersionsEqual";

#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// No server is left that stores the resource.
    Delete,
    Write(Box<StorageVersion>),
}

pub(super) fn is_identity(lease: &Lease) -> bool {
    let labels = lease.metadata.labels.as_ref();
    labels.and_then(|it| it.get(IDENTITY.0)).is_some_and(|it| it == IDENTITY.1)
}

pub(super) fn servers(version: &StorageVersion) -> impl Iterator<Item = &ServerStorageVersion> {
    version.status.iter().flat_map(|it| it.storage_versions.iter().flatten())
}

/// `None` while all servers live.
pub(super) fn plan(
    version: &StorageVersion,
    is_alive: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Option<Action> {
    let living: Vec<_> =
        servers(version).filter(|it| is_alive(&it.api_server_id)).cloned().collect();
    if living.len() == servers(version).count() {
        return None;
    }
    if living.is_empty() {
        return Some(Action::Delete);
    }
    let mut version = version.clone();
    let generation = version.metadata.generation;
    let status = version.status.get_or_insert_default();
    status.storage_versions = Some(living);
    agree(status, generation, now);
    Some(Action::Write(Box::new(version)))
}

/// What all servers write, and whether they agree.
fn agree(status: &mut StorageVersionStatus, generation: Option<i64>, now: Timestamp) {
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
        last_transition_time: since.or_else(|| Some(conditions::time(now))),
    };
    match all.iter_mut().find(|it| it.type_ == ALL_EQUAL) {
        Some(stored) => *stored = condition,
        None => all.push(condition),
    }
}
