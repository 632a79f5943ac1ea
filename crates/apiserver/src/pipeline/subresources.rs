//! Paths below an object. `status`, `finalize` and the like write a part of it; the others have a kind of
//! their own.

use api::autoscaling::Scale as ScaleObject;
use api::core::{Binding, Pod};
use api::policy::Eviction;
use api::{ApiObject, Resource};
use apimachinery::{ApiError, Reason, patch};
use client::{DeleteOptions, PatchKind, Preconditions, Propagation, Verb};
use k8s_openapi::api::autoscaling::v1::{ScaleSpec, ScaleStatus};
use k8s_openapi::api::core::v1::PodCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::update::{Current, TRIES_MAX, current, replace};
use super::{Body, Outcome, Request, admit, delete, loose, metadata, read, update};
use crate::server::Core;

pub(super) async fn call(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    match (request.subresource().unwrap_or_default(), request.call.verb) {
        ("scale", Verb::Get) => get_scale(core, request).await,
        ("scale", _) => set_scale(core, request).await,
        ("binding", _) => bind(core, request).await,
        ("eviction", _) => evict(core, request).await,
        ("token", _) => super::reviews::issue_token(core, request).await,
        ("resize", Verb::Update | Verb::Patch) => Err(ApiError::new(
            Reason::MethodNotAllowed,
            "resizing pods in place is not supported by this server",
        )),
        ("attach" | "exec" | "log" | "portforward" | "proxy", _) => {
            Err(ApiError::bad_request("streams are served over HTTP/1.1 alone"))
        }
        (_, Verb::Get) => read::get(core, request).await,
        (_, Verb::Update) => update::update(core, request).await,
        (_, Verb::Patch) => super::patch::patch(core, request).await,
        _ => Err(super::method_not_allowed()),
    }
}

/// The body as a kind that is not the path's own.
pub(super) fn body_as<T: Resource>(request: &mut Request) -> Result<T, ApiError> {
    match std::mem::replace(&mut request.call.body, Body::Empty) {
        Body::Object(object) => object
            .downcast_ref::<T>()
            .cloned()
            .ok_or_else(|| ApiError::bad_request(format!("a {} is expected", T::FACTS.kind))),
        Body::Json(bytes) => T::decode(&bytes).map_err(|err| {
            let kind = T::FACTS.kind;
            ApiError::bad_request(format!(
                "{kind} in version {:?} cannot be handled as a {kind}: {err}",
                T::FACTS.version
            ))
        }),
        _ => Err(ApiError::bad_request("the request has no body")),
    }
}

async fn existing(core: &Core, request: &Request) -> Result<Current, ApiError> {
    current(core, request).await?.ok_or_else(|| request.not_found())
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
        let replicas = scale.spec.as_ref().and_then(|it| it.replicas).unwrap_or(0);
        if replicas < 0 {
            let mut errors = apimachinery::FieldErrors::new();
            let path = apimachinery::Path::new("spec").child("replicas");
            errors.invalid(&path, replicas, "must be greater than or equal to 0");
            let kind =
                apimachinery::GroupKind { group: "autoscaling".into(), kind: "Scale".into() };
            return Err(ApiError::invalid(&kind, request.name(), &errors));
        }
        let mut object = current.object.clone_box();
        request.kind.set_replicas(object.as_mut(), replicas);
        if let Some(Outcome::Object(stored)) = replace(core, request, &current, object).await? {
            let object = request.kind.decode(&stored.bytes).map_err(ApiError::internal)?;
            let scale = scale_of(request, &Current { stored, object })?;
            return Ok((Outcome::Object(loose(Resource::encode(&scale))), 200));
        }
    }
    Err(request.modified())
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

