//! Mutating policies that do what webhooks do, as expressions.

use std::sync::Arc;

use api::admissionregistration::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
use apimachinery::Scope;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use stdx::Random;
use telemetry::Registry;

use super::{Does, Fields, pick};
use crate::plugins::fixture::decode;
use crate::policy::{Found, Parameters, Policies};

#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) name: String,
    does: Does,
    pub(super) is_reinvoked: bool,
    pub(super) fails_open: bool,
    /// Only objects that have this label are its business.
    label: Option<&'static str>,
}

/// None of them has any.
struct NoParameters;

impl Parameters for NoParameters {
    fn scope(&self, _api_version: &str, _kind: &str) -> Option<Scope> {
        None
    }

    fn find<'a>(&'a self, _wanted: Found<'a>) -> BoxFuture<'a, Result<Vec<Arc<Value>>, String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// The field at a path, as an expression, and whether it is there.
fn read(path: &str) -> (String, String) {
    let (folder, name) = path.rsplit_once('/').unwrap();
    let folder = format!("object{}", folder.replace('/', "."));
    (format!("{folder}['{name}']"), format!("has({folder}) && '{name}' in {folder}"))
}

/// An object that says this of a field, and nothing else.
fn configuration(path: &str, value: &str) -> String {
    match path.rsplit_once('/').unwrap() {
        ("/data", name) => format!("Object{{data: {{'{name}': {value}}}}}"),
        (_, name) => {
            format!("Object{{metadata: Object.metadata{{labels: {{'{name}': {value}}}}}}}")
        }
    }
}

/// What there is no field for.
const FAILS: &str = "Object{data: {'x': object.data['no such field']}}";

impl Policy {
    pub(super) fn any(random: &Random, index: usize) -> Self {
        let label = ["/metadata/labels/l", "/metadata/labels/m"];
        Self {
            name: format!("p{index}"),
            does: Does::any(random),
            is_reinvoked: random.below(3) > 0,
            fails_open: random.below(2) == 0,
            label: (random.below(4) == 0).then(|| pick(random, &label)),
        }
    }

    pub(super) fn matches(&self, fields: &Fields) -> bool {
        self.label.is_none_or(|it| fields.contains_key(it))
    }

    /// What the object should be; nothing if that cannot be told.
    pub(super) fn to(&self, fields: &Fields) -> Option<Fields> {
        self.does.to(fields)
    }

    fn mutation(&self) -> Value {
        let apply = |expression: String| {
            let configuration = json!({ "expression": expression });
            json!({"patchType": "ApplyConfiguration", "applyConfiguration": configuration})
        };
        let nothing = || "Object{}".to_owned();
        match self.does {
            Does::Nothing => apply(nothing()),
            Does::Set(key, value) => apply(configuration(key, &format!("'{value}'"))),
            Does::Copy(from, to) => {
                let (value, is_there) = read(from);
                apply(format!("{is_there} ? {} : {}", configuration(to, &value), nothing()))
            }
            Does::Remove(key) => {
                let (_, is_there) = read(key);
                let step = format!("JSONPatch{{op: 'remove', path: '{key}'}}");
                let patch = json!({ "expression": format!("{is_there} ? [{step}] : []") });
                json!({"patchType": "JSONPatch", "jsonPatch": patch})
            }
            Does::Count(key) => {
                let (value, is_there) = read(key);
                let next = format!("string(({is_there} ? int({value}) : 0) + 1)");
                apply(configuration(key, &next))
            }
            Does::DenyIf(key) => {
                let (value, is_there) = read(key);
                apply(format!("{is_there} && {value} == '2' ? {FAILS} : {}", nothing()))
            }
            Does::Garbage => apply(FAILS.to_owned()),
        }
    }

    fn manifest(&self) -> Value {
        let selector = self.label.map_or_else(
            || json!({}),
            |it| {
                let key = it.rsplit('/').next();
                json!({"matchExpressions": [{"key": key, "operator": "Exists"}]})
            },
        );
        json!({"metadata": {"name": self.name}, "spec": {
            "failurePolicy": if self.fails_open { "Ignore" } else { "Fail" },
            "matchConstraints": {
                "namespaceSelector": {}, "objectSelector": selector,
                "resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                    "operations": ["*"],
                }],
            },
            "reinvocationPolicy": if self.is_reinvoked { "IfNeeded" } else { "Never" },
            "mutations": [self.mutation()],
        }})
    }
}

pub(super) fn configure(all: &[Policy]) -> Arc<Policies> {
    let policies = Policies::new(Arc::new(NoParameters), &Registry::default());
    for policy in all {
        let definition = decode::<MutatingAdmissionPolicy>(&policy.manifest());
        policies.set_mutating(&policy.name, Some(&definition));
        let binding =
            json!({"metadata": {"name": policy.name}, "spec": {"policyName": policy.name}});
        let binding = decode::<MutatingAdmissionPolicyBinding>(&binding);
        policies.set_mutating_binding(&policy.name, Some(&binding));
    }
    Arc::new(policies)
}
