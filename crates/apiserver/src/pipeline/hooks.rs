//! What single kinds do beside the rules in `api`: whatever needs the state of the cluster, another
//! kind, or a node. The pipeline names no kind; it asks these.

use std::sync::Arc;

use admission::Draft;
use api::{ApiObject, Dynamic, Kind};
use apimachinery::{ApiError, GroupResource, GroupVersion, User};
use authz::Authorized;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts as Head;
use http::{HeaderValue, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use jiff::Timestamp;
use kvstore::{Compare, Op};

use super::core::Core;
use super::{Outcome, Request, method_not_allowed};
use crate::aggregated::Remote;
use crate::cache::{Change, ObjectPath, Observer};
use crate::flow::Seat;
use crate::metrics::Recording;

/// Group and plural of a resource.
pub(crate) type Of = (&'static str, &'static str);

pub(crate) type Acting<'a> = BoxFuture<'a, Result<(Outcome, u16), ApiError>>;

/// What is passed on may break off, which the client must be able to tell from its end.
pub(crate) type StreamBody = UnsyncBoxBody<Bytes, hyper::Error>;

pub(crate) type Streaming<'a> = BoxFuture<'a, Result<Response<StreamBody>, ApiError>>;

/// Of the built-in resources that `of` names. What a kind does not say is what most kinds do.
pub(crate) trait Hooks: Send + Sync {
    fn of(&self) -> &'static [Of];

    /// Told of every change of these resources, in order, before readers may rely on it. Must not
    /// wait.
    fn observe(&self, _resource: &GroupResource, _change: &Change) {}

    /// Told of every change of a custom resource: whatever it is called, it is none of the above.
    fn observe_custom(&self, _resource: &GroupResource, _change: &Change) {}

    /// Told of what is no object and followed all the same, see `Observer`.
    fn observe_other(&self, _key: &str, _value: Option<(&Bytes, u64)>) {}

    /// What goes on beside requests.
    fn spawn(self: Arc<Self>, _core: &Arc<Core>) {}

    /// Refuses a call of a verb or subresource that the kind has and this server cannot carry out.
    fn validate_call(&self, _request: &Request) -> Result<(), ApiError> {
        Ok(())
    }

    /// Something is asked of a kind that is not stored, or posted to a subresource that is an
    /// action.
    fn act<'a>(&'a self, _core: &'a Core, _request: &'a mut Request) -> Acting<'a> {
        Box::pin(std::future::ready(Err(method_not_allowed())))
    }

    /// What the query of a stream asks for, as the object that admission decides about. `None`: it
    /// only reads, and is not admitted.
    fn stream_options(&self, _exchange: &Exchange) -> Result<Option<Dynamic>, ApiError> {
        Ok(None)
    }

    /// A subresource that is a stream of bytes.
    fn connect<'a>(&'a self, _core: &'a Arc<Core>, _exchange: Exchange) -> Streaming<'a> {
        Box::pin(std::future::ready(Err(method_not_allowed())))
    }

    /// Fills in what only the server knows of a write: who makes it, and when.
    fn complete(
        &self,
        _core: &Core,
        _request: &Request,
        _draft: &mut Draft,
        _old: Option<&dyn ApiObject>,
    ) {
    }

    /// Takes what the object needs from what there is only once in the cluster, and fills it in.
    fn reserve(
        &self,
        _core: &Core,
        _draft: &mut Draft,
        _old: Option<&dyn ApiObject>,
    ) -> Result<Reserved, ApiError> {
        Ok(Reserved::default())
    }

    /// What is written in one transaction with the object, and what must hold for that. Without
    /// `new`, it is removed.
    fn beside(
        &self,
        _core: &Core,
        _kind: &dyn Kind,
        _path: &ObjectPath,
        _new: Option<&dyn ApiObject>,
    ) -> Vec<(Option<Compare>, Op)> {
        Vec::new()
    }

    /// Refuses a valid object for what the writer may not do.
    fn validate_write(&self, _core: &Core, _write: &Write<'_>) -> Result<(), ApiError> {
        Ok(())
    }

    /// A DELETE has found the object alive. `finalizers` are those that it will have.
    fn begin_deletion(
        &self,
        _object: &mut dyn ApiObject,
        _finalizers: &mut Vec<String>,
        _now: Timestamp,
    ) {
    }

    /// Whether something beside its finalizers keeps a deleted object.
    fn is_kept(&self, _object: &dyn ApiObject) -> bool {
        false
    }
}

/// One write, as [`Hooks::validate_write`] sees it.
pub(crate) struct Write<'a> {
    pub(crate) request: &'a Request,
    pub(crate) object: &'a dyn ApiObject,
    /// Absent on create.
    pub(crate) old: Option<&'a dyn ApiObject>,
}

