//! What is odd about single containers: profiles that annotations name, amounts that are no whole
//! bytes, variables that hide others.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec};

use apimachinery::field::Path;

use crate::core::pod_spec::validation::annotations::{self, Annotations};
use crate::quantities::{self, ResourceList};

pub(super) fn of(
    spec: &PodSpec,
    annotations: &Annotations,
    path: &Path,
    path_annotations: &Path,
) -> Vec<String> {
    // Of a pod itself they are in the field by now: see `warnings::before`.
    let is_template = path.as_str() != "spec";
    let mut warnings = Vec::new();
    for (container, path) in annotations::containers(spec, path) {
        let said = annotations::seccomp_of_container(annotations, &container, path_annotations);
        warnings.extend(said);
        if is_template {
            warnings.extend(annotations::app_armor_of_container(
                annotations,
                spec,
                &container,
                path_annotations,
            ));
        }
        let resources = container.resources.as_ref();
        let limits = resources.and_then(|it| it.limits.as_ref());
        let requests = resources.and_then(|it| it.requests.as_ref());
        let path_resources = path.child("resources");
        for resource in ["memory", "ephemeral-storage"] {
            for (list, field) in [(limits, "limits"), (requests, "requests")] {
                warnings.extend(fraction(list, resource, &path_resources.child(field)));
            }
        }
        warnings.extend(of_variables(&container, &path.child("env")));
    }
    warnings
}

/// Of the resources that are counted in bytes.
pub(super) fn fractions(list: Option<&ResourceList>, path: &Path) -> Vec<String> {
    let resources = ["memory", "ephemeral-storage"];
    resources.into_iter().filter_map(|it| fraction(list, it, path)).collect()
}

fn fraction(list: Option<&ResourceList>, resource: &str, path: &Path) -> Option<String> {
    let value = quantities::of(list, resource)?;
    let is_whole = quantities::is_whole(quantities::amount(Some(value)));
    let path = path.key(resource);
    (!is_whole).then(|| {
        format!("{path}: fractional byte value {:?} is invalid, must be an integer", value.0)
    })
}

/// A variable may be set again if it goes on from what it was: `$(PATH):/bin`.
fn of_variables(container: &Container, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut names = BTreeSet::new();
    for (index, variable) in container.env.iter().flatten().enumerate() {
        let (name, value) = (&variable.name, variable.value.as_deref().unwrap_or_default());
        let reference = format!("$({name})");
        let goes_on =
            variable.value_from.is_none() && value != reference && value.contains(&reference);
        if !names.insert(name) && !goes_on {
            warnings.push(format!(
                "{}: hides previous definition of {name:?}, which may be dropped when using apply",
                path.index(index)
            ));
        }
    }
    warnings
}
