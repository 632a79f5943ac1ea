//! Admission policies at work, over HTTPS: what they refuse, warn of and change, from the moment they
//! are stored, and with which texts.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::harness::wire::{ADMIN, Connection, Site};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct Setting {
    _site: Site,
    connection: Connection,
}

impl Setting {
    async fn start() -> Self {
        let site = Site::start_over(Arc::new(kvstore::memory::Memory::new())).await;
        let connection = site.connect(ADMIN).await;
        Self { _site: site, connection }
    }

    async fn create(&mut self, path: &str, body: &Value) -> Value {
        let (code, answer) = self.connection.call("POST", path, body).await;
        assert_eq!(code, 201, "{path}: {answer}");
        answer
    }

    /// A policy for config maps with these fields, and a binding of the same name.
    async fn validate(&mut self, name: &str, spec: Value, binding: Value) {
        let mut policy = json!({"metadata": {"name": name}, "spec": spec});
        if policy["spec"]["matchConstraints"].is_null() {
            policy["spec"]["matchConstraints"] = maps("v1");
        }
        self.create(&format!("{POLICIES}/validatingadmissionpolicies"), &policy).await;
        let mut spec = json!({"policyName": name, "validationActions": ["Deny"]});
        for (field, value) in binding.as_object().into_iter().flatten() {
            spec[field] = value.clone();
        }
        let binding = json!({"metadata": {"name": name}, "spec": spec});
        self.create(&format!("{POLICIES}/validatingadmissionpolicybindings"), &binding).await;
    }

    async fn mutate(&mut self, name: &str, mutations: Value) {
        let policy = json!({"metadata": {"name": name}, "spec": {
            "matchConstraints": maps("v1"), "mutations": mutations,
            "reinvocationPolicy": "IfNeeded", "failurePolicy": "Fail",
        }});
        self.create(&format!("{POLICIES}/mutatingadmissionpolicies"), &policy).await;
        let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name}});
        self.create(&format!("{POLICIES}/mutatingadmissionpolicybindings"), &binding).await;
    }

    /// The code, the answer and the warnings of an attempt to create a config map.
    async fn attempt(&mut self, body: &Value) -> (u16, Value, Vec<String>) {
        let headers = [("content-type", "application/json")];
        let (head, answer) = self.connection.send("POST", MAPS, &headers, body).await;
        let warnings = head.headers.get_all("warning").iter();
        let warnings =
            warnings.map(|it| it.to_str().expect("an object of the test").to_owned()).collect();
        (
            head.status.as_u16(),
            serde_json::from_slice(&answer).expect("an object of the test"),
            warnings,
        )
    }
}

fn maps(version: &str) -> Value {
    json!({"resourceRules": [{
        "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": [version],
        "resources": ["configmaps"],
    }]})
}

