//! PATCH in its four forms. A patch without a resourceVersion starts over when somebody else was
//! faster.

use api::ApiObject;
use apimachinery::apply::{self, Versions};
use apimachinery::bounds::{self, is_too_deep, validate_object_text as validate_bounds};
use apimachinery::{ApiError, FieldErrors, Path, Reason, patch};
use bytes::Bytes;
use client::PatchKind;
use serde_json::Value;

use super::core::Core;
use super::create::create_object;
use super::update::{Current, TRIES_MAX, current, replace, validate_version};
use super::{Body, Outcome, Request, decode, fields, metadata};

pub(super) async fn patch(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    let Body::Patch(form, bytes) = &request.call.body else {
        return Err(ApiError::bad_request("the request has no patch"));
    };
    let (form, bytes) = (*form, bytes.clone());
    if form == PatchKind::Strategic && request.kind.is_custom() {
        return Err(ApiError::new(
            Reason::UnsupportedMediaType,
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        ));
    }
    if form == PatchKind::Apply {
        require_manager(request)?;
    }
    for _ in 0..TRIES_MAX {
        let Some(current) = current(core, request).await? else {
            if form == PatchKind::Apply && request.subresource().is_none() {
                return apply_new(core, request, &bytes).await;
            }
            return Err(request.not_found());
        };
        let object = patched(core, request, &current, form, &bytes).await?;
        // A patch that names no version gives the live one back, which always fits.
        validate_version(request, object.as_ref(), &current)?;
        if let Some(outcome) = replace(core, request, &current, object).await? {
            return Ok((outcome, 200));
        }
    }
    Err(request.modified())
}

fn require_manager(request: &Request) -> Result<(), ApiError> {
    if request.call.write.field_manager.as_deref().is_some_and(|it| !it.is_empty()) {
        return Ok(());
    }
    let mut errors = FieldErrors::new();
    errors.required(&Path::new("fieldManager"), "is required for apply patch");
    let kind = apimachinery::GroupKind { group: "meta.k8s.io".into(), kind: "PatchOptions".into() };
    Err(ApiError::invalid(&kind, "", &errors))
}

/// The object after the patch, which is of the version of the request.
async fn patched(
    core: &Core,
    request: &mut Request,
    current: &Current,
    form: PatchKind,
    bytes: &Bytes,
) -> Result<Box<dyn ApiObject>, ApiError> {
    let schema = request.kind.schema();
    let live = current.tree();
    let value = match form {
        PatchKind::Json => patch::json(live, bytes).map_err(|err| refuse(request, &err))?,
        PatchKind::Merge => patch::merge(live, &parse(bytes)?),
        PatchKind::Strategic => {
            patch::strategic(&schema, live, &parse(bytes)?).map_err(|err| refuse(request, &err))?
        }
        PatchKind::Apply => applied(core, request, Some(live), bytes).await?,
    };
    typed(request, &value)
}

fn typed(request: &mut Request, value: &Value) -> Result<Box<dyn ApiObject>, ApiError> {
    let kind = request.kind.clone();
    let bytes = serde_json::to_vec(value).map_err(|err| {
        ApiError::internal("the patched object cannot be written").with_source(err)
    })?;
    validate_bounds(&bytes).map_err(|why| {
        let kind = kind.names().gvk().group_kind();
        let name = request.name();
        ApiError::new(Reason::Invalid, format!("{kind} {name:?} is invalid: {why}"))
    })?;
    let mut object = decode::object(request, &bytes)?;
    kind.apply_defaults(object.as_mut());
    Ok(kind.to_hub(object))
}

fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(bytes)
        .map_err(|err| ApiError::bad_request(format!("error decoding patch: {err}")))
}

fn refuse(request: &Request, err: &patch::Error) -> ApiError {
    match err {
        patch::Error::Malformed(why) => ApiError::bad_request(why.clone()),
        patch::Error::TooLarge(why) => {
            ApiError::new(Reason::RequestEntityTooLarge, format!("Request entity too large: {why}"))
        }
        patch::Error::Unprocessable(why) => {
            let name = request.name();
            let kind = request.kind.names().gvk().group_kind();
            ApiError::new(Reason::Invalid, format!("{kind} {name:?} is invalid: {why}"))
        }
    }
}

/// Server-side apply onto `live`.
async fn applied(
    core: &Core,
    request: &Request,
    live: Option<&Value>,
    bytes: &[u8],
) -> Result<Value, ApiError> {
    let config = parse_config(request, bytes)?;
    let api_version = request.kind.names().api_version();
    let writer = fields::writer(core, request, &api_version);
    let force = request.call.write.force;
    let apply = |it: &dyn Versions| apply::apply(it, live, &config, &writer, force);
    let mut value = fields::across_versions(&request.family, apply).await?.map_err(conflict)?;
    // The configuration's resourceVersion is a lock; without one the live version stays.
    if let Some(version) = config.pointer("/metadata/resourceVersion")
        && let Some(meta) = value.get_mut("metadata").and_then(Value::as_object_mut)
    {
        meta.insert("resourceVersion".to_owned(), version.clone());
    }
    Ok(value)
}

fn parse_config(request: &Request, bytes: &[u8]) -> Result<Value, ApiError> {
    let config: Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(_) => crate::yaml::parse(bytes)
            .map_err(|why| ApiError::bad_request(format!("error decoding YAML: {why}")))?,
    };
    if is_too_deep(&config) {
        return Err(ApiError::bad_request(format!("the configuration: {}", bounds::Error::Deep)));
    }
    let names = request.kind.names();
    let text = |pointer: &str| config.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if text("/apiVersion") != names.api_version() || text("/kind") != names.kind {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; \
             found apiVersion {:?} and kind {:?}",
            names.kind,
            text("/apiVersion"),
            text("/kind")
        )));
    }
    let name = text("/metadata/name");
    if !name.is_empty() && name != request.name() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            request.name()
        )));
    }
    Ok(config)
}

fn conflict(err: apply::Error) -> ApiError {
    match err {
        apply::Error::Malformed(why) => ApiError::bad_request(why),
        apply::Error::Unconverted(why) => ApiError::bad_request(why.to_string()),
        apply::Error::Conflicts(conflicts) => {
            let text = apply::Error::Conflicts(conflicts.clone()).to_string();
            let error = ApiError::new(Reason::Conflict, text);
            conflicts.iter().fold(error, |error, (field, message)| {
                error.with_cause("FieldManagerConflict", message, field)
            })
        }
    }
}

async fn apply_new(
    core: &Core,
    request: &mut Request,
    bytes: &[u8],
) -> Result<(Outcome, u16), ApiError> {
    let value = applied(core, request, None, bytes).await?;
    let mut object = typed(request, &value)?;
    let meta = object.meta_mut();
    if meta.name.as_deref().unwrap_or_default().is_empty() {
        meta.name = Some(request.name().to_owned());
    }
    metadata::place_new(request, meta)?;
    create_object(core, request, object).await
}
