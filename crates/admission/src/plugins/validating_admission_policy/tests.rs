//! Pods that are held against a policy, and what is said of them. The texts are upstream's.

use std::sync::Arc;

use api::admissionregistration::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use api::coordination::Lease;
use api::core::Pod;
use apimachinery::{ApiError, Scope, User};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use telemetry::Registry;

use super::ValidatingAdmissionPolicy as Plugin;
use crate::attributes::Operation;
use crate::authorizer::Authorizer;
use crate::chain::{Phase, Plugin as _};
use crate::plugins::fixture::{Case, Nobody, Objects, decode, now};
use crate::policy::{Found, Parameters, Policies};

/// ConfigMaps alone.
struct Maps(Vec<Value>);

impl Parameters for Maps {
    fn scope(&self, api_version: &str, kind: &str) -> Option<Scope> {
        ((api_version, kind) == ("v1", "ConfigMap")).then_some(Scope::Namespaced)
    }

    fn find<'a>(&'a self, wanted: Found<'a>) -> BoxFuture<'a, Result<Vec<Arc<Value>>, String>> {
        let is_it = |it: &&Value| {
            let metadata = &it["metadata"];
            let labels = metadata["labels"].as_object().into_iter().flatten();
            let labels = labels.map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned()));
            wanted.namespace == metadata["namespace"].as_str()
                && match wanted.name {
                    Some(name) => metadata["name"] == name,
                    None => wanted.selector.matches(&labels.collect()),
                }
        };
        let found = self.0.iter().filter(is_it).cloned().map(Arc::new).collect();
        Box::pin(std::future::ready(Ok(found)))
    }
}

/// A policy for pods with a spec and a binding with a spec, over what is the same in all.
struct Given {
    policy: Value,
    binding: Value,
    maps: Vec<Value>,
    pod: Value,
    metrics: Registry,
}

