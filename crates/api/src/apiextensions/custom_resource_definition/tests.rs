//! Definition in, problems or names out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use apimachinery::FieldErrors;

use super::naming::{TakenNames, status_with_names};
use super::*;

fn definition(change: impl FnOnce(&mut Value)) -> CustomResourceDefinition {
    let mut tree = json!({
        "metadata": { "name": "fruits.example.org" },
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": { "plural": "fruits", "kind": "Fruit", "shortNames": ["fr"] },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": {
                        "type": "object",
                        "properties": { "color": { "type": "string" }, "parts": { "type": "object" } },
                    } },
                } },
            }],
        },
    });
    change(&mut tree);
    tree["apiVersion"] = json!("apiextensions.k8s.io/v1");
    tree["kind"] = json!("CustomResourceDefinition");
    let mut crd = CustomResourceDefinition::decode(tree.to_string().as_bytes()).unwrap();
    crd.apply_defaults();
    crd
}

fn check(change: impl FnOnce(&mut Value), expected: &[&str]) {
    let mut errors = FieldErrors::new();
    let crd = definition(change);
    crd.validate(&mut errors);
    crd.validate_create(&mut errors);
    let problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(expected) {
        assert!(problem.starts_with(start), "{problem:?} does not start with {start:?}");
    }
}

#[test]
fn names_and_conversion_have_defaults() {
    let crd = definition(|_| {});
    assert_eq!(crd.spec.names.singular.as_deref(), Some("fruit"));
    assert_eq!(crd.spec.names.list_kind.as_deref(), Some("FruitList"));
    assert_eq!(crd.spec.conversion.map(|it| it.strategy).as_deref(), Some("None"));
}

#[test]
fn a_good_definition_has_no_problems() {
    check(|_| {}, &[]);
}

#[test]
fn names_follow_the_rules() {
    check(
        |it| it["metadata"]["name"] = json!("fruit.example.org"),
        &[
            r#"metadata.name: Invalid value: "fruit.example.org": must be spec.names.plural+"."+spec.group"#,
        ],
    );
    check(
        |it| {
            it["spec"]["group"] = json!("example");
            it["metadata"]["name"] = json!("fruits.example");
        },
        &[r#"spec.group: Invalid value: "example": should be a domain with at least one dot"#],
    );
    check(
        |it| {
            it["spec"]["group"] = json!("fruits.k8s.io");
            it["metadata"]["name"] = json!("fruits.fruits.k8s.io");
        },
        &["metadata.annotations[api-approved.kubernetes.io]: Required value"],
    );
    check(
        |it| it["spec"]["names"]["listKind"] = json!("Fruit"),
        &["spec.names.listKind: Invalid value: \"Fruit\": kind and listKind may not be the same"],
    );
    check(
        |it| it["spec"]["scope"] = json!("Galaxy"),
        &[
            "spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"",
        ],
    );
}

#[test]
fn one_version_is_stored() {
    check(
        |it| it["spec"]["versions"][0]["storage"] = json!(false),
        &[
            r#"spec.versions: Invalid value: [{"name":"v1"}]: must have exactly one version marked as storage version"#,
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ],
    );
    check(
        |it| {
            let mut again = it["spec"]["versions"][0].clone();
            again["storage"] = json!(false);
            it["spec"]["versions"].as_array_mut().unwrap().push(again);
        },
        &[
            r#"spec.versions: Invalid value: [{"name":"v1"},{"name":"v1"}]: must contain unique version names"#,
        ],
    );
    check(
        |it| it["spec"]["versions"][0]["schema"] = json!(null),
        &["spec.versions[0].schema.openAPIV3Schema: Required value"],
    );
}

/// With a webhook at a URL, changed.
fn with_webhook(change: impl FnOnce(&mut Value)) -> impl FnOnce(&mut Value) {
    move |it| {
        it["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {"clientConfig": {"url": "https://example.org/c"}, "conversionReviewVersions": ["v1"]},
        });
        change(it);
    }
}

fn authority() -> String {
    let certified = rcgen::generate_simple_self_signed(vec!["hook".to_owned()]).unwrap();
    STANDARD.encode(certified.cert.pem())
}

