//! What judges one object, or one write of it.

use std::sync::Arc;

use admission::Operation;
use anyhow::Result;
use api::Kind;
use apimachinery::GroupVersionResource;
use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::findings::Verdict;

/// Which objects are of concern: read in this version, and read as this kind.
#[derive(Clone)]
pub(super) struct Concern {
    pub(super) resource: GroupVersionResource,
    pub(super) kind: Arc<dyn Kind>,
    /// As what an object that is there is judged: as if it was made, or written, or deleted now.
    pub(super) as_if: Operation,
}

/// One object on its way into the cluster, or out of it.
pub(super) struct Case<'a> {
    pub(super) concern: &'a Concern,
    pub(super) operation: Operation,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// Missing on deletion.
    pub(super) object: Option<&'a Bytes>,
    /// Missing on creation, and where it is not known.
    pub(super) old: Option<&'a Bytes>,
}

pub(super) trait Judge: Send + Sync {
    fn concerns(&self) -> &[Concern];

    /// What the user must know to understand the verdicts.
    fn notes(&self) -> Vec<String>;

    /// All that is wrong with it, or that would become of it.
    fn judge<'a>(&'a self, case: Case<'a>) -> BoxFuture<'a, Result<Vec<Verdict>>>;
}
