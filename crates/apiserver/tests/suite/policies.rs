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
