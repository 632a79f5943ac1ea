//! The group discovery.k8s.io: one folder per kind.

pub mod endpoint_slice;

pub use endpoint_slice::EndpointSlice;
