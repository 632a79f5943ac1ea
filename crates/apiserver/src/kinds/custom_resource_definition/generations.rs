//! Which generation of a definition its status is about (the feature gate
//! CRDObservedGenerationTracking). Who knows says so: the migrator of storage versions, of its
//! condition. While the gate is off, only a status that says so already may go on.

use admission::Draft;
use api::ApiObject;
use api::apiextensions::CustomResourceDefinition;
use features::Gates;

pub(super) fn complete(gates: &Gates, draft: &mut Draft, old: Option<&dyn ApiObject>) {
    let is_enabled = gates.is_enabled(features::CRD_OBSERVED_GENERATION_TRACKING);
    if is_enabled || old.is_some_and(is_told) || !is_told(draft.object()) {
        return;
    }
    let definition = draft.change().downcast_mut::<CustomResourceDefinition>();
    if let Some(status) = definition.and_then(|it| it.status.as_mut()) {
        status.observed_generation = None;
        for condition in status.conditions.iter_mut().flatten() {
            condition.observed_generation = None;
        }
    }
}

fn is_told(object: &dyn ApiObject) -> bool {
    let definition = object.downcast_ref::<CustomResourceDefinition>();
    definition.and_then(|it| it.status.as_ref()).is_some_and(|status| {
        let mut conditions = status.conditions.iter().flatten();
        let is_set = |it: Option<i64>| it.is_some_and(|it| it != 0);
        is_set(status.observed_generation) || conditions.any(|it| is_set(it.observed_generation))
    })
}