impl Given {
    fn new(validations: Value) -> Self {
        let policy = json!({
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
                "operations": ["CREATE", "UPDATE"],
            }]},
            "validations": validations,
        });
        let binding = json!({"policyName": "p", "validationActions": ["Deny"]});
        let metadata = json!({"name": "web", "namespace": "ns", "labels": {"app": "x"}});
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "priority": 3});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        Self { policy, binding, maps: Vec::new(), pod, metrics: Registry::default() }
    }

    fn policy(mut self, field: &str, value: Value) -> Self {
        self.policy[field] = value;
        self
    }

    fn binding(mut self, field: &str, value: Value) -> Self {
        self.binding[field] = value;
        self
    }

    fn map(mut self, name: &str, max: &str) -> Self {
        let metadata = json!({"name": name, "namespace": "ns", "labels": {"use": "policy"}});
        self.maps.push(json!({"metadata": metadata, "data": {"max": max}}));
        self
    }

    fn plugin(&self) -> Plugin {
        let maps = Arc::new(Maps(self.maps.clone()));
        let policies = Arc::new(Policies::new(maps, &self.metrics));
        let mut policy = json!({"metadata": {"name": "p"}, "spec": self.policy});
        let constraints = &mut policy["spec"]["matchConstraints"];
        for selector in ["namespaceSelector", "objectSelector"] {
            if constraints[selector].is_null() {
                constraints[selector] = json!({});
            }
        }
        policies.set_validating("p", Some(&decode::<ValidatingAdmissionPolicy>(&policy)));
        let binding = json!({"metadata": {"name": "b"}, "spec": self.binding});
        let binding = decode::<ValidatingAdmissionPolicyBinding>(&binding);
        policies.set_validating_binding("b", Some(&binding));
        Plugin(policies)
    }

    fn judge(&self, authorizer: &dyn Authorizer) -> Result<(), ApiError> {
        let plugin = self.plugin();
        let user = User::new("jane", &["devs"]);
        let namespace = json!({
            "metadata": {"name": "ns", "labels": {"env": "prod"}, "managedFields": []},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        let objects = Objects::default().with("namespaces", &namespace);
        let pod: Pod = decode(&self.pod);
        let case = Case::of(Operation::Create, "/pods/", &user);
        case.with((&objects, authorizer), (Some(&pod), None), |context| {
            if !plugin.handles(Phase::Validate, &context.request) {
                return Ok(());
            }
            now(plugin.validate(context)).map(|_| ())
        })
    }

    /// Of the lease of the scheduler: the text of the refusal without its beginning; empty if there
    /// is none.
    fn judge_lease(&self, user: &str) -> String {
        let (plugin, user) = (self.plugin(), User::new(user, &[]));
        let namespace = json!({"metadata": {"name": "kube-system"}});
        let objects = Objects::default().with("namespaces", &namespace);
        let lease: Lease =
            decode(&json!({"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}}));
        let case = Case {
            namespace: "kube-system",
            name: "kube-scheduler",
            ..Case::of(Operation::Update, "coordination.k8s.io/leases/", &user)
        };
        let said = case.with((&objects, &Nobody), (Some(&lease), Some(&lease)), |context| {
            assert!(plugin.handles(Phase::Validate, &context.request));
            now(plugin.validate(context)).map(drop)
        });
        let said = said.err().map(|it| it.message().to_owned()).unwrap_or_default();
        let start = "leases.coordination.k8s.io \"kube-scheduler\" is forbidden: ";
        said.strip_prefix(start).unwrap_or(&said).to_owned()
    }

    /// The text of the refusal without its beginning; empty if there is none.
    fn check(&self, expected: &str) {
        let said = self.judge(&Nobody).err().map(|it| it.message().to_owned());
        let said = said.unwrap_or_default();
        let start = "pods \"web\" is forbidden: ";
        assert_eq!(said.strip_prefix(start).unwrap_or(&said), expected);
    }
}

const DENIED: &str = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";

fn denied(why: &str) -> String {
    format!("{DENIED}{why}")
}

fn one(expression: &str) -> Given {
    Given::new(json!([{"expression": expression}]))
}

#[test]
fn what_meets_the_expressions_passes() {
    for expression in [
        "object.spec.priority == 3",
        "oldObject == null",
        "request.operation == 'CREATE' && request.resource.resource == 'pods'",
        "request.kind.kind == 'Pod' && request.requestKind.version == 'v1'",
        "request.userInfo.username == 'jane' && 'devs' in request.userInfo.groups",
        "request.name == 'web' && request.namespace == 'ns' && !request.dryRun",
        "!has(request.subResource)",
        "namespaceObject.metadata.labels.env == 'prod' && namespaceObject.status.phase == 'Active'",
        "!has(dyn(namespaceObject.metadata).managedFields)",
        "!authorizer.requestResource.check('get').allowed()",
    ] {
        one(expression).check("");
    }
}

#[test]
fn the_message_is_made_or_written_or_the_expression() {
    one("object.spec.priority > 5").check(&denied("failed expression: object.spec.priority > 5"));
    let expression = "object.spec.priority > 5";
    let rows = [
        (json!({"message": " too low "}), "too low"),
        (json!({"messageExpression": "'is ' + string(object.spec.priority)"}), "is 3"),
        (json!({"message": "m", "messageExpression": "'a\\nb'"}), "m"),
        (json!({"message": "m", "messageExpression": "object.spec.nothing"}), "m"),
        (json!({"message": "m", "messageExpression": "'  '"}), "m"),
    ];
    for (more, expected) in rows {
        let mut validation = more;
        validation["expression"] = expression.into();
        Given::new(json!([validation])).check(&denied(expected));
    }
}

#[test]
fn the_reason_decides_the_code() {
    for (reason, code) in [
        (json!(null), 422),
        (json!("Invalid"), 422),
        (json!("Forbidden"), 403),
        (json!("Unauthorized"), 401),
        (json!("RequestEntityTooLarge"), 413),
    ] {
        let given = Given::new(json!([{"expression": "false", "reason": reason}]));
        let err = given.judge(&Nobody).unwrap_err();
        assert_eq!(err.code(), code);
        let status = err.to_status();
        assert_eq!(status.reason.as_deref(), Some(reason.as_str().unwrap_or("Invalid")));
        let causes = status.details.unwrap().causes.unwrap();
        assert_eq!(causes[0].message.as_deref(), Some(&*denied("failed expression: false")));
    }
}

#[test]
fn errors_follow_the_failure_policy() {
    let given = one("object.spec.nothing == 1");
    given.check(&denied(
        "expression 'object.spec.nothing == 1' resulted in error: no such key: nothing",
    ));
    one("object.spec.nothing == 1").policy("failurePolicy", json!("Ignore")).check("");
    // What is plainly not met is refused all the same.
    one("false")
        .policy("failurePolicy", json!("Ignore"))
        .check(&denied("failed expression: false"));
}

/// A policy for everything that nobody can evaluate does not end the cluster; one that says no does.
#[test]
fn what_the_cluster_lives_on_is_spared_what_cannot_be_evaluated() {
    let everything = json!({"resourceRules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"],
    }]});
    let of = |expressions: &[&str]| {
        let all: Vec<Value> = expressions.iter().map(|it| json!({"expression": it})).collect();
        Given::new(json!(all)).policy("matchConstraints", everything.clone())
    };
    let broken = "object.nothing == 1";
    let condition = json!([{"name": "c", "expression": broken}]);
    let note = |value: &str| json!([{"key": "k", "valueExpression": value}]);
    let dear = "lists.range(300).all(x, lists.range(300).all(y, x + y >= 0)) ? 'a' : 'b'";
    let notes: Vec<Value> =
        (0..40).map(|it| json!({"key": format!("k{it}"), "valueExpression": dear})).collect();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let absent = json!({"name": "absent", "parameterNotFoundAction": "Deny"});
    for (what, given) in [
        ("an expression", of(&[broken])),
        ("what does not compile", of(&["nothing"])),
        ("a condition", of(&["false"]).policy("matchConditions", condition)),
        ("a kind", of(&["false"]).policy("paramKind", json!({"apiVersion": "g/v1", "kind": "K"}))),
        ("a parameter", of(&["false"]).policy("paramKind", map).binding("paramRef", absent)),
        ("an annotation", of(&["true"]).policy("auditAnnotations", note("object.nothing"))),
        ("no text", of(&["true"]).policy("auditAnnotations", note("object.metadata"))),
        ("the budget", of(&["true"]).policy("auditAnnotations", json!(notes))),
    ] {
        assert_ne!(given.judge_lease("alice"), "", "{what}");
        assert_eq!(given.judge_lease("system:kube-scheduler"), "", "{what}");
    }
    for given in [
        of(&["false"]),
        of(&[broken, "false"]),
        of(&["false"]).policy("auditAnnotations", note("object.nothing")),
        of(&["false"]).policy("auditAnnotations", json!(notes)),
    ] {
        let said = given.judge_lease("system:kube-scheduler");
        assert_eq!(said, denied("failed expression: false"));
    }
}

#[test]
fn variables_are_evaluated_when_they_are_asked_for() {
    let variables = json!([
        {"name": "priority", "expression": "object.spec.priority"},
        {"name": "twice", "expression": "int(variables.priority) * 2"},
        {"name": "broken", "expression": "object.spec.nothing"},
    ]);
    one("variables.twice == 6").policy("variables", variables.clone()).check("");
    one("variables.broken == 1").policy("variables", variables).check(&denied(
        "expression 'variables.broken == 1' resulted in error: composited variable \"broken\" \
         fails to evaluate: no such key: nothing",
    ));
}

#[test]
fn conditions_narrow_down() {
    let conditions = |all: &[&str]| {
        let all = all.iter().enumerate();
        json!(
            all.map(|(n, it)| json!({"name": format!("c{n}"), "expression": it}))
                .collect::<Vec<_>>()
        )
    };
    let given = |all: &[&str]| one("false").policy("matchConditions", conditions(all));
    given(&["object.metadata.name == 'web'"]).check(&denied("failed expression: false"));
    given(&["true", "object.metadata.name == 'other'"]).check("");
    // A false one decides over one that cannot be evaluated.
    given(&["object.nothing == 1", "false"]).check("");
    given(&["object.nothing == 1"])
        .check(&denied("expression 'object.nothing == 1' resulted in error: no such key: nothing"));
    given(&["object.nothing == 1"]).policy("failurePolicy", json!("Ignore")).check("");
}

#[test]
fn rules_and_selectors_narrow_down() {
    let rule = |field: &str, value: Value| {
        let mut rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["*"],
        });
        rule[field] = value;
        rule
    };
    let refused = denied("failed expression: false");
    let rows = [
        (json!({"resourceRules": [rule("resources", json!(["*"]))]}), true),
        (json!({"resourceRules": [rule("resources", json!(["services"]))]}), false),
        (json!({"resourceRules": [rule("resources", json!(["pods/status"]))]}), false),
        (json!({"resourceRules": [rule("operations", json!(["DELETE"]))]}), false),
        (json!({"resourceRules": [rule("apiGroups", json!(["apps"]))]}), false),
        (json!({"resourceRules": [rule("resourceNames", json!(["web"]))]}), true),
        (json!({"resourceRules": [rule("resourceNames", json!(["other"]))]}), false),
        (json!({"resourceRules": [rule("scope", json!("Cluster"))]}), false),
        (
            json!({
                "resourceRules": [rule("operations", json!(["*"]))],
                "excludeResourceRules": [rule("resourceNames", json!(["web"]))],
            }),
            false,
        ),
        (
            json!({
                "resourceRules": [rule("operations", json!(["*"]))],
                "namespaceSelector": {"matchLabels": {"env": "prod"}},
                "objectSelector": {"matchLabels": {"app": "x"}},
            }),
            true,
        ),
        (
            json!({
                "resourceRules": [rule("operations", json!(["*"]))],
                "namespaceSelector": {"matchLabels": {"env": "test"}},
            }),
            false,
        ),
        (
            json!({
                "resourceRules": [rule("operations", json!(["*"]))],
                "objectSelector": {"matchLabels": {"app": "y"}},
            }),
            false,
        ),
    ];
    for (constraints, is_refused) in rows {
        let given = one("false").policy("matchConstraints", constraints.clone());
        let said = given.judge(&Nobody).is_err();
        assert_eq!(said, is_refused, "{constraints}");
        if is_refused {
            given.check(&refused);
        }
    }
}

