//! A request's way through the server: authenticate, seat, authorize, find the kind, read, decode,
//! mutate, reserve, validate, admit, store. Each stage hands on a type that only it can make, so
//! that no other order compiles. Requests over HTTP and calls in process take the same way.

mod admit;
pub(crate) mod converted;
mod core;
mod create;
mod decode;
mod delete;
pub(crate) mod deleted_nodes;
mod draft;
mod fields;
pub(crate) mod hooks;
mod list;
mod metadata;
mod patch;
pub(crate) mod preconditions;
mod protobuf;
mod read;
mod recent;
mod scale;
mod stages;
mod store;
mod trace;
mod unread;
mod update;
mod versions;
mod watch;

use std::sync::Arc;

use api::kind::Door;
use api::{ApiObject, Kind, Meta, Resource, Stored};
use apimachinery::{ApiError, GroupVersionResource, Reason, bounds};
use bytes::Bytes;
use client::{DeleteOptions, ListOptions, PatchKind, Verb, WriteOptions};
use http::Response;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails;
use serde_json::error::Category;

pub use list::ListAnswer;
pub(crate) use list::{parse_any_token, select};
pub use watch::{WatchItem, Watching};

pub use self::core::Core;
pub(crate) use admission::Draft;
pub(crate) use admit::act as admit_action;
pub(crate) use delete::delete_admitted;
pub(crate) use metadata::now;
pub(crate) use recent::Recent;
pub(crate) use stages::{
    Request, authenticate, enter, enter_elsewhere, enter_in_process, enter_path,
};
pub(crate) use unread::{Read, Unread};
pub(crate) use update::{Current, TRIES_MAX, existing, write_directly};

use hooks::{Exchange, StreamBody};

use crate::flow::Seat;

/// What came with the request.
pub enum Body {
    Empty,
    /// From a component in this process: typed already.
    Object(Box<dyn ApiObject>),
    /// JSON; YAML has been turned into it at the border.
    Json(Bytes),
    /// Becomes JSON once the kind is known.
    Protobuf(Bytes),
    Patch(PatchKind, Bytes),
    Delete(DeleteOptions),
}

/// What a request asks for.
pub struct Call {
    pub verb: Verb,
    pub resource: GroupVersionResource,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
    pub write: WriteOptions,
    pub list: ListOptions,
    /// Empty until the call was let in: see `Unread`.
    pub body: Body,
    /// What the writer is called when it does not say: the user agent up to the first slash.
    pub user_agent: String,
}

/// The answer of every verb but watch.
pub enum Outcome {
    Object(Arc<Stored>),
    List(ListAnswer),
    /// `Status` Success with these details.
    Done(Box<StatusDetails>),
}

pub struct Answer {
    pub outcome: Outcome,
    pub code: u16,
    /// The kind that was asked for; tables are drawn with it.
    pub kind: Arc<dyn Kind>,
    /// Kept until the answer was sent, or dropped.
    pub(crate) seat: Seat,
}

/// Every verb but watch.
pub(crate) async fn call(
    core: &Core,
    mut request: Request,
    unread: Unread,
) -> Result<Answer, ApiError> {
    let Read { body, waits, problems } = unread.read(&request).await?;
    request.call.body = body;
    request.problems = problems;
    let weight = weight(core, &request);
    let (outcome, mut code) = core.heavy.drive(weight, carry_out(core, &mut request)).await?;
    let outcome = versions::served(core, &request, outcome).await?;
    if waits && matches!(&outcome, Outcome::Object(it) if it.meta.is_deleting) {
        code = 202;
    }
    let Request { kind, seat, .. } = request;
    Ok(Answer { outcome, code, kind, seat })
}

async fn carry_out(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    protobuf::body_to_json(request)?;
    validate_bounds(&request.call.body)?;
    dispatch(core, request).await
}

