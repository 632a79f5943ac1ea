//! Manifest in; problems, defaults or cells out.

use serde_json::{Value, json};

use super::{FlowSchema, with_dangling};
use crate::flowcontrol::bootstrap;
use crate::kind::{Part, Resource};
use crate::testing::{check, check_created, check_row, check_update, created, defaulted};

fn schema(fields: Value) -> Value {
    let mut spec = json!({"priorityLevelConfiguration": {"name": "workload-low"}});
    spec.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    json!({"metadata": {"name": "reports"}, "spec": spec})
}

/// Of one rule for all who are authenticated.
fn rule(fields: Value) -> Value {
    let mut rule = json!({
        "subjects": [{"kind": "Group", "group": {"name": "system:authenticated"}}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    });
    rule.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    schema(json!({"rules": [rule]}))
}

fn subject(subject: Value) -> Value {
    rule(json!({"subjects": [subject]}))
}

fn resource_rule(fields: Value) -> Value {
    let mut of = json!({
        "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["default"],
    });
    of.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    rule(json!({"resourceRules": [of]}))
}

#[test]
fn precedence_is_a_thousand_unless_it_says_otherwise() {
    let at = "/spec/matchingPrecedence";
    check_created::<FlowSchema>(schema(json!({})), at, json!(1000));
    check_created::<FlowSchema>(schema(json!({"matchingPrecedence": 7})), at, json!(7));
    check::<FlowSchema>(
        schema(json!({"matchingPrecedence": -1})),
        &["spec.matchingPrecedence: Invalid value: -1: must be a positive value"],
    );
    check::<FlowSchema>(
        schema(json!({"matchingPrecedence": 10_001})),
        &["spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"],
    );
    check::<FlowSchema>(
        schema(json!({"matchingPrecedence": 1})),
        &[
            "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
        ],
    );
}

#[test]
fn flows_are_of_a_level_and_told_apart_in_one_of_two_ways() {
    check::<FlowSchema>(
        schema(json!({
            "priorityLevelConfiguration": {"name": ""}, "distinguisherMethod": {"type": "ByColor"},
        })),
        &[
            "spec.distinguisherMethod.type: Unsupported value: {\"type\":\"ByColor\"}: supported values: \"ByNamespace\", \"ByUser\"",
            "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
        ],
    );
}

#[test]
fn a_rule_has_subjects_and_says_what_they_do() {
    check::<FlowSchema>(rule(json!({})), &[]);
    check::<FlowSchema>(
        rule(json!({"subjects": [], "nonResourceRules": []})),
        &[
            "spec.rules[0].subjects: Required value: subjects must contain at least one value",
            "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
        ],
    );
}

#[test]
fn a_subject_has_what_belongs_to_its_kind_and_nothing_else() {
    let at = "spec.rules[0].subjects[0]";
    let account = |name: &str| json!({"namespace": "default", "name": name});
    for name in ["*", "reports"] {
        let of = json!({"kind": "ServiceAccount", "serviceAccount": account(name)});
        check::<FlowSchema>(subject(of), &[]);
    }
    check::<FlowSchema>(
        subject(json!({"kind": "User", "group": {"name": "a"}, "serviceAccount": account("a")})),
        &[
            &format!("{at}.user: Required value: user is required when subject kind is 'User'"),
            &format!(
                "{at}.serviceAccount: Forbidden: serviceAccount is forbidden when subject kind is not 'ServiceAccount'"
            ),
            &format!("{at}.group: Forbidden: group is forbidden when subject kind is not 'Group'"),
        ],
    );
    check::<FlowSchema>(
        subject(json!({"kind": "Group", "group": {"name": ""}, "user": {"name": "a"}})),
        &[
            &format!("{at}.group.name: Required value"),
            &format!("{at}.user: Forbidden: user is forbidden when subject kind is not 'User'"),
        ],
    );
    check::<FlowSchema>(
        subject(json!({"kind": "ServiceAccount", "serviceAccount": {"name": "", "namespace": ""}})),
        &[
            &format!("{at}.serviceAccount.name: Required value"),
            &format!(
                "{at}.serviceAccount.namespace: Required value: must specify namespace for service account"
            ),
        ],
    );
    check::<FlowSchema>(
        subject(json!({"kind": "Robot"})),
        &[&format!(
            "{at}.kind: Unsupported value: \"Robot\": supported values: \"Group\", \"ServiceAccount\", \"User\""
        )],
    );
}

#[test]
fn a_wildcard_stands_alone() {
    let at = "spec.rules[0].resourceRules[0]";
    check::<FlowSchema>(resource_rule(json!({})), &[]);
    check::<FlowSchema>(resource_rule(json!({"namespaces": [], "clusterScope": true})), &[]);
    check::<FlowSchema>(
        resource_rule(json!({
            "verbs": ["*", "get"], "apiGroups": ["*", ""], "resources": ["*", "a"], "namespaces": ["*", "a"],
        })),
        &[
            &format!(
                "{at}.verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs"
            ),
            &format!(
                "{at}.apiGroups: Invalid value: [\"*\",\"\"]: if '*' is present, must not specify other api groups"
            ),
            &format!(
                "{at}.resources: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other resources"
            ),
            &format!(
                "{at}.namespaces: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other namespaces"
            ),
        ],
    );
    check::<FlowSchema>(
        resource_rule(json!({"verbs": [], "apiGroups": [], "resources": [], "namespaces": []})),
        &[
            &format!("{at}.verbs: Required value: verbs must contain at least one value"),
            &format!(
                "{at}.apiGroups: Required value: resource rules must supply at least one api group"
            ),
            &format!(
                "{at}.resources: Required value: resource rules must supply at least one resource"
            ),
            &format!(
                "{at}.namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace"
            ),
        ],
    );
    check::<FlowSchema>(
        resource_rule(json!({"verbs": ["eat"], "namespaces": ["A"]})),
        &[
            &format!(
                "{at}.verbs: Unsupported value: [\"eat\"]: supported values: \"create\", \"delete\", \"deletecollection\", \"get\", \"list\", \"patch\", \"proxy\", \"update\", \"watch\""
            ),
            &format!(
                "{at}.namespaces[0]: Invalid value: \"A\": each member of this list must be '*' or a DNS-1123 label; a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ),
        ],
    );
}

#[test]
fn a_path_may_end_in_a_wildcard() {
    let of = |urls: Value| {
        rule(json!({"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": urls}]}))
    };
    let at = "spec.rules[0].nonResourceRules[0].nonResourceURLs";
    check::<FlowSchema>(of(json!(["/", "/*", "/healthz/*", "/livez"])), &[]);
    check::<FlowSchema>(
        of(json!([])),
        &[&format!("{at}: Required value: nonResourceURLs must contain at least one value")],
    );
    check::<FlowSchema>(
        of(json!(["", "a", "/a b", "/a//b", "/a*", "/*/a"])),
        &[
            &format!("{at}[0]: Invalid value: \"\": must not be empty"),
            &format!("{at}[1]: Invalid value: \"a\": must start with slash"),
            &format!("{at}[2]: Invalid value: \"/a b\": must not contain white-space"),
            &format!("{at}[3]: Invalid value: \"/a//b\": must not contain double slash"),
            &format!("{at}[4]: Invalid value: \"/a*\": wildcard can only do suffix matching"),
            &format!("{at}[5]: Invalid value: \"/*/a\": wildcard can only do suffix matching"),
        ],
    );
}

