//! The group policy: one folder per kind.

pub mod eviction;

pub use eviction::Eviction;
