//! What autoscalers may ask for by the feature gates: no replica at all (HPAScaleToZero), and a
//! tolerance of their own (HPAConfigurableTolerance). What one has already, it may keep.

use admission::Draft;
use api::ApiObject;
use api::autoscaling::HorizontalPodAutoscaler;
use apimachinery::field::Path;
use apimachinery::{ApiError, FieldErrors};
use features::{HPA_CONFIGURABLE_TOLERANCE, HPA_SCALE_TO_ZERO};
use k8s_openapi::api::autoscaling::v2::HPAScalingRules;

use crate::pipeline::hooks::{Hooks, Of, Write};
use crate::pipeline::{Core, Request};

pub(crate) struct Autoscalers;

impl Hooks for Autoscalers {
    fn of(&self) -> &'static [Of] {
        &[("autoscaling", "horizontalpodautoscalers")]
    }

    fn complete(
        &self,
        core: &Core,
        _request: &Request,
        draft: &mut Draft,
        old: Option<&dyn ApiObject>,
    ) {
        let is_enabled = core.config.gates.is_enabled(HPA_CONFIGURABLE_TOLERANCE);
        if is_enabled || old.is_some_and(has_tolerance) || !has_tolerance(draft.object()) {
            return;
        }
        if let Some(object) = draft.change().downcast_mut::<HorizontalPodAutoscaler>()
            && let Some(behavior) = &mut object.spec.behavior
        {
            for rules in [&mut behavior.scale_up, &mut behavior.scale_down].into_iter().flatten() {
                rules.tolerance = None;
            }
        }
    }

    fn validate_write(&self, core: &Core, write: &Write<'_>) -> Result<(), ApiError> {
        let is_zero = |it: &dyn ApiObject| {
            let object = it.downcast_ref::<HorizontalPodAutoscaler>();
            object.is_some_and(|it| it.spec.min_replicas == Some(0))
        };
        let is_new = is_zero(write.object) && !write.old.is_some_and(is_zero);
        if !is_new || core.config.gates.is_enabled(HPA_SCALE_TO_ZERO) {
            return Ok(());
        }
        let mut errors = FieldErrors::new();
        let path = Path::new("spec").child("minReplicas");
        errors.invalid(&path, 0, "must be greater than or equal to 1");
        let kind = write.request.kind.names().gvk().group_kind();
        // On create the path has no name.
        let name = write.object.meta().name.as_deref().unwrap_or_default();
        Err(ApiError::invalid(&kind, name, &errors))
    }
}

fn has_tolerance(object: &dyn ApiObject) -> bool {
    let object = object.downcast_ref::<HorizontalPodAutoscaler>();
    let behavior = object.and_then(|it| it.spec.behavior.as_ref());
    let has = |it: &Option<HPAScalingRules>| it.as_ref().is_some_and(|it| it.tolerance.is_some());
    behavior.is_some_and(|it| has(&it.scale_up) || has(&it.scale_down))
}