fn map(name: &str, data: Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

#[tokio::test]
async fn a_policy_holds_from_the_moment_it_is_bound() {
    let mut on = Setting::start().await;
    on.create(MAPS, &map("before", json!({"a": "bad"}))).await;
    let validations = json!([{"expression": "object.data.a != 'bad'", "message": "no bad things"}]);
    on.validate("good", json!({"validations": validations}), json!({})).await;
    let (code, answer, _) = on.attempt(&map("after", json!({"a": "bad"}))).await;
    assert_eq!(code, 422, "{answer}");
    let message =
        "ValidatingAdmissionPolicy 'good' with binding 'good' denied request: no bad things";
    let whole = format!("configmaps \"after\" is forbidden: {message}");
    assert_eq!(answer["message"], whole);
    assert_eq!(answer["reason"], "Invalid");
    assert_eq!(
        answer["details"],
        json!({"name": "after", "kind": "configmaps", "causes": [{"message": message}]})
    );
    let (code, answer, _) = on.attempt(&map("after", json!({"a": "fine"}))).await;
    assert_eq!(code, 201, "{answer}");
    // What was there before may not be changed to what is not allowed, nor stay so.
    let (code, answer) =
        on.connection.call("PATCH", &format!("{MAPS}/before"), &json!({"data": {"b": "c"}})).await;
    assert_eq!(code, 422, "{answer}");
    let path = format!("{POLICIES}/validatingadmissionpolicybindings/good");
    on.connection.call("DELETE", &path, &Value::Null).await;
    let (code, answer, _) = on.attempt(&map("free", json!({"a": "bad"}))).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test]
async fn a_warning_lets_pass_and_missing_keys_are_errors() {
    let mut on = Setting::start().await;
    let validations = json!([{"expression": "object.data.a == 'x'",
        "messageExpression": "'a is ' + object.data.a + ', not ' + params.data.want"}]);
    on.create(MAPS, &map("wanted", json!({"a": "x", "want": "x"}))).await;
    let spec = json!({
        "validations": validations,
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "named", "expression": "object.metadata.name != 'skip'"}],
    });
    let param_ref = json!({"name": "wanted", "parameterNotFoundAction": "Deny"});
    let binding = json!({"validationActions": ["Warn", "Audit"], "paramRef": param_ref});
    on.validate("w", spec, binding).await;
    let (code, _, warnings) = on.attempt(&map("one", json!({"a": "y"}))).await;
    assert_eq!(code, 201);
    let said = "299 - \"Validation failed for ValidatingAdmissionPolicy 'w' with binding 'w': \
                a is y, not x\"";
    assert_eq!(warnings, [said]);
    let (code, _, warnings) = on.attempt(&map("skip", json!({"a": "y"}))).await;
    assert_eq!((code, warnings.len()), (201, 0));
    let (code, _, warnings) = on.attempt(&map("two", json!({}))).await;
    assert_eq!(code, 201);
    assert!(warnings[0].contains("no such key: data"), "{warnings:?}");
}

#[tokio::test]
async fn what_does_not_compile_is_not_stored() {
    let mut on = Setting::start().await;
    let spec = json!({
        "matchConstraints": maps("v1"),
        "matchConditions": [{"name": "c", "expression": "1"}],
        "variables": [{"name": "v", "expression": "object.a +"}],
        "validations": [
            {"expression": "request.nothing == 1"},
            {"expression": "true", "messageExpression": "authorizer.path('/').check('get').reason()"},
        ],
        "auditAnnotations": [{"key": "k", "valueExpression": "1"}],
    });
    let policy = json!({"metadata": {"name": "p"}, "spec": spec});
    let path = format!("{POLICIES}/validatingadmissionpolicies");
    let (code, answer) = on.connection.call("POST", &path, &policy).await;
    assert_eq!(code, 422, "{answer}");
    let causes = answer["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes.iter().map(|it| it["field"].as_str().unwrap()).collect();
    assert_eq!(
        fields,
        [
            "spec.matchConditions[0].expression",
            "spec.variables[0].expression",
            "spec.validations[0].expression",
            "spec.validations[1].messageExpression",
            "spec.auditAnnotations[0].valueExpression",
        ]
    );
    let said = |index: usize| causes[index]["message"].as_str().unwrap();
    assert_eq!(said(0), "Invalid value: \"1\": must evaluate to bool but got int");
    assert_eq!(
        said(2),
        "Invalid value: \"request.nothing == 1\": compilation failed: ERROR: <input>:1:8: \
         undefined field 'nothing'\n | request.nothing == 1\n | .......^"
    );
}

#[tokio::test]
async fn policies_change_objects_in_order_and_again_if_they_ask_for_it() {
    let mut on = Setting::start().await;
    let apply = |expression: &str| {
        json!([{"patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": expression}}])
    };
    // The first runs again, since the second changes what it looks at.
    on.mutate("a", apply("Object{data: {'seen': has(object.data.later) ? 'yes' : 'no'}}")).await;
    on.mutate("b", apply("Object{data: {'later': 'x'}}")).await;
    let made = on.create(MAPS, &map("one", json!({"own": "y"}))).await;
    assert_eq!(made["data"], json!({"own": "y", "later": "x", "seen": "yes"}));
    let patch = "[JSONPatch{op: 'remove', path: '/data/nothing'}]";
    let patch = json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}]);
    on.mutate("c", patch).await;
    let (code, answer, _) = on.attempt(&map("two", json!({"own": "y"}))).await;
    assert_eq!(code, 403, "{answer}");
    assert_eq!(answer["reason"], "Invalid");
    let said = answer["message"].as_str().unwrap();
    assert!(said.starts_with("policy 'c' with binding 'c' denied request: JSON Patch: "), "{said}");
}

