//! The group autoscaling: one folder per kind, one line per kind and version.

use std::sync::Arc;

use crate::kind::{Kind, Typed};

pub mod horizontal_pod_autoscaler;
pub mod scale;

pub use horizontal_pod_autoscaler::HorizontalPodAutoscaler;
pub use scale::Scale;

use horizontal_pod_autoscaler::v1;

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Typed::<HorizontalPodAutoscaler>::new(crate::schema)),
        Arc::new(Typed::<v1::HorizontalPodAutoscaler>::version_of::<HorizontalPodAutoscaler>(
            crate::schema,
        )),
    ]
}
