//! Schemas as a server publishes them (OpenAPI v3), by the place of a value in an object. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::place::Step;

/// References are followed so many times: definitions refer to each other in a chain of two.
const REFERENCES_MAX: usize = 8;

#[derive(Default)]
pub(crate) struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// The definitions of one document. Those of an earlier one with the same name are the same.
    pub(crate) fn add(&mut self, document: &Value) {
        let all = document["components"]["schemas"].as_object().into_iter().flatten();
        self.0.extend(all.map(|(name, schema)| (name.clone(), schema.clone())));
    }

    pub(crate) fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Value> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.0.values().find(|schema| {
            let kinds = schema["x-kubernetes-group-version-kind"].as_array();
            kinds.is_some_and(|it| {
                let [only] = it.as_slice() else { return false };
                only["group"] == group && only["version"] == version && only["kind"] == kind
            })
        })
    }

    /// What a reference refers to.
    pub(crate) fn resolve<'a>(&'a self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..REFERENCES_MAX {
            let wrapped = schema["allOf"].get(0).unwrap_or(schema);
            let name = wrapped["$ref"].as_str().and_then(|it| it.rsplit('/').next());
            match name.and_then(|it| self.0.get(it)) {
                Some(next) => schema = next,
                None => break,
            }
        }
        schema
    }

    /// The schema of a field, of a value of a map or of an item.
    pub(crate) fn below<'a>(&'a self, schema: &'a Value, step: &Step) -> Option<&'a Value> {
        let schema = self.resolve(schema);
        match step {
            Step::Field(name) => {
                schema["properties"].get(name).or_else(|| schema.get("additionalProperties"))
            }
            Step::Item(_) => schema.get("items"),
        }
    }

    pub(crate) fn at<'a>(&'a self, schema: &'a Value, place: &[Step]) -> Option<&'a Value> {
        place.iter().try_fold(schema, |schema, step| self.below(schema, step))
    }
}
