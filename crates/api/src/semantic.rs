//! Equality as clients mean it: an absent field equals an empty one, and what Go always writes equals
//! what is not there.

use serde::Serialize;
use serde_json::Value;

use crate::{Resource, codec};

pub(crate) fn equal<T: PartialEq + Serialize>(left: &T, right: &T) -> bool {
    left == right || pruned(left) == pruned(right)
}

/// The same of values of a definition: zeros that Go does not write equal what is not there.
pub(crate) fn equal_as<T: PartialEq + Serialize>(definition: &str, left: &T, right: &T) -> bool {
    left == right || codec::tree_as(definition, left) == codec::tree_as(definition, right)
}

/// The same of one field of two objects.
pub(crate) fn equal_at<T: Resource + Serialize>(field: &str, left: &T, right: &T) -> bool {
    let tree = |object: &T| codec::tree_as(T::FACTS.definition, object)[field].take();
    tree(left) == tree(right)
}

/// Top-level fields that differ, sorted.
pub(crate) fn changed_fields<T: Serialize>(left: &T, right: &T) -> Vec<String> {
    let (Value::Object(left), Value::Object(right)) = (pruned(left), pruned(right)) else {
        return Vec::new();
    };
    let mut fields: Vec<String> = left
        .keys()
        .chain(right.keys())
        .filter(|it| left.get(*it) != right.get(*it))
        .cloned()
        .collect();
    fields.sort();
    fields.dedup();
    fields
}

fn pruned<T: Serialize>(value: &T) -> Value {
    let mut value = codec::tree(value);
    prune(&mut value);
    value
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

fn prune(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(prune),
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|name, it| !is_empty(it) && !codec::is_nothing(name, it));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::DaemonSet;
    use k8s_openapi::api::core::v1::{Container, ResourceFieldSelector, Volume};
    use serde_json::json;

    use super::{equal, equal_at};

    fn check<T: PartialEq + serde::Serialize + serde::de::DeserializeOwned>(
        left: serde_json::Value,
        right: serde_json::Value,
        expected: bool,
    ) {
        let (left, right): (T, T) =
            (serde_json::from_value(left).unwrap(), serde_json::from_value(right).unwrap());
        assert_eq!(equal(&left, &right), expected);
    }

    #[test]
    fn zeros_that_go_does_not_write_equal_what_is_not_there() {
        let set = |spec: serde_json::Value| -> DaemonSet {
            serde_json::from_value(json!({"spec": spec})).unwrap()
        };
        let same = |left, right| equal_at("spec", &set(left), &set(right));
        assert!(same(json!({"minReadySeconds": 0}), json!({})));
        assert!(!same(json!({"minReadySeconds": 1}), json!({})));
        assert!(!same(json!({"revisionHistoryLimit": 0}), json!({})));
        let pod = |spec: serde_json::Value| json!({"template": {"spec": spec}});
        assert!(!same(pod(json!({"resources": {}})), pod(json!({}))));
        assert!(same(pod(json!({"volumes": []})), pod(json!({}))));
    }

    #[test]
    fn what_go_always_has_equals_what_is_not_there() {
        let bare = || json!({"name": "a"});
        check::<Container>(bare(), json!({"name": "a", "resources": {}, "args": []}), true);
        check::<Container>(bare(), json!({"name": "a", "resources": {"claims": []}}), true);
        check::<Container>(bare(), json!({"name": "a", "securityContext": {}}), false);
        let limit = |rest: serde_json::Value| {
            let mut whole = json!({"resource": "limits.cpu"});
            whole.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            whole
        };
        check::<ResourceFieldSelector>(limit(json!({})), limit(json!({"divisor": "0"})), true);
        check::<ResourceFieldSelector>(limit(json!({})), limit(json!({"divisor": "1"})), false);
        check::<Volume>(bare(), json!({"name": "a", "emptyDir": {}}), false);
    }
}
