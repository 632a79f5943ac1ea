//! The API server: HTTP, the request pipeline, the cache that serves reads and watches, discovery, OpenAPI,
//! custom resources. The only writer of the store.

mod cache;
mod registry;
