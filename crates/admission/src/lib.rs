//! Change or refuse an object before it is stored.

use api::ApiObject;
use apimachinery::{ApiError, GroupVersionKind, GroupVersionResource, User};
use futures_util::future::BoxFuture;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

/// One request as plugins see it. The old and the new object are whole and never change under a plugin.
pub struct Attributes<'a> {
    pub operation: Operation,
    pub kind: GroupVersionKind,
    pub resource: GroupVersionResource,
    /// Empty for the main resource.
    pub subresource: &'a str,
    pub namespace: &'a str,
    /// Empty on create with generateName.
    pub name: &'a str,
    pub user: &'a User,
    pub is_dry_run: bool,
    /// Absent on delete. For subresources with a kind of their own (binding, eviction, token) it is that kind.
    pub object: Option<&'a mut dyn ApiObject>,
    /// Absent on create.
    pub old: Option<&'a dyn ApiObject>,
}

/// One plugin. Both phases default to "no opinion".
pub trait Plugin: Send + Sync {
    fn name(&self) -> &'static str;

    /// May change `attributes.object`.
    fn admit<'a>(
        &'a self,
        attributes: &'a mut Attributes<'_>,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        let _ = attributes;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Sees the object as it will be stored.
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        let _ = attributes;
        Box::pin(std::future::ready(Ok(())))
    }
}