/// A request for a stream that was let in, and what there is of it on the wire.
pub(crate) struct Exchange {
    pub(crate) request: Request,
    pub(crate) head: Head,
    /// Of those who read it; else it is left where it is.
    pub(crate) body: Box<dyn FnOnce() -> Option<Incoming> + Send>,
    /// As they were admitted.
    pub(crate) options: Option<Dynamic>,
    /// Taken by what goes on after the answer.
    pub(crate) recording: Option<Recording>,
}

/// A request for another server, of a caller who was let in.
pub(crate) struct Passing {
    /// Whom this server speaks for.
    pub(crate) user: User,
    pub(crate) head: Head,
    /// Of those who send one on; else it is left where it is.
    pub(crate) body: Box<dyn FnOnce() -> Option<StreamBody> + Send>,
    pub(crate) audit_id: Option<HeaderValue>,
    /// Kept until the answer was sent.
    pub(crate) seat: Seat,
}

impl Passing {
    /// Without a body, until more is said.
    pub(crate) fn new((authorized, seat): (Authorized, Seat), head: Head) -> Self {
        let user = authorized.user().clone();
        Self { user, head, body: Box::new(|| None), audit_id: None, seat }
    }
}

pub(crate) type Documenting<'a> = BoxFuture<'a, Vec<(GroupVersion, Bytes)>>;

/// Whoever speaks to the servers that serve parts of the API.
pub(crate) trait Aggregator: Send + Sync {
    fn pass_on<'a>(
        &'a self,
        core: &'a Arc<Core>,
        remote: Arc<Remote>,
        passing: Passing,
    ) -> Streaming<'a>;

    /// OpenAPI v2 of each version that is another server's.
    fn documents<'a>(&'a self, core: &'a Arc<Core>) -> Documenting<'a>;
}

/// What was taken for one write. Dropped, it is given back.
#[must_use]
#[derive(Default)]
pub(crate) struct Reserved(Option<Box<dyn Reservation>>);

/// What a kind took, settled like what admission plugins take.
pub(crate) trait Reservation: admission::Reservation + Sync {
    /// What must hold for the write where other servers write to the same store.
    fn guard(&self) -> Option<Compare>;
}

impl Reserved {
    pub(crate) fn new(reservation: impl Reservation + 'static) -> Self {
        Self(Some(Box::new(reservation)))
    }

    pub(super) fn guard(&self) -> Option<Compare> {
        self.0.as_ref().and_then(|it| it.guard())
    }

    pub(super) fn keep(self) {
        if let Some(mut reservation) = self.0 {
            reservation.keep();
        }
    }
}

/// All hooks, by resource.
pub(crate) struct HookSet {
    all: Vec<Arc<dyn Hooks>>,
    /// Sorted.
    by_resource: Vec<(Of, Arc<dyn Hooks>)>,
    none: Arc<dyn Hooks>,
}

struct NoHooks;

impl Hooks for NoHooks {
    fn of(&self) -> &'static [Of] {
        &[]
    }
}

impl HookSet {
    pub(crate) fn new(all: Vec<Arc<dyn Hooks>>) -> Self {
        let each = all.iter().flat_map(|hooks| hooks.of().iter().map(|of| (*of, hooks.clone())));
        let mut by_resource: Vec<_> = each.collect();
        by_resource.sort_by_key(|it| it.0);
        let is_twice = by_resource.windows(2).any(|it| it[0].0 == it[1].0);
        assert!(!is_twice, "a resource has its hooks in one place");
        Self { all, by_resource, none: Arc::new(NoHooks) }
    }

    /// Of a built-in resource; none of its own, for most.
    pub(super) fn find(&self, group: &str, resource: &str) -> &Arc<dyn Hooks> {
        let found = self.by_resource.binary_search_by_key(&(group, resource), |it| it.0);
        found.map_or(&self.none, |index| &self.by_resource[index].1)
    }

    /// Of a custom resource, whatever it is called.
    pub(super) fn none(&self) -> &Arc<dyn Hooks> {
        &self.none
    }

    pub(crate) fn spawn(&self, core: &Arc<Core>) {
        for hooks in &self.all {
            hooks.clone().spawn(core);
        }
    }
}

impl Observer for HookSet {
    fn observe(&self, resource: &GroupResource, change: &Change) {
        self.find(&resource.group, &resource.resource).observe(resource, change);
    }

    fn observe_custom(&self, resource: &GroupResource, change: &Change) {
        for hooks in &self.all {
            hooks.observe_custom(resource, change);
        }
    }

    fn observe_other(&self, key: &str, value: Option<(&Bytes, u64)>) {
        for hooks in &self.all {
            hooks.observe_other(key, value);
        }
    }
}
