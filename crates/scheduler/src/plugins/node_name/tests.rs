//! A pod that names a node, and nodes, in; refusals out.

use serde_json::json;

use super::NodeName;
use crate::fixture::{node, pod, refusal};

#[test]
fn only_the_named_node_is_allowed() {
    let named = pod(json!({ "nodeName": "here" }));
    assert_eq!(refusal(&NodeName, &named, &node("here", json!({}))), "");
    let said = refusal(&NodeName, &named, &node("there", json!({})));
    assert_eq!(said, "node(s) didn't match the requested node name");
}

#[test]
fn who_names_none_goes_anywhere() {
    assert_eq!(refusal(&NodeName, &pod(json!({})), &node("there", json!({}))), "");
}
