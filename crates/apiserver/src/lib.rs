//! The API server: HTTP, the request pipeline, the cache that serves reads and watches, discovery, OpenAPI,
//! custom resources. The only writer of the store.

mod bootstrap;
pub mod cache;
mod compaction;
mod custom_resources;
mod enabled;
mod encoding;
mod events;
pub mod garbage;
mod heavy;
mod http;
mod in_process;
mod kubelets;
mod kubernetes_service;
mod metrics;
pub mod pipeline;
pub mod registry;
mod server;
pub mod services;

pub use compaction::Compaction;
pub use enabled::check_runtime_config;
pub use encoding::Encoding;
pub use server::{Config, Core, Error, Parts, Server};
pub use services::ServiceCidr;
