//! `kubectl explain` of every schema that is published: every kind of every version, and every field
//! below it, found as kubectl finds them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::cluster::Cluster;

const REFERENCE: &str = "#/components/schemas/";
/// All that there is, also what nobody serves who is not asked to.
const EVERYTHING: &[&str] = &[
    "--runtime-config=api/all=true",
    "--feature-gates=ClusterTrustBundle=true,DRADeviceTaintRules=true,DRAResourcePoolStatus=true,\
     GenericWorkload=true,PodCertificateRequest=true,StorageVersionAPI=true,\
     StorageVersionMigrator=true",
];

const DEFINITION: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: lamps.example.org }
spec:
  group: example.org
  scope: Namespaced
  names: { plural: lamps, singular: lamp, kind: Lamp }
  versions:
  - name: v1
    served: true
    storage: true
    subresources: { status: {} }
    schema:
      openAPIV3Schema:
        type: object
        description: A lamp gives light.
        properties:
          spec:
            type: object
            description: What it should do.
            required: [brightness]
            properties:
              brightness: { type: integer, description: In lumen. }
              colors:
                type: array
                items: { type: object, properties: { name: { type: string }, share: { x-kubernetes-int-or-string: true } } }
              labels: { type: object, additionalProperties: { type: string } }
              raw: { type: object, x-kubernetes-preserve-unknown-fields: true }
              template: { type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true }
          status: { type: object, properties: { isLit: { type: boolean } } }
";

fn start() -> Option<Cluster> {
    let cluster = Cluster::start_with(tempfile::tempdir().unwrap(), 0, EVERYTHING)?;
    cluster.ok(&["apply", "-f", &cluster.file("lamps.yaml", DEFINITION)]);
    cluster.until_established("lamps.example.org");
    Some(cluster)
}

fn raw(cluster: &Cluster, path: &str) -> Value {
    serde_json::from_str(&cluster.ok(&["get", "--raw", path])).unwrap()
}

/// The kinds of each `apis/GROUP/VERSION`, with the name of their resource, as discovery says.
fn kinds(cluster: &Cluster) -> BTreeMap<String, BTreeMap<String, String>> {
    let index = raw(cluster, "/openapi/v3");
    let places = index["paths"].as_object().unwrap().keys();
    let places = places.filter(|it| *it == "api/v1" || it.matches('/').count() == 2);
    let of = |place: &String| {
        let discovered = raw(cluster, &format!("/{place}"));
        let resources = discovered["resources"].as_array().unwrap().clone();
        let main = resources.into_iter().filter_map(|it| {
            let name = it["name"].as_str()?.to_owned();
            (!name.contains('/')).then(|| (it["kind"].as_str().unwrap().to_owned(), name))
        });
        (place.clone(), main.collect())
    };
    places.map(of).collect()
}

/// A document, and how kubectl goes through it.
struct Document {
    place: String,
    schemas: Map<String, Value>,
}

impl Document {
    fn read(cluster: &Cluster, place: &str) -> Self {
        let mut document = raw(cluster, &format!("/openapi/v3/{place}"));
        let Value::Object(schemas) = document["components"]["schemas"].take() else {
            panic!("{place}: no schemas")
        };
        Self { place: place.to_owned(), schemas }
    }

    /// The one schema that says to be of this kind.
    fn of(&self, kind: &str) -> &Value {
        let mut words: Vec<&str> = self.place.split('/').collect();
        let version = words.pop().unwrap();
        let group = words.get(1).copied().unwrap_or_default();
        let is_it = |it: &&Value| {
            let said = it["x-kubernetes-group-version-kind"].as_array();
            said.into_iter().flatten().any(|it| {
                (&it["group"], &it["version"], &it["kind"])
                    == (&Value::from(group), &Value::from(version), &Value::from(kind))
            })
        };
        let found: Vec<&Value> = self.schemas.values().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{}: schemas of {kind}", self.place);
        found[0]
    }

    /// The fields of a schema by name: its own, and those of what it refers to, is a list of, or is
    /// put together from.
    fn fields<'a>(&'a self, schema: &'a Value, path: &str) -> BTreeMap<&'a str, &'a Value> {
        let mut fields = BTreeMap::new();
        let mut left = vec![schema];
        while let Some(schema) = left.pop() {
            let schema = match schema["$ref"].as_str() {
                Some(reference) => self.referred(reference, path),
                None => schema,
            };
            left.extend(["items", "additionalProperties"].iter().filter_map(|it| schema.get(it)));
            for key in ["allOf", "anyOf", "oneOf"] {
                left.extend(schema[key].as_array().into_iter().flatten());
            }
            let own = schema["properties"].as_object().into_iter().flatten();
            fields.extend(own.map(|(name, schema)| (name.as_str(), schema)));
        }
        fields
    }

    fn referred(&self, reference: &str, path: &str) -> &Value {
        let found = reference.strip_prefix(REFERENCE).and_then(|it| self.schemas.get(it));
        found.unwrap_or_else(|| panic!("{}: {path}: nothing is at {reference}", self.place))
    }

    /// How many fields there are below, none of which leads nowhere. Schemas that have themselves
    /// inside are looked at once on the way down.
    fn walk<'a>(&'a self, schema: &'a Value, path: &str, above: &mut Vec<&'a str>) -> usize {
        let mut count = 0;
        for (name, schema) in self.fields(schema, path) {
            let path = format!("{path}.{name}");
            count += 1;
            let name = referred_to(schema);
            if name.is_some_and(|it| above.contains(&it)) {
                continue;
            }
            above.extend(name);
            count += self.walk(schema, &path, above);
            above.truncate(above.len() - usize::from(name.is_some()));
        }
        count
    }
}