#[tokio::test]
async fn equivalent_versions_are_seen_in_the_one_that_is_asked_for() {
    let mut on = Setting::start().await;
    let constraints = json!({"resourceRules": [{
        "operations": ["*"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"],
        "resources": ["horizontalpodautoscalers"],
    }]});
    let expression = "request.kind.version == 'v1' && request.requestKind.version == 'v2' && \
                      object.spec.targetCPUUtilizationPercentage < 50";
    let spec = json!({
        "matchConstraints": constraints, "validations": [{"expression": expression}],
    });
    on.validate("v", spec, json!({})).await;
    let scaler = |name: &str, percent: i32| {
        json!({"metadata": {"name": name}, "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent},
            }}],
        }})
    };
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    on.create(path, &scaler("low", 40)).await;
    let (code, answer) = on.connection.call("POST", path, &scaler("high", 60)).await;
    assert_eq!(code, 422, "{answer}");
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

impl Setting {
    /// A kind of its own, `Bound`, with a number.
    async fn define_bounds(&mut self, scope: &str) {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "properties": {"max": {"type": "integer"}},
        }}});
        let definition = json!({"metadata": {"name": "bounds.example.com"}, "spec": {
            "group": "example.com", "scope": scope, "names": {"plural": "bounds", "kind": "Bound"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                          "schema": {"openAPIV3Schema": schema}}],
        }});
        self.create(DEFINITIONS, &definition).await;
        for _ in 0..10_000 {
            if self.connection.call("GET", bounds(scope), &Value::Null).await.0 == 200 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        panic!("the definition is not served");
    }

    async fn undefine_bounds(&mut self) {
        let path = format!("{DEFINITIONS}/bounds.example.com");
        self.connection.call("DELETE", &path, &Value::Null).await;
        for _ in 0..10_000 {
            if self.connection.call("GET", &path, &Value::Null).await.0 == 404 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        panic!("the definition does not go");
    }

    /// The code and the message of an attempt to create a config map with this number.
    async fn try_number(&mut self, number: i32) -> (u16, String) {
        let map = json!({"metadata": {"generateName": "n-"}, "data": {"n": number.to_string()}});
        let (code, answer, _) = self.attempt(&map).await;
        (code, answer["message"].as_str().unwrap_or_default().to_owned())
    }

    async fn refuses(&mut self, number: i32, why: &str) {
        let (code, message) = self.try_number(number).await;
        assert!(code >= 400 && message.contains(why), "{number}: {code} {message}");
    }

    async fn takes(&mut self, number: i32) {
        let (code, message) = self.try_number(number).await;
        assert_eq!(code, 201, "{number}: {message}");
    }

    /// A merge patch of a part of the policy: `policies` or `policybindings`.
    async fn change(&mut self, what: &str, spec: Value) {
        let path = format!("{POLICIES}/validatingadmission{what}/bound");
        let (code, answer) = self.connection.call("PATCH", &path, &json!({"spec": spec})).await;
        assert_eq!(code, 200, "{answer}");
    }
}

fn bounds(scope: &str) -> &'static str {
    match scope {
        "Cluster" => "/apis/example.com/v1/bounds",
        _ => "/apis/example.com/v1/namespaces/default/bounds",
    }
}

