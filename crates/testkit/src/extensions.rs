//! Servers of their own for a part of the API, as components see them through the aggregator:
//! answers by path, without the sockets, which paused time cannot wait for.

use std::sync::{Arc, Mutex, PoisonError};

use apimachinery::ApiError;
use bytes::Bytes;
use client::{Client, Discovered, Reply, Request, Transport, WatchStream};
use futures_util::future::BoxFuture;
use serde_json::Value;

/// What such a server says to a path with its parameters; `None`: that it has nothing there.
type Answer = Arc<dyn Fn(&str) -> Option<Value> + Send + Sync>;

#[derive(Clone, Default)]
pub struct Extensions(Arc<Mutex<Vec<(String, Answer)>>>);

impl Extensions {
    /// Everything at this path and below it is answered so from now on.
    pub fn serve(
        &self,
        root: &str,
        answer: impl Fn(&str) -> Option<Value> + Send + Sync + 'static,
    ) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((root.to_owned(), Arc::new(answer)));
    }

    /// Absent where no extension is.
    fn answer(&self, path: &str) -> Option<Result<Bytes, ApiError>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_below = |root: &str| {
            let rest = path.strip_prefix(root);
            rest.is_some_and(|it| it.is_empty() || it.starts_with(['/', '?']))
        };
        let (_, answer) = all.iter().find(|it| is_below(&it.0))?;
        let answered = answer(path).map(|it| Bytes::from(it.to_string()));
        Some(answered.ok_or_else(ApiError::no_such_resource))
    }

    pub(crate) fn wrap(&self, client: &Client) -> Client {
        let extensions = self.clone();
        client.map_transport(|inner| Arc::new(Extended { inner, extensions }))
    }
}

struct Extended {
    inner: Arc<dyn Transport>,
    extensions: Extensions,
}

impl Transport for Extended {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
        self.inner.call(request)
    }

    fn watch(&self, request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        self.inner.watch(request)
    }

    fn get_path(&self, path: String) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        match self.extensions.answer(&path) {
            Some(answer) => Box::pin(std::future::ready(answer)),
            None => self.inner.get_path(path),
        }
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>> {
        self.inner.discover()
    }
}
