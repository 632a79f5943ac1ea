//! Formats in schemas that mean nothing to a server of v1.36, which is told of: values are not held
//! to them.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
    JSONSchemaPropsOrStringArray,
};

use crate::check::text;

/// Of strings, without the dashes in them.
const OF_STRINGS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// In the order in which they are met.
pub(super) fn unrecognized(crd: &CustomResourceDefinition) -> Vec<String> {
    let mut found = Vec::new();
    for version in &crd.spec.versions {
        let schema = version.schema.as_ref().and_then(|it| it.open_api_v3_schema.as_ref());
        schema.into_iter().for_each(|it| collect(it, &mut found));
    }
    found
}

fn collect(schema: &JSONSchemaProps, found: &mut Vec<String>) {
    let format = text(schema.format.as_ref());
    if !format.is_empty() && !is_recognized(text(schema.type_.as_ref()), format) {
        found.push(format.to_owned());
    }
    for schema in below(schema) {
        collect(schema, found);
    }
}

fn is_recognized(type_: &str, format: &str) -> bool {
    match type_ {
        "" | "string" => OF_STRINGS.contains(&format.replace('-', "").as_str()),
        "integer" => ["int32", "int64"].contains(&format),
        "number" => ["float", "double"].contains(&format),
        _ => false,
    }
}

fn schema_of(either: Option<&JSONSchemaPropsOrBool>) -> Option<&JSONSchemaProps> {
    match either? {
        JSONSchemaPropsOrBool::Schema(it) => Some(it),
        JSONSchemaPropsOrBool::Bool(_) => None,
    }
}

fn below(schema: &JSONSchemaProps) -> Vec<&JSONSchemaProps> {
    let mut all: Vec<&JSONSchemaProps> = Vec::new();
    match &schema.items {
        Some(JSONSchemaPropsOrArray::Schema(it)) => all.push(it),
        Some(JSONSchemaPropsOrArray::Schemas(them)) => all.extend(them),
        None => {}
    }
    all.extend(schema.all_of.iter().flatten());
    all.extend(schema.any_of.iter().flatten());
    all.extend(schema.one_of.iter().flatten());
    all.extend(schema.not.as_deref());
    all.extend(schema.properties.iter().flat_map(|it| it.values()));
    all.extend(schema_of(schema.additional_properties.as_ref()));
    all.extend(schema.pattern_properties.iter().flat_map(|it| it.values()));
    all.extend(schema_of(schema.additional_items.as_ref()));
    all.extend(schema.definitions.iter().flat_map(|it| it.values()));
    let needed = schema.dependencies.iter().flat_map(|it| it.values());
    all.extend(needed.filter_map(|it| match it {
        JSONSchemaPropsOrStringArray::Schema(it) => Some(&**it),
        JSONSchemaPropsOrStringArray::Strings(_) => None,
    }));
    all
}
