//! Taints of devices: since when they are there is the server's to say, if nobody else does.

use admission::Draft;
use api::ApiObject;
use api::resource::{DeviceTaintRule, ResourceSlice, device_taint_rule, resource_slice};
use apimachinery::ApiError;

use crate::pipeline::hooks::{Hooks, Of, Reserved};
use crate::pipeline::{self, Core};

pub(crate) struct DeviceTaints;

impl Hooks for DeviceTaints {
    fn of(&self) -> &'static [Of] {
        &[("resource.k8s.io", "devicetaintrules"), ("resource.k8s.io", "resourceslices")]
    }

    /// What is taken is the time.
    fn reserve(
        &self,
        core: &Core,
        draft: &mut Draft,
        old: Option<&dyn ApiObject>,
    ) -> Result<Reserved, ApiError> {
        let slice = draft.object().downcast_ref::<ResourceSlice>();
        let is_slice = slice.is_some_and(resource_slice::lacks_taint_times);
        let stored = old.and_then(|it| it.downcast_ref::<DeviceTaintRule>());
        let rule = draft.object().downcast_ref::<DeviceTaintRule>();
        let is_rule = rule.is_some_and(|it| device_taint_rule::needs_taint_time(it, stored));
        if is_slice || is_rule {
            let (object, now) = (draft.change(), pipeline::now(core));
            if let Some(slice) = object.downcast_mut::<ResourceSlice>() {
                resource_slice::set_taint_times(slice, &now);
            } else if let Some(rule) = object.downcast_mut::<DeviceTaintRule>() {
                device_taint_rule::set_taint_time(rule, &now);
            }
        }
        Ok(Reserved::default())
    }
}
