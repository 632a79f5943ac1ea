//! Capacities of devices, and how much of one may be asked for at a time.

use k8s_openapi::api::resource::v1::{
    CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::quantity::{self, Amount};

use super::amount;
use crate::resource::bounded;

const VALID_VALUES_MAX: usize = 10;

/// Of a device that is allocated as a whole.
pub(super) fn validate_whole(capacity: &DeviceCapacity, path: &Path, errors: &mut FieldErrors) {
    if capacity.request_policy.is_some() {
        let path = path.child("requestPolicy");
        errors.forbidden(&path, "allowMultipleAllocations must be true");
    }
}

/// Of a device that can be allocated several times.
pub(super) fn validate_shared(capacity: &DeviceCapacity, path: &Path, errors: &mut FieldErrors) {
    let Some(policy) = &capacity.request_policy else { return };
    let path = path.child("requestPolicy");
    let CapacityRequestPolicy { default, valid_range, valid_values } = policy;
    let values = valid_values.as_deref().unwrap_or_default();
    match (values, valid_range) {
        ([], None) => {}
        ([_, ..], Some(_)) => errors.forbidden(
            &path,
            "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time",
        ),
        (values, None) => match default {
            None => {
                errors.required(&path.child("default"), "required when validValues is defined");
            }
            Some(default) => {
                let path = path.child("validValues");
                validate_values(values, default, &capacity.value, (&path, errors));
            }
        },
        ([], Some(range)) => match default {
            None => {
                errors.required(&path.child("default"), "required when validRange is defined");
            }
            Some(default) => {
                let path = path.child("validRange");
                validate_range(range, default, &capacity.value, (&path, errors));
            }
        },
    }
}

/// One that is not said is none.
fn said(quantity: &Quantity) -> Quantity {
    if quantity.0.is_empty() { Quantity("0".to_owned()) } else { quantity.clone() }
}

fn validate_values(
    values: &[Quantity],
    default: &Quantity,
    whole: &Quantity,
    (path, errors): (&Path, &mut FieldErrors),
) {
    let whole = &said(whole);
    for (index, pair) in values.windows(2).enumerate() {
        if amount(&pair[0]) > amount(&pair[1]) {
            let why = "values must be sorted in ascending order";
            errors.invalid(&path.index(index + 1), pair[1].0.as_str(), why);
        }
    }
    let key = |it: &Quantity| amount(it).value().to_string();
    bounded::set(values, VALID_VALUES_MAX, (path, errors), key, |it, path, errors| {
        if amount(it) > amount(whole) {
            let why = format!("option is larger than capacity value: {}", whole.0);
            errors.invalid(path, it.0.as_str(), &why);
        }
    });
    let is_looked_at = values.len() <= VALID_VALUES_MAX;
    if !is_looked_at || values.iter().all(|it| amount(it) != amount(default)) {
        let why = "default value is not valid according to the requestPolicy";
        errors.invalid(path, default.0.as_str(), why);
    }
}

fn validate_range(
    range: &CapacityRequestPolicyRange,
    default: &Quantity,
    whole: &Quantity,
    (path, errors): (&Path, &mut FieldErrors),
) {
    let CapacityRequestPolicyRange { min, max, step } = range;
    let whole = &said(whole);
    // One that is not said is empty here.
    if min.0.is_empty() {
        return errors.required(&path.child("min"), "required when validRange is defined");
    }
    let mut refuse = |field: &str, shown: &Quantity, why: String| {
        errors.invalid(&path.child(field), shown.0.as_str(), &why);
    };
    if amount(min) > amount(whole) {
        refuse("min", min, format!("min is larger than capacity value: {}", whole.0));
    }
    if amount(default) < amount(min) {
        refuse("min", default, format!("default is less than min: {}", min.0));
    }
    if let Some(max) = max {
        if amount(min) > amount(max) {
            refuse("max", min, format!("min is larger than max: {}", max.0));
        }
        if amount(max) > amount(whole) {
            refuse("max", max, format!("max is larger than capacity value: {}", whole.0));
        }
        if amount(default) > amount(max) {
            refuse("max", default, format!("default is more than max: {}", max.0));
        }
    }
    let Some(step) = step else { return };
    let first = amount(min) + amount(step);
    if first > amount(whole) {
        let first = first.render(quantity::family(&min.0));
        let why = format!("one step {first} is larger than capacity value: {}", whole.0);
        refuse("step", step, why);
    }
    for value in [Some(default), max.as_ref()].into_iter().flatten() {
        if !is_whole_steps(amount(value), amount(min), amount(step)) {
            let why =
                format!("value is not a multiple of a given step ({}) from ({})", step.0, min.0);
            refuse("step", value, why);
        }
    }
}

fn is_whole_steps(value: Amount, min: Amount, step: Amount) -> bool {
    let distance = i128::from(value.value()) - i128::from(min.value());
    match step.value() {
        0 => distance == 0,
        step => distance % i128::from(step) == 0,
    }
}
