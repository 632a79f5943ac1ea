//! What is left of a StorageVersion without the servers that are gone. Pure.

use api::apiserverinternal::{StorageVersion, storage_version};
use api::coordination::lease::Lease;
use jiff::Timestamp;
use k8s_openapi::api::apiserverinternal::v1alpha1::ServerStorageVersion;

use crate::conditions;

/// On the Leases that servers hold as long as they live.
const IDENTITY: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");

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
    storage_version::agree(status, generation, conditions::time(now));
    Some(Action::Write(Box::new(version)))
}
