//! While a pod waits at a gate, where it may run can still be narrowed.

use k8s_openapi::api::core::v1::{NodeAffinity, NodeSelectorTerm, PodSpec};
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::{codec, semantic};

/// Puts back in `rest` what was allowed.
pub(super) fn validate(rest: &mut PodSpec, old: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    validate_selector(rest, old, &path.child("nodeSelector"), errors);
    let affinity = rest.affinity.as_ref().and_then(|it| it.node_affinity.clone());
    let old_affinity = old.affinity.as_ref().and_then(|it| it.node_affinity.clone());
    if affinity == old_affinity {
        return;
    }
    let path = path.child("affinity").child("nodeAffinity");
    let path = path.child("requiredDuringSchedulingIgnoredDuringExecution");
    let path = path.child("nodeSelectorTerms");
    validate_terms(&terms(affinity.as_ref()), &terms(old_affinity.as_ref()), &path, errors);
    if rest.affinity.is_some() || old_affinity.is_some() {
        rest.affinity.get_or_insert_default().node_affinity = old_affinity;
    }
    if old.affinity.is_none() && rest.affinity == Some(Default::default()) {
        rest.affinity = None;
    }
}

fn validate_selector(rest: &mut PodSpec, old: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let selector = rest.node_selector.take().unwrap_or_default();
    let is_superset =
        old.node_selector.iter().flatten().all(|(key, value)| selector.get(key) == Some(value));
    if !is_superset {
        let shown: Value =
            selector.iter().map(|(key, it)| (key.clone(), Value::from(it.as_str()))).collect();
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(path, shown, detail);
    }
    rest.node_selector.clone_from(&old.node_selector);
}

/// Those of which a node has to fulfil one.
fn terms(affinity: Option<&NodeAffinity>) -> Vec<NodeSelectorTerm> {
    let required =
        affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    required.map(|it| it.node_selector_terms.clone()).unwrap_or_default()
}

/// Another term would be another way to fulfil them, so only a term itself can get narrower.
fn validate_terms(
    new: &[NodeSelectorTerm],
    old: &[NodeSelectorTerm],
    path: &Path,
    errors: &mut FieldErrors,
) {
    if !old.is_empty() && new.len() != old.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid(path, codec::tree(&new), detail);
    }
    for (index, (new, old)) in new.iter().zip(old).enumerate() {
        if !has_only_additions(new, old) {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.invalid(&path.index(index), codec::tree(new), detail);
        }
    }
}

/// What was there comes first, as it was. A term of nothing fits no node, and stays that.
fn has_only_additions(new: &NodeSelectorTerm, old: &NodeSelectorTerm) -> bool {
    let n_expressions = old.match_expressions.as_ref().map_or(0, Vec::len);
    let n_fields = old.match_fields.as_ref().map_or(0, Vec::len);
    let mut kept = new.clone();
    if n_expressions + n_fields > 0 {
        kept.match_expressions.get_or_insert_default().truncate(n_expressions);
        kept.match_fields.get_or_insert_default().truncate(n_fields);
    }
    semantic::equal(&kept, old)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Pod;
    use crate::kind::Part;
    use crate::testing::{check_update, created};

    fn gated(rest: Value) -> Value {
        let mut spec = json!({
            "containers": [{"name": "web", "image": "nginx"}],
            "schedulingGates": [{"name": "example.com/wait"}],
        });
        spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"metadata": {"name": "web"}, "spec": spec})
    }

    fn check(stored: Value, update: Value, expected: &[&str]) {
        check_update(&created::<Pod>(gated(stored)), gated(update), Part::Main, expected);
    }

    #[test]
    fn a_selector_grows() {
        let selector = |it: Value| json!({"nodeSelector": it});
        let stored = || selector(json!({"a": "1"}));
        check(stored(), selector(json!({"a": "1", "b": "2"})), &[]);
        check(
            stored(),
            selector(json!({"b": "2"})),
            &[
                "spec.nodeSelector: Invalid value: {\"b\":\"2\"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)",
            ],
        );
    }

    #[test]
    fn terms_get_narrower_and_no_more() {
        const TERMS: &str = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
        let need = |key: &str| json!({"key": key, "operator": "Exists"});
        let term = |keys: &[&str]| -> Value {
            json!({"matchExpressions": keys.iter().map(|it| need(it)).collect::<Vec<_>>()})
        };
        let rule = "requiredDuringSchedulingIgnoredDuringExecution";
        let with = |terms: &[Value]| json!({"affinity": {"nodeAffinity": {rule: {"nodeSelectorTerms": terms}}}});
        // What was not restricted may be restricted in any way.
        check(json!({}), with(&[term(&["a"]), term(&["b"])]), &[]);
        let stored = || with(&[term(&["a"])]);
        check(stored(), with(&[term(&["a", "b"])]), &[]);
        let fields = json!([{"key": "metadata.name", "operator": "In", "values": ["n"]}]);
        let mut both = term(&["a"]);
        both["matchFields"] = fields;
        check(stored(), with(&[both]), &[]);
        let shown = "{\"matchExpressions\":[{\"key\":\"b\",\"operator\":\"Exists\"},{\"key\":\"a\",\"operator\":\"Exists\"}]}";
        let moved = format!(
            "{TERMS}[0]: Invalid value: {shown}: only additions are allowed (no mutations or deletions)"
        );
        check(stored(), with(&[term(&["b", "a"])]), &[&moved]);
        let more = format!(
            "{TERMS}: Invalid value: [{{\"matchExpressions\":[{{\"key\":\"a\",\"operator\":\"Exists\"}}]}},{{\"matchExpressions\":[{{\"key\":\"b\",\"operator\":\"Exists\"}}]}}]: no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        );
        check(stored(), with(&[term(&["a"]), term(&["b"])]), &[&more]);
        let gone = format!(
            "{TERMS}: Invalid value: []: no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        );
        check(stored(), json!({}), &[&gone]);
        // A term of nothing fits no node; one of something might.
        let something = format!(
            "{TERMS}[0]: Invalid value: {{\"matchExpressions\":[{{\"key\":\"a\",\"operator\":\"Exists\"}}]}}: only additions are allowed (no mutations or deletions)"
        );
        check(with(&[json!({})]), with(&[term(&["a"])]), &[&something]);
    }

    #[test]
    fn what_is_preferred_is_free() {
        let preferred = |weight: i32| {
            let term = json!({"weight": weight, "preference": {}});
            let rule = "preferredDuringSchedulingIgnoredDuringExecution";
            json!({"affinity": {"nodeAffinity": {rule: [term]}}})
        };
        check(preferred(1), preferred(2), &[]);
    }
}
