//! Reports in, text out.

use admission::observer::Report;
use apimachinery::GroupVersionResource;
use serde_json::{Value, json};

use super::ask::Target;
use super::{Outcome, render};

fn check(report: Value, expected: &str) {
    let report: Report = serde_json::from_value(report).expect("a report");
    let object = Target {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: "default".to_owned(),
        name: "web".to_owned(),
        resource: GroupVersionResource::new("", "v1", "pods"),
    };
    let outcome = Outcome { object, report: Some(report), error: None };
    assert_eq!(render::outcome(&outcome), expected.trim_end());
}

#[test]
fn what_changes_and_what_does_nothing_is_told() {
    let report = json!({
        "kind": "AdmissionReport", "apiVersion": "xebec/v1", "operation": "CREATE",
        "verdict": "Allowed",
        "steps": [
            {"plugin": "NamespaceLifecycle", "phase": "mutate", "round": 1, "micros": 3},
            {"plugin": "ServiceAccount", "phase": "mutate", "round": 1, "micros": 1_234, "changes": [
                {"path": "spec.serviceAccountName", "after": "default"},
                {"path": "spec.a", "before": 1, "after": 2},
            ]},
            {"plugin": "ServiceAccount", "phase": "validate", "round": 1, "micros": 2},
            {"plugin": "PodSecurity", "phase": "validate", "round": 1, "micros": 40,
             "warnings": ["would violate"]},
        ],
    });
    check(
        report,
        r#"
pod/web in default: CREATE would be allowed
  mutate    ServiceAccount                     1.2 ms
      + spec.serviceAccountName: "default"
      - spec.a: 1
      + spec.a: 2
  validate  PodSecurity                        0.0 ms
      warning: would violate
  without effect: NamespaceLifecycle
"#
        .trim_start(),
    );
}

#[test]
fn a_policy_that_refuses_says_which_expression_at_which_cost() {
    let refusal = json!({"code": 422, "reason": "Invalid", "message": "denied: no"});
    let report = json!({
        "kind": "AdmissionReport", "apiVersion": "xebec/v1", "operation": "UPDATE",
        "verdict": "Refused", "refusal": refusal,
        "steps": [{
            "plugin": "ValidatingAdmissionPolicy", "phase": "validate", "round": 1, "micros": 300,
            "refusal": refusal,
            "parts": [{
                "by": {"kind": "policy", "resource": "validatingadmissionpolicies", "name": "p",
                       "binding": "b"},
                "micros": 250, "cost": 15,
                "expressions": [
                    {"field": "spec.validations[0].expression", "text": "true", "cost": 1},
                    {"field": "spec.validations[1].expression", "text": "a &&\n  b", "cost": 14,
                     "message": "no"},
                ],
                "refusal": refusal,
            }],
        }],
    });
    check(report, "\
pod/web in default: UPDATE would be refused
  validate  ValidatingAdmissionPolicy          0.3 ms
      policy p, binding b: 0.2 ms, cost 15
        spec.validations[0].expression (cost 1): true
      ! spec.validations[1].expression (cost 14): a && b
          no
        refuses: 422 Invalid: denied: no
  refused: 422 Invalid: denied: no
  what helps: meet the expression that is marked, or exempt the object by the policy's matchConstraints or the binding's matchResources
");
}

#[test]
fn who_was_not_asked_is_told() {
    let report = json!({
        "kind": "AdmissionReport", "apiVersion": "xebec/v1", "operation": "DELETE",
        "verdict": "Unknown",
        "steps": [{
            "plugin": "MutatingAdmissionWebhook", "phase": "mutate", "round": 2, "micros": 0,
            "parts": [{
                "by": {"kind": "webhook", "resource": "mutatingwebhookconfigurations",
                       "configuration": "c", "name": "w"},
                "micros": 0, "note": "not asked", "isUnasked": true,
            }],
        }],
    });
    check(
        report,
        "\
pod/web in default: DELETE would be allowed by all who were asked; see who was not
  mutate    MutatingAdmissionWebhook (again)   0.0 ms
      webhook w of c: 0.0 ms
        not asked
",
    );
}

#[test]
fn what_validation_refuses_is_no_plugin() {
    let report = json!({
        "kind": "AdmissionReport", "apiVersion": "xebec/v1", "operation": "CREATE",
        "verdict": "Refused", "steps": [],
        "refusal": {"code": 422, "reason": "Invalid", "message": "spec: Required"},
    });
    check(
        report,
        "\
pod/web in default: CREATE would be refused
  refused: 422 Invalid: spec: Required
  (by the validation of the object, not by admission)
",
    );
}
