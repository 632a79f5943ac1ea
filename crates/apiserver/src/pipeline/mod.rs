//! A request's way through the server: authenticate, authorize, find the kind, decode, mutate, validate, admit,
//! store. Each stage hands on a type that only it can make, so that no other order compiles. Requests over HTTP and
//! calls in process take the same way.

mod admit;
mod create;
mod decode;
mod delete;
mod fields;
mod list;
mod metadata;
mod patch;
mod protobuf;
mod read;
mod reviews;
mod stages;
mod store;
mod subresources;
mod trace;
mod update;
mod versions;
mod watch;

use std::sync::Arc;

use api::{ApiObject, Kind, Meta, Stored};
use apimachinery::{ApiError, GroupVersionResource, Reason, User};
use authn::Credential;
use bytes::Bytes;
use client::{DeleteOptions, ListOptions, PatchKind, Verb, WriteOptions};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails;

pub use list::ListAnswer;
pub use watch::{WatchItem, Watching};

pub(crate) use stages::{Request, authenticate, authorize_path};

use crate::server::Core;

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

/// One request, before anybody looked at it.
pub struct Call {
    pub credential: Credential,
    pub impersonate: Option<User>,
    pub verb: Verb,
    pub resource: GroupVersionResource,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
    pub write: WriteOptions,
    pub list: ListOptions,
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
    pub warnings: Vec<String>,
    /// The kind that was asked for; tables are drawn with it.
    pub kind: Arc<dyn Kind>,
}

/// Every verb but watch.
pub async fn call(core: &Core, call: Call) -> Result<Answer, ApiError> {
    let authenticated = authenticate(core, &call.credential, call.impersonate.as_ref())?;
    let authorized = stages::authorize(core, &authenticated, &call)?;
    let mut request = stages::find_kind(core, authorized, call)?;
    protobuf::body_to_json(&mut request)?;
    let outcome = dispatch(core, &mut request).await;
    let (outcome, code) = outcome?;
    let outcome = versions::served_outcome(request.kind.as_ref(), outcome);
    Ok(Answer { outcome, code, warnings: request.warnings, kind: request.kind })
}

pub async fn watch(core: &Arc<Core>, call: Call) -> Result<Watching, ApiError> {
    let authenticated = authenticate(core, &call.credential, call.impersonate.as_ref())?;
    let authorized = stages::authorize(core, &authenticated, &call)?;
    let request = stages::find_kind(core, authorized, call)?;
    watch::watch(core, &request).await
}

/// A stream to a node: let in like every request, then carried by the caller. Over WebSocket a GET does what a POST does, so
/// that both permissions are needed (AuthorizePodWebsocketUpgradeCreatePermission).
pub(crate) fn connect(core: &Core, mut call: Call, is_upgrade: bool) -> Result<Request, ApiError> {
    let authenticated = authenticate(core, &call.credential, call.impersonate.as_ref())?;
    let authorized = stages::authorize(core, &authenticated, &call)?;
    if is_upgrade && call.verb == Verb::Get {
        call.verb = Verb::Create;
        stages::authorize(core, &authenticated, &call)?;
        call.verb = Verb::Get;
    }
    stages::find_kind(core, authorized, call)
}

async fn dispatch(core: &Core, request: &mut Request) -> Result<(Outcome, u16), ApiError> {
    if request.subresource().is_some() {
        return subresources::call(core, request).await;
    }
    if request.kind.registry_prefix().is_empty() {
        return reviews::call(core, request).await;
    }
    match request.call.verb {
        Verb::Get => read::get(core, request).await,
        Verb::List => list::list(core, request).await,
        Verb::Create => create::create(core, request).await,
        Verb::Update => update::update(core, request).await,
        Verb::Patch => patch::patch(core, request).await,
        Verb::Delete => delete::delete(core, request).await,
        Verb::DeleteCollection => delete::delete_collection(core, request).await,
        Verb::Watch => Err(method_not_allowed()),
    }
}

pub(crate) fn method_not_allowed() -> ApiError {
    ApiError::new(
        Reason::MethodNotAllowed,
        "the server does not allow this method on the requested resource",
    )
}

/// An answer that is an object but not a stored one: reviews, scales, dry runs.
pub(crate) fn loose(bytes: Vec<u8>) -> Arc<Stored> {
    Arc::new(Stored::new(Meta::default(), Bytes::from(bytes)))
}
