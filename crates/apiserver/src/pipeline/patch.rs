//! PATCH in its four forms. A patch without a resourceVersion starts over when somebody else was
//! faster.

use api::ApiObject;
use apimachinery::apply::{self, Versions};
use apimachinery::bounds::{self, is_too_deep, validate_object_text as validate_bounds};
use apimachinery::{ApiError, FieldErrors, Path, Reason, go, patch};
use bytes::Bytes;
use client::PatchKind;
use serde_json::Value;

use super::core::Core;
use super::create::create_object;
use super::update::{Current, TRIES_MAX, current, replace, validate_version};
use super::{Body, Outcome, Request, decode, fields, json_error, metadata};

pub(super) async fn patch(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    let Body::Patch(form, bytes) = &request.call.body else {
        return Err(ApiError::bad_request("the request has no patch"));
    };
    let (form, bytes) = (*form, bytes.clone());
    if form == PatchKind::Strategic && request.kind.is_custom() {
        return Err(super::unsupported(super::PATCHES_OF_CUSTOM));
    }
    validate_options(request, form)?;
    let said = said_twice(request, form, &bytes);
    for _ in 0..TRIES_MAX {
        let Some(current) = current(core, request).await? else {
            if form == PatchKind::Apply && request.subresource().is_none() {
                return apply_new(core, request, &bytes).await;
            }
            return Err(request.not_found());
        };
        request.problems.clone_from(&said);
        let object = patched(core, request, &current, form, &bytes).await?;
        // A patch that names no version gives the live one back, which always fits.
        validate_version(request, object.as_ref(), &current)?;
        if let Some(outcome) = replace(core, request, &current, object).await? {
            return Ok((outcome, 200));
        }
    }
    Err(request.modified())
}

fn validate_options(request: &Request, form: PatchKind) -> Result<(), ApiError> {
    let write = &request.call.write;
    let mut errors = FieldErrors::new();
    if form == PatchKind::Apply && write.field_manager.as_deref().unwrap_or_default().is_empty() {
        errors.required(&Path::new("fieldManager"), "is required for apply patch");
    }
    if form != PatchKind::Apply && write.force {
        errors.forbidden(&Path::new("force"), "may not be specified for non-apply patch");
    }
    if errors.is_empty() {
        return Ok(());
    }
    let kind = apimachinery::GroupKind { group: "meta.k8s.io".into(), kind: "PatchOptions".into() };
    Err(ApiError::invalid(&kind, "", &errors))
}

/// What a patch says twice, which nothing is left of once it is read. Of a configuration it is told
/// when that has been applied.
fn said_twice(request: &Request, form: PatchKind, bytes: &[u8]) -> Vec<String> {
    let is_heeded = request.call.write.field_validation.as_deref() != Some("Ignore");
    if !is_heeded || form == PatchKind::Apply {
        return Vec::new();
    }
    let problems = request.kind.schema().validate_fields(bytes).problems;
    let twice = problems.into_iter().filter(|it| it.starts_with("duplicate"));
    match form {
        PatchKind::Json => twice.map(|it| format!("json patch {it}")).collect(),
        PatchKind::Merge | PatchKind::Strategic | PatchKind::Apply => twice.collect(),
    }
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
    let mut value = match form {
        PatchKind::Json => patch::json(live, bytes).map_err(|err| refuse(&err))?,
        PatchKind::Merge => patch::merge(live, &parse(bytes, "error decoding patch: ")?),
        PatchKind::Strategic => {
            let tree = parse(bytes, "")?;
            patch::strategic(&schema, live, &tree).map_err(|err| refuse(&err))?
        }
        PatchKind::Apply => applied(core, request, Some(live), bytes).await?,
    };
    if matches!(form, PatchKind::Strategic | PatchKind::Apply) && !request.kind.is_custom() {
        schema.wrap_integers(&mut value);
    }
    typed(request, &value, form, bytes)
}

