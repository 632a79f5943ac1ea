//! How requests reach a server.

use std::sync::Arc;

use api::Stored;
use apimachinery::{ApiError, GroupVersionResource, Scope};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use crate::request::Request;

pub enum Reply {
    Object(Arc<Stored>),
    List(List),
    /// A `Status` of kind Success, such as DELETE answers with.
    Done,
}

/// Items are shared with the server's cache when the transport is in process.
pub struct List {
    pub items: Vec<Arc<Stored>>,
    pub resource_version: String,
    pub continue_token: Option<String>,
    pub remaining: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEventKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
}

#[derive(Clone, Debug)]
pub struct WatchEvent {
    pub kind: WatchEventKind,
    /// For bookmarks only the resource version in `meta` counts.
    pub object: Arc<Stored>,
    /// The bookmark that ends the initial events (`k8s.io/initial-events-end`).
    pub is_initial_end: bool,
}

/// Ends cleanly when the server closes the watch; an `Err` is the last item.
pub type WatchStream = BoxStream<'static, Result<WatchEvent, ApiError>>;

/// One resource of the discovery document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discovered {
    pub resource: GroupVersionResource,
    pub kind: String,
    pub scope: Scope,
    pub verbs: Vec<String>,
}

/// A way to the API with one identity.
pub trait Transport: Send + Sync {
    /// Every verb but watch.
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, ApiError>>;
    fn watch(&self, request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>>;
    /// GET of a path that is not a resource, such as `/version`; JSON.
    fn get_path(&self, path: String) -> BoxFuture<'_, Result<Bytes, ApiError>>;
    /// Every served resource (no subresources), preferred versions only.
    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>>;
}
