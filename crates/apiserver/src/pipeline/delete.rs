//! DELETE: at once, or marked and kept while a grace period runs or finalizers are left.

use admission::{Draft, Valid};
use api::ApiObject;
use api::kind::DeletePolicy;
use apimachinery::ApiError;
use client::{DeleteOptions, Propagation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{StatusDetails, Time};
use k8s_openapi::jiff::SignedDuration;

use super::converted;
use super::core::Core;
use super::draft::Sealed;
use super::hooks::Reserved;
use super::list::{ListAnswer, select};
use super::store::{Expect, Place, Written};
use super::update::{Current, TRIES_MAX, existing};
use super::{Body, Outcome, Request, admit, loose, metadata, preconditions, store};
use crate::stored_bytes::with_version;

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

pub(crate) async fn delete(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    let options = match &request.call.body {
        Body::Delete(options) => options.clone(),
        _ => DeleteOptions::default(),
    };
    for _ in 0..TRIES_MAX {
        let current = existing(core, request).await?;
        preconditions::validate_deletion(request, &options.preconditions, &current)?;
        let valid = admit::delete(core, request, &options, &current).await?;
        if let Some(outcome) = delete_once(core, request, &options, current, &valid).await? {
            return Ok((outcome, 200));
        }
        if options.preconditions.resource_version.is_some() {
            return Err(request.modified());
        }
    }
    Err(request.modified())
}

/// A deletion that was admitted as something else, such as an eviction.
pub(crate) async fn delete_admitted(
    core: &Core,
    request: &Request,
    options: &DeleteOptions,
    valid: &Valid,
) -> Result<(), ApiError> {
    for _ in 0..TRIES_MAX {
        let current = existing(core, request).await?;
        preconditions::validate_deletion(request, &options.preconditions, &current)?;
        if delete_once(core, request, options, current, valid).await?.is_some() {
            return Ok(());
        }
        if options.preconditions.resource_version.is_some() {
            break;
        }
    }
    Err(request.modified())
}

/// `None` if somebody else was faster.
async fn delete_once(
    core: &Core,
    request: &Request,
    options: &DeleteOptions,
    current: Current,
    valid: &Valid,
) -> Result<Option<Outcome>, ApiError> {
    let kind = request.stored_kind();
    let path = request.path()?;
    let version = current.stored.meta.resource_version;
    let Some(object) = marked(core, request, options, &current) else {
        return Ok(Some(Outcome::Object(current.stored)));
    };
    let is_dry_run = options.dry_run || request.call.write.dry_run;
    if is_finished(request, object.as_ref()) {
        if is_dry_run {
            return Ok(Some(gone(request, &current, version)));
        }
        let removed = store::remove(core, kind, (&path, version), valid).await?;
        if removed.is_some() {
            valid.keep();
        }
        return Ok(removed.map(|revision| gone(request, &current, revision)));
    }
    let sealed = Sealed::new(Draft::new(object), valid, Reserved::default());
    if is_dry_run {
        return Ok(Some(Outcome::Object(loose(with_version(sealed.bytes(), version)))));
    }
    let place = Place { path: &path, expect: Expect::At(version) };
    Ok(match store::put(core, request, place, sealed).await? {
        Written::Stored(stored) => Some(Outcome::Object(stored)),
        Written::Refused => None,
    })
}

/// The object as deletion leaves it; `None` if nothing changes because it is on its way out
/// already.
fn marked(
    core: &Core,
    request: &Request,
    options: &DeleteOptions,
    current: &Current,
) -> Option<Box<dyn ApiObject>> {
    let kind = request.kind.as_ref();
    let mut object = current.object.clone_box();
    let grace = kind.grace_seconds(object.as_ref(), options.grace_period_seconds).unwrap_or(0);
    let old = current.object.meta();
    let was_deleting = old.deletion_timestamp.is_some();
    let is_sooner = old.deletion_grace_period_seconds.is_none_or(|it| grace < it);
    let mut finalizers = finalizers(options, kind.default_delete(), old.finalizers.as_deref());
    let now = metadata::now(core);
    if !was_deleting {
        request.hooks.begin_deletion(object.as_mut(), &mut finalizers, now.0);
    }
    let finalizers_differ = finalizers != old.finalizers.clone().unwrap_or_default();
    let meta = object.meta_mut();
    meta.resource_version = None;
    meta.finalizers = (!finalizers.is_empty()).then_some(finalizers);
    if !was_deleting || is_sooner {
        let at = now.0.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now.0);
        meta.deletion_timestamp = Some(Time(at));
        meta.deletion_grace_period_seconds = Some(grace);
    }
    if !was_deleting && let Some(generation) = meta.generation.as_mut().filter(|it| **it > 0) {
        *generation += 1;
    }
    let is_changed = !was_deleting || is_sooner || finalizers_differ;
    (is_changed || is_finished(request, object.as_ref())).then_some(object)
}

