//! What any bytes do that a conversion webhook answers with.

use bytes::Bytes;
use serde_json::{Value, json};

use super::review::{Question, Version};

/// Panics if what is taken for an answer is another object.
pub(crate) fn take_any(bytes: &[u8]) {
    let asked = json!({
        "apiVersion": "e.io/v1", "kind": "Rope", "metadata": {"name": "a", "uid": "u", "generation": 3},
        "spec": {"size": 1},
    });
    let asked = Bytes::from(asked.to_string());
    for version in [Version::V1, Version::V1Beta1] {
        let objects = [&asked];
        let question = Question { version, uid: "q", api_version: "e.io/v2", objects: &objects };
        let Ok(converted) = question.converted(bytes) else { continue };
        assert_eq!(converted.len(), 1, "none is dropped");
        let object: Value = serde_json::from_slice(&converted[0]).expect("it is JSON");
        assert_eq!((&object["apiVersion"], &object["kind"]), (&json!("e.io/v2"), &json!("Rope")));
        let metadata = &object["metadata"];
        assert_eq!((&metadata["name"], &metadata["uid"]), (&json!("a"), &json!("u")));
        assert_eq!((&metadata["generation"], &metadata["finalizers"]), (&json!(3), &Value::Null));
    }
}
