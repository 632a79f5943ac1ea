//! Schemas: bytes or values in, problems out.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::*;

fn deployment() -> SchemaRef {
    static DEFINITIONS: OnceLock<Definitions> = OnceLock::new();
    let definitions = DEFINITIONS.get_or_init(|| {
        Definitions::from_json(&json!({
            "io.k8s.api.apps.v1.Deployment": {"type": "object", "properties": {
                "metadata": {"type": "object"},
                "spec": {"$ref": "#/definitions/io.k8s.api.apps.v1.DeploymentSpec"}
            }},
            "io.k8s.api.apps.v1.DeploymentSpec": {"type": "object", "properties": {
                "replicas": {"type": "integer", "format": "int32"},
                "paused": {"type": "boolean"},
                "containers": {"type": "array",
                    "items": {"$ref": "#/definitions/io.k8s.api.core.v1.Container"}}
            }},
            "io.k8s.api.core.v1.Container": {"type": "object", "properties": {
                "name": {"type": "string"},
                "port": {"type": "string", "format": "int-or-string"},
                "limits": {"type": "object", "additionalProperties":
                    {"$ref": "#/definitions/io.k8s.apimachinery.pkg.api.resource.Quantity"}}
            }},
            "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"}
        }))
    });
    definitions.get("io.k8s.api.apps.v1.Deployment").unwrap().clone()
}

fn check_strict(text: &str, problems: &[&str], type_error: Option<&str>) {
    let report = deployment().validate_fields(text.as_bytes());
    assert_eq!(report.problems, problems, "{text}");
    assert_eq!(report.type_error.as_deref(), type_error, "{text}");
}