/// The definition that a field is of, also as a list, a map or beside other words.
fn referred_to(schema: &Value) -> Option<&str> {
    let inside = ["items", "additionalProperties"].iter().find_map(|it| schema.get(it));
    let reference = schema["$ref"].as_str().or_else(|| schema["allOf"][0]["$ref"].as_str());
    reference.or_else(|| inside.and_then(referred_to))
}

#[test]
fn every_field_of_every_kind_leads_somewhere() {
    let Some(cluster) = start() else { return };
    let kinds = kinds(&cluster);
    let mut counts = BTreeMap::new();
    for (place, kinds) in &kinds {
        let document = Document::read(&cluster, place);
        for kind in kinds.keys() {
            let schema = document.of(kind);
            let fields = document.fields(schema, kind);
            assert!(fields.contains_key("apiVersion") && fields.contains_key("kind"), "{kind}");
            let count = document.walk(schema, kind, &mut Vec::new());
            counts.insert(format!("{place} {kind}"), count);
        }
    }
    // None is left out: 95 rows of upstream's table, ours, and the definition's.
    assert!(counts.len() >= 96, "{}", counts.len());
    assert_eq!(counts["apis/example.org/v1 Lamp"], {
        let meta = Document::read(&cluster, "apis/example.org/v1");
        let whole = meta.fields(&meta.schemas[definition(&meta)], "Lamp")["metadata"].clone();
        // apiVersion, kind, metadata, spec, brightness, colors, name, share, labels, raw, template
        // with three, status, isLit.
        13 + meta.walk(&whole, "metadata", &mut Vec::new()) + template_fields(&meta)
    });
    assert!(counts["api/v1 Pod"] > 800, "{}", counts["api/v1 Pod"]);
}

fn definition(document: &Document) -> &str {
    let name = document.schemas.iter().find(|(_, it)| std::ptr::eq(*it, document.of("Lamp")));
    name.unwrap().0
}

/// What every object has, which a template is.
fn template_fields(document: &Document) -> usize {
    let spec = document.fields(document.of("Lamp"), "Lamp")["spec"];
    let template = document.fields(spec, "spec")["template"];
    document.walk(template, "template", &mut Vec::new())
}

/// Lines as `  name <type>`: the names that are indented by so much.
fn names_at(indent: usize, explained: &str) -> Vec<&str> {
    let listed = explained.split_once("FIELDS:\n").map_or("", |(_, it)| it);
    let names = listed.lines().filter_map(|it| {
        let name = it.get(indent..).filter(|rest| !rest.starts_with(' '))?;
        it[..indent].trim().is_empty().then_some(name.split(['\t', ' ']).next()?)
    });
    // What stands below a field that has only some values.
    names.filter(|it| !it.is_empty() && *it != "enum:").collect()
}

#[test]
fn kubectl_explains_a_kind_of_every_version_with_all_that_is_below() {
    let Some(cluster) = start() else { return };
    for (place, kinds) in kinds(&cluster) {
        let (kind, resource) = kinds.iter().next_back().unwrap();
        let document = Document::read(&cluster, &place);
        let name = format!("{resource} of {place}");
        let api_version = place.trim_start_matches("apis/").trim_start_matches("api/");
        let version = format!("--api-version={api_version}");
        let explained = cluster.ok(&["explain", "--recursive", resource, &version]);
        assert!(explained.contains(&format!("KIND:       {kind}\n")), "{name}: {explained}");
        let schema = document.of(kind);
        let fields = document.fields(schema, kind);
        let expected: Vec<&str> = fields.keys().copied().collect();
        assert_eq!(names_at(2, &explained), expected, "{name}");
        let below = fields.values().flat_map(|it| document.fields(it, kind).into_keys());
        assert_eq!(names_at(4, &explained), below.collect::<Vec<_>>(), "{name}");
    }
    let field = cluster.ok(&["explain", "lamps.spec.colors.share"]);
    assert!(field.contains("FIELD: share"), "{field}");
    let missing = cluster.refused(&["explain", "lamps.spec.smell"]);
    assert!(missing.contains(r#"field "smell" does not exist"#), "{missing}");
}
