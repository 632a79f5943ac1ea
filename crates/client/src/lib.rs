//! Typed requests to the API over a transport: in process or HTTPS.
//!
//! A transport carries one identity. In process it calls the server's pipeline directly (same
//! authentication, authorization and admission), without sockets or encoding. Over HTTPS it may have
//! several servers of one API, and goes to the next when one is away.

mod api;
mod deprecated;
mod fetch;
pub mod hooks;
pub mod https;
pub mod kubeconfig;
mod request;
pub mod reviews;
mod transport;
mod trust;
mod unverified;

pub use api::{Api, Client, DynamicApi, Written};
pub use deprecated::{Deprecated, Flaws};
pub use fetch::{FetchError, Fetched, fetch_unverified};
pub use request::{
    DeleteOptions, ListOptions, PatchKind, Payload, Preconditions, Propagation, Request, Verb,
    WriteOptions,
};
pub use transport::{Discovered, List, Reply, Transport, WatchEvent, WatchEventKind, WatchStream};
pub use trust::{Trust, TrustError};
pub use unverified::unverified_tls;
