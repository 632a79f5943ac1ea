//! Rules of custom resources against what upstream's server 1.36 answers: `reference/` has the
//! questions and its answers, word for word.

use apimachinery::FieldErrors;
use serde_json::{Map, Value, json};

use super::{CustomKind, CustomResourceDefinition};
use crate::kind::{Kind, Part, Resource};
use crate::object::ApiObject;

const RULES: &str = include_str!("reference/rules.json");
const DEFINITIONS: &str = include_str!("reference/definitions.json");
const OBJECTS: &str = include_str!("reference/objects.json");

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn definition(schema: &Value, has_status: bool) -> CustomResourceDefinition {
    let subresources = if has_status { json!({"status": {}}) } else { Value::Null };
    let mut crd: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "things.crd.example.com"},
        "spec": {
            "group": "crd.example.com", "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Def"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": subresources,
                "schema": {"openAPIV3Schema": schema}
            }]
        }
    }))
    .unwrap();
    crd.apply_defaults();
    crd
}

/// As upstream's causes, sorted; without the hints that it does not give.
fn causes(errors: &FieldErrors) -> Vec<Value> {
    let mut found: Vec<Value> = errors
        .iter()
        .map(|it| {
            let message = match it.message.split_once("are declared)") {
                Some((upstream, hint)) => {
                    assert!(hint.is_empty() || hint.ends_with(" would suffice"), "{hint}");
                    format!("{upstream}are declared)")
                }
                None => it.message.clone(),
            };
            json!([it.path.to_string(), it.cause.reason(), message])
        })
        .collect();
    found.sort_by_key(ToString::to_string);
    found
}

fn definition_causes(schema: &Value) -> Vec<Value> {
    let mut errors = FieldErrors::new();
    definition(schema, false).validate_create(&mut errors);
    causes(&errors)
}

fn sorted(expected: &Value) -> Vec<Value> {
    let mut all = expected.as_array().unwrap().clone();
    all.sort_by_key(ToString::to_string);
    all
}

fn decode(kind: &CustomKind, part: &Value) -> Box<dyn ApiObject> {
    let mut object = part.as_object().unwrap().clone();
    object.insert("metadata".to_owned(), json!({"name": "a"}));
    let mut object = kind.decode(&serde_json::to_vec(&object).unwrap()).unwrap();
    kind.apply_defaults(object.as_mut());
    object
}

/// Tells all that differ, not only the first.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, what: &str, ours: &[Value], upstream: &[Value]) {
        if ours != upstream {
            let lines =
                |all: &[Value]| all.iter().map(|it| format!("\n    {it}")).collect::<String>();
            self.0.push(format!("{what}\n  ours:{}\n  upstream:{}", lines(ours), lines(upstream)));
        }
    }

    fn finish(self) {
        assert!(self.0.is_empty(), "{} differ:\n{}", self.0.len(), self.0.join("\n"));
    }
}

#[test]
fn rules_have_upstreams_verdicts() {
    let reference = read(RULES);
    let rows = reference["rows"].as_array().unwrap();
    assert!(rows.len() >= 300);
    let mut differences = Differences::default();
    let mut fields = Map::new();
    let mut value = Map::new();
    for (index, row) in rows.iter().enumerate() {
        let mut schema = json!({"type": "object", "properties": reference["fields"]});
        schema["x-kubernetes-validations"] = json!([{"rule": row[0]}]);
        fields.insert(format!("r{index}"), schema);
        value.insert(format!("r{index}"), reference["value"].clone());
    }
    let spec = json!({"type": "object", "properties": fields});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    differences.compare("the definition", &definition_causes(&schema), &[]);
    let crd = definition(&schema, false);
    let kind = CustomKind::new(&crd, &crd.spec.versions[0]);
    let mut errors = FieldErrors::new();
    kind.validate_create(decode(&kind, &json!({"spec": value})).as_ref(), &mut errors);
    for (index, row) in rows.iter().enumerate() {
        let path = format!("spec.r{index}");
        let of_row = errors.iter().filter(|it| it.path.as_str() == path);
        let ours: Vec<Value> = of_row.map(|it| it.message.as_str().into()).collect();
        let upstream: Vec<Value> =
            [row[1].clone()].into_iter().filter(|it| *it != json!("")).collect();
        differences.compare(row[0].as_str().unwrap(), &ours, &upstream);
    }
    differences.finish();
}

#[test]
fn rules_are_refused_in_upstreams_words() {
    let reference = read(RULES);
    let mut differences = Differences::default();
    for row in reference["refused"].as_array().unwrap() {
        let spec = json!({
            "type": "object", "properties": reference["fields"],
            "x-kubernetes-validations": [{"rule": row[0]}]
        });
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let mut ours: Vec<Value> =
            definition_causes(&schema).iter().map(|it| it[2].clone()).collect();
        ours.sort_by_key(ToString::to_string);
        differences.compare(row[0].as_str().unwrap(), &ours, &sorted(&row[1]));
    }
    differences.finish();
}

/// A list of so many items exceeds the budget by this factor: that tells the cost of the rule.
#[test]
fn rules_cost_what_upstream_estimates() {
    let reference = read(RULES);
    let mut differences = Differences::default();
    for row in reference["costs"].as_array().unwrap() {
        let item = json!({
            "type": "object", "properties": reference["costFields"],
            "x-kubernetes-validations": [{"rule": row[0]}]
        });
        let list = json!({"type": "array", "maxItems": row[1], "items": item});
        let spec = json!({"type": "object", "properties": {"items": list}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let causes = definition_causes(&schema);
        let factors = causes.iter().filter_map(|it| {
            let text = it[2].as_str().unwrap();
            let rest = text.split_once("estimated rule cost exceeds budget by factor of ")?.1;
            Some(json!(rest.split_once(" (").unwrap().0))
        });
        let ours: Vec<Value> = factors.collect();
        differences.compare(row[0].as_str().unwrap(), &ours, &[row[2].clone()]);
    }
    differences.finish();
}

#[test]
fn definitions_are_judged_as_upstream_does() {
    let mut differences = Differences::default();
    for case in read(DEFINITIONS).as_array().unwrap() {
        let ours = definition_causes(&case["schema"]);
        differences.compare(case["name"].as_str().unwrap(), &ours, &sorted(&case["causes"]));
    }
    differences.finish();
}

#[test]
fn objects_are_judged_as_upstream_does() {
    let mut differences = Differences::default();
    for case in read(OBJECTS).as_array().unwrap() {
        let crd = definition(&case["schema"], case["status"] == true);
        let kind = CustomKind::new(&crd, &crd.spec.versions[0]);
        let mut object = decode(&kind, &case["new"]);
        let mut errors = FieldErrors::new();
        if case["old"].is_null() {
            kind.prepare_create(object.as_mut());
            kind.validate_create(object.as_ref(), &mut errors);
        } else {
            let part = if case["sub"] == true { Part::Status } else { Part::Main };
            let stored = decode(&kind, &case["old"]);
            kind.prepare_update(object.as_mut(), stored.as_ref(), part);
            kind.validate_update(object.as_ref(), stored.as_ref(), part, &mut errors);
        }
        let name = case["name"].as_str().unwrap();
        differences.compare(name, &causes(&errors), &sorted(&case["causes"]));
        let warnings: Vec<Value> = errors.warnings().iter().map(|it| it.as_str().into()).collect();
        differences.compare(&format!("{name}: warnings"), &warnings, &sorted(&case["warnings"]));
    }
    differences.finish();
}
