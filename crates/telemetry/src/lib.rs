//! What a component says of itself: metrics in Prometheus' text format, and log lines.
//!
//! Promises: recording a value takes a few atomic additions and no lock, so that everything is
//! always on; what is shown has upstream's form, byte by byte; a registry is a parameter, so that
//! components in one process do not mix. Knows nothing of Kubernetes but how its components
//! describe their metrics. Does not promise that the samples of one page are of one moment. Why not
//! a library of the field: ADR 17.

mod component;
mod description;
mod family;
mod interner;
pub mod logs;
mod metric;
pub mod process;
mod registry;
mod summary;
mod text;

pub use component::{Build, Gate, publish_build, publish_gates};
pub use description::{Buckets, Description, Stability, exponential};
pub use family::Family;
pub use interner::Interner;
pub use metric::{Counter, Gauge, Histogram, Metric, Total};
pub use registry::{Registry, Watched};
pub use summary::{MaxAge, Summary};
pub use text::CONTENT_TYPE;
