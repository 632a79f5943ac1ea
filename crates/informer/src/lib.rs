//! Caches that follow the API: reflectors that list and watch, indexers that hold what they saw,
//! shared informers with their handlers, and the factory that makes each once.
//!
//! Contract: see `SharedInformer`. Reads come from memory and may be behind the server; they never
//! go back. What is kept of each object is up to the reader: a whole kind, or a view of the few
//! fields that it needs (`api::View`).
//!
//! An operator puts the keys that its handlers hear of into a queue of `reconcile`;
//! `examples/operators/websites` is a whole one.
//!
//! ```
//! # use std::sync::Arc;
//! # use api::Resource;
//! # use api::core::config_map::ConfigMap;
//! # use apimachinery::{ApiError, ObjectKey};
//! # use bytes::Bytes;
//! # use client::{Client, Discovered, Reply, Request, Transport, WatchEvent, WatchEventKind, WatchStream};
//! # use futures_util::future::BoxFuture;
//! # use futures_util::{FutureExt, StreamExt, stream};
//! # use informer::{EventHandler, Factory};
//! # use lifecycle::Tasks;
//! # use stdx::World;
//! # /// A server with one ConfigMap.
//! # struct Server;
//! # impl Transport for Server {
//! #     fn call(&self, _: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
//! #         async { Err(ApiError::no_such_resource()) }.boxed()
//! #     }
//! #     fn watch(&self, _: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
//! #         let json = r#"{"metadata":{"name":"settings","namespace":"default","resourceVersion":"5"},"data":{"color":"red"}}"#;
//! #         let map = ConfigMap::decode(json.as_bytes()).unwrap();
//! #         let object = Arc::new(api::Stored::new(api::object::meta_of(map.metadata(), Vec::new()), json.into()));
//! #         let added = WatchEvent { kind: WatchEventKind::Added, object: object.clone(), is_initial_end: false };
//! #         let end = WatchEvent { kind: WatchEventKind::Bookmark, object, is_initial_end: true };
//! #         let events = stream::iter([Ok(added), Ok(end)]).chain(stream::pending()).boxed();
//! #         async { Ok(events) }.boxed()
//! #     }
//! #     fn get_path(&self, _: String) -> BoxFuture<'_, Result<Bytes, ApiError>> {
//! #         async { Err(ApiError::no_such_resource()) }.boxed()
//! #     }
//! #     fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>> {
//! #         async { Ok(Vec::new()) }.boxed()
//! #     }
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let transport = Arc::new(Server);
//! /// Hears of every ConfigMap. A controller would put its key into a queue.
//! struct Print;
//!
//! impl EventHandler<ConfigMap> for Print {
//!     fn on_add(&self, map: &Arc<ConfigMap>, _is_initial: bool) {
//!         println!("there is {:?}", map.metadata.name);
//!     }
//!     fn on_update(&self, _old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
//!         println!("now it says {:?}", new.data);
//!     }
//!     fn on_delete(&self, last: &Arc<ConfigMap>) {
//!         println!("gone is {:?}", last.metadata.name);
//!     }
//! }
//!
//! // Over HTTPS with a kubeconfig, or in the server's own process.
//! let client = Client::new(transport, "example");
//! let tasks = Tasks::new();
//! let factory = Factory::new(client, World::system(), &tasks);
//! let maps = factory.informer::<ConfigMap>();
//! maps.add_event_handler(Arc::new(Print));
//! maps.add_index("colors", |map| map.data.iter().flatten().map(|(_, color)| color.clone()).collect());
//! factory.start();
//! factory.wait_for_sync().await;
//! assert!(maps.indexer().get(&ObjectKey::new("default", "settings")).is_some());
//! assert_eq!(maps.indexer().by_index("colors", "red").len(), 1);
//! # }
//! ```

mod factory;
mod indexer;
mod reflector;
mod shared;
#[cfg(test)]
mod tests;

pub use factory::{Factory, MetadataInformer, Selection, SharedInformer};
pub use indexer::{IndexFn, Indexer, Lister};
pub use shared::EventHandler;
