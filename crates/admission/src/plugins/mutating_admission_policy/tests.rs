//! What policies make of a pod.

use std::sync::Arc;

use api::admissionregistration::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
use api::coordination::Lease;
use api::core::Pod;
use apimachinery::{Scope, User};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use telemetry::Registry;

use super::MutatingAdmissionPolicy as Plugin;
use crate::attributes::Operation;
use crate::chain::Plugin as _;
use crate::plugins::fixture::{Case, Nobody, Objects, decode, encode, now};
use crate::policy::{Found, Parameters, Policies};

struct None;

impl Parameters for None {
    fn scope(&self, _api_version: &str, _kind: &str) -> Option<Scope> {
        Option::None
    }

    fn find<'a>(&'a self, _wanted: Found<'a>) -> BoxFuture<'a, Result<Vec<Arc<Value>>, String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

fn apply(expression: &str) -> Value {
    let configuration = json!({"expression": expression});
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": configuration})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

fn plugin(mutations: &[Value], failure_policy: &str, metrics: &Registry) -> Plugin {
    let spec = json!({
        "failurePolicy": failure_policy,
        "matchConstraints": {"resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
            "operations": ["CREATE"],
        }]},
        "reinvocationPolicy": "Never",
        "mutations": mutations,
    });
    plugin_of(&spec, metrics)
}

/// A policy with these fields, bound to everything.
fn plugin_of(spec: &Value, metrics: &Registry) -> Plugin {
    let policies = Arc::new(Policies::new(Arc::new(None), metrics));
    let mut policy = json!({"metadata": {"name": "p"}, "spec": spec});
    for selector in ["namespaceSelector", "objectSelector"] {
        policy["spec"]["matchConstraints"][selector] = json!({});
    }
    policies.set_mutating("p", Some(&decode::<MutatingAdmissionPolicy>(&policy)));
    let binding = json!({"metadata": {"name": "b"}, "spec": {"policyName": "p"}});
    let binding = decode::<MutatingAdmissionPolicyBinding>(&binding);
    policies.set_mutating_binding("b", Some(&binding));
    Plugin(policies)
}

/// The pod that comes out, or the refusal.
fn run(mutations: &[Value], failure_policy: &str) -> Result<Value, String> {
    run_counted(mutations, failure_policy, &Registry::default())
}