#[test]
fn a_mandatory_schema_is_what_it_is() {
    let exempt = bootstrap::mandatory_schema("exempt").unwrap();
    let manifest: Value = serde_json::from_slice(&exempt.encode()).unwrap();
    check::<FlowSchema>(manifest.clone(), &[]);
    let mut changed = manifest;
    changed["spec"]["matchingPrecedence"] = json!(2);
    let mut errors = apimachinery::FieldErrors::new();
    created::<FlowSchema>(changed).validate_create(&mut errors);
    let problem = errors.iter().map(ToString::to_string).next().unwrap_or_default();
    assert!(problem.starts_with("spec: Invalid value: {"), "{problem}");
    assert!(problem.ends_with(": spec of 'exempt' must equal the fixed value"), "{problem}");
}

#[test]
fn the_status_is_written_alone() {
    let stored = created::<FlowSchema>(schema(json!({})));
    let mut manifest = schema(json!({"matchingPrecedence": -1}));
    manifest["metadata"]["labels"] = json!({"a": "b"});
    manifest["status"] = json!({"conditions": [{"type": "Dangling"}, {"type": "Dangling"}, {}]});
    let mut written = defaulted::<FlowSchema>(manifest.clone());
    written.prepare_update(&stored, Part::Status);
    assert_eq!((&written.spec, &written.metadata.labels), (&stored.spec, &None));
    check_update(
        &stored,
        manifest,
        Part::Status,
        &[
            "status.conditions[1].type: Duplicate value: \"Dangling\"",
            "status.conditions[2].type: Required value",
        ],
    );
    let changed = created::<FlowSchema>(schema(json!({"matchingPrecedence": 5})));
    assert!(changed.is_new_generation(&stored));
}

#[test]
fn a_schema_says_whether_its_level_is_there() {
    let now = "2024-01-02T03:04:05Z".parse().unwrap();
    let fresh = created::<FlowSchema>(schema(json!({})));
    let missing = with_dangling(&fresh, false, now).unwrap();
    assert_eq!(
        crate::codec::tree(&missing.status),
        json!({"conditions": [{
            "type": "Dangling", "status": "True", "reason": "NotFound",
            "message": "This FlowSchema references the PriorityLevelConfiguration object named \"workload-low\" but there is no such object",
            "lastTransitionTime": "2024-01-02T03:04:05Z",
        }]})
    );
    assert_eq!(with_dangling(&missing, false, now), None);
    let found = with_dangling(&missing, true, now).unwrap();
    assert_eq!(super::is_dangling(&found), "False");
    assert_eq!(with_dangling(&found, true, now), None);
}

#[test]
fn whoever_writes_one_is_told_that_nothing_waits_by_it() {
    assert_eq!(
        created::<FlowSchema>(schema(json!({}))).warnings(),
        ["spec: accepted, but requests wait by levels of its own on this server"]
    );
}

#[test]
fn columns_show_the_level() {
    let mut manifest = schema(json!({"distinguisherMethod": {"type": "ByUser"}}));
    manifest["metadata"]["creationTimestamp"] = json!("2024-01-02T03:04:05Z");
    let now = "2024-01-02T03:05:05Z";
    check_row::<FlowSchema>(
        manifest.clone(),
        now,
        json!(["reports", "workload-low", 1000, "ByUser", "60s", "?"]),
    );
    manifest["status"] = json!({"conditions": [{"type": "Dangling", "status": "False"}]});
    manifest["spec"]["distinguisherMethod"] = Value::Null;
    check_row::<FlowSchema>(
        manifest,
        now,
        json!(["reports", "workload-low", 1000, "<none>", "60s", "False"]),
    );
}
