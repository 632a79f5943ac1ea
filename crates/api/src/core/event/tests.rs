//! Manifest in; problems and cells out.

use serde_json::json;

use super::Event;
use crate::testing::{check, check_row};

#[test]
fn an_event_is_in_the_namespace_of_its_object() {
    check::<Event>(
        json!({"metadata": {"name": "e", "namespace": "a"}, "involvedObject": {"namespace": "b"}}),
        &["involvedObject.namespace: Invalid value: \"b\": does not match event.namespace"],
    );
    check::<Event>(
        json!({"metadata": {"name": "e", "namespace": "default"}, "involvedObject": {}}),
        &[],
    );
}

#[test]
fn the_row_says_what_happened_to_what() {
    check_row::<Event>(
        json!({
            "metadata": {"name": "e"}, "type": "Normal", "reason": "Pulled", "message": "done \n",
            "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec"},
            "source": {"component": "kubelet", "host": "n1"},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:30Z", "count": 2,
        }),
        "2026-01-01T00:01:00Z",
        json!(["30s", "Normal", "Pulled", "pod/web", "spec", "kubelet, n1", "done", "60s", 2, "e"]),
    );
}
