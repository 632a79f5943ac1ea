//! From a body to an object of the kind, with defaults filled in, and with what the client wrote
//! wrong reported as it asked for.

use api::{ApiObject, Dynamic, Kind, protobuf};
use apimachinery::{ApiError, FieldErrors, GroupKind, Path};
use bytes::Bytes;
use serde::Deserialize;

use super::{Body, Request, json_error, trace};

/// Of a body that cannot be read.
const SHOWN_MAX: usize = 30;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    #[serde(borrow, default)]
    api_version: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    kind: std::borrow::Cow<'a, str>,
}

/// The object that the client sent, defaults applied, in the form that the rules take.
pub(super) fn decode(request: &mut Request) -> Result<Box<dyn ApiObject>, ApiError> {
    trace::passed("decode");
    let body = std::mem::replace(&mut request.call.body, Body::Empty);
    let mut object = match body {
        Body::Object(object) => match object.downcast_ref::<Dynamic>() {
            // Only the kind knows what to make of an object without a type.
            Some(dynamic) => {
                let (kind, bytes) = (request.kind.as_ref(), dynamic.encode());
                kind.decode(&bytes).map_err(|err| refuse(kind, &bytes, &err))?
            }
            None => object,
        },
        Body::Json(bytes) => from_json(request, &bytes)?,
        Body::Empty | Body::Protobuf(_) | Body::Patch(..) | Body::Delete(_) => {
            return Err(ApiError::bad_request("the request has no body"));
        }
    };
    request.kind.apply_defaults(object.as_mut());
    Ok(request.kind.to_hub(object))
}

fn from_json(request: &mut Request, bytes: &Bytes) -> Result<Box<dyn ApiObject>, ApiError> {
    let kind = request.kind.clone();
    let kind = kind.as_ref();
    match kind.decode_reporting(bytes) {
        Ok((object, found)) => {
            validate_header(kind, &found.api_version, &found.kind)?;
            if let Some(why) = found.fatal_error {
                return Err(cannot(kind, &why));
            }
            request.has_empties |= found.has_empties;
            request.empty_lists = found.empty_lists;
            let mut problems = std::mem::take(&mut request.problems);
            problems.extend(found.problems);
            report(request, problems).map_err(|why| cannot(kind, &why))?;
            Ok(object)
        }
        Err(err) => {
            // An object of another kind is refused as that, not for the first of its fields.
            let header: Header<'_> = serde_json::from_slice(bytes).map_err(|err| {
                let why = json_error(&err);
                let why = format!("couldn't get version/kind; json parse error: {why}");
                unrecognized(&kind.names().kind, &why, bytes)
            })?;
            validate_header(kind, &header.api_version, &header.kind)?;
            Err(refuse(kind, bytes, &err))
        }
    }
}

/// What nobody can tell the kind of; with the beginning of it.
pub(super) fn unrecognized(kind: &str, why: &str, bytes: &[u8]) -> ApiError {
    let (shown, rest) = bytes.split_at(bytes.len().min(SHOWN_MAX));
    let mut shown = match shown {
        [] => "<empty>".to_owned(),
        [b'{', ..] => String::from_utf8_lossy(shown).into_owned(),
        _ => shown.iter().map(|it| format!("{it:02x}")).collect(),
    };
    if !rest.is_empty() {
        shown.push_str(" ...");
    }
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
    ))
}

/// An object whose names are known to be right, or why it is none.
pub(super) fn object(request: &mut Request, bytes: &[u8]) -> Result<Box<dyn ApiObject>, String> {
    let kind = request.kind.clone();
    let decoded = kind.decode_reporting(bytes);
    let (object, found) = decoded.map_err(|err| worded(kind.as_ref(), bytes, &err))?;
    if let Some(why) = found.fatal_error {
        return Err(why);
    }
    request.has_empties |= found.has_empties;
    request.empty_lists = found.empty_lists;
    let mut problems = std::mem::take(&mut request.problems);
    problems.extend(found.problems);
    report(request, problems)?;
    Ok(object)
}

fn cannot(kind: &dyn Kind, why: &str) -> ApiError {
    let names = kind.names();
    ApiError::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: {why}",
        names.kind, names.version, names.kind
    ))
}

/// Missing apiVersion and kind are the ones of the path.
pub(super) fn validate_header(
    kind: &dyn Kind,
    api_version: &str,
    name: &str,
) -> Result<(), ApiError> {
    let names = kind.names();
    let wanted = names.api_version();
    let api_version = if api_version.is_empty() { &wanted } else { api_version };
    let name = if name.is_empty() { &names.kind } else { name };
    if (api_version, name) == (&*wanted, &*names.kind) {
        return Ok(());
    }
    if kind.is_custom() {
        return Err(validate_custom_header(kind, api_version, name));
    }
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let what = format!("{name} in version {version:?} cannot be handled as a {}", names.kind);
    Err(ApiError::bad_request(match protobuf::message_named(api_version, name) {
        // A built-in kind that is nothing else than what it is.
        Some(_) if name != names.kind => {
            let package = match names.group.split('.').next() {
                None | Some("") => "core",
                Some(package) => package,
            };
            let kind = &names.kind;
            format!(
                "{what}: converting ({version}.{name}) to ({package}.{kind}): unknown conversion"
            )
        }
        Some(_) => format!(
            "the API version in the data ({api_version}) does not match the expected API version ({wanted})"
        ),
        None => format!(
            "{what}: no kind {name:?} is registered for version {api_version:?} in scheme \
             \"pkg/api/legacyscheme/scheme.go:30\""
        ),
    }))
}

fn validate_custom_header(kind: &dyn Kind, api_version: &str, name: &str) -> ApiError {
    let names = kind.names();
    let wanted = names.api_version();
    if api_version != wanted {
        return ApiError::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({wanted})"
        ));
    }
    let mut errors = FieldErrors::new();
    errors.invalid(&Path::new("kind"), name, &format!("must be {}", names.kind));
    let found = GroupKind { group: names.group.clone(), kind: name.to_owned() };
    ApiError::invalid(&found, "", &errors)
}

/// `Strict` refuses unknown and duplicate fields, `Warn` reports them, `Ignore` does not look.
fn report(request: &mut Request, problems: Vec<String>) -> Result<(), String> {
    match request.call.write.field_validation.as_deref().unwrap_or("Warn") {
        "Ignore" => {}
        "Strict" if !problems.is_empty() => {
            return Err(format!("strict decoding error: {}", problems.join(", ")));
        }
        _ => request.notes.extend(problems),
    }
    Ok(())
}

fn refuse(kind: &dyn Kind, bytes: &[u8], err: &serde_json::Error) -> ApiError {
    cannot(kind, &worded(kind, bytes, err))
}

/// Words a decoding failure as upstream does, if the schema can tell what was wrong.
fn worded(kind: &dyn Kind, bytes: &[u8], err: &serde_json::Error) -> String {
    kind.schema().validate_fields(bytes).refusal().unwrap_or_else(|| format!("json: {err}"))
}
