//! Scopes: of which pods and claims a quota speaks.

use k8s_openapi::api::core::v1::{
    Pod, PodAffinityTerm, ResourceQuota, ScopedResourceSelectorRequirement, WeightedPodAffinityTerm,
};

use super::{Counted, claims, pods};
use crate::core::pod_spec::qos_class;

/// All that must hold: a scope by its name is one that must exist.
pub fn of(quota: &ResourceQuota) -> Vec<ScopedResourceSelectorRequirement> {
    let Some(spec) = &quota.spec else { return Vec::new() };
    let exists = |scope: &String| ScopedResourceSelectorRequirement {
        scope_name: scope.clone(),
        operator: "Exists".to_owned(),
        values: None,
    };
    let named = spec.scopes.iter().flatten().map(exists);
    let selector = spec.scope_selector.iter();
    named.chain(selector.flat_map(|it| it.match_expressions.iter().flatten().cloned())).collect()
}

pub(super) fn is_in(counted: Counted<'_>, requirement: &ScopedResourceSelectorRequirement) -> bool {
    match (counted, requirement.scope_name.as_str()) {
        (Counted::Pod(pod), "Terminating") => pods::is_terminating(pod),
        (Counted::Pod(pod), "NotTerminating") => !pods::is_terminating(pod),
        (Counted::Pod(pod), "BestEffort") => is_best_effort(pod),
        (Counted::Pod(pod), "NotBestEffort") => !is_best_effort(pod),
        (Counted::Pod(pod), "CrossNamespacePodAffinity") => looks_elsewhere(pod),
        (Counted::Pod(pod), "PriorityClass") => {
            let class = pod.spec.as_ref().and_then(|it| it.priority_class_name.as_deref());
            selects(requirement, class.filter(|it| !it.is_empty()))
        }
        (Counted::VolumeClaim(claim), "VolumeAttributesClass") => {
            let classes = claims::attributes_classes(claim);
            match classes.is_empty() {
                true => selects(requirement, None),
                false => classes.iter().any(|it| selects(requirement, Some(it))),
            }
        }
        _ => false,
    }
}

fn selects(requirement: &ScopedResourceSelectorRequirement, class: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_listed = |class: &str| values.iter().any(|it| it == class);
    match requirement.operator.as_str() {
        "In" => class.is_some_and(is_listed),
        "NotIn" => !class.is_some_and(is_listed),
        "Exists" => class.is_some(),
        "DoesNotExist" => class.is_none(),
        _ => false,
    }
}

/// By what it asks for, not by the class that its status says: that may be what its manifest said.
fn is_best_effort(pod: &Pod) -> bool {
    pod.spec.as_ref().map_or("BestEffort", qos_class) == "BestEffort"
}

/// Whether its place depends on pods of other namespaces.
fn looks_elsewhere(pod: &Pod) -> bool {
    let Some(affinity) = pod.spec.as_ref().and_then(|it| it.affinity.as_ref()) else {
        return false;
    };
    let is_elsewhere = |term: &PodAffinityTerm| {
        term.namespaces.as_ref().is_some_and(|it| !it.is_empty())
            || term.namespace_selector.is_some()
    };
    let any = |required: Option<&[PodAffinityTerm]>, wished: Option<&[WeightedPodAffinityTerm]>| {
        required.unwrap_or_default().iter().any(is_elsewhere)
            || wished.unwrap_or_default().iter().any(|it| is_elsewhere(&it.pod_affinity_term))
    };
    affinity.pod_affinity.as_ref().is_some_and(|it| {
        any(
            it.required_during_scheduling_ignored_during_execution.as_deref(),
            it.preferred_during_scheduling_ignored_during_execution.as_deref(),
        )
    }) || affinity.pod_anti_affinity.as_ref().is_some_and(|it| {
        any(
            it.required_during_scheduling_ignored_during_execution.as_deref(),
            it.preferred_during_scheduling_ignored_during_execution.as_deref(),
        )
    })
}