fn run_counted(
    mutations: &[Value],
    failure_policy: &str,
    metrics: &Registry,
) -> Result<Value, String> {
    let plugin = plugin(mutations, failure_policy, metrics);
    let user = User::new("jane", &[]);
    let objects = Objects::default().with("namespaces", &json!({"metadata": {"name": "ns"}}));
    let pod: Pod = decode(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "ns", "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }));
    let case = Case::of(Operation::Create, "/pods/", &user);
    case.with((&objects, &Nobody), (Some(&pod), Option::None), |context| {
        now(plugin.admit(context)).map_err(|err| err.message().to_owned())?;
        Ok(encode(context.object().unwrap()))
    })
}

#[test]
fn a_configuration_is_merged_and_defaults_follow() {
    let mutations = [apply(
        "Object{metadata: Object.metadata{labels: {'env': 'prod'}}, spec: Object.spec{\
         initContainers: [Object.spec.initContainers{name: 'mesh', image: 'm'}]}}",
    )];
    let pod = run(&mutations, "Fail").unwrap();
    assert_eq!(pod["metadata"]["labels"], json!({"app": "x", "env": "prod"}));
    let init = &pod["spec"]["initContainers"][0];
    assert_eq!(init["name"], "mesh");
    assert_eq!(init["terminationMessagePath"], "/dev/termination-log");
    assert_eq!(pod["spec"]["containers"][0]["image"], "i");
}

#[test]
fn later_mutations_see_what_earlier_ones_made() {
    let mutations = [
        patch("[JSONPatch{op: 'add', path: '/metadata/labels/n', value: 'one'}]"),
        apply(
            "Object{metadata: Object.metadata{labels: {'m': object.metadata.labels.n + ' more'}}}",
        ),
    ];
    let pod = run(&mutations, "Fail").unwrap();
    assert_eq!(pod["metadata"]["labels"], json!({"app": "x", "n": "one", "m": "one more"}));
}

#[test]
fn a_failed_test_leaves_the_object_alone() {
    let mutations = [patch(
        "[JSONPatch{op: 'test', path: '/metadata/labels/app', value: 'y'}, \
         JSONPatch{op: 'remove', path: '/metadata/labels/app'}]",
    )];
    let pod = run(&mutations, "Fail").unwrap();
    assert_eq!(pod["metadata"]["labels"], json!({"app": "x"}));
}

#[test]
fn keys_are_escaped_and_objects_are_values() {
    let mutations = [patch(
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a.b/c'), \
         value: 'd'}, JSONPatch{op: 'add', path: '/spec/containers/-', \
         value: Object.spec.containers{name: 'side', image: 's'}}]",
    )];
    let pod = run(&mutations, "Fail").unwrap();
    assert_eq!(pod["metadata"]["labels"]["a.b/c"], "d");
    assert_eq!(pod["spec"]["containers"][1]["name"], "side");
}

#[test]
fn what_cannot_be_done_is_refused_or_ignored() {
    let start = "policy 'p' with binding 'b' denied request: ";
    let rows = [
        (
            apply(
                "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', \
                   command: ['x']}]}}",
            ),
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps \
             or structs: .spec.containers[0].command",
        ),
        (
            apply("Object{spec: Object.wrong{}}"),
            "type mismatch: unexpected type name \"Object.wrong\", expected \"Object.spec\", which \
             matches field name path from root Object type",
        ),
        (
            apply("Object{metadata: Object.metadata{labels: {'a': object.nothing}}}"),
            "expression 'Object{metadata: Object.metadata{labels: {'a': object.nothing}}}' \
             resulted in error: no such key: nothing",
        ),
    ];
    for (mutation, why) in rows {
        let said = run(std::slice::from_ref(&mutation), "Fail").unwrap_err();
        assert_eq!(said, format!("{start}{why}"));
        assert_eq!(run(&[mutation], "Ignore").unwrap()["metadata"]["labels"], json!({"app": "x"}));
    }
}

#[test]
fn a_patch_does_not_add_fields_that_the_kind_does_not_have() {
    let mutations = [patch("[JSONPatch{op: 'add', path: '/nosuch', value: 1}]")];
    assert_eq!(
        run(&mutations, "Fail").unwrap_err(),
        "Internal error occurred: strict decoding error: unknown field \"nosuch\""
    );
    let mutations = [patch("[JSONPatch{op: 'add', path: '/metadata/labels/app', value: 1}]")];
    assert_eq!(
        run(&mutations, "Fail").unwrap_err(),
        "Internal error occurred: json: cannot unmarshal number into Go struct field \
         ObjectMeta.metadata.labels of type string"
    );
}

/// Each does to the scheduler's lease what it can, and what cannot be done stops nobody.
#[test]
fn what_the_cluster_lives_on_is_spared_what_cannot_be_done() {
    let spec = json!({
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"],
        }]},
        "mutations": [
            apply("Object{metadata: Object.metadata{labels: {'a': object.nothing}}}"),
            patch("[JSONPatch{op: 'add', path: '/nosuch', value: 1}]"),
            patch("[JSONPatch{op: 'add', path: '/spec/holderIdentity', value: 1}]"),
            apply("Object{metadata: Object.metadata{labels: {'b': 'c'}}}"),
        ],
    });
    let lease: Lease =
        decode(&json!({"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}}));
    let namespace = json!({"metadata": {"name": "kube-system"}});
    let objects = Objects::default().with("namespaces", &namespace);
    let change = |spec: &Value, user: &str| {
        let (plugin, user) = (plugin_of(spec, &Registry::default()), User::new(user, &[]));
        let case = Case {
            namespace: "kube-system",
            name: "kube-scheduler",
            ..Case::of(Operation::Update, "coordination.k8s.io/leases/", &user)
        };
        case.with((&objects, &Nobody), (Some(&lease), Some(&lease)), |context| {
            now(plugin.admit(context)).map_err(|err| err.message().to_owned())?;
            Ok::<_, String>(encode(context.object().unwrap())["metadata"]["labels"].clone())
        })
    };
    let scheduler = "system:kube-scheduler";
    assert_eq!(change(&spec, scheduler), Ok(json!({"b": "c"})));
    assert!(change(&spec, "alice").is_err());
    let with = |field: &str, value: Value| {
        let mut spec = spec.clone();
        spec[field] = value;
        spec
    };
    let condition = json!([{"name": "c", "expression": "object.nothing == 1"}]);
    for spec in [
        with("matchConditions", condition),
        with("paramKind", json!({"apiVersion": "g/v1", "kind": "Nothing"})),
    ] {
        assert_eq!(change(&spec, scheduler), Ok(Value::Null), "{spec}");
        assert!(change(&spec, "alice").is_err(), "{spec}");
    }
}

#[test]
fn mutations_are_counted_by_what_went_wrong() {
    let metrics = Registry::default();
    let good = apply("Object{metadata: Object.metadata{labels: {'a': 'b'}}}");
    let _ = run_counted(&[good.clone(), good, apply("object.nothing")], "Fail", &metrics);
    let _ = run_counted(&[apply("nothing")], "Ignore", &metrics);
    let page = metrics.render();
    for (error, count) in [("no_error", 2), ("invalid_error", 1), ("compile_error", 1)] {
        let line = format!(
            "apiserver_mutating_admission_policy_check_total{{error_type={error:?},policy=\"p\",policy_binding=\"b\"}} {count}\n"
        );
        assert!(page.contains(&line), "{line} in {page}");
    }
}