#[test]
fn a_conversion_webhook_is_somewhere_and_understands_reviews() {
    check(with_webhook(|_| {}), &[]);
    let webhook = |value: Value| with_webhook(|it| it["spec"]["conversion"]["webhook"] = value);
    check(
        webhook(json!(null)),
        &[
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
            "spec.conversion.conversionReviewVersions: Required value",
        ],
    );
    let service = json!({"namespace": "", "name": "s", "port": 0, "path": "a"});
    check(
        webhook(
            json!({"clientConfig": {"service": service}, "conversionReviewVersions": ["v2", "v2", "!"]}),
        ),
        &[
            "spec.conversion.webhookClientConfig.service.name: Required value",
            "spec.conversion.webhookClientConfig.service.port: Invalid value: 0: port is not valid",
            "spec.conversion.webhookClientConfig.service.path: Invalid value: \"a\": must start with a '/'",
            "spec.conversion.webhookClientConfig.service.path: Invalid value: \"a\": segment[0] may not be empty",
            "spec.conversion.conversionReviewVersions[1]: Invalid value: \"v2\": duplicate version",
            "spec.conversion.conversionReviewVersions[2]: Invalid value: \"!\": a DNS-1035 label",
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v2\",\"v2\",\"!\"]: must include at least one of v1, v1beta1",
        ],
    );
    check(
        webhook(json!({"clientConfig": {}, "conversionReviewVersions": ["v1beta1"]})),
        &[
            "spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required",
        ],
    );
    check(
        with_webhook(|it| it["spec"]["conversion"]["strategy"] = json!("None")),
        &[
            "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
            "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
        ],
    );
    check(
        with_webhook(|it| it["spec"]["preserveUnknownFields"] = json!(true)),
        &[
            "spec.conversion.strategy: Invalid value: \"Webhook\": must be None if spec.preserveUnknownFields is true",
            "spec.preserveUnknownFields: Invalid value: true",
        ],
    );
}

#[test]
fn a_service_that_converts_has_the_port_of_https() {
    let service = json!({"service": {"namespace": "n", "name": "s"}});
    let crd = definition(with_webhook(|it| {
        it["spec"]["conversion"]["webhook"]["clientConfig"] = service
    }));
    let client = conversion::webhook(&crd).and_then(|it| it.client_config.as_ref()).unwrap();
    assert_eq!(client.service.as_ref().and_then(|it| it.port), Some(443));
    assert!(conversion::webhook(&definition(|_| {})).is_none());
}

