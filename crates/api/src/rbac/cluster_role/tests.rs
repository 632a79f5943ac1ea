//! Manifest in; problems out.

use serde_json::json;

use super::ClusterRole;
use crate::testing::check;

#[test]
fn a_selector_that_cannot_be_read_is_said_of_its_parts_and_of_the_whole() {
    let selector =
        json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]});
    check::<ClusterRole>(
        json!({"metadata": {"name": "a"}, "aggregationRule": {"clusterRoleSelectors": [selector]}}),
        &[
            "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
        ],
    );
}
