//! What can be asked of the API, as plain values.

use api::ApiObject;
use apimachinery::GroupVersionResource;
use bytes::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// OPTIONS, which has no name of its own: it is only passed on, by `proxy`.
    Options,
}

impl Verb {
    /// As authorization and discovery name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Options => "",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchKind {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// Options of create, update and patch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: Option<String>,
    /// `Ignore`, `Warn` or `Strict`.
    pub field_validation: Option<String>,
    pub force: bool,
}

/// Options of get, list and watch; also the selection of deletecollection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
    pub limit: Option<u64>,
    pub continue_token: Option<String>,
    pub resource_version: Option<String>,
    pub resource_version_match: Option<String>,
    pub send_initial_events: Option<bool>,
    pub allow_watch_bookmarks: bool,
    pub timeout_seconds: Option<u64>,
    /// As far back as the server's store remembers, not only as long as every client can count on.
    /// Takes the right to `get` the path `/history`; over HTTPS it is the header `Xebec-History`,
    /// which other servers do not know.
    pub is_beyond_horizon: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    /// `propagationPolicy`
    pub fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    pub preconditions: Preconditions,
    pub dry_run: bool,
}

pub enum Payload {
    Empty,
    /// A typed or dynamic object. In process it is handed over as it is.
    Object(Box<dyn ApiObject>),
    Patch(PatchKind, Bytes),
    Delete(DeleteOptions),
}

/// One call. `name` is absent for collections; `namespace` is absent for cluster scope and all
/// namespaces.
pub struct Request {
    pub verb: Verb,
    pub resource: GroupVersionResource,
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub subresource: Option<String>,
    pub write: WriteOptions,
    pub list: ListOptions,
    pub payload: Payload,
}
