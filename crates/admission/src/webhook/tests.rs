//! Rules, answers and texts. What is asked over the wire is tested with the API server.

use apimachinery::{Names, User};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use serde_json::{Value, json};

use super::review::{self, Version};
use super::rules::{Asked, Rule};
use super::{matching, messages, vital};
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Nobody, Objects};

/// `operations groups versions resources scope`, each with commas.
fn rule(text: &str) -> Rule {
    let mut parts = text.split(' ');
    let mut list = || -> Option<Vec<String>> {
        Some(parts.next()?.split(',').map(|it| it.trim_matches('-').to_owned()).collect())
    };
    let rule = RuleWithOperations {
        operations: list(),
        api_groups: list(),
        api_versions: list(),
        resources: list(),
        scope: list().map(|it| it.join("")),
    };
    Rule::new(&rule)
}

/// `operation group/version/resource[/sub] namespace`
fn check(rule_text: &str, asked: &str, expected: bool) {
    let mut parts = asked.split(' ');
    let operation = match parts.next().unwrap() {
        "CREATE" => Operation::Create,
        "UPDATE" => Operation::Update,
        "DELETE" => Operation::Delete,
        _ => Operation::Connect,
    };
    let mut place = parts.next().unwrap().splitn(4, '/');
    let mut next = || place.next().unwrap_or_default();
    let names = Names {
        group: next().to_owned(),
        version: next().to_owned(),
        plural: next().to_owned(),
        ..Names::default()
    };
    let asked =
        Asked { operation, subresource: next(), namespace: parts.next().unwrap_or_default() };
    assert_eq!(rule(rule_text).matches(&asked, &names), expected, "{rule_text}");
}

#[test]
fn a_rule_is_for_operations_on_resources_in_a_scope() {
    let pods = "CREATE,UPDATE - v1 pods,pods/status *";
    check(pods, "CREATE /v1/pods ns", true);
    check(pods, "UPDATE /v1/pods/status ns", true);
    check(pods, "CREATE /v1/pods/exec ns", false);
    check(pods, "DELETE /v1/pods ns", false);
    check(pods, "CREATE /v2/pods ns", false);
    check(pods, "CREATE apps/v1/pods ns", false);
    check("* * * * *", "CREATE apps/v1/deployments ns", true);
    // A star is all resources, and no subresource.
    check("* * * * *", "UPDATE apps/v1/deployments/scale ns", false);
    check("* * * */* *", "UPDATE apps/v1/deployments/scale ns", true);
    check("* * * */* *", "CREATE apps/v1/deployments ns", true);
    check("* * * */scale *", "UPDATE apps/v1/deployments/scale ns", true);
    check("* * * */scale *", "CREATE apps/v1/deployments ns", false);
    check("* * * pods/* *", "CONNECT /v1/pods/exec ns", true);
    check("* * * pods/* *", "CREATE /v1/pods ns", true);
}

#[test]
fn a_namespace_is_in_no_namespace() {
    for (scope, in_namespace) in [("Namespaced", true), ("Cluster", false)] {
        let all = format!("* * * * {scope}");
        check(&all, "CREATE /v1/pods ns", in_namespace);
        check(&all, "CREATE /v1/nodes ", !in_namespace);
        check(&all, "UPDATE /v1/namespaces ns", !in_namespace);
    }
}

#[test]
fn the_configurations_themselves_are_nobodys_business() {
    let user = User::new("alice", &[]);
    let is_exempt = |resource: &str| {
        let case = Case::of(Operation::Update, resource, &user);
        let objects = Objects::default();
        case.with((&objects, &Nobody), (None, None), |it| matching::is_exempt(&it.request))
    };
    let group = "admissionregistration.k8s.io";
    for resource in [
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "validatingwebhookconfigurations",
    ] {
        assert!(is_exempt(&format!("{group}/{resource}")), "{resource}");
    }
    assert!(!is_exempt("/configmaps"));
}

#[test]
fn what_lives_goes_on() {
    let check =
        |user: (&str, &[&str]), resource: &str, (namespace, name): (&str, &str), expected| {
            let user = User::new(user.0, user.1);
            let case = Case { namespace, name, ..Case::of(Operation::Update, resource, &user) };
            let objects = Objects::default();
            let found =
                case.with((&objects, &Nobody), (None, None), |it| vital::is_vital(&it.request));
            assert_eq!(found, expected, "{resource} {namespace}/{name} by {}", user.name);
        };
    let leases = "coordination.k8s.io/leases";
    let node: (&str, &[&str]) = ("system:node:n1", &["system:nodes"]);
    let manager: (&str, &[&str]) = ("system:kube-controller-manager", &[]);
    check(node, leases, ("kube-node-lease", "n1"), true);
    check(("system:node:n1", &[]), leases, ("kube-node-lease", "n1"), false);
    check(node, leases, ("kube-system", "n1"), false);
    check(manager, leases, ("kube-system", "kube-controller-manager"), true);
    check(manager, leases, ("default", "kube-controller-manager"), false);
    check(("alice", &["system:masters"]), leases, ("kube-system", "x"), false);
    check(node, "/nodes/status", ("", "n1"), true);
    check(node, "/nodes/status", ("", "n2"), false);
    check(node, "/pods/status", ("ns", "web"), false);
}

