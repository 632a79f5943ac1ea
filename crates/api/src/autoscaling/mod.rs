//! The group autoscaling: one folder per kind.

pub mod horizontal_pod_autoscaler;
pub mod scale;

pub use horizontal_pod_autoscaler::HorizontalPodAutoscaler;
pub use scale::Scale;
