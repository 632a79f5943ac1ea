//! What the server itself writes into metadata.

use api::{ApiObject, Kind};
use apimachinery::{ApiError, Scope};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::Request;
use super::core::Core;

/// Letters drawn for a generated name, and how long the whole may be.
const SUFFIX_LENGTH: usize = 5;
const GENERATED_MAX: usize = 63;

/// The present, in whole seconds as the API writes times.
pub(crate) fn now(core: &Core) -> Time {
    let now = core.world.clock.now();
    Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// Namespace and name: from the path, and the same in the object if it says any.
pub(super) fn place_new(request: &Request, meta: &mut ObjectMeta) -> Result<(), ApiError> {
    match request.kind.scope() {
        Scope::Namespaced => {
            let namespace = request.namespace();
            if meta.namespace.as_deref().is_some_and(|it| !it.is_empty() && it != namespace) {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            meta.namespace = Some(namespace.to_owned());
        }
        Scope::Cluster => {
            if meta.namespace.as_deref().is_some_and(|it| !it.is_empty()) {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            meta.namespace = None;
        }
    }
    if meta.resource_version.as_deref().is_some_and(|it| !it.is_empty() && it != "0") {
        return Err(ApiError::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    Ok(())
}

/// Whether it is still where the request puts it, once others have changed it.
pub(super) fn place_again(request: &Request, meta: &ObjectMeta) -> Result<(), ApiError> {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    if namespace != request.namespace() {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let name = meta.name.as_deref().unwrap_or_default();
    if !request.name().is_empty() && name != request.name() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            request.name()
        )));
    }
    Ok(())
}

/// Whether there is only a `generateName`.
pub(super) fn needs_name(meta: &ObjectMeta) -> bool {
    let has = |text: &Option<String>| text.as_deref().is_some_and(|it| !it.is_empty());
    !has(&meta.name) && has(&meta.generate_name)
}

/// Draws a name for `generateName`, where one is needed.
pub(super) fn generate_name(core: &Core, meta: &mut ObjectMeta) {
    if !needs_name(meta) {
        return;
    }
    let mut base = meta.generate_name.clone().unwrap_or_default();
    base.truncate(base.floor_char_boundary(GENERATED_MAX - SUFFIX_LENGTH));
    meta.name = Some(format!("{base}{}", core.world.random.name_suffix(SUFFIX_LENGTH)));
}

/// Empty lists and maps are as good as absent, and are not stored.
fn drop_empty(meta: &mut ObjectMeta) {
    meta.labels.take_if(|it| it.is_empty());
    meta.annotations.take_if(|it| it.is_empty());
    meta.finalizers.take_if(|it| it.is_empty());
    meta.owner_references.take_if(|it| it.is_empty());
}

pub(super) fn fill_new(core: &Core, kind: &dyn Kind, meta: &mut ObjectMeta) {
    drop_empty(meta);
    meta.uid = Some(core.world.random.uuid());
    meta.creation_timestamp = Some(now(core));
    meta.deletion_timestamp = None;
    meta.deletion_grace_period_seconds = None;
    meta.self_link = None;
    meta.resource_version = None;
    meta.generation = kind.has_generation().then_some(1);
}

/// What an update cannot change is restored from the stored object.
pub(super) fn carry_over(object: &mut dyn ApiObject, stored: &dyn ApiObject) {
    let old = stored.meta().clone();
    let meta = object.meta_mut();
    drop_empty(meta);
    meta.name = old.name;
    meta.namespace = old.namespace;
    meta.creation_timestamp = old.creation_timestamp;
    meta.generation = old.generation;
    meta.self_link = None;
    meta.resource_version = None;
    // A client that says nothing about these means no change.
    meta.uid = meta.uid.take().filter(|it| !it.is_empty()).or(old.uid);
    meta.deletion_timestamp = old.deletion_timestamp;
    meta.deletion_grace_period_seconds = old.deletion_grace_period_seconds;
    if meta.generate_name.is_none() {
        meta.generate_name = old.generate_name;
    }
}
