//! Pod specs in, tolerations out.

use serde_json::{Value, json};

use super::ExtendedResourceToleration;
use crate::plugins::fixture::{Objects, create_pod};

fn asking(requests: &Value, tolerations: &Value) -> Value {
    let container = json!({"name": "c", "resources": {"requests": requests}});
    let spec = json!({"containers": [container], "initContainers": [container], "tolerations": tolerations});
    create_pod(ExtendedResourceToleration, Objects::default(), &spec).unwrap()["tolerations"]
        .clone()
}

#[test]
fn extended_resources_are_tolerated_by_name() {
    let of = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
    let asked = json!({"cpu": "1", "example.com/b": "1", "example.com/a": "2"});
    assert_eq!(asking(&asked, &json!([])), json!([of("example.com/a"), of("example.com/b")]));
    let known = of("example.com/a");
    let asked = json!({"example.com/a": "1"});
    assert_eq!(asking(&asked, &json!([known])), json!([known]));
    let other = json!({"key": "example.com/a", "operator": "Exists", "effect": "NoExecute"});
    assert_eq!(asking(&asked, &json!([other])), json!([other, known]));
    assert_eq!(asking(&json!({"cpu": "1"}), &json!([other])), json!([other]));
}
