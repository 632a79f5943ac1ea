//! What is wrong with a DeviceTaintRule.

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::DeviceTaintRule;
use crate::conditions;
use crate::resource::{names, taints};
use crate::version::same_fields;

const CONDITIONS_MAX: usize = 8;

pub(super) fn validate(
    rule: &DeviceTaintRule,
    stored: Option<&DeviceTaintRule>,
    errors: &mut FieldErrors,
) {
    let path = Path::new("spec");
    if let Some(selector) = &rule.spec.device_selector {
        let path = path.child("deviceSelector");
        if let Some(driver) = &selector.driver {
            names::validate_driver(driver, &path.child("driver"), errors);
        }
        if let Some(pool) = &selector.pool {
            names::validate_pool(pool, &path.child("pool"), errors);
        }
        if let Some(device) = &selector.device {
            names::validate_label(device, &path.child("device"), errors);
        }
    }
    let before = stored.map(|it| same_fields(&it.spec.taint));
    let taint = same_fields(&rule.spec.taint);
    taints::validate(&taint, before.as_ref(), &path.child("taint"), errors);
}

pub(super) fn validate_status(rule: &DeviceTaintRule, errors: &mut FieldErrors) {
    let all = rule.status.as_ref().and_then(|it| it.conditions.as_deref()).unwrap_or_default();
    let path = Path::new("status").child("conditions");
    conditions::validate(all, &path, errors);
    if all.len() > CONDITIONS_MAX {
        errors.too_many(&path, all.len(), CONDITIONS_MAX);
    }
}