#[test]
fn authorities_may_come_later_but_not_go_bad() {
    let bundle = |text: String| {
        with_webhook(move |it| {
            it["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = json!(text);
        })
    };
    let bad = || bundle(STANDARD.encode("nothing"));
    check(bad(), &[]);
    let established = |change: Box<dyn FnOnce(&mut Value)>| {
        let mut crd = definition(change);
        let status = status_with_names(&crd, &TakenNames::default(), Timestamp::UNIX_EPOCH);
        crd.status = Some(status);
        crd
    };
    let refused = |new: &CustomResourceDefinition, stored: &CustomResourceDefinition| {
        let mut errors = FieldErrors::new();
        new.validate_update(stored, Part::Main, &mut errors);
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let without = established(Box::new(bad()));
    let found = without.status.as_ref().unwrap().conditions.clone().unwrap();
    let found = found.iter().find(|it| it.type_ == "Established").unwrap();
    assert_eq!(
        (found.status.as_str(), found.reason.as_deref()),
        ("False", Some("InvalidCABundle"))
    );
    assert!(!is_established(&without));
    let good = established(Box::new(bundle(authority())));
    assert!(is_established(&good));
    assert_eq!(
        refused(&established(Box::new(bad())), &good),
        [
            "spec.conversion.webhookClientConfig.caBundle: Invalid value: \"bm90aGluZw==\": unable to load root certificates: unable to parse bytes as PEM block"
        ]
    );
    assert!(refused(&good, &without).is_empty());
}

#[test]
fn columns_scale_and_selectable_fields_need_good_paths() {
    let version = |part: &'static str, value: Value| {
        move |it: &mut Value| it["spec"]["versions"][0][part] = value
    };
    check(
        version(
            "additionalPrinterColumns",
            json!([{ "name": "", "type": "text", "jsonPath": "x" }]),
        ),
        &[
            "spec.additionalPrinterColumns[0].name: Required value",
            "spec.additionalPrinterColumns[0].type: Invalid value: \"text\": must be one of boolean,date,integer,number,string",
            "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"x\"",
        ],
    );
    check(
        version(
            "subresources",
            json!({ "scale": { "specReplicasPath": ".status.n", "statusReplicasPath": ".status.n" } }),
        ),
        &[
            "spec.subresources.scale.specReplicasPath: Invalid value: \".status.n\": should be a json path under .spec",
        ],
    );
    check(
        version(
            "selectableFields",
            json!([
                { "jsonPath": ".spec.color" },
                { "jsonPath": ".spec.parts" },
                { "jsonPath": ".metadata.name" },
            ]),
        ),
        &[
            "spec.selectableFields[1].jsonPath: Invalid value: \".spec.parts\"",
            "spec.selectableFields[2].jsonPath: Invalid value: \".metadata.name\"",
        ],
    );
}

#[test]
fn defaults_and_list_keys_fit_the_schema() {
    let property = |schema: Value| {
        move |it: &mut Value| {
            let root = &mut it["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            root["properties"]["spec"]["properties"]["x"] = schema;
        }
    };
    let path = "spec.validation.openAPIV3Schema.properties[spec].properties[x]";
    check(property(json!({ "type": "integer", "default": 3 })), &[]);
    check(
        property(json!({ "type": "integer", "default": "three" })),
        &[&format!("{path}.default: Invalid value: \"string\"")],
    );
    check(
        property(
            json!({ "type": "object", "properties": { "b": { "type": "string" } }, "default": { "a": 1 } }),
        ),
        &[&format!("{path}.default: Invalid value: {{\"a\":1}}: must not have unknown fields")],
    );
    check(
        property(json!({ "type": "string", "default": { "a": "b" } })),
        &[
            &format!(
                "{path}.default: Invalid value: {{\"a\":\"b\"}}: must not have unknown fields"
            ),
            &format!("{path}.default: Invalid value: \"object\":  in body must be of type string"),
        ],
    );
    let list = |keys: Value| {
        json!({
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": keys,
            "items": {
                "type": "object",
                "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
                "required": ["a"],
            },
        })
    };
    check(property(list(json!(["a"]))), &[]);
    check(
        property(list(json!(["b", "c"]))),
        &[
            &format!(
                "{path}.x-kubernetes-list-map-keys: Invalid value: [\"b\",\"c\"]: entries must all be names of item properties"
            ),
            &format!("{path}.items.properties[b].default: Required value"),
        ],
    );
    // An object within has metadata whose lists are not the author's; the rest is.
    let embedded = |spec: Value| {
        json!({
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "properties": { "metadata": { "type": "object" }, "spec": spec },
        })
    };
    check(property(embedded(list(json!(["a"])))), &[]);
    check(
        property(embedded(list(json!(["b"])))),
        &[&format!("{path}.properties[spec].items.properties[b].default: Required value")],
    );
}

#[test]
fn resources_within_resources_are_whole() {
    let property = |schema: Value| {
        move |it: &mut Value| {
            let root = &mut it["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            root["properties"]["spec"]["properties"]["x"] = schema;
        }
    };
    let at = |rest: &str| {
        format!("spec.validation.openAPIV3Schema.properties[spec].properties[x].{rest}")
    };
    let embedded = |rest: Value| {
        let mut schema = json!({ "x-kubernetes-embedded-resource": true });
        schema.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        property(schema)
    };
    let nothing = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
    let object = "must be object if x-kubernetes-embedded-resource is true";
    check(
        embedded(json!({ "type": "string" })),
        &[
            &at(&format!("properties: Required value: {nothing}")),
            &at(&format!("type: Invalid value: \"string\": {object}")),
        ],
    );
    check(
        embedded(json!({ "x-kubernetes-preserve-unknown-fields": true })),
        &[&at(&format!("type: Required value: {object}"))],
    );
    check(embedded(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })), &[]);
    check(
        embedded(json!({ "type": "object", "properties": {
            "kind": { "type": "integer" }, "metadata": { "type": "string" },
        } })),
        &[
            &at("properties[kind].type: Invalid value: \"integer\": must be string"),
            &at("properties[metadata].type: Invalid value: \"string\": must be object"),
        ],
    );
    let both =
        json!({ "x-kubernetes-int-or-string": true, "x-kubernetes-preserve-unknown-fields": true });
    let excluded = "must be false if x-kubernetes-int-or-string is true";
    check(
        property(both),
        &[&at(&format!("x-kubernetes-preserve-unknown-fields: Invalid value: true: {excluded}"))],
    );
    check(
        |it| {
            let root = &mut it["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            root["properties"]["metadata"] =
                json!({ "type": "object", "properties": { "labels": { "type": "object" } } });
        },
        &[
            "spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
        ],
    );
}

/// With another schema.
fn with_schema(schema: Value) -> impl FnOnce(&mut Value) {
    move |it| it["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
}

#[test]
fn branches_restrict_what_is_described_outside() {
    let at = |rest: &str| format!("spec.validation.openAPIV3Schema.{rest}");
    let branch = |branch: Value| {
        with_schema(json!({
            "type": "object",
            "properties": { "x": { "type": "object", "properties": { "y": { "type": "string" } } } },
            "anyOf": [branch],
        }))
    };
    check(
        branch(
            json!({ "required": ["x"], "properties": { "x": { "properties": { "y": { "enum": ["a"] } } } } }),
        ),
        &[],
    );
    let forbidden = |word: &str, how: &str| {
        at(&format!("anyOf[0].properties[x].not.{word}: Forbidden: must be {how} to be structural"))
    };
    check(
        branch(json!({ "properties": { "x": { "not": {
            "title": "t", "nullable": true, "default": 1, "additionalProperties": true,
            "x-kubernetes-int-or-string": true, "x-kubernetes-list-map-keys": ["a"],
        } } } })),
        &[
            &forbidden("additionalProperties", "undefined"),
            &forbidden("default", "undefined"),
            &forbidden("nullable", "false"),
            &forbidden("title", "empty"),
            &forbidden("x-kubernetes-int-or-string", "false"),
            &forbidden("x-kubernetes-list-map-keys", "empty"),
            &at("anyOf[0].properties[x].not.x-kubernetes-list-type: Required value"),
        ],
    );
    check(
        branch(json!({ "properties": { "z": {}, "metadata": {} } })),
        &[
            &at(
                "anyOf[0].properties[metadata]: Forbidden: must not be specified in a nested context",
            ),
            &at(
                "properties[metadata]: Required value: because it is defined in spec.validation.openAPIV3Schema.anyOf[0].properties[metadata]",
            ),
            &at(
                "properties[z]: Required value: because it is defined in spec.validation.openAPIV3Schema.anyOf[0].properties[z]",
            ),
        ],
    );
    let port = |any_of: Value| {
        with_schema(json!({ "type": "object", "properties": {
            "port": { "x-kubernetes-int-or-string": true, "anyOf": any_of },
        } }))
    };
    check(port(json!([{ "type": "integer" }, { "type": "string" }])), &[]);
    check(
        port(json!([{ "type": "string" }, { "type": "integer" }])),
        &[
            &at("properties[port].anyOf[0].type: Forbidden"),
            &at("properties[port].anyOf[1].type: Forbidden"),
        ],
    );
}

#[test]
fn nothing_is_said_of_the_structure_of_what_cannot_have_one() {
    let at = |rest: &str| format!("spec.validation.openAPIV3Schema.{rest}");
    check(
        with_schema(json!({ "properties": { "a": { "id": "x", "default": { "b": 1 } } } })),
        &[&at("properties[a].id: Forbidden: id is not supported")],
    );
    check(
        with_schema(json!({ "type": "object", "$schema": "x" })),
        &[
            "spec.validation.openAPIV3Schema: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported",
        ],
    );
    // These are refused and say nothing, so that the rest can be read.
    check(
        with_schema(json!({ "dependencies": {} })),
        &[
            &at("type: Required value: must not be empty at the root"),
            &at("dependencies: Forbidden: dependencies is not supported"),
        ],
    );
}

#[test]
fn what_every_object_has_gets_no_default() {
    let at = |rest: &str| format!("spec.validation.openAPIV3Schema.properties[metadata].{rest}");
    check(
        with_schema(json!({ "type": "object", "properties": { "metadata": {
            "type": "object", "properties": { "name": { "type": "string", "default": "a" } },
        } } })),
        &[&at("properties[name].default: Forbidden: must not be set in top-level metadata")],
    );
}

#[test]
fn lists_that_merge_have_items_that_can_be_told_apart() {
    let list = |rest: Value| {
        let mut list = json!({ "type": "array" });
        list.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        with_schema(json!({ "type": "object", "properties": { "x": list } }))
    };
    let at = |rest: &str| format!("spec.validation.openAPIV3Schema.properties[x].{rest}");
    check(
        list(json!({ "x-kubernetes-list-type": "set", "items": { "type": "object" } })),
        &[&at(
            "items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set",
        )],
    );
    check(
        list(json!({
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
            "items": { "type": "string", "nullable": true },
        })),
        &[
            &at(
                "items.type: Invalid value: \"string\": must be object if parent array's x-kubernetes-list-type is map",
            ),
            &at("items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is map"),
        ],
    );
}

#[test]
fn a_status_of_its_own_leaves_little_to_the_root() {
    let with_status = |schema: Value| {
        move |it: &mut Value| {
            with_schema(schema)(it);
            it["spec"]["versions"][0]["subresources"] = json!({ "status": {} });
        }
    };
    check(with_status(json!({ "type": "object", "description": "d" })), &[]);
    check(
        with_status(json!({ "type": "object", "nullable": true })),
        &[
            "spec.validation.openAPIV3Schema: Invalid value: {\"nullable\":true,\"type\":\"object\"}: only [Description Type Format",
            "spec.validation.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root",
        ],
    );
    check(
        with_status(json!({ "type": "string" })),
        &[
            "spec.validation.openAPIV3Schema.type: Invalid value: \"string\": only \"object\" is allowed as the type at the root",
            "spec.validation.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
        ],
    );
}

#[test]
fn what_versions_have_in_common_is_the_definitions() {
    let two = |change: fn(&mut Value)| {
        move |it: &mut Value| {
            let mut second = it["spec"]["versions"][0].clone();
            second["name"] = json!("v2");
            second["storage"] = json!(false);
            change(&mut second);
            it["spec"]["versions"].as_array_mut().unwrap().push(second);
            for version in it["spec"]["versions"].as_array_mut().unwrap() {
                version["additionalPrinterColumns"] =
                    json!([{ "name": "", "type": "string", "jsonPath": ".a" }]);
            }
        }
    };
    let columns = "spec.additionalPrinterColumns[0].name: Required value";
    check(two(|_| {}), &[columns]);
    check(
        two(|it| it["schema"]["openAPIV3Schema"]["properties"]["x"] = json!({})),
        &["spec.versions[1].schema.openAPIV3Schema.properties[x].type: Required value", columns],
    );
    check(
        |it| it["spec"]["versions"] = json!(null),
        &[
            "spec.versions: Invalid value: null: must have exactly one version marked as storage version",
            "status.storedVersions: Invalid value: null: must have at least one stored version",
        ],
    );
}

#[test]
fn warnings_of_versions_are_for_those_that_go() {
    let warning = |is_deprecated: bool, text: &str| {
        let text = text.to_owned();
        move |it: &mut Value| {
            it["spec"]["versions"][0]["deprecated"] = json!(is_deprecated);
            it["spec"]["versions"][0]["deprecationWarning"] = json!(text);
        }
    };
    let path = "spec.versions[0].deprecationWarning: Invalid value:";
    check(warning(true, "use v2"), &[]);
    check(
        warning(false, "use v2"),
        &[&format!("{path} \"use v2\": can only be set for deprecated versions")],
    );
    check(warning(true, ""), &[&format!("{path} \"\": must not be an empty string")]);
    check(
        warning(true, "a\nb"),
        &[&format!(
            "{path} \"a\\nb\": must only contain printable UTF-8 characters; non-printable character found at index 1"
        )],
    );
}

#[test]
fn what_another_server_accepted_is_judged_again_when_it_changes() {
    // `spec` has no such fields: a rule that this server would not take.
    let ruled = |rule: &str| {
        definition(|it| {
            let root = &mut it["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            root["properties"]["spec"]["x-kubernetes-validations"] = json!([{ "rule": rule }]);
        })
    };
    let check = |crd: &CustomResourceDefinition, expected: &[&str]| {
        let mut errors = FieldErrors::new();
        crd.validate(&mut errors);
        crd.validate_update(&ruled("self.nowhere != 'red'"), Part::Main, &mut errors);
        let paths: Vec<&str> = errors.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, expected);
    };
    let mut same = ruled("self.nowhere != 'red'");
    same.metadata.finalizers = Some(vec!["example.org/wait".to_owned()]);
    check(&same, &[]);
    let path = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
    check(&ruled("self.nowhere != 'blue'"), &[path]);
    check(&definition(|_| {}), &[]);
}

#[test]
fn an_established_definition_keeps_scope_kind_and_stored_versions() {
    let mut stored = definition(|_| {});
    stored.prepare_create();
    stored.status = Some(status_with_names(&stored, &TakenNames::default(), Timestamp::UNIX_EPOCH));
    let mut crd = definition(|it| {
        it["spec"]["scope"] = json!("Cluster");
        it["spec"]["versions"][0]["name"] = json!("v2");
    });
    crd.prepare_update(&stored, Part::Main);
    assert!(crd.is_new_generation(&stored));
    let mut errors = FieldErrors::new();
    crd.validate_update(&stored, Part::Main, &mut errors);
    let paths: Vec<&str> = errors.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["spec.scope", "status.storedVersions[0]"]);
    assert_eq!(crd.status.unwrap().stored_versions.unwrap(), ["v1", "v2"]);
}

/// `(type, status, reason, message)` of the conditions.
fn conditions(status: &CustomResourceDefinitionStatus) -> Vec<(&str, &str, &str, &str)> {
    let conditions = status.conditions.iter().flatten();
    let text = |it: &'_ Option<String>| it.as_deref().unwrap_or_default().to_owned().leak() as &str;
    conditions
        .map(|it| (it.type_.as_str(), it.status.as_str(), text(&it.reason), text(&it.message)))
        .collect()
}

#[test]
fn free_names_are_accepted_and_establish_the_kind() {
    let mut crd = definition(|_| {});
    crd.prepare_create();
    let now = Timestamp::from_second(10).unwrap();
    let status = status_with_names(&crd, &TakenNames::default(), now);
    assert_eq!(
        conditions(&status),
        [
            ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
            ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
        ]
    );
    assert_eq!(status.accepted_names.as_ref().map(|it| &it.plural), Some(&"fruits".to_owned()));
    crd.status = Some(status.clone());
    let later = Timestamp::from_second(20).unwrap();
    assert_eq!(status_with_names(&crd, &TakenNames::default(), later), status);
    // Nobody here says which generation a condition is about; who does is not contradicted.
    let generation = |it: &CustomResourceDefinitionStatus| {
        it.conditions.iter().flatten().map(|it| it.observed_generation).collect::<Vec<_>>()
    };
    assert_eq!(generation(&status), [None, None]);
    let told = crd.status.as_mut().unwrap();
    told.conditions.as_mut().unwrap()[0].observed_generation = Some(3);
    let status = status_with_names(&crd, &TakenNames::default(), later);
    assert_eq!(generation(&status), [Some(3), None]);
}

#[test]
fn names_of_others_are_refused_one_by_one() {
    let mut first = definition(|_| {});
    first.prepare_create();
    first.status = Some(status_with_names(&first, &TakenNames::default(), Timestamp::UNIX_EPOCH));
    let mut second = definition(|it| {
        it["metadata"]["name"] = json!("frogs.example.org");
        it["spec"]["names"] = json!({ "plural": "frogs", "kind": "Frog", "shortNames": ["fr"] });
    });
    second.prepare_create();
    let taken = TakenNames::beside(&second, [&first, &second]);
    let status = status_with_names(&second, &taken, Timestamp::UNIX_EPOCH);
    assert_eq!(
        conditions(&status),
        [
            ("NamesAccepted", "False", "ShortNamesConflict", "\"fr\" is already in use"),
            ("Established", "False", "NotAccepted", "not all names are accepted"),
        ]
    );
    let names = status.accepted_names.unwrap();
    assert_eq!((names.plural.as_str(), names.short_names), ("frogs", None));
}

#[test]
fn what_upstream_stores_as_v1beta1_is_read_as_v1() {
    let check = |stored: Value, expected: Value| {
        let json = stored.to_string();
        let converted = CustomResourceDefinition::convert_stored(
            "apiextensions.k8s.io/v1beta1",
            json.as_bytes(),
        );
        let converted = converted.expect("a version that it is stored in").expect("an object");
        let spec = serde_json::from_slice::<Value>(&converted).unwrap();
        assert_eq!(spec["apiVersion"], "apiextensions.k8s.io/v1");
        assert_eq!(spec["spec"], expected);
        CustomResourceDefinition::decode(&converted).expect("the typed kind takes it");
    };
    let version = |name: &str, is_stored: bool| {
        json!({
            "name": name, "served": true, "storage": is_stored,
            "schema": {"openAPIV3Schema": {"type": "object"}},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}],
        })
    };
    check(
        json!({"apiVersion": "apiextensions.k8s.io/v1beta1", "spec": {
            "group": "example.org", "version": "v1",
            "validation": {"openAPIV3Schema": {"type": "object"}},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [{"name": "Color", "type": "string", "JSONPath": ".spec.color"}],
            "versions": [{"name": "v1", "served": true, "storage": true}, {"name": "v2", "served": true, "storage": false}],
            "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v1"]},
            "preserveUnknownFields": false,
        }}),
        json!({
            "group": "example.org",
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": {
                "clientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v1"],
            }},
            "preserveUnknownFields": false,
        }),
    );
    check(
        json!({"spec": {"version": "v1"}}),
        json!({
            "versions": [{"name": "v1", "served": true, "storage": true}],
            "preserveUnknownFields": true,
        }),
    );
    assert!(CustomResourceDefinition::convert_stored("apiextensions.k8s.io/v2", b"{}").is_none());
}