/// Of both scopes; the objects change, go and come, and so does their definition.
#[tokio::test]
async fn custom_resources_are_parameters_for_as_long_as_they_are_there() {
    for scope in ["Namespaced", "Cluster"] {
        let mut on = Setting::start().await;
        on.define_bounds(scope).await;
        let bound = |max: i32| json!({"metadata": {"name": "b"}, "spec": {"max": max}});
        on.create(bounds(scope), &bound(5)).await;
        let spec = json!({
            "paramKind": {"apiVersion": "example.com/v1", "kind": "Bound"},
            "validations": [{"expression": "int(object.data.n) <= params.spec.max",
                             "messageExpression": "'at most ' + string(params.spec.max)"}],
        });
        let reference = json!({"name": "b", "parameterNotFoundAction": "Deny"});
        on.validate("bound", spec, json!({"paramRef": reference})).await;
        on.takes(5).await;
        on.refuses(6, "denied request: at most 5").await;
        let one = format!("{}/b", bounds(scope));
        let (code, _) = on.connection.call("PATCH", &one, &json!({"spec": {"max": 7}})).await;
        assert_eq!(code, 200);
        on.takes(6).await;
        on.refuses(8, "at most 7").await;

        on.connection.call("DELETE", &one, &Value::Null).await;
        let none = "no params found for policy binding with `Deny` parameterNotFoundAction";
        on.refuses(1, none).await;
        on.change("policies", json!({"failurePolicy": "Ignore"})).await;
        on.takes(1).await;
        on.change("policies", json!({"failurePolicy": "Fail"})).await;
        on.change("policybindings", json!({"paramRef": {"parameterNotFoundAction": "Allow"}}))
            .await;
        on.takes(9).await;
        // All that a selector finds are asked.
        let selector = json!({"name": null, "selector": {"matchLabels": {"own": "yes"}}});
        on.change("policybindings", json!({"paramRef": selector})).await;
        for (name, max) in [("c", 3), ("d", 4)] {
            let metadata = json!({"name": name, "labels": {"own": "yes"}});
            on.create(bounds(scope), &json!({"metadata": metadata, "spec": {"max": max}})).await;
        }
        on.takes(3).await;
        on.refuses(4, "at most 3").await;

        on.undefine_bounds().await;
        let unknown =
            "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Bound'";
        on.refuses(1, unknown).await;
        on.change("policies", json!({"failurePolicy": "Ignore"})).await;
        on.takes(100).await;
        on.change("policies", json!({"failurePolicy": "Fail"})).await;
        on.define_bounds(scope).await;
        // None of them is there any more, and that is allowed.
        on.takes(100).await;
        let metadata = json!({"name": "e", "labels": {"own": "yes"}});
        on.create(bounds(scope), &json!({"metadata": metadata, "spec": {"max": 2}})).await;
        on.refuses(3, "at most 2").await;
    }
}

/// As everybody else sees them: with what their definition fills in, also if that came later.
#[tokio::test]
async fn parameters_have_the_defaults_of_their_definition() {
    let mut on = Setting::start().await;
    on.define_bounds("Namespaced").await;
    on.create(bounds(""), &json!({"metadata": {"name": "b"}, "spec": {}})).await;
    let spec = json!({
        "paramKind": {"apiVersion": "example.com/v1", "kind": "Bound"},
        "validations": [{"expression": "int(object.data.n) <= params.spec.max"}],
    });
    let reference = json!({"name": "b", "parameterNotFoundAction": "Deny"});
    on.validate("bound", spec, json!({"paramRef": reference})).await;
    on.refuses(1, "no such key: max").await;
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/max/default";
    let patch = json!([{"op": "add", "path": path, "value": 5}]);
    let headers = [("content-type", "application/json-patch+json")];
    let definition = format!("{DEFINITIONS}/bounds.example.com");
    let (head, _) = on.connection.send("PATCH", &definition, &headers, &patch).await;
    assert_eq!(head.status, 200);
    on.takes(5).await;
    on.refuses(6, "failed expression").await;
}