fn answer(version: Version, is_mutating: bool, response: Value) -> Result<String, String> {
    let body = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
    });
    let body = body.to_string();
    let answer = review::answer(version, ("u", is_mutating), body.as_bytes())?;
    Ok(format!("{} {}", answer.is_allowed, String::from_utf8(answer.patch).unwrap()))
}

#[test]
fn an_answer_is_to_the_question_and_whole() {
    let patch = STANDARD.encode("[]");
    for (is_mutating, response, expected) in [
        (true, json!({"uid": "u", "allowed": true}), Ok("true ")),
        (false, json!({"uid": "u"}), Ok("false ")),
        (
            true,
            json!({"uid": "u", "allowed": true, "patchType": "JSONPatch", "patch": patch}),
            Ok("true []"),
        ),
        (true, Value::Null, Err("received invalid webhook response: webhook response was absent")),
        (
            true,
            json!({"uid": "v"}),
            Err("received invalid webhook response: expected response.uid=\"u\", got \"v\""),
        ),
        (
            true,
            json!({"uid": "u", "patch": patch}),
            Err(
                "received invalid webhook response: webhook returned response.patch but not response.patchType",
            ),
        ),
        (
            true,
            json!({"uid": "u", "patchType": "JSONPatch"}),
            Err(
                "received invalid webhook response: webhook returned response.patchType but not response.patch",
            ),
        ),
        (
            true,
            json!({"uid": "u", "patchType": "", "patch": patch}),
            Err(
                "received invalid webhook response: webhook returned invalid response.patchType of \"\"",
            ),
        ),
        (
            false,
            json!({"uid": "u", "patch": patch}),
            Err(
                "received invalid webhook response: validating webhook may not return response.patch",
            ),
        ),
        (
            false,
            json!({"uid": "u", "patchType": "JSONPatch"}),
            Err(
                "received invalid webhook response: validating webhook may not return response.patchType",
            ),
        ),
    ] {
        let found = answer(Version::V1, is_mutating, response.clone());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{response}");
    }
    // Nobody was ever held to this in the old version.
    let response = json!({"uid": "v", "allowed": true, "patch": patch});
    assert_eq!(answer(Version::V1Beta1, true, response.clone()).as_deref(), Ok("true []"));
    assert_eq!(answer(Version::V1Beta1, false, response).as_deref(), Ok("true "));
    let other = json!({"kind": "Status", "apiVersion": "v1", "response": {"uid": "u"}}).to_string();
    let why = review::answer(Version::V1, ("u", true), other.as_bytes()).unwrap_err();
    let text = "received invalid webhook response: expected webhook response of \
                admission.k8s.io/v1, Kind=AdmissionReview, got /v1, Kind=Status";
    assert_eq!(why, text);
    let named =
        |it: &[&str]| Version::of(&it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
    assert_eq!(named(&["v2", "v1beta1", "v1"]), Some(Version::V1Beta1));
    assert_eq!(named(&["v2"]), None);
}

#[test]
fn a_refusal_is_one_whatever_it_says_of_itself() {
    let check = |status: Value, expected: &str| {
        let status = (!status.is_null()).then(|| serde_json::from_value(status).unwrap());
        let status = messages::denied("w", status).to_status();
        let found = format!(
            "{} {:?} {}",
            status.code.unwrap(),
            status.reason.unwrap_or_default(),
            status.message.unwrap()
        );
        assert_eq!(found, expected);
        assert_eq!(status.status.as_deref(), Some("Failure"));
    };
    let by = "admission webhook \"w\" denied the request";
    check(Value::Null, &format!("400 \"\" {by} without explanation"));
    check(json!({"message": "no"}), &format!("400 \"\" {by}: no"));
    check(
        json!({"code": 200, "status": "Success", "reason": "Odd"}),
        &format!("400 \"Odd\" {by}: Odd"),
    );
    check(
        json!({"code": 409, "reason": "Conflict", "message": "no"}),
        &format!("409 \"Conflict\" {by}: no"),
    );
    let denied = messages::denied(
        "w",
        serde_json::from_value(json!({"code": 409, "reason": "Conflict"})).ok(),
    );
    assert!(!denied.is_conflict(), "it is no race of ours");
}

#[test]
fn who_does_something_else_is_not_asked_on_a_dry_run() {
    let refused = messages::no_dry_run("w");
    assert_eq!(refused.code(), 400);
    assert_eq!(refused.message(), "admission webhook \"w\" does not support dry run");
}
