//! What is wrong with a PriorityClass.

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::{PriorityClass, SYSTEM, SYSTEM_PREFIX, USER_VALUE_MAX};
use crate::check::{self, text};

const PREEMPTION_POLICIES: &[&str] = &["PreemptLowerPriority", "Never"];

pub(super) fn validate(class: &PriorityClass, errors: &mut FieldErrors) {
    if text(class.metadata.name.as_ref()).starts_with(SYSTEM_PREFIX) {
        if let Err(why) = is_of_system(class) {
            let detail = format!(
                "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"
            );
            errors.forbidden(&Path::new("metadata").child("name"), &detail);
        }
    } else if class.value.unwrap_or(0) > USER_VALUE_MAX {
        let detail =
            format!("maximum allowed value of a user defined priority is {USER_VALUE_MAX}");
        errors.forbidden(&Path::new("value"), &detail);
    }
    let policy = text(class.preemption_policy.as_ref());
    check::one_of_listed(policy, PREEMPTION_POLICIES, &Path::new("preemptionPolicy"), errors);
}

/// Whether it is one of those that the server itself makes.
fn is_of_system(class: &PriorityClass) -> Result<(), String> {
    let name = text(class.metadata.name.as_ref());
    let Some((_, value)) = SYSTEM.iter().find(|it| it.0 == name) else {
        return Err(format!("{name} is not a known system priority class"));
    };
    if class.value != Some(*value) {
        return Err(format!("value of {name} PriorityClass must be {value}"));
    }
    if class.global_default == Some(true) {
        return Err(format!("globalDefault of {name} PriorityClass must be false"));
    }
    Ok(())
}

pub(super) fn validate_update(
    class: &PriorityClass,
    stored: &PriorityClass,
    errors: &mut FieldErrors,
) {
    if class.value != stored.value {
        errors.forbidden(&Path::new("value"), "may not be changed in an update.");
    }
    let policy = text(class.preemption_policy.as_ref());
    let is_same = policy == text(stored.preemption_policy.as_ref());
    check::immutable(is_same, policy, &Path::new("preemptionPolicy"), errors);
}