#[test]
fn strict_decoding_names_unknown_and_repeated_fields() {
    check_strict(
        r#"{"metadata":{"x":{"y":1}},"spec":{"replicas":1,"containers":null}}"#,
        &[],
        None,
    );
    check_strict(
        r#"{"spec":{"a":{"b":1},"containers":[{"name":"x"},{"foo":1,"name":"a","name":"b"}]},"spec":{}}"#,
        &[
            "unknown field \"spec.a\"",
            "unknown field \"spec.containers[1].foo\"",
            "duplicate field \"spec.containers[1].name\"",
            "duplicate field \"spec\"",
        ],
        None,
    );
    check_strict(
        r#"{"spec":{"containers":[{"port":80,"limits":{"cpu":1.5,"memory":"1Gi"}}]}}"#,
        &[],
        None,
    );
    check_strict(r#"{"Spec":{}}"#, &["unknown field \"Spec\""], None);
    let many: Vec<String> = (0..200).map(|it| format!("\"x{it}\":1")).collect();
    let report = deployment().validate_fields(format!("{{{}}}", many.join(",")).as_bytes());
    assert_eq!(report.problems.len(), 100);
}

#[test]
fn a_quantity_that_is_none_is_found() {
    let quantity = |text: &str| {
        let text = format!(r#"{{"spec":{{"containers":[{{"limits":{{"cpu":{text}}}}}]}}}}"#);
        let report = deployment().validate_fields(text.as_bytes());
        assert_eq!((report.problems.len(), report.type_error), (0, None), "{text}");
        report.fatal_error
    };
    for text in ["1", "1.5", r#""100m""#, r#""1Gi""#, "null"] {
        assert_eq!(quantity(text), None, "{text}");
    }
    let expected = "quantities must match the regular expression \
                    '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    for text in [r#""""#, r#""x""#, r#""Bogus""#] {
        assert_eq!(quantity(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn what_has_nothing_in_it_goes() {
    let check = |text: &str, expected: Option<&str>| {
        let has_empties = deployment().validate_fields(text.as_bytes()).has_empties;
        assert_eq!(has_empties, expected.is_some(), "{text}");
        let mut value: Value = serde_json::from_str(text).unwrap();
        deployment().drop_empties(&mut value);
        assert_eq!(value.to_string(), expected.unwrap_or(text), "{text}");
    };
    check(r#"{"spec":{"containers":[]}}"#, Some(r#"{"spec":{}}"#));
    check(
        r#"{"spec":{"containers":[{"limits":{}},{"limits":{"cpu":"1"}}]}}"#,
        Some(r#"{"spec":{"containers":[{},{"limits":{"cpu":"1"}}]}}"#),
    );
    // A struct without fields is one.
    check(r#"{"spec":{"containers":[{}]}}"#, None);
    check(r#"{"spec":{}}"#, None);
    check(r#"{"spec":{"unknown":[]}}"#, None);
}

#[test]
fn strict_decoding_names_the_first_wrong_type() {
    let error = |text| Some(text);
    check_strict(
        r#"{"spec":{"replicas":2147483648}}"#,
        &[],
        error(
            "json: cannot unmarshal number 2147483648 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
    );
    check_strict(
        r#"{"spec":{"replicas":"x","paused":1}}"#,
        &[],
        error(
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
    );
    check_strict(
        r#"{"spec":{"replicas":1.5}}"#,
        &[],
        error(
            "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
    );
    check_strict(
        r#"{"spec":{"containers":[{"name":{"a":1}}]}}"#,
        &[],
        error(
            "json: cannot unmarshal object into Go struct field Container.spec.containers.name of type string",
        ),
    );
    check_strict(
        r#"{"spec":{"containers":"x"}}"#,
        &[],
        error(
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.containers of type []v1.Container",
        ),
    );
}

fn custom() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
            "mode": {"type": "string", "enum": ["a", "b"]},
            "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
            "at": {"type": "string", "format": "date-time", "nullable": true},
            "port": {"x-kubernetes-int-or-string": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "map": {"type": "object", "additionalProperties": {"type": "object",
                "properties": {"on": {"type": "boolean", "default": true}}}},
            "list": {"type": "array", "maxItems": 2, "items": {"type": "object", "required": ["k"],
                "properties": {"k": {"type": "string"}}},
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
        },
        "oneOf": [{"required": ["mode"]}, {"required": ["name"]}]
    }}})
}

fn read(source: &Value) -> (SchemaRef, Vec<String>) {
    let mut errors = FieldErrors::new();
    let schema = Schema::from_open_api(source, &Path::new("schema"), &mut errors);
    (schema, errors.iter().map(ToString::to_string).collect())
}

fn check(spec: Value, expected: &[&str]) {
    let (schema, problems) = read(&custom());
    assert!(problems.is_empty(), "{problems:?}");
    let mut errors = FieldErrors::new();
    schema.validate(&json!({"spec": spec}), &Path::root(), &mut errors);
    let actual: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(actual, expected);
}

#[test]
fn a_sealed_object_has_no_other_fields() {
    let source = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "none": {"type": "object", "additionalProperties": false},
        "some": {"type": "object", "properties": {"a": {"type": "string"}},
            "allOf": [{"additionalProperties": false}]},
    }}}});
    let (schema, problems) = read(&source);
    assert!(problems.is_empty(), "{problems:?}");
    let check = |spec: Value, expected: &[&str]| {
        let mut object = json!({"spec": spec});
        // What is forbidden is not dropped before somebody says so.
        schema.prune(&mut object);
        assert_eq!(object["spec"], spec);
        let mut errors = FieldErrors::new();
        schema.validate(&object, &Path::root(), &mut errors);
        let actual: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(actual, expected);
    };
    check(json!({"none": {}, "some": {}}), &[]);
    check(
        json!({"none": {"a": 1}}),
        &["spec.none: Invalid value: \"a\": spec.none.a in body is a forbidden property"],
    );
    check(
        json!({"some": {"a": "x"}}),
        &[
            "<nil>: Invalid value: \"\": \"spec.some\" must validate all the schemas (allOf). None validated",
            "spec.some: Invalid value: \"a\": spec.some.a in body is a forbidden property",
        ],
    );
}

#[test]
fn values_are_checked_with_upstreams_texts() {
    check(json!({"size": 1, "mode": "a", "at": null, "port": "x"}), &[]);
    check(
        json!({"size": "x", "mode": "c"}),
        &[
            "spec.mode: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ],
    );
    check(
        json!({"size": 0, "name": "A"}),
        &[
            "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'",
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ],
    );
    check(
        json!({"name": "abcd"}),
        &["spec.size: Required value", "spec.name: Too long: may not be more than 3 bytes"],
    );
    check(
        json!({"size": 1}),
        &[
            "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found none valid",
            "spec.mode: Required value",
        ],
    );
    check(
        json!({"size": 1, "mode": "a", "list": [{"k": "x"}, {"k": "x"}, {}], "at": "noon"}),
        &[
            "spec.at: Invalid value: \"noon\": spec.at in body must be of type date-time: \"noon\"",
            "spec.list[2].k: Required value",
            "spec.list: Too many: 3: must have at most 2 items",
            "spec.list[1]: Duplicate value: {\"k\":\"x\"}",
        ],
    );
}

#[test]
fn pruning_keeps_what_the_schema_knows() {
    let (schema, _) = read(&custom());
    let mut object = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "zip": 1}, "top": 1,
        "spec": {"size": 1, "x": 1, "free": {"y": {"z": 1}}, "list": [{"k": "a", "q": 1}],
            "map": {"any": {"on": false, "off": 1}}}});
    let removed = schema.prune(&mut object);
    assert_eq!(removed, ["metadata.zip", "spec.list[0].q", "spec.map.any.off", "spec.x", "top"]);
    assert_eq!(object["spec"]["free"], json!({"y": {"z": 1}}));
    assert_eq!(object["kind"], "X");
}

#[test]
fn defaults_fill_in_what_is_missing_or_may_not_be_null() {
    let (schema, _) = read(&custom());
    let mut object = json!({"spec": {"size": null, "map": {"a": {}, "b": {"on": false}}}});
    schema.apply_defaults(&mut object);
    assert_eq!(
        object,
        json!({"spec": {"size": 3, "map": {"a": {"on": true}, "b": {"on": false}}}})
    );
}

#[test]
fn schemas_must_be_structural() {
    let check = |source: Value, expected: &[&str]| assert_eq!(read(&source).1, expected);
    check(json!({}), &["schema.type: Required value: must not be empty at the root"]);
    check(
        json!({"type": "object", "properties": {"a": {}, "b": {"type": "array"}}}),
        &[
            "schema.properties[a].type: Required value: must not be empty for specified object fields",
            "schema.properties[b].items: Required value: must be specified",
        ],
    );
    let rules = json!([{"rule": "true"}]);
    check(json!({"type": "object", "x-kubernetes-validations": rules}), &[]);
    check(
        json!({"type": "object", "allOf": [{"properties": {"a": {"x-kubernetes-validations": rules}}}]}),
        &[
            "schema.allOf[0].properties[a].x-kubernetes-validations: Forbidden: must be empty to be structural",
            "schema.properties[a]: Required value: because it is defined in schema.allOf[0].properties[a]",
        ],
    );
    check(
        json!({"type": "object", "anyOf": [{"type": "object", "required": ["a"]}]}),
        &["schema.anyOf[0].type: Forbidden: must be empty to be structural"],
    );
}

fn open_api(source: &Value) -> (SchemaRef, FieldErrors) {
    let mut errors = FieldErrors::new();
    let schema = Schema::from_open_api(source, &Path::root(), &mut errors);
    (schema, errors)
}

#[test]
fn patterns_of_branches_are_compiled_once_and_refused_when_they_cannot_be() {
    let pattern = |pattern: &str| {
        json!({"type": "object", "properties": {"texts": {"type": "array", "items": {
            "type": "string", "anyOf": [{"pattern": pattern}, {"pattern": "^b+$"}],
        }}}})
    };
    // Compiling this takes a millisecond: forty thousand times would be a minute.
    let (schema, errors) = open_api(&pattern(r"^\w{40}$"));
    assert!(errors.is_empty(), "{errors}");
    let mut errors = FieldErrors::new();
    let value = json!({"texts": vec!["bb"; 40_000]});
    schema.validate(&value, &Path::root(), &mut errors);
    assert!(errors.is_empty(), "{errors}");
    for refused in ["(", r"\w{1000}{1000}"] {
        let (_, errors) = open_api(&pattern(refused));
        assert!(errors.to_string().contains("must be a valid regular expression"), "{errors}");
    }
}

#[test]
fn a_schema_that_multiplies_work_is_cut_off() {
    let branches = vec![json!({"enum": ["a"]}); 2_000];
    let (schema, errors) = open_api(&json!({"type": "object", "properties": {"texts": {
        "type": "array", "items": {"type": "string", "anyOf": branches},
    }}}));
    assert!(errors.is_empty(), "{errors}");
    assert_eq!(schema.n_branches, 2_000);
    let mut errors = FieldErrors::new();
    let value = json!({"texts": vec!["b"; 100_000]});
    schema.validate(&value, &Path::root(), &mut errors);
    assert!(errors.iter().count() <= 1_000);
    let value = json!({"texts": vec!["a"; 100_000]});
    let mut errors = FieldErrors::new();
    schema.validate(&value, &Path::root(), &mut errors);
    assert!(errors.to_string().contains("too many checks"), "{errors}");
}

#[test]
fn quantities_are_written_as_go_writes_them() {
    let text = r#"{"spec":{"containers":[{"limits":{"cpu":"1.5","memory":"0.5Gi","x":"1"}}]}}"#;
    assert!(deployment().validate_fields(text.as_bytes()).has_loose_quantities);
    let mut value: Value = serde_json::from_str(text).unwrap();
    deployment().write_quantities(&mut value);
    let limits = &value["spec"]["containers"][0]["limits"];
    assert_eq!(*limits, json!({"cpu": "1500m", "memory": "512Mi", "x": "1"}));
    assert!(!deployment().validate_fields(value.to_string().as_bytes()).has_loose_quantities);
}

#[test]
fn numbers_wrap_where_go_converts_them() {
    let mut value = json!({"spec": {"replicas": 2_147_483_648_i64}});
    deployment().wrap_integers(&mut value);
    assert_eq!(value, json!({"spec": {"replicas": -2_147_483_648_i64}}));
}

#[test]
fn empty_lists_are_pointed_at() {
    let report = deployment().validate_fields(br#"{"spec":{"containers":[]}}"#);
    assert_eq!(report.empty_lists, ["/spec/containers"]);
}