/// A definition in a group of Kubernetes' own.
fn protected(annotation: Option<&str>) -> CustomResourceDefinition {
    definition(|it| {
        it["metadata"]["name"] = json!("fruits.food.k8s.io");
        it["spec"]["group"] = json!("food.k8s.io");
        if let Some(text) = annotation {
            it["metadata"]["annotations"] = json!({ "api-approved.kubernetes.io": text });
        }
    })
}

#[test]
fn a_definition_in_a_protected_group_says_who_approved_it() {
    let check = |annotation: Option<&str>, problem: &str, reason: &str| {
        let mut crd = protected(annotation);
        let mut errors = FieldErrors::new();
        crd.validate_create(&mut errors);
        let problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(problems.join("\n").contains(problem) && problems.is_empty() == problem.is_empty());
        crd.prepare_create();
        let status = status_with_names(&crd, &TakenNames::default(), Timestamp::UNIX_EPOCH);
        let conditions = conditions(&status);
        let approval =
            conditions.iter().find(|it| it.0 == "KubernetesAPIApprovalPolicyConformant").unwrap();
        assert_eq!(approval.2, reason);
        assert_eq!(approval.1, if reason == "ApprovedAnnotation" { "True" } else { "False" });
    };
    check(None, "Required value: protected groups must have", "MissingAnnotation");
    check(Some(""), "Required value: protected groups must have", "MissingAnnotation");
    check(Some("yes"), "with either a URL or a reason", "InvalidAnnotation");
    check(Some("://x"), "with either a URL or a reason", "InvalidAnnotation");
    check(Some("unapproved, a test"), "", "UnapprovedAnnotation");
    check(Some("https://github.com/kubernetes/enhancements/pull/1"), "", "ApprovedAnnotation");
}