#[test]
fn every_parameter_counts() {
    let kind = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let given = || {
        one("object.spec.priority <= int(params.data.max)")
            .policy("paramKind", kind.clone())
            .map("low", "2")
            .map("high", "5")
    };
    let by_name =
        |name: &str, action: &str| json!({"name": name, "parameterNotFoundAction": action});
    let refused = denied("failed expression: object.spec.priority <= int(params.data.max)");
    given().binding("paramRef", by_name("high", "Deny")).check("");
    given().binding("paramRef", by_name("low", "Deny")).check(&refused);
    given().binding("paramRef", by_name("none", "Allow")).check("");
    given().binding("paramRef", by_name("none", "Deny")).check(&denied(
        "failed to configure binding: no params found for policy binding with `Deny` \
         parameterNotFoundAction",
    ));
    let selector = json!({"selector": {"matchLabels": {"use": "policy"}}});
    given().binding("paramRef", selector).check(&refused);
    let unknown = json!({"apiVersion": "g/v1", "kind": "Nothing"});
    given().policy("paramKind", unknown).binding("paramRef", by_name("low", "Deny")).check(
        "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find \
         resource referenced by paramKind: 'g/v1, Kind=Nothing'",
    );
}

#[test]
fn the_budget_ends_what_is_too_dear() {
    let dear = "lists.range(1000).all(x, lists.range(1000).all(y, x + y >= 0))";
    let given = one(dear);
    given.check(&denied(&format!(
        "expression '{dear}' resulted in error: operation cancelled: actual cost limit exceeded"
    )));
    // Each is allowed, all together are not.
    let cheap = "lists.range(300).all(x, lists.range(300).all(y, x + y >= 0))";
    let many: Vec<Value> = (0..40).map(|_| json!({"expression": cheap})).collect();
    Given::new(json!(many)).check(&denied(
        "validation failed due to running out of cost budget, no further validation rules will be \
         run",
    ));
}

