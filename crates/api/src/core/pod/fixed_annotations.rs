//! Annotations that a pod has from its beginning or never.

use std::collections::BTreeMap;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::{Pod, mirror};
use crate::core::pod_spec::validation::annotations::APP_ARMOR_OF_CONTAINER;

pub(super) fn validate_update(pod: &Pod, stored: &Pod, errors: &mut FieldErrors) {
    let none = BTreeMap::new();
    let new = pod.metadata.annotations.as_ref().unwrap_or(&none);
    let old = stored.metadata.annotations.as_ref().unwrap_or(&none);
    let path = Path::new("metadata").child("annotations");
    for (key, _) in old.iter().filter(|(key, value)| new.get(*key) != Some(value)) {
        if let Some(what) = fixed(key) {
            errors.forbidden(&path.key(key), &format!("may not remove or update {what}"));
        }
    }
    for key in new.keys().filter(|it| !old.contains_key(*it)) {
        if let Some(what) = fixed(key) {
            errors.forbidden(&path.key(key), &format!("may not add {what}"));
        }
    }
}

fn fixed(key: &str) -> Option<&'static str> {
    if key.starts_with(APP_ARMOR_OF_CONTAINER) {
        Some("AppArmor annotations")
    } else if key == mirror::ANNOTATION {
        Some("mirror pod annotation")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::Pod;
    use crate::kind::Part;
    use crate::testing::{check, check_update, created};

    fn pod(annotations: Value) -> Value {
        json!({
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"},
        })
    }

    #[test]
    fn what_is_fixed_neither_comes_nor_goes_nor_changes() {
        let armor = "container.apparmor.security.beta.kubernetes.io/c";
        for (key, what, old, new) in [
            ("kubernetes.io/config.mirror", "mirror pod annotation", "a", "b"),
            (armor, "AppArmor annotations", "unconfined", "runtime/default"),
        ] {
            let plain = created::<Pod>(pod(json!({})));
            let marked = created::<Pod>(pod(json!({key: old})));
            let path = format!("metadata.annotations[{key}]");
            let kept = format!("{path}: Forbidden: may not remove or update {what}");
            let added = format!("{path}: Forbidden: may not add {what}");
            check_update(&marked, pod(json!({key: new})), Part::Status, &[&kept]);
            check_update(&plain, pod(json!({key: new})), Part::Status, &[&added]);
            let same = |value: &str| {
                let mut manifest = pod(json!({key: value}));
                let stored: Value = serde_json::to_value(&marked.spec).unwrap();
                manifest["spec"] = stored;
                manifest
            };
            check_update(&marked, same(old), Part::Main, &[]);
            check_update(&marked, same(new), Part::Main, &[&kept]);
            let mut gone = same(old);
            gone["metadata"]["annotations"] = json!({});
            check_update(&marked, gone, Part::Main, &[&kept]);
            check_update(&plain, pod(json!({key: new})), Part::Main, &[&added]);
        }
    }

    #[test]
    fn a_mirror_is_on_a_node() {
        let mut manifest = pod(json!({"kubernetes.io/config.mirror": "a"}));
        check::<Pod>(manifest.clone(), &[]);
        manifest["spec"]["nodeName"] = json!("");
        check::<Pod>(
            manifest,
            &[
                "metadata.annotations[kubernetes.io/config.mirror]: Invalid value: \"a\": must set spec.nodeName if mirror pod annotation is set",
            ],
        );
    }

    #[test]
    fn other_annotations_come_and_go() {
        let (old, new) = (json!({"a": "1", "b": "1"}), json!({"b": "2", "c": "1"}));
        check_update(&created::<Pod>(pod(old)), pod(new), Part::Main, &[]);
    }

    #[test]
    fn what_is_wrong_is_told_as_often_as_upstream_does() {
        let stored = created::<Pod>(pod(json!({})));
        let cost = json!({"controller.kubernetes.io/pod-deletion-cost": "x"});
        let problem = "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"x\": must be a 32bit integer";
        check_update(&stored, pod(cost.clone()), Part::Main, &[problem, problem]);
        check_update(&stored, pod(cost), Part::Status, &[problem]);
    }
}
