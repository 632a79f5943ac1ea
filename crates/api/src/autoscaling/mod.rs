//! The group autoscaling: one folder per kind.

pub mod scale;

pub use scale::Scale;
