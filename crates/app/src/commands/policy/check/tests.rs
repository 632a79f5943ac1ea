//! What is read of files and messages, and how findings are shown.

use super::super::super::manifest::parse;
use super::findings::{Findings, Verdict, Write};
use super::history::{named_in, time_of};
use super::plan::Plan;
use super::render;

fn refused(text: &str) -> String {
    let outcome = Plan::of(&parse(text).expect("YAML"));
    format!("{:#}", outcome.err().expect("refused"))
}

const POLICY: &str = "\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]
  validations: [{expression: 'true'}]
";

#[test]
fn a_policy_without_binding_is_bound_to_everything() {
    let Ok(Plan::Policies(policies)) = Plan::of(&parse(POLICY).unwrap()) else {
        panic!("a policy");
    };
    assert_eq!(policies.validating_bindings.len(), 1);
    assert_eq!(policies.validating_bindings[0].spec.policy_name, "p");
    assert!(policies.notes[0].contains("no binding in the file"), "{:?}", policies.notes);
}

#[test]
fn a_binding_that_warns_is_judged_as_if_it_refused() {
    let binding = "---\napiVersion: admissionregistration.k8s.io/v1\n\
                   kind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\n\
                   spec: {policyName: p, validationActions: [Warn]}\n";
    let Ok(Plan::Policies(policies)) = Plan::of(&parse(&format!("{POLICY}{binding}")).unwrap())
    else {
        panic!("a policy");
    };
    assert_eq!(policies.validating_bindings[0].spec.validation_actions, ["Deny"]);
    assert!(policies.notes[0].contains("validationActions [Warn]"), "{:?}", policies.notes);
}

#[test]
fn what_is_wrong_with_a_file_is_told_with_line_and_field() {
    let said = refused(&POLICY.replace("'true'", "'object.'"));
    assert!(said.contains("line 1") && said.contains("spec.validations[0].expression"), "{said}");
    let said = refused(&POLICY.replace("expression:", "expresion:"));
    assert!(said.contains("expresion") || said.contains("expression"), "{said}");
    let said = refused("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n");
    assert!(said.contains("the file has no ValidatingAdmissionPolicy"), "{said}");
    let takes =
        POLICY.replace("spec:\n", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}\n");
    assert!(refused(&takes).contains("takes parameters"), "{}", refused(&takes));
}

#[test]
fn levels_of_pod_security_have_versions() {
    for (text, is_ok) in [
        ("restricted", true),
        ("baseline:v1.30", true),
        ("baseline:latest", true),
        ("strict", false),
        ("baseline:1.30", false),
    ] {
        assert_eq!(Plan::of_pod_security(text).is_ok(), is_ok, "{text}");
    }
}

#[test]
fn a_server_names_the_oldest_revision_that_it_knows() {
    assert_eq!(named_in("too old resource version: 1 (734)"), Some(734));
    assert_eq!(named_in("The resourceVersion for the provided watch is too old."), None);
}

#[test]
fn the_time_of_a_write_is_the_newest_that_an_object_has() {
    let object = r#"{"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [
        {"time": "2026-01-03T00:00:00Z"}, {"time": "2026-01-02T00:00:00Z"}]}}"#;
    assert_eq!(time_of(object.as_bytes()).unwrap().to_string(), "2026-01-03T00:00:00Z");
    assert_eq!(time_of(b"{}"), None);
}

#[test]
fn findings_are_a_table_with_totals_and_notes() {
    let mut findings = Findings::new(2);
    let no = |message: &str| Verdict {
        rule: "p: validations[0]".to_owned(),
        message: message.to_owned(),
        is_refused: true,
    };
    findings.add(("Pod", "default", "web"), None, vec![no("not so")]);
    findings.add(("Pod", "default", "fine"), None, Vec::new());
    let write = Write {
        operation: "CREATE",
        resource_version: "7".to_owned(),
        time: Some("2026-01-01T00:00:00Z".to_owned()),
    };
    findings.add(("Node", "", "a"), Some(&write), vec![no("nor so"), no("nor thus")]);
    findings.note("said once");
    findings.note("said once");
    assert_eq!(
        render::text(&findings),
        "\
NAMESPACE   KIND/NAME   WHEN                              RULE                MESSAGE
default     pod/web     now                               p: validations[0]   not so
-           node/a      CREATE 2026-01-01T00:00:00Z (7)   p: validations[0]   nor so

and 1 more (see --limit)
1 of 2 objects would be refused
1 of 1 writes would have been refused
note: said once"
    );
    assert_eq!(findings.n_refused(), 2);
}
