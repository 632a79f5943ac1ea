//! `scale`: how many there are of what an object stands for, the same for all kinds that can be
//! scaled.

use admission::Draft;
use api::autoscaling::Scale as ScaleObject;
use api::{ApiObject, Resource};
use apimachinery::{ApiError, FieldErrors, GroupKind, Path, patch};
use client::{PatchKind, Verb};
use k8s_openapi::api::autoscaling::v1::{ScaleSpec, ScaleStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::core::Core;
use super::draft::Sealed;
use super::update::{Current, TRIES_MAX, commit, existing, prepare, record};
use super::{Body, Outcome, Request, admit, body_as, loose};

pub(super) async fn call(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    match request.call.verb {
        Verb::Get => get_scale(core, request).await,
        _ => set_scale(core, request).await,
    }
}

fn scale_of(request: &Request, current: &Current) -> Result<ScaleObject, ApiError> {
    let scale =
        request.kind.scale(current.object.as_ref()).ok_or_else(ApiError::no_such_resource)?;
    let meta = current.object.meta();
    Ok(ScaleObject {
        metadata: ObjectMeta {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            creation_timestamp: meta.creation_timestamp.clone(),
            resource_version: Some(current.stored.meta.resource_version.to_string()),
            ..ObjectMeta::default()
        },
        spec: Some(ScaleSpec { replicas: Some(scale.spec_replicas) }),
        status: Some(ScaleStatus {
            replicas: scale.status_replicas,
            selector: (!scale.selector.is_empty()).then_some(scale.selector),
        }),
    })
}

async fn get_scale(core: &Core, request: &Request) -> Result<(Outcome, u16), ApiError> {
    let current = existing(core, request).await?;
    let scale = scale_of(request, &current)?;
    Ok((Outcome::Object(loose(Resource::encode(&scale))), 200))
}

async fn set_scale(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    let given = match &request.call.body {
        Body::Patch(..) => None,
        _ => Some(body_as::<ScaleObject>(request)?),
    };
    for _ in 0..TRIES_MAX {
        let current = existing(core, request).await?;
        let live = scale_of(request, &current)?;
        let scale = match (&given, &request.call.body) {
            (Some(scale), _) => scale.clone(),
            (None, Body::Patch(form, bytes)) => patch_scale(&live, *form, bytes)?,
            (None, _) => return Err(ApiError::bad_request("the request has no body")),
        };
        let version = scale.metadata.resource_version.as_deref().unwrap_or_default();
        if !version.is_empty() && version != current.stored.meta.resource_version.to_string() {
            return Err(request.modified());
        }
        if let Some(Outcome::Object(stored)) =
            replace(core, request, &current, (scale, live)).await?
        {
            let scale = scale_of(request, &Current::new(core, request, stored).await?)?;
            return Ok((Outcome::Object(loose(Resource::encode(&scale))), 200));
        }
    }
    Err(request.modified())
}

/// As `update::replace`, but what is admitted is the number; `None` if somebody else was faster.
async fn replace(
    core: &Core,
    request: &Request,
    current: &Current,
    (scale, live): (ScaleObject, ScaleObject),
) -> Result<Option<Outcome>, ApiError> {
    let live = Draft::new(Box::new(live));
    let mut context = admit::scaling(core, request, Draft::new(Box::new(scale)), &live);
    let mutated = admit::mutate(core, &mut context).await?;
    let scale = context.object_as::<ScaleObject>();
    let replicas = scale.and_then(|it| it.spec.as_ref()).and_then(|it| it.replicas).unwrap_or(0);
    validate(request, replicas)?;
    let mut object = current.object.clone_box();
    object.meta_mut().resource_version = None;
    request.kind.set_replicas(object.as_mut(), replicas);
    let mut draft = Draft::new(object);
    record(core, request, current, &mut draft).await?;
    let reserved = prepare(core, request, current, &mut draft).await?;
    let valid = admit::validate(core, mutated, &context).await?;
    commit(core, request, current, Sealed::new(draft, &valid, reserved)).await
}

fn validate(request: &Request, replicas: i32) -> Result<(), ApiError> {
    if replicas >= 0 {
        return Ok(());
    }
    let mut errors = FieldErrors::new();
    let path = Path::new("spec").child("replicas");
    errors.invalid(&path, replicas, "must be greater than or equal to 0");
    let kind = GroupKind { group: "autoscaling".into(), kind: "Scale".into() };
    Err(ApiError::invalid(&kind, request.name(), &errors))
}

fn patch_scale(live: &ScaleObject, form: PatchKind, bytes: &[u8]) -> Result<ScaleObject, ApiError> {
    let bad = |err: &dyn std::fmt::Display| ApiError::bad_request(err.to_string());
    let value = ApiObject::to_value(live);
    let patched = match form {
        PatchKind::Json => patch::json(&value, bytes).map_err(|err| bad(&err))?,
        // A Scale has no lists, so that the other forms are all merges.
        _ => patch::merge(&value, &serde_json::from_slice(bytes).map_err(|err| bad(&err))?),
    };
    ScaleObject::decode(&serde_json::to_vec(&patched).map_err(|err| bad(&err))?)
        .map_err(|err| bad(&err))
}
