//! Manifest in; problems, warnings or cells out.

use serde_json::{Value, json};

use super::RuntimeClass;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_row, check_update, created};

fn class(fields: Value) -> Value {
    let mut class = json!({"metadata": {"name": "sandboxed"}, "handler": "sandboxed"});
    class.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    class
}

#[test]
fn a_handler_is_a_label_that_stays() {
    check::<RuntimeClass>(class(json!({})), &[]);
    check::<RuntimeClass>(class(json!({"handler": ""})), &["handler: Required value"]);
    check::<RuntimeClass>(
        class(json!({"handler": "a.b"})),
        &["handler: Invalid value: \"a.b\": must not contain dots"],
    );
    let stored = created::<RuntimeClass>(class(json!({})));
    check_update(
        &stored,
        class(json!({"handler": "other"})),
        Part::Main,
        &["handler: Invalid value: \"other\": field is immutable"],
    );
    check_update(&stored, class(json!({"overhead": {"podFixed": {"cpu": "1"}}})), Part::Main, &[]);
}

#[test]
fn overhead_is_an_amount_of_what_nodes_have() {
    check::<RuntimeClass>(
        class(json!({"overhead": {"podFixed": {"cpu": "-1", "wheels": "4"}}})),
        &[
            "overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            "overhead.limits[wheels]: Invalid value: \"wheels\": must be a standard resource type or fully qualified",
            "overhead.limits[wheels]: Invalid value: \"wheels\": must be a standard resource for containers",
        ],
    );
}

#[test]
fn a_toleration_is_there_once() {
    let of = |tolerations: Value| class(json!({"scheduling": {"tolerations": tolerations}}));
    let one = json!({"key": "a", "operator": "Exists", "effect": "NoExecute"});
    let mut timed = one.clone();
    timed["tolerationSeconds"] = json!(5);
    check::<RuntimeClass>(of(json!([one])), &[]);
    check::<RuntimeClass>(
        of(json!([one, timed])),
        &[
            "scheduling.tolerations[1]: Duplicate value: {\"effect\":\"NoExecute\",\"key\":\"a\",\"operator\":\"Exists\",\"tolerationSeconds\":5}",
        ],
    );
    check::<RuntimeClass>(
        of(json!([{"operator": "Equal"}])),
        &[
            "scheduling.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        ],
    );
}

#[test]
fn old_labels_of_nodes_are_warned_of() {
    let of = |key: &str| {
        let scheduling = json!({"nodeSelector": {key: "a"}});
        created::<RuntimeClass>(class(json!({"scheduling": scheduling}))).warnings()
    };
    assert!(of("kubernetes.io/arch").is_empty());
    assert_eq!(
        of("failure-domain.beta.kubernetes.io/zone"),
        [
            "scheduling.nodeSelector: deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        ]
    );
}

#[test]
fn columns_show_the_handler() {
    check_row::<RuntimeClass>(
        json!({
            "metadata": {"name": "sandboxed", "creationTimestamp": "2024-01-02T03:04:05Z"},
            "handler": "gv",
        }),
        "2024-01-02T03:05:05Z",
        json!(["sandboxed", "gv", "60s"]),
    );
}
