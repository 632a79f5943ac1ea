//! Caches that follow the API: Reflector, DeltaFifo, Indexer, Lister, shared informers and their factory.
//!
//! Contract: see `SharedInformer`. Reads come from memory and may be behind the server; they never go back.

mod factory;
mod fifo;
mod indexer;
mod reflector;
mod shared;
#[cfg(test)]
mod tests;

pub use factory::{Factory, MetadataInformer, Selection, SharedInformer};
pub use indexer::{IndexFn, Indexer, Lister};
pub use shared::EventHandler;