/// Finalizers after the propagation policy had its say.
fn finalizers(
    options: &DeleteOptions,
    default: DeletePolicy,
    old: Option<&[String]>,
) -> Vec<String> {
    let mut finalizers = old.unwrap_or_default().to_vec();
    let has = |name: &str| finalizers.iter().any(|it| it == name);
    let wanted = match options.propagation {
        Some(Propagation::Foreground) => Some(FOREGROUND),
        Some(Propagation::Orphan) => Some(ORPHAN),
        Some(Propagation::Background) => None,
        None if has(FOREGROUND) || has(ORPHAN) => return finalizers,
        None => (default == DeletePolicy::Orphan).then_some(ORPHAN),
    };
    finalizers.retain(|it| it != FOREGROUND && it != ORPHAN);
    finalizers.extend(wanted.map(str::to_owned));
    finalizers
}

/// Whether nothing keeps a deleted object any longer.
pub(super) fn is_finished(request: &Request, object: &dyn ApiObject) -> bool {
    let meta = object.meta();
    meta.deletion_timestamp.is_some()
        && meta.deletion_grace_period_seconds.unwrap_or(0) == 0
        && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
        && !request.hooks.is_kept(object)
}

fn gone(request: &Request, current: &Current, revision: u64) -> Outcome {
    let names = request.kind.names();
    if request.kind.returns_deleted() {
        let mut object = current.object.clone_box();
        object.meta_mut().resource_version = None;
        return Outcome::Object(loose(with_version(&object.encode(), revision)));
    }
    Outcome::Done(Box::new(StatusDetails {
        name: Some(request.name().to_owned()),
        group: (!names.group.is_empty()).then(|| names.group.clone()),
        kind: Some(names.plural.clone()),
        uid: Some(current.stored.meta.uid.clone()),
        ..StatusDetails::default()
    }))
}

/// Deletes what the list options select; what is gone already is no error.
pub(super) async fn delete_collection(
    core: &Core,
    request: &mut Request,
) -> Result<(Outcome, u16), ApiError> {
    core.cache.wait_current().await?;
    let selection = select(request)?;
    let namespace = selection.namespace.clone();
    let snapshot = core.cache.snapshot(request.kind.as_ref(), namespace.as_deref(), "");
    let is_served = converted::is_first(request, &selection);
    let items = match is_served {
        true => {
            let all = (&snapshot.objects[..], &selection);
            converted::find(core, request, all, usize::MAX).await?.items
        }
        false => {
            let objects = snapshot.objects.into_iter();
            objects.filter(|it| selection.matches(&it.meta)).collect()
        }
    };
    let place = (request.call.namespace.take(), request.call.name.take());
    for item in &items {
        let key = &item.meta.key;
        request.call.namespace = (!key.namespace.is_empty()).then(|| key.namespace.clone());
        request.call.name = Some(key.name.clone());
        match delete(core, request).await {
            Err(err) if !err.is_not_found() => return Err(err),
            _ => {}
        }
    }
    (request.call.namespace, request.call.name) = place;
    let list = ListAnswer {
        items,
        resource_version: core.cache.revision(),
        continue_token: None,
        remaining: None,
        is_served,
    };
    Ok((Outcome::List(list), 200))
}
