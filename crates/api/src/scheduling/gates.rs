//! Fields of groups of pods whose features are off in this version of Kubernetes: what is new is
//! dropped, what was there already stays.

use k8s_openapi::api::scheduling::v1alpha2::{
    PodGroupResourceClaim, PodGroupSchedulingConstraints, PodGroupSpec, PodGroupTemplate,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

/// The gates TopologyAwareWorkloadScheduling, DRAWorkloadResourceClaims, WorkloadAwarePreemption.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Gated {
    constraints: Option<PodGroupSchedulingConstraints>,
    claims: Option<Vec<PodGroupResourceClaim>>,
    disruption_mode: Option<String>,
    priority_class_name: Option<String>,
    priority: Option<i32>,
}

impl From<&PodGroupSpec> for Gated {
    fn from(spec: &PodGroupSpec) -> Self {
        Self {
            constraints: spec.scheduling_constraints.clone(),
            claims: spec.resource_claims.clone(),
            disruption_mode: spec.disruption_mode.clone(),
            priority_class_name: spec.priority_class_name.clone(),
            priority: spec.priority,
        }
    }
}

impl From<&PodGroupTemplate> for Gated {
    fn from(template: &PodGroupTemplate) -> Self {
        Self {
            constraints: template.scheduling_constraints.clone(),
            claims: template.resource_claims.clone(),
            disruption_mode: template.disruption_mode.clone(),
            priority_class_name: template.priority_class_name.clone(),
            priority: template.priority,
        }
    }
}

impl Gated {
    pub(super) fn has_claims(&self) -> bool {
        self.claims.as_ref().is_some_and(|it| !it.is_empty())
    }

    /// What is left of it beside what was stored.
    fn kept(self, stored: &Self) -> Self {
        let has_class = stored.priority_class_name.as_ref().is_some_and(|it| !it.is_empty());
        Self {
            constraints: self.constraints.filter(|_| stored.constraints.is_some()),
            claims: self.claims.filter(|_| stored.has_claims()),
            disruption_mode: self.disruption_mode.filter(|_| stored.disruption_mode.is_some()),
            priority_class_name: self.priority_class_name.filter(|_| has_class),
            priority: self.priority.filter(|_| stored.priority.is_some()),
        }
    }

    /// What stayed may not change; claims are refused like all that never changes.
    pub(super) fn validate_update(&self, stored: &Self, path: &Path, errors: &mut FieldErrors) {
        let changed = [
            ("schedulingConstraints", self.constraints != stored.constraints),
            ("disruptionMode", self.disruption_mode != stored.disruption_mode),
            ("priorityClassName", self.priority_class_name != stored.priority_class_name),
            ("priority", self.priority != stored.priority),
        ];
        for (field, _) in changed.into_iter().filter(|it| it.1) {
            errors.forbidden(&path.child(field), "");
        }
        if self.claims != stored.claims {
            let path = path.child("resourceClaims");
            errors.invalid(&path, serde_json::Value::Null, "field is immutable");
        }
    }
}

pub(super) fn drop_disabled_of_group(spec: &mut PodGroupSpec, stored: Option<&PodGroupSpec>) {
    let stored = stored.map(Gated::from).unwrap_or_default();
    let kept = Gated::from(&*spec).kept(&stored);
    spec.scheduling_constraints = kept.constraints;
    spec.resource_claims = kept.claims;
    spec.disruption_mode = kept.disruption_mode;
    spec.priority_class_name = kept.priority_class_name;
    spec.priority = kept.priority;
}

pub(super) fn drop_disabled_of_template(
    template: &mut PodGroupTemplate,
    stored: Option<&PodGroupTemplate>,
) {
    let stored = stored.map(Gated::from).unwrap_or_default();
    let kept = Gated::from(&*template).kept(&stored);
    template.scheduling_constraints = kept.constraints;
    template.resource_claims = kept.claims;
    template.disruption_mode = kept.disruption_mode;
    template.priority_class_name = kept.priority_class_name;
    template.priority = kept.priority;
}
