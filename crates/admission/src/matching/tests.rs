//! Rules and requests in, whether they meet out.

use apimachinery::{Names, User};
use k8s_openapi::api::admissionregistration::v1::NamedRuleWithOperations;

use super::is_configuration;
use super::rules::{Asked, Rule};
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Nobody, Objects};

/// `operations groups versions resources scope`, each with commas.
fn rule(text: &str) -> Rule {
    let mut parts = text.split(' ');
    let mut list = || -> Option<Vec<String>> {
        Some(parts.next()?.split(',').map(|it| it.trim_matches('-').to_owned()).collect())
    };
    let rule = NamedRuleWithOperations {
        operations: list(),
        api_groups: list(),
        api_versions: list(),
        resources: list(),
        scope: list().map(|it| it.join("")),
        resource_names: None,
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
    let is_namespaces = names.plural == "namespaces";
    let is_cluster_scoped = is_namespaces || parts.next().is_none_or(str::is_empty);
    let asked = Asked { operation, subresource: next(), name: "", is_cluster_scoped };
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
        case.with((&objects, &Nobody), (None, None), |it| is_configuration(&it.request))
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
