//! Manifest in; problems out.

use serde_json::json;

use super::Binding;
use crate::testing::check;

#[test]
fn the_target_is_a_node() {
    check::<Binding>(json!({"target": {"kind": "Node", "name": "n1"}}), &[]);
    check::<Binding>(
        json!({"target": {"kind": "Pod"}}),
        &[
            "target.kind: Unsupported value: \"Pod\": supported values: \"<empty>\", \"Node\"",
            "target.name: Required value",
        ],
    );
}
