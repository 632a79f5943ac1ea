//! What `matchLabelKeys` and `mismatchLabelKeys` stand for: the values of the new pod's own labels,
//! written into the selectors beside them (KEPs 3243 and 3633). They stay as they are when the
//! pod's labels change later.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PodAffinityTerm, PodSpec, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

type Labels = BTreeMap<String, String>;

pub(super) fn merge(spec: &mut PodSpec, labels: &Labels) {
    let (near, far) = match &mut spec.affinity {
        Some(it) => (it.pod_affinity.as_mut(), it.pod_anti_affinity.as_mut()),
        None => (None, None),
    };
    if let Some(it) = near {
        let preferred = &mut it.preferred_during_scheduling_ignored_during_execution;
        merge_preferred(preferred.as_deref_mut(), labels);
        let required = &mut it.required_during_scheduling_ignored_during_execution;
        merge_required(required.as_deref_mut(), labels);
    }
    if let Some(it) = far {
        let preferred = &mut it.preferred_during_scheduling_ignored_during_execution;
        merge_preferred(preferred.as_deref_mut(), labels);
        let required = &mut it.required_during_scheduling_ignored_during_execution;
        merge_required(required.as_deref_mut(), labels);
    }
    for it in spec.topology_spread_constraints.iter_mut().flatten() {
        let keys = it.match_label_keys.as_deref();
        add(it.label_selector.as_mut(), keys, "In", labels);
    }
}

fn merge_preferred(terms: Option<&mut [WeightedPodAffinityTerm]>, labels: &Labels) {
    for it in terms.unwrap_or_default() {
        merge_term(&mut it.pod_affinity_term, labels);
    }
}

fn merge_required(terms: Option<&mut [PodAffinityTerm]>, labels: &Labels) {
    for it in terms.unwrap_or_default() {
        merge_term(it, labels);
    }
}

fn merge_term(it: &mut PodAffinityTerm, labels: &Labels) {
    add(it.label_selector.as_mut(), it.match_label_keys.as_deref(), "In", labels);
    add(it.label_selector.as_mut(), it.mismatch_label_keys.as_deref(), "NotIn", labels);
}

/// A label that the pod has not says nothing, and no selector selects nothing whatever is added.
fn add(
    selector: Option<&mut LabelSelector>,
    keys: Option<&[String]>,
    operator: &str,
    labels: &Labels,
) {
    let Some(selector) = selector else { return };
    for key in keys.unwrap_or_default() {
        let Some(value) = labels.get(key) else { continue };
        selector.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
            key: key.clone(),
            operator: operator.to_owned(),
            values: Some(vec![value.clone()]),
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Pod;
    use crate::kind::Part;
    use crate::testing::{check_created, check_update, created};

    fn pod(spec: Value) -> Value {
        let mut manifest = json!({
            "metadata": {"name": "web", "labels": {"app": "web", "rev": "1"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        });
        manifest["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        manifest
    }

    #[test]
    fn values_of_the_pod_are_added_to_every_selector_of_pods() {
        let term = || {
            json!({
                "topologyKey": "zone",
                "labelSelector": {"matchLabels": {"app": "web"}},
                "matchLabelKeys": ["rev", "none"],
                "mismatchLabelKeys": ["app"],
            })
        };
        let lists = || {
            json!({
                "requiredDuringSchedulingIgnoredDuringExecution": [term()],
                "preferredDuringSchedulingIgnoredDuringExecution":
                    [{"weight": 1, "podAffinityTerm": term()}],
            })
        };
        let manifest =
            pod(json!({"affinity": {"podAffinity": lists(), "podAntiAffinity": lists()}}));
        let expected = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "rev", "operator": "In", "values": ["1"]},
                {"key": "app", "operator": "NotIn", "values": ["web"]},
            ],
        });
        for list in ["podAffinity", "podAntiAffinity"] {
            for term in [
                "requiredDuringSchedulingIgnoredDuringExecution/0",
                "preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm",
            ] {
                let pointer = format!("/spec/affinity/{list}/{term}/labelSelector");
                check_created::<Pod>(manifest.clone(), &pointer, expected.clone());
            }
        }
    }

    fn spread(selector: Value) -> Value {
        pod(json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": selector, "matchLabelKeys": ["rev"],
        }]}))
    }

    #[test]
    fn values_of_the_pod_are_added_to_selectors_of_spread() {
        let pointer = "/spec/topologySpreadConstraints/0/labelSelector";
        let expected = json!({"matchExpressions": [
            {"key": "a", "operator": "Exists"},
            {"key": "rev", "operator": "In", "values": ["1"]},
        ]});
        let given = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        check_created::<Pod>(spread(given), pointer, expected);
        check_created::<Pod>(spread(Value::Null), pointer, Value::Null);
    }

    #[test]
    fn they_stay_when_labels_change() {
        let stored = created::<Pod>(spread(json!({})));
        let mut update: Value = serde_json::from_slice(&crate::Resource::encode(&stored)).unwrap();
        update["metadata"]["labels"]["rev"] = json!("2");
        check_update(&stored, update.clone(), Part::Main, &[]);
        // Nor are they added once more.
        update["spec"]["topologySpreadConstraints"][0]["labelSelector"] = json!({});
        let problem = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\nchanged: topologySpreadConstraints";
        check_update(&stored, update, Part::Main, &[problem]);
    }
}