/// Before anything is made of a body. A configuration in YAML is checked when it has been read.
fn validate_bounds(body: &Body) -> Result<(), ApiError> {
    let bytes = match body {
        Body::Json(bytes) => bytes,
        Body::Patch(form, bytes) if *form != PatchKind::Apply || bytes.starts_with(b"{") => bytes,
        _ => return Ok(()),
    };
    bounds::validate_object_text(bytes)
        .map_err(|why| ApiError::bad_request(format!("the body cannot be taken: {why}")))
}

/// About how many bytes a call has to work through.
fn weight(core: &Core, request: &Request) -> usize {
    let body = match &request.call.body {
        Body::Json(bytes) | Body::Protobuf(bytes) | Body::Patch(_, bytes) => bytes.len(),
        Body::Empty | Body::Object(_) | Body::Delete(_) => 0,
    };
    let live = match request.call.verb {
        Verb::Update | Verb::Patch => {
            let path = request.path().ok();
            path.and_then(|it| core.cache.get(request.kind.as_ref(), &it))
        }
        _ => None,
    };
    let bytes = body + live.map_or(0, |it| it.bytes.len());
    // Each value may be held against every branch of a custom resource's schema.
    let branches = if request.kind.is_custom() { request.kind.schema().n_branches } else { 0 };
    bytes.saturating_mul(1 + branches / 16)
}

pub(crate) async fn watch(core: &Arc<Core>, request: &Request) -> Result<Watching, ApiError> {
    watch::watch(core, request).await
}

/// A stream to a node: let in and admitted like every request, then carried by the kind.
pub(crate) async fn connect(
    core: &Arc<Core>,
    mut exchange: Exchange,
) -> Result<Response<StreamBody>, ApiError> {
    let hooks = exchange.request.hooks.clone();
    let Some(options) = hooks.stream_options(&exchange)? else {
        return hooks.connect(core, exchange).await;
    };
    let (options, valid) = admit::stream(core, &exchange.request, options).await?;
    exchange.options = Some(options);
    let response = hooks.connect(core, exchange).await?;
    valid.keep();
    Ok(response)
}

async fn dispatch(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    match request.door() {
        Some(Door::Scale) => return scale::call(core, request).await,
        Some(Door::Stream | Door::Proxy) => {
            return Err(ApiError::bad_request("streams are served over HTTP/1.1 alone"));
        }
        Some(Door::Action) => return act(core, request).await,
        None if request.kind.registry_prefix().is_empty() => return act(core, request).await,
        Some(Door::Part(_)) | None => {}
    }
    match request.call.verb {
        Verb::Get => read::get(core, request).await,
        Verb::List => list::list(core, request).await,
        Verb::Create => create::create(core, request).await,
        Verb::Update => update::update(core, request).await,
        Verb::Patch => patch::patch(core, request).await,
        Verb::Delete => delete::delete(core, request).await,
        Verb::DeleteCollection => delete::delete_collection(core, request).await,
        Verb::Watch | Verb::Options => Err(method_not_allowed()),
    }
}

async fn act(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    let hooks = request.hooks.clone();
    hooks.act(core, request).await
}

/// The body as a kind that is not the path's own.
pub(crate) fn body_as<T: Resource>(request: &mut Request) -> Result<T, ApiError> {
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

/// The forms of patches that custom resources take.
pub(crate) const PATCHES_OF_CUSTOM: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

pub(crate) fn unsupported(accepted: &str) -> ApiError {
    ApiError::new(
        Reason::UnsupportedMediaType,
        format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        ),
    )
}

/// What is wrong with a JSON text, in Go's words where these say the same.
pub(crate) fn json_error(err: &serde_json::Error) -> String {
    match err.classify() {
        Category::Eof => "unexpected end of JSON input".to_owned(),
        Category::Io | Category::Syntax | Category::Data => err.to_string(),
    }
}

pub(crate) fn method_not_allowed() -> ApiError {
    ApiError::new(
        Reason::MethodNotAllowed,
        "the server does not allow this method on the requested resource",
    )
    .with_details(StatusDetails::default())
}

/// An answer that is an object but not a stored one: reviews, scales, dry runs.
pub(crate) fn loose(bytes: impl Into<Bytes>) -> Arc<Stored> {
    Arc::new(Stored::new(Meta::default(), bytes.into()))
}
