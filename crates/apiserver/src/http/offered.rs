//! A body that a client offers and that may never be wanted.
//!
//! One that nobody has read when its request is answered is taken off the wire and thrown away, if
//! it is small: a client that is still sending might else not see the answer. Over HTTP/2 its
//! stream would be reset, which curl takes for a failure; over HTTP/1.1 the connection would be
//! closed. net/http's server does the same, up to the same size. Nothing of it is kept, looked at
//! or waited for: the answer has gone out by then.

use std::time::Duration;

use http::header;
use http::request::Parts as Head;
use http_body::Body as _;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use lifecycle::Tasks;

/// Larger ones are left where they are.
const DISCARDED_MAX: usize = 256 * 1024;
/// What is not there by then is not waited for.
const WAIT_MAX: Duration = Duration::from_secs(5);

pub(super) struct Offered {
    body: Option<Incoming>,
    /// Whether the client waits to be asked for it: then it is told not to send it by not being
    /// asked.
    is_held_back: bool,
    tasks: Tasks,
}

impl Offered {
    pub(super) fn new(head: &Head, body: Incoming, tasks: &Tasks) -> Self {
        let is_held_back = head.headers.contains_key(header::EXPECT);
        Self { body: Some(body), is_held_back, tasks: tasks.clone() }
    }

    /// For those who read it.
    pub(super) fn take(mut self) -> Option<Incoming> {
        self.body.take()
    }
}

impl Drop for Offered {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        let is_large = body.size_hint().lower() > DISCARDED_MAX as u64;
        if body.is_end_stream() || is_large || self.is_held_back {
            return;
        }
        self.tasks.spawn("discard", |shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                _ = tokio::time::timeout(WAIT_MAX, discard(body)) => {}
            }
        });
    }
}

/// Whatever ends it, it is the client's affair.
async fn discard(body: Incoming) {
    let mut body = Limited::new(body, DISCARDED_MAX);
    while let Some(Ok(_)) = body.frame().await {}
}