/// The patched object, in the form that the rules take.
fn typed(
    request: &mut Request,
    value: &Value,
    form: PatchKind,
    patch: &[u8],
) -> Result<Box<dyn ApiObject>, ApiError> {
    let kind = request.kind.clone();
    let bytes = serde_json::to_vec(value).map_err(|err| {
        ApiError::internal("the patched object cannot be written").with_source(err)
    })?;
    validate_bounds(&bytes).map_err(|why| {
        let kind = kind.names().gvk().group_kind();
        let name = request.name();
        ApiError::new(Reason::Invalid, format!("{kind} {name:?} is invalid: {why}"))
    })?;
    let mut object = decode::object(request, &bytes).map_err(|why| match form {
        PatchKind::Json | PatchKind::Merge => {
            undecoded(String::from_utf8_lossy(&bytes).into_owned(), &why)
        }
        PatchKind::Strategic => undecoded(go::text(&parse(patch, "").unwrap_or_default()), &why),
        PatchKind::Apply => {
            let title = apply::title(value);
            let kind = title.split_once("; ").map_or("", |it| it.1);
            ApiError::new(
                Reason::Unknown,
                format!(
                    "failed to convert new object ({title}) to proper version: unable to convert \
                     unstructured object to {kind}: {why}"
                ),
            )
        }
    })?;
    kind.apply_defaults(object.as_mut());
    Ok(kind.to_hub(object))
}

/// A patch that makes of an object what is none.
fn undecoded(patched: String, why: &str) -> ApiError {
    let mut errors = FieldErrors::new();
    errors.invalid(&Path::new("patch"), patched, why);
    ApiError::invalid(&apimachinery::GroupKind::default(), "", &errors)
}

fn parse(bytes: &[u8], what: &str) -> Result<Value, ApiError> {
    serde_json::from_slice(bytes)
        .map_err(|err| ApiError::bad_request(format!("{what}{}", json_error(&err))))
}

fn refuse(err: &patch::Error) -> ApiError {
    match err {
        patch::Error::Malformed(why) => ApiError::bad_request(why.clone()),
        patch::Error::TooLarge(why) => {
            ApiError::new(Reason::RequestEntityTooLarge, format!("Request entity too large: {why}"))
        }
        // Upstream keeps to itself what was wrong.
        patch::Error::Unprocessable(_) => ApiError::new(
            Reason::Invalid,
            "the server rejected our request due to an error in our request",
        ),
        patch::Error::Unfit(why) => ApiError::new(Reason::Unknown, why.clone()),
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
    validate_declared(request, &config)?;
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
    report_twice(request, bytes)?;
    Ok(value)
}

/// Nobody owns a field that no schema has.
fn validate_declared(request: &Request, config: &Value) -> Result<(), ApiError> {
    let undeclared = request.kind.schema().undeclared(config);
    let told = |it: &String| format!("{it}: field not declared in schema");
    let why = match undeclared.as_slice() {
        [] => return Ok(()),
        [only] => told(only),
        many => format!("errors:\n  {}", many.iter().map(told).collect::<Vec<_>>().join("\n  ")),
    };
    let text = |pointer: &str| config.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let names = request.kind.names();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let kind = format!("{}/{}, Kind={}", names.group, names.version, names.kind);
    let what = format!("failed to create typed patch object ({namespace}/{name}; {kind}): {why}");
    // Upstream gives no reason.
    Err(ApiError::new(Reason::Unknown, what))
}

/// Of a configuration, which is YAML.
fn report_twice(request: &Request, bytes: &[u8]) -> Result<(), ApiError> {
    let policy = request.call.write.field_validation.as_deref().unwrap_or("Warn");
    // Nearly all is JSON in which nothing is twice, which is soon seen.
    let is_clean = || {
        let problems = request.kind.schema().validate_fields(bytes).problems;
        !problems.iter().any(|it| it.starts_with("duplicate"))
    };
    let twice = match policy {
        "Ignore" => None,
        _ if bytes.starts_with(b"{") && is_clean() => None,
        _ => crate::yaml::duplicate(bytes),
    };
    let Some(why) = twice.map(|it| format!("error converting YAML to JSON: {it}")) else {
        return Ok(());
    };
    if policy == "Strict" {
        return Err(ApiError::bad_request(format!("error strict decoding YAML: {why}")));
    }
    request.notes.warn(&why);
    Ok(())
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
        apply::Error::Untyped(why) => ApiError::new(Reason::Unknown, why),
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
    let mut object = typed(request, &value, PatchKind::Apply, bytes)?;
    let meta = object.meta_mut();
    if let Some(uid) = meta.uid.as_ref().filter(|it| !it.is_empty()) {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        let resource = request.kind.names().group_resource();
        return Err(ApiError::conflict(&resource, request.name(), &why));
    }
    if meta.name.as_deref().unwrap_or_default().is_empty() {
        meta.name = Some(request.name().to_owned());
    }
    metadata::place_new(request, meta)?;
    create_object(core, request, object).await
}
