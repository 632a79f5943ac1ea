//! What one mutation makes of an object: a configuration that is merged, or a JSON patch. Pure.

use api::admissionregistration::expressions::OBJECT;
use apimachinery::cel::OBJECT_BUDGET;
use apimachinery::schema::SchemaRef;
use apimachinery::{apply as merging, patch};
use cel::{Key, Map, Value};
use serde_json::{Map as JsonMap, Value as Json, json};

use crate::policy::evaluation::{Composition, Expression, Inputs, evaluate};

/// The whole object as it will be, `None` if it stays as it is; and what it cost to tell.
pub(super) type Patched = (Result<Option<Json>, String>, u64);

fn value_of(
    expression: &Expression,
    composition: &Composition,
    inputs: &Inputs<'_>,
    read: impl Fn(&Value<'_>) -> Result<Json, String>,
) -> (Result<Json, String>, u64) {
    if let Some(problem) = expression.problem() {
        return (Err(problem.to_owned()), 0);
    }
    let mut budget = OBJECT_BUDGET;
    let results = evaluate([expression], composition, inputs, &mut budget, read);
    let value = results.and_then(|it| it.into_iter().next().map_or(Ok(Json::Null), |it| it.result));
    (value, OBJECT_BUDGET - budget)
}

/// Merged as by server-side apply, without ownership.
pub(super) fn apply(
    expression: &Expression,
    composition: &Composition,
    inputs: &Inputs<'_>,
    schema: &SchemaRef,
) -> Patched {
    let read = |value: &Value<'_>| {
        check_types(value, OBJECT).map_err(|why| format!("type mismatch: {why}"))?;
        to_json(value)
    };
    let (config, cost) = value_of(expression, composition, inputs, read);
    let merged = config.and_then(|mut config| {
        for field in ["apiVersion", "kind"] {
            config[field] = inputs.object[field].clone();
        }
        merging::merge_unowned(schema, inputs.object, &config)
            .map(Some)
            .map_err(|why| format!("error applying patch: {why}"))
    });
    (merged, cost)
}

pub(super) fn json_patch(
    expression: &Expression,
    composition: &Composition,
    inputs: &Inputs<'_>,
) -> Patched {
    let read = |value: &Value<'_>| {
        let Value::List(steps) = value else {
            let why = "type mismatch: JSONPatchType.expression should evaluate to array";
            return Err(why.to_owned());
        };
        let steps =
            steps.iter().map(|it| it.map_err(|err| err.to_string()).and_then(|it| step(&it)));
        steps.collect::<Result<Vec<Json>, String>>().map(Json::Array)
    };
    let (steps, cost) = value_of(expression, composition, inputs, read);
    let patched = steps.and_then(|steps| {
        match patch::json(inputs.object, steps.to_string().as_bytes()) {
            Ok(tree) => Ok(Some(tree)),
            // A test that fails leaves the object alone.
            Err(err) if is_failed_test(&err) => Ok(None),
            Err(err) => Err(format!("JSON Patch: {err}")),
        }
    });
    (patched, cost)
}

fn is_failed_test(err: &patch::Error) -> bool {
    err.to_string().starts_with("testing value ")
}

/// A step as JSON: what is not said is not there.
fn step(value: &Value<'_>) -> Result<Json, String> {
    let Value::Map(fields) = value else {
        return Err(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch"
                .to_owned(),
        );
    };
    let get = |name: &str| fields.get_str(name).map_err(|err| err.to_string());
    let text = |name: &str| {
        get(name).map(|it| it.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned())
    };
    let mut step = json!({"op": text("op")?, "path": text("path")?});
    let from = text("from")?;
    if !from.is_empty() {
        step["from"] = from.into();
    }
    if let Some(value) = get("value")? {
        if is_object(&value) {
            let name = value.type_name().to_owned();
            check_types(&value, &name).map_err(|why| format!("type mismatch: {why}"))?;
        }
        step["value"] = to_json(&value).map_err(|why| {
            format!(
                "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}"
            )
        })?;
    }
    Ok(step)
}

fn is_object(value: &Value<'_>) -> bool {
    matches!(value, Value::Map(Map::Native(_))) && value.type_name().starts_with(OBJECT)
}

/// Objects within objects are called by the path that leads to them; lists and maps between have no
/// names.
fn check_types(value: &Value<'_>, path: &str) -> Result<(), String> {
    match value {
        Value::Map(map) => {
            let is_object = is_object(value);
            if is_object && value.type_name() != path {
                return Err(format!(
                    "unexpected type name {:?}, expected {path:?}, which matches field name path \
                     from root Object type",
                    value.type_name()
                ));
            }
            for key in map.keys() {
                let (Ok(Some(inner)), Key::String(name)) = (map.get(&key), &key) else { continue };
                if is_object {
                    check_types(&inner, &format!("{path}.{}", name.as_str()))?;
                } else {
                    check_types(&inner, path)?;
                }
            }
            Ok(())
        }
        Value::List(list) => list.iter().flatten().try_for_each(|inner| check_types(&inner, path)),
        _ => Ok(()),
    }
}

/// As `cel::to_json`, where an optional that is not there is no field.
fn to_json(value: &Value<'_>) -> Result<Json, String> {
    match value {
        Value::Optional(Some(inner)) => to_json(inner),
        Value::Optional(None) => Ok(Json::Null),
        Value::List(list) => {
            let items = list.iter().map(|it| it.map_err(|err| err.to_string()));
            items
                .map(|it| it.and_then(|it| to_json(&it)))
                .collect::<Result<_, _>>()
                .map(Json::Array)
        }
        Value::Map(map) => {
            let mut fields = JsonMap::new();
            for key in map.keys() {
                let Key::String(name) = &key else {
                    return Err(format!("map key {} is not a string", key.to_value()));
                };
                if let Some(inner) = map.get(&key).map_err(|err| err.to_string())? {
                    fields.insert(name.as_str().to_owned(), to_json(&inner)?);
                }
            }
            Ok(Json::Object(fields))
        }
        other => cel::to_json(other).map_err(|err| err.to_string()),
    }
}
