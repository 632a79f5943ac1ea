//! The API server: HTTP, the request pipeline, the cache that serves reads and watches, discovery,
//! OpenAPI, custom resources. The only writer of the store.
//!
//! From the bottom up: a module uses those above it in this list and none below. `cargo xtask tidy`
//! checks it.

mod faults;
mod stored_bytes;
mod yaml;

mod encoding;
pub mod registry;

mod dialer;

mod admission_files;
mod aggregated;
mod config;
mod enabled;

pub mod cache;
mod documents;
mod flow;
mod heavy;

mod metrics;

mod legacy_tokens;

pub mod pipeline;

mod admission_follow;

mod http;
mod kubelets;
mod own_calls;
mod plan;

mod namespaces;

mod conversion;
mod relay;
mod webhooks;

mod proxy;

mod aggregation;
mod identity;
mod in_process;
mod kinds;
mod kubernetes_service;

mod bootstrap;
mod compaction;
pub mod garbage;

mod server;

pub use config::{Compaction, Config, FrontProxy};
pub use dialer::Dialer;
pub use enabled::validate_runtime_config;
pub use encoding::Encoding;
pub use pipeline::Core;
pub use server::{Error, Parts, Server};