#[test]
fn approval_may_stay_as_it_was() {
    let check = |before: Option<&str>, after: Option<&str>, is_right: bool| {
        let (mut stored, mut crd) = (protected(before), protected(after));
        stored.prepare_create();
        crd.prepare_update(&stored, Part::Main);
        let mut errors = FieldErrors::new();
        crd.validate_update(&stored, Part::Main, &mut errors);
        assert_eq!(errors.is_empty(), is_right, "{before:?} {after:?}");
    };
    check(None, None, true);
    check(Some("yes"), Some("no"), true);
    check(Some("unapproved"), None, false);
    check(Some("unapproved"), Some("yes"), false);
    check(None, Some("unapproved"), true);
}

#[test]
fn names_of_built_in_kinds_are_taken_for_ever() {
    let mut crd = definition(|it| {
        it["metadata"]["name"] = json!("rolebindings.rbac.authorization.k8s.io");
        it["metadata"]["annotations"] = json!({ "api-approved.kubernetes.io": "unapproved" });
        it["spec"]["group"] = json!("rbac.authorization.k8s.io");
        it["spec"]["names"] = json!({ "plural": "rolebindings", "kind": "RoleBinding" });
    });
    crd.prepare_create();
    let taken = TakenNames::beside(&crd, [&crd]).with_built_in(&crd.spec.group, &crate::kinds());
    let status = status_with_names(&crd, &taken, Timestamp::UNIX_EPOCH);
    let conditions = conditions(&status);
    assert_eq!((conditions[0].0, conditions[0].1), ("NamesAccepted", "False"));
    assert_eq!(conditions[0].3, "\"RoleBindingList\" is already in use", "{conditions:?}");
    assert_eq!((conditions[1].0, conditions[1].1), ("Established", "False"));
    let other = TakenNames::beside(&crd, [&crd]).with_built_in("example.org", &crate::kinds());
    assert_eq!(other, TakenNames::default());
}

