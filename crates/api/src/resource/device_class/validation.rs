//! What is wrong with a DeviceClass.

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_qualified_name;

use super::DeviceClass;
use crate::resource::bounded;
use crate::resource::configuration::{self, CONFIGS_MAX, Seen};
use crate::semantic;

pub(super) fn validate(
    class: &DeviceClass,
    stored: Option<&DeviceClass>,
    errors: &mut FieldErrors,
) {
    let (spec, path) = (&class.spec, Path::new("spec"));
    let selectors = spec.selectors.as_deref().unwrap_or_default();
    configuration::validate_selectors(selectors, &path.child("selectors"), errors);
    let is_same = stored.is_some_and(|it| semantic::equal(&it.spec.config, &spec.config));
    let seen = if is_same { Seen::Before } else { Seen::New };
    let configs = spec.config.as_deref().unwrap_or_default();
    bounded::list(configs, CONFIGS_MAX, &path.child("config"), errors, |it, path, errors| {
        configuration::validate_opaque(it.opaque.as_ref(), seen, path, errors);
    });
    if let Some(name) = spec.extended_resource_name.as_deref().filter(|it| !is_extended(it)) {
        let path = path.child("extendedResourceName");
        errors.invalid(&path, name, "must be a valid extended resource name");
    }
}

/// What pods can ask for like `example.com/gpu`: not Kubernetes' own, and fit for a quota.
fn is_extended(name: &str) -> bool {
    const QUOTA_PREFIX: &str = "requests.";
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    !is_native
        && !name.starts_with(QUOTA_PREFIX)
        && is_qualified_name(&format!("{QUOTA_PREFIX}{name}")).is_empty()
}