/// A pod gets its node, once.
pub(super) async fn bind(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    let mut binding: Binding = body_as(request)?;
    if request.call.name.is_none() {
        request.call.name.clone_from(&binding.metadata.name);
    }
    let _valid = admit::connect(core, request, &mut binding).await?;
    let node = binding.target.name.clone().unwrap_or_default();
    if node.is_empty() {
        return Err(ApiError::bad_request("the binding names no node"));
    }
    let pods = core.kind_of::<Pod>();
    request.kind = pods;
    request.call.subresource = Some("binding".to_owned());
    for _ in 0..TRIES_MAX {
        let current = existing(core, request).await?;
        let resource = request.kind.names().group_resource();
        let mut object = current.object.clone_box();
        let pod = object.downcast_mut::<Pod>().expect("the kind is Pod");
        if let Some(uid) = &binding.metadata.uid
            && Some(uid) != pod.metadata.uid.as_ref()
        {
            let why = format!("Precondition failed: UID in precondition: {uid}");
            return Err(ApiError::conflict(&resource, request.name(), &why));
        }
        let spec = pod.spec.get_or_insert_default();
        if let Some(taken) = spec.node_name.as_deref().filter(|it| !it.is_empty()) {
            let why = format!("pod {} is already assigned to node {taken:?}", request.name());
            return Err(ApiError::conflict(&resource, request.name(), &why));
        }
        if pod.metadata.deletion_timestamp.is_some() {
            let why =
                format!("pod {} is being deleted, cannot be assigned to a host", request.name());
            return Err(ApiError::conflict(&resource, request.name(), &why));
        }
        spec.node_name = Some(node.clone());
        let annotations = binding.metadata.annotations.clone().unwrap_or_default();
        if !annotations.is_empty() {
            pod.metadata.annotations.get_or_insert_default().extend(annotations);
        }
        mark_scheduled(core, pod);
        if bind_once(core, request, &current, object).await? {
            return Ok((Outcome::Done(Box::default()), 201));
        }
    }
    Err(request.modified())
}

fn mark_scheduled(core: &Core, pod: &mut Pod) {
    let conditions = pod.status.get_or_insert_default().conditions.get_or_insert_default();
    conditions.retain(|it| it.type_ != "PodScheduled");
    conditions.push(PodCondition {
        type_: "PodScheduled".to_owned(),
        status: "True".to_owned(),
        observed_generation: pod.metadata.generation,
        last_transition_time: Some(metadata::now(core)),
        ..PodCondition::default()
    });
}

/// The assignment is the server's own change: the pod's update rules, which forbid it to clients, do not apply.
async fn bind_once(
    core: &Core,
    request: &Request,
    current: &Current,
    mut object: Box<dyn ApiObject>,
) -> Result<bool, ApiError> {
    super::fields::record(core, request, Some(current.object.as_ref()), object.as_mut());
    object.meta_mut().resource_version = None;
    if request.call.write.dry_run {
        return Ok(true);
    }
    let expect = super::store::Expect::At(current.stored.meta.resource_version);
    let kind = request.kind.clone();
    let written = super::store::put(
        core,
        kind.as_ref(),
        super::store::Place::new(&request.path()?, expect),
        object.as_ref(),
    )
    .await?;
    Ok(matches!(written, super::store::Written::Stored(_)))
}

/// A deletion that asks first. There are no disruption budgets yet, so nobody refuses.
async fn evict(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    let mut eviction: Eviction = body_as(request)?;
    let _valid = admit::connect(core, request, &mut eviction).await?;
    let wanted = eviction.delete_options.unwrap_or_default();
    let preconditions = wanted.preconditions.unwrap_or_default();
    request.call.body = Body::Delete(DeleteOptions {
        grace_period_seconds: wanted.grace_period_seconds,
        propagation: match wanted.propagation_policy.as_deref() {
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            _ => None,
        },
        preconditions: Preconditions {
            uid: preconditions.uid,
            resource_version: preconditions.resource_version,
        },
        dry_run: request.call.write.dry_run,
    });
    request.call.subresource = None;
    delete::delete(core, request).await?;
    Ok((Outcome::Done(Box::default()), 201))
}
