//! The group internal.apiserver.k8s.io: one folder per kind.

pub mod storage_version;

pub use storage_version::StorageVersion;
