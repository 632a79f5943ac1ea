//! Manifest in; problems, defaults or cells out. What both kinds of webhooks have in common is
//! tested here.

use serde_json::{Value, json};

use super::MutatingWebhookConfiguration;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created};

/// One webhook that nothing is wrong with, but for the changes.
fn one(changes: Value) -> Value {
    let mut webhook = json!({
        "name": "a.example.com",
        "clientConfig": {"url": "https://example.com/a"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    let changes = changes.as_object().cloned().unwrap_or_default();
    webhook.as_object_mut().unwrap().extend(changes);
    webhook
}

fn of(webhooks: Value) -> Value {
    json!({"metadata": {"name": "w"}, "webhooks": webhooks})
}

fn refused(changes: Value, expected: &[&str]) {
    check::<MutatingWebhookConfiguration>(of(json!([one(changes)])), expected);
}

fn rule(changes: Value) -> Value {
    let mut rule = json!({
        "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
    });
    rule.as_object_mut().unwrap().extend(changes.as_object().cloned().unwrap_or_default());
    json!({"rules": [rule]})
}

#[test]
fn what_is_not_said_is_the_safe_choice() {
    let manifest = of(json!([one(json!({
        "rules": rule(json!({}))["rules"],
        "clientConfig": {"service": {"namespace": "n", "name": "s"}},
    }))]));
    for (pointer, expected) in [
        ("/webhooks/0/failurePolicy", json!("Fail")),
        ("/webhooks/0/matchPolicy", json!("Equivalent")),
        ("/webhooks/0/reinvocationPolicy", json!("Never")),
        ("/webhooks/0/timeoutSeconds", json!(10)),
        ("/webhooks/0/namespaceSelector", json!({})),
        ("/webhooks/0/objectSelector", json!({})),
        ("/webhooks/0/rules/0/scope", json!("*")),
        ("/webhooks/0/clientConfig/service/port", json!(443)),
    ] {
        check_created::<MutatingWebhookConfiguration>(manifest.clone(), pointer, expected);
    }
}

#[test]
fn names_are_domains_and_differ() {
    refused(json!({}), &[]);
    refused(json!({"name": ""}), &["webhooks[0].name: Required value"]);
    refused(
        json!({"name": "example.com"}),
        &[
            "webhooks[0].name: Invalid value: \"example.com\": should be a domain with at least three segments separated by dots",
        ],
    );
    check::<MutatingWebhookConfiguration>(
        of(json!([one(json!({})), one(json!({}))])),
        &["webhooks[1].name: Duplicate value: \"a.example.com\""],
    );
}

#[test]
fn choices_are_from_their_lists() {
    refused(
        json!({
            "failurePolicy": "Retry", "matchPolicy": "Near", "sideEffects": "Some",
            "timeoutSeconds": 31, "reinvocationPolicy": "Often",
        }),
        &[
            "webhooks[0].failurePolicy: Unsupported value: \"Retry\": supported values: \"Fail\", \"Ignore\"",
            "webhooks[0].matchPolicy: Unsupported value: \"Near\": supported values: \"Equivalent\", \"Exact\"",
            "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
            "webhooks[0].reinvocationPolicy: Unsupported value: \"Often\": supported values: \"IfNeeded\", \"Never\"",
        ],
    );
    refused(
        json!({"sideEffects": null}),
        &["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"],
    );
}

#[test]
fn it_is_called_at_one_place() {
    let expected =
        "webhooks[0].clientConfig: Required value: exactly one of url or service is required";
    refused(json!({"clientConfig": {}}), &[expected]);
    refused(
        json!({"clientConfig": {"url": "https://a", "service": {"namespace": "n", "name": "s"}}}),
        &[expected],
    );
    refused(
        json!({"clientConfig": {"service": {"namespace": "", "name": "s", "port": 0}}}),
        &[
            "webhooks[0].clientConfig.service.name: Required value",
            "webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
        ],
    );
    refused(
        json!({"clientConfig": {"url": "http://example.com"}}),
        &[
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
        ],
    );
}

#[test]
fn a_review_version_that_servers_know_is_among_them() {
    refused(
        json!({"admissionReviewVersions": []}),
        &["webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"],
    );
    refused(
        json!({"admissionReviewVersions": ["v2", "v2"]}),
        &[
            "webhooks[0].admissionReviewVersions[1]: Invalid value: \"v2\": duplicate version",
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\",\"v2\"]: must include at least one of v1, v1beta1",
        ],
    );
    refused(json!({"admissionReviewVersions": ["v2", "v1beta1"]}), &[]);
}

#[test]
fn rules_are_whole_and_say_nothing_twice() {
    refused(
        json!({"rules": [{}]}),
        &[
            "webhooks[0].rules[0].operations: Required value",
            "webhooks[0].rules[0].apiGroups: Required value",
            "webhooks[0].rules[0].apiVersions: Required value",
            "webhooks[0].rules[0].resources: Required value",
        ],
    );
    refused(
        rule(json!({
            "operations": ["*", "EAT"], "apiGroups": ["*", "apps"], "apiVersions": ["v1", ""],
            "scope": "World",
        })),
        &[
            "webhooks[0].rules[0].operations: Invalid value: [\"*\",\"EAT\"]: if '*' is present, must not specify other operations",
            "webhooks[0].rules[0].operations[1]: Unsupported value: \"EAT\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"DELETE\", \"UPDATE\"",
            "webhooks[0].rules[0].apiGroups: Invalid value: [\"*\",\"apps\"]: if '*' is present, must not specify other API groups",
            "webhooks[0].rules[0].apiVersions[1]: Required value",
            "webhooks[0].rules[0].scope: Unsupported value: \"World\": supported values: \"*\", \"Cluster\", \"Namespaced\"",
        ],
    );
    for fine in [json!(["*", "pods/log"]), json!(["*/*"]), json!(["pods", "*/scale", "pods/*"])] {
        refused(rule(json!({"resources": fine})), &[]);
    }
    refused(
        rule(json!({"resources": ["pods/*", "pods/log", "*/scale", "apps/scale", ""]})),
        &[
            "webhooks[0].rules[0].resources[1]: Invalid value: \"pods/log\": if 'pods/*' is present, must not specify pods/log",
            "webhooks[0].rules[0].resources[3]: Invalid value: \"apps/scale\": if '*/scale' is present, must not specify apps/scale",
            "webhooks[0].rules[0].resources[4]: Required value",
        ],
    );
    refused(
        rule(json!({"resources": ["*", "pods"]})),
        &[
            "webhooks[0].rules[0].resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources",
        ],
    );
    refused(
        rule(json!({"resources": ["*/*", "pods"]})),
        &[
            "webhooks[0].rules[0].resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources",
        ],
    );
}

#[test]
fn conditions_have_names_and_expressions_and_are_at_most_64() {
    refused(
        json!({"matchConditions": [
            {"name": "", "expression": " "}, {"name": "a", "expression": "true"},
            {"name": "a", "expression": "true"},
        ]}),
        &[
            "webhooks[0].matchConditions[0].expression: Required value",
            "webhooks[0].matchConditions[0].name: Required value",
            "webhooks[0].matchConditions[2].name: Duplicate value: \"a\"",
        ],
    );
    let many: Vec<Value> =
        (0..65).map(|it| json!({"name": format!("c{it}"), "expression": "true"})).collect();
    refused(
        json!({"matchConditions": many}),
        &["webhooks[0].matchConditions: Too many: 65: must have at most 64 items"],
    );
}

#[test]
fn what_was_wrong_before_a_rule_came_may_stay_so() {
    let old = json!([
        one(json!({
            "sideEffects": "Some", "admissionReviewVersions": ["v0"],
            "matchConditions": [{"name": "", "expression": ""}],
            "objectSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["?"]}]},
        })),
        one(json!({})),
    ]);
    let stored = created::<MutatingWebhookConfiguration>(of(old.clone()));
    check_update(&stored, of(old.clone()), Part::Main, &[]);
    let mut changed = old;
    changed[0]["matchConditions"] = json!([{"name": "", "expression": "true"}]);
    check_update(
        &stored,
        of(changed),
        Part::Main,
        &["webhooks[0].matchConditions[0].name: Required value"],
    );
    let fine = created::<MutatingWebhookConfiguration>(of(json!([one(json!({}))])));
    check_update(
        &fine,
        of(json!([one(json!({"sideEffects": "Some"}))])),
        Part::Main,
        &[
            "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
        ],
    );
}

#[test]
fn a_generation_follows_the_webhooks() {
    let stored = created::<MutatingWebhookConfiguration>(of(json!([one(json!({}))])));
    let mut changed = stored.clone();
    assert!(!changed.is_new_generation(&stored));
    changed.webhooks = None;
    assert!(changed.is_new_generation(&stored));
}

#[test]
fn a_reserved_name_is_warned_of() {
    let warnings = |manifest| created::<MutatingWebhookConfiguration>(manifest).warnings();
    assert!(warnings(of(json!([one(json!({}))]))).is_empty());
    assert_eq!(
        warnings(json!({"metadata": {"name": "a.static.k8s.io"}})),
        [
            "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and cannot be managed via the API"
        ]
    );
}

#[test]
fn columns_count_the_webhooks() {
    check_row::<MutatingWebhookConfiguration>(
        json!({
            "metadata": {"name": "w", "creationTimestamp": "2024-01-02T03:04:05Z"},
            "webhooks": [one(json!({}))],
        }),
        "2024-01-02T03:05:05Z",
        json!(["w", 1, "60s"]),
    );
}
