//! The body of a request that nobody has looked at. Reading it takes a `Request`, which only those
//! have who are known, allowed, and ask for a kind that there is: nobody else makes this server
//! read, let alone parse.

use std::future::Future;

use apimachinery::ApiError;
use futures_util::future::BoxFuture;

use super::{Body, Request, trace};

pub(crate) struct Unread(Source);

enum Source {
    /// From this process.
    There(Body),
    /// Reads when it is first polled.
    Wire(BoxFuture<'static, Result<Read, ApiError>>),
}

/// What was read.
pub(crate) struct Read {
    pub(crate) body: Body,
    /// Whether the client asked, in the old way, for dependents to go first: then 202 says that the
    /// object is still there.
    pub(crate) waits: bool,
    /// What was found about the body before it became JSON.
    pub(crate) problems: Vec<String>,
}

impl Unread {
    pub(crate) fn there(body: Body) -> Self {
        Self(Source::There(body))
    }

    /// `read` must not have begun.
    pub(crate) fn new(read: impl Future<Output = Result<Read, ApiError>> + Send + 'static) -> Self {
        Self(Source::Wire(Box::pin(read)))
    }

    pub(super) async fn read(self, _allowed: &Request) -> Result<Read, ApiError> {
        trace::passed("read");
        match self.0 {
            Source::There(body) => Ok(Read { body, waits: false, problems: Vec::new() }),
            Source::Wire(read) => read.await,
        }
    }
}
