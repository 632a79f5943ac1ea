//! Manifest in; problems out.

use serde_json::json;

use super::Role;
use crate::rbac::ClusterRole;
use crate::testing::check;

#[test]
fn a_rule_names_verbs_groups_and_resources() {
    check::<Role>(
        json!({"rules": [{"verbs": []}]}),
        &[
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].resources: Required value: resource rules must supply at least one resource",
        ],
    );
}

#[test]
fn paths_belong_to_no_namespace() {
    let manifest = json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]});
    check::<ClusterRole>(manifest.clone(), &[]);
    check::<Role>(
        manifest,
        &[
            "rules[0].nonResourceURLs: Invalid value: [\"/healthz\"]: namespaced rules cannot apply to non-resource URLs",
        ],
    );
}