#[test]
fn formats_that_mean_nothing_are_told_of_when_they_are_new() {
    let with = |formats: &[(&str, &str)]| {
        let properties: serde_json::Map<String, Value> = formats
            .iter()
            .enumerate()
            .map(|(n, (type_, format))| (n.to_string(), json!({"type": type_, "format": format})))
            .collect();
        let items = json!({"type": "object", "properties": properties});
        definition(|tree| {
            let spec = json!({"type": "array", "items": items});
            tree["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
                json!({"type": "object", "properties": {"spec": spec}});
        })
    };
    let well = with(&[("string", "date-time"), ("string", "k8s-short-name"), ("integer", "int64")]);
    assert_eq!(well.warnings(), Vec::<String>::new());
    let odd = with(&[("string", "int32"), ("integer", "float"), ("boolean", "date")]);
    let said = ["int32", "float", "date"].map(|it| format!("unrecognized format {it:?}"));
    assert_eq!(odd.warnings(), said);
    assert_eq!(odd.update_warnings(&well, Part::Main), said);
    assert_eq!(odd.update_warnings(&odd, Part::Main), Vec::<String>::new());
}

#[test]
fn a_schema_that_is_not_structural_is_told_of_until_it_is() {
    let crd = definition(|it| {
        let root = &mut it["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        root["properties"]["untyped"] = json!({});
    });
    let settle = |crd: &CustomResourceDefinition| {
        let status = status_with_names(crd, &TakenNames::default(), Timestamp::UNIX_EPOCH);
        CustomResourceDefinition { status: Some(status), ..crd.clone() }
    };
    let shown = |crd: &CustomResourceDefinition| -> Vec<String> {
        let conditions = crd.status.iter().flat_map(|it| it.conditions.iter().flatten());
        conditions
            .map(|it| {
                let reason = it.reason.as_deref().unwrap_or_default();
                format!("{}={} {reason}", it.type_, it.status)
            })
            .collect()
    };
    let mut crd = settle(&crd);
    let named = [
        "NamesAccepted=True NoConflicts",
        "Established=True InitialNamesAccepted",
        "NonStructuralSchema=True Violations",
    ];
    assert_eq!(shown(&crd), named);
    crd.spec.versions.clone_from(&definition(|_| {}).spec.versions);
    let named = ["NamesAccepted=True NoConflicts", "Established=True InitialNamesAccepted"];
    assert_eq!(shown(&settle(&crd)), named);
}