#[test]
fn checks_that_are_not_met_are_counted_by_what_follows() {
    let check = |given: Given, expected: &[(&str, &str)]| {
        let _ = given.judge(&Nobody);
        let page = given.metrics.render();
        let name = "apiserver_validating_admission_policy_check_total";
        let found: Vec<&str> =
            page.lines().filter(|it| it.starts_with(name) && !it.starts_with('#')).collect();
        let line = |(action, error): &(&str, &str)| {
            let labels = format!(
                "enforcement_action={action:?},error_type={error:?},policy=\"p\",policy_binding=\"b\""
            );
            format!("{name}{{{labels}}} 1")
        };
        assert_eq!(found, expected.iter().map(line).collect::<Vec<_>>());
        let timed = "apiserver_validating_admission_policy_check_duration_seconds_count";
        assert_eq!(page.lines().filter(|it| it.starts_with(timed)).count(), expected.len());
    };
    check(one("true"), &[]);
    check(one("false"), &[("deny", "invalid_error")]);
    let both = one("false").binding("validationActions", json!(["Warn", "Audit"]));
    check(both, &[("audit", "invalid_error"), ("warn", "invalid_error")]);
    check(one("object.nothing == 1"), &[("deny", "invalid_error")]);
    let ignored = one("object.nothing == 1").policy("failurePolicy", json!("Ignore"));
    check(ignored, &[("allow", "invalid_error")]);
    check(one("nothing"), &[("deny", "compile_error")]);
    let cheap = "lists.range(300).all(x, lists.range(300).all(y, x + y >= 0))";
    let many: Vec<Value> = (0..40).map(|_| json!({"expression": cheap})).collect();
    check(Given::new(json!(many)), &[("deny", "out_of_budget")]);
}
