//! What both controllers of EndpointSlices share: which endpoints may be in one slice, how writes
//! are carried out, and what is shown of them.

mod metrics;

use std::sync::Arc;

use api::discovery::endpoint_slice::EndpointSlice;
use api::object::key_of;
use apimachinery::ObjectKey;
use client::{Api, DeleteOptions, Preconditions};
use k8s_openapi::api::discovery::v1::EndpointPort;
use reconcile::{Failed, Outcome as _, OwnWrites, is_namespace_gone};
use telemetry::{Counter, Family};

pub(crate) use self::metrics::{BUCKETS, Efficiency, Tally, TallyNames};
use crate::{backends, owners};

pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Who manages the slices of Services with a selector.
pub(crate) const OF_SELECTORS: &str = "endpointslice-controller.k8s.io";
/// Index: the Service whose slice it is, by who manages it.
pub(crate) const BY_SERVICE: &str = "service-name";

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Create(Box<EndpointSlice>),
    Update(Box<EndpointSlice>),
    Delete(Arc<EndpointSlice>),
}

/// What makes endpoints share a slice: the family and the ports, in a form that sorts.
pub(crate) type Group = (String, Vec<PortKey>);
/// Name, number, protocol, application protocol.
pub(crate) type PortKey = (String, i32, String, Option<String>);

pub(crate) fn group_of(slice: &EndpointSlice) -> Group {
    let mut ports: Vec<PortKey> = slice
        .ports
        .iter()
        .flatten()
        .map(|it| {
            let protocol = backends::protocol(it.protocol.as_deref()).to_owned();
            let name = it.name.clone().unwrap_or_default();
            (name, it.port.unwrap_or(0), protocol, it.app_protocol.clone())
        })
        .collect();
    ports.sort();
    (slice.address_type.clone(), ports)
}

pub(crate) fn ports(keys: &[PortKey]) -> Vec<EndpointPort> {
    let port = |(name, number, protocol, app_protocol): &PortKey| EndpointPort {
        name: Some(name.clone()),
        port: Some(*number),
        protocol: Some(protocol.clone()),
        app_protocol: app_protocol.clone(),
    };
    keys.iter().map(port).collect()
}

pub(crate) fn count(slice: &EndpointSlice) -> usize {
    slice.endpoints.as_ref().map_or(0, Vec::len)
}

/// The Service whose slice this is, when `manager` manages it.
pub(crate) fn service_of(slice: &EndpointSlice, manager: &str) -> Option<ObjectKey> {
    let labels = slice.metadata.labels.as_ref()?;
    if labels.get(MANAGED_BY).map(String::as_str) != Some(manager) {
        return None;
    }
    let service = labels.get(SERVICE_NAME).filter(|it| !it.is_empty())?;
    Some(ObjectKey::new(owners::namespace(&slice.metadata), service.clone()))
}

/// The value of the index.
pub(crate) fn index_value(service: &ObjectKey, manager: &str) -> String {
    format!("{service}@{manager}")
}

/// Slices of every manager, so that one index serves all.
pub(crate) fn index_by_service(slice: &EndpointSlice) -> Vec<String> {
    let labels = slice.metadata.labels.as_ref();
    let Some(manager) = labels.and_then(|it| it.get(MANAGED_BY)) else { return Vec::new() };
    service_of(slice, manager).map(|it| index_value(&it, manager)).into_iter().collect()
}

/// Creates first, and those in place of what would be deleted: a slice of the same family takes
/// its content, which is one write in place of two.
pub(crate) fn recycle(
    actions: Vec<Action>,
    is_reusable: impl Fn(&EndpointSlice) -> bool,
) -> Vec<Action> {
    let (mut creations, mut rest): (Vec<Action>, Vec<Action>) =
        actions.into_iter().partition(|it| matches!(it, Action::Create(_)));
    for creation in &mut creations {
        let Action::Create(slice) = creation else { continue };
        let found = rest.iter().position(|it| {
            matches!(it, Action::Delete(old) if old.address_type == slice.address_type
                && is_reusable(old))
        });
        let Some(Action::Delete(old)) = found.map(|it| rest.remove(it)) else { continue };
        let mut slice = slice.clone();
        slice.metadata.name.clone_from(&old.metadata.name);
        slice.metadata.generate_name.clone_from(&old.metadata.generate_name);
        slice.metadata.uid.clone_from(&old.metadata.uid);
        slice.metadata.resource_version.clone_from(&old.metadata.resource_version);
        slice.metadata.creation_timestamp.clone_from(&old.metadata.creation_timestamp);
        *creation = Action::Update(slice);
    }
    creations.extend(rest);
    creations
}

/// Carries out what was planned for the slices of one Service.
pub(crate) struct Writer {
    pub api: Api<EndpointSlice>,
    pub own_writes: Arc<OwnWrites<EndpointSlice>>,
    /// By operation.
    pub changes: Family<Counter, 1>,
}

impl Writer {
    pub(crate) async fn apply(&self, service: &ObjectKey, action: Action) -> Result<(), Failed> {
        let (operation, written) = match action {
            Action::Delete(slice) => return self.delete(service, &slice).await,
            Action::Create(slice) => {
                let created = self.api.create(*slice).await.unless(is_namespace_gone);
                // It has no name yet: its Service's says which it is.
                let failed = Failed::to_any("create a slice of", "Service", service);
                ("create", created.map_err(failed)?)
            }
            Action::Update(slice) => {
                let key = key_of(&slice.metadata);
                let updated = self.api.update(*slice).await.unless(is_namespace_gone);
                ("update", updated.map_err(Failed::to::<EndpointSlice>("update", &key))?)
            }
        };
        if let Some(written) = written {
            self.own_writes.wrote(service, written.meta());
            self.changes.with([operation]).increment();
        }
        Ok(())
    }

    async fn delete(&self, service: &ObjectKey, slice: &EndpointSlice) -> Result<(), Failed> {
        let key = key_of(&slice.metadata);
        let preconditions =
            Preconditions { uid: slice.metadata.uid.clone(), resource_version: None };
        let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
        let deleted = self.api.delete(&key.namespace, &key.name, options).await;
        if deleted.unless_gone().map_err(Failed::to::<EndpointSlice>("delete", &key))?.is_some() {
            self.own_writes.deleted(service, slice);
            self.changes.with(["delete"]).increment();
        }
        Ok(())
    }
}
