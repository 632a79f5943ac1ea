//! What a server says that it serves, in either form of discovery, as the aggregated form has it.
//! What cannot be read, or is of another version, is left out: whoever answers may say anything.
//! Pure.

use std::collections::BTreeMap;

use apimachinery::GroupVersion;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Of one version.
const RESOURCES_MAX: usize = 2_000;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("its discovery document cannot be read")]
    Unreadable(#[source] serde_json::Error),
    #[error("its discovery document does not have {0}")]
    Missing(GroupVersion),
    #[error("its discovery document has more than {RESOURCES_MAX} resources")]
    TooMany,
}

#[derive(Deserialize)]
struct Aggregated {
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    metadata: GroupMeta,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct GroupMeta {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Resource {
    resource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_kind: Option<Kind>,
    scope: String,
    singular_resource: String,
    verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    short_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    categories: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    subresources: Vec<Subresource>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Subresource {
    subresource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_kind: Option<Kind>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accepted_types: Vec<Kind>,
    verbs: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Kind {
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize)]
struct Legacy {
    #[serde(default)]
    resources: Vec<LegacyResource>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LegacyResource {
    name: String,
    singular_name: String,
    namespaced: bool,
    group: String,
    version: String,
    kind: String,
    verbs: Vec<String>,
    short_names: Vec<String>,
    categories: Vec<String>,
}

/// From the aggregated form of `/apis`.
pub(super) fn from_aggregated(body: &[u8], wanted: &GroupVersion) -> Result<Bytes, Error> {
    let document: Aggregated = serde_json::from_slice(body).map_err(Error::Unreadable)?;
    let mut groups = document.items.into_iter().filter(|it| it.metadata.name == wanted.group);
    let version =
        groups.find_map(|it| it.versions.into_iter().find(|it| it.version == wanted.version));
    let version = version.ok_or_else(|| Error::Missing(wanted.clone()))?;
    written(version.resources)
}

/// From the resources of the version alone.
pub(super) fn from_legacy(body: &[u8], wanted: &GroupVersion) -> Result<Bytes, Error> {
    let document: Legacy = serde_json::from_slice(body).map_err(Error::Unreadable)?;
    let mut found: BTreeMap<String, Resource> = BTreeMap::new();
    for it in document.resources {
        let kind = it.response_kind(wanted);
        let (name, subresource) = match it.name.split_once('/') {
            Some((name, subresource)) => (name.to_owned(), Some(subresource.to_owned())),
            None => (it.name.clone(), None),
        };
        let scope = if it.namespaced { "Namespaced" } else { "Cluster" };
        let resource = found.entry(name.clone()).or_insert_with(|| Resource {
            resource: name,
            scope: scope.to_owned(),
            ..Resource::default()
        });
        match subresource {
            Some(subresource) => resource.subresources.push(Subresource {
                subresource,
                response_kind: kind,
                verbs: it.verbs,
                ..Subresource::default()
            }),
            None => {
                let before = std::mem::take(resource);
                *resource = Resource {
                    response_kind: kind,
                    scope: scope.to_owned(),
                    singular_resource: it.singular_name,
                    verbs: it.verbs,
                    short_names: it.short_names,
                    categories: it.categories,
                    ..before
                };
            }
        }
    }
    written(found.into_values().collect())
}

impl LegacyResource {
    fn response_kind(&self, wanted: &GroupVersion) -> Option<Kind> {
        let (group, version) = match self.version.is_empty() {
            true => (wanted.group.clone(), wanted.version.clone()),
            false => (self.group.clone(), self.version.clone()),
        };
        (!self.kind.is_empty()).then(|| Kind { group, version, kind: self.kind.clone() })
    }
}

fn written(mut resources: Vec<Resource>) -> Result<Bytes, Error> {
    if resources.len() > RESOURCES_MAX {
        return Err(Error::TooMany);
    }
    resources.retain(|it| !it.resource.is_empty());
    for it in &mut resources {
        if it.scope != "Cluster" {
            "Namespaced".clone_into(&mut it.scope);
        }
    }
    serde_json::to_vec(&resources).map(Bytes::from).map_err(Error::Unreadable)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(seen: Result<Bytes, Error>, expected: Value) {
        let seen: Value = serde_json::from_slice(&seen.expect("read")).unwrap();
        assert_eq!(seen, expected);
    }

    #[test]
    fn either_form_says_the_same() {
        let wanted = GroupVersion::new("wardle.example.com", "v1");
        let expected = json!([{
            "resource": "flunders", "scope": "Namespaced", "singularResource": "flunder",
            "responseKind": {"group": "wardle.example.com", "version": "v1", "kind": "Flunder"},
            "verbs": ["get", "list"], "shortNames": ["fl"],
            "subresources": [{
                "subresource": "scale", "verbs": ["get"],
                "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
            }],
        }]);
        let legacy = json!({"kind": "APIResourceList", "groupVersion": "wardle.example.com/v1", "resources": [
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
             "verbs": ["get", "list"], "shortNames": ["fl"]},
            {"name": "flunders/scale", "singularName": "", "namespaced": true, "kind": "Scale",
             "group": "autoscaling", "version": "v1", "verbs": ["get"]},
        ]});
        check(from_legacy(legacy.to_string().as_bytes(), &wanted), expected.clone());
        let aggregated = json!({"kind": "APIGroupDiscoveryList", "items": [
            {"metadata": {"name": "other.example.com"}, "versions": [{"version": "v1", "resources": []}]},
            {"metadata": {"name": "wardle.example.com"}, "versions": [
                {"version": "v2", "resources": []},
                {"version": "v1", "resources": expected, "freshness": "Stale"},
            ]},
        ]});
        check(from_aggregated(aggregated.to_string().as_bytes(), &wanted), expected);
    }

    #[test]
    fn a_subresource_may_stand_alone() {
        let wanted = GroupVersion::new("custom.metrics.k8s.io", "v1beta2");
        let legacy = json!({"resources": [
            {"name": "pods/rps", "namespaced": true, "kind": "MetricValueList", "verbs": ["get"]},
        ]});
        let kind = json!({"group": "custom.metrics.k8s.io", "version": "v1beta2", "kind": "MetricValueList"});
        check(
            from_legacy(legacy.to_string().as_bytes(), &wanted),
            json!([{
                "resource": "pods", "scope": "Namespaced", "singularResource": "", "verbs": [],
                "subresources": [{"subresource": "rps", "responseKind": kind, "verbs": ["get"]}],
            }]),
        );
    }

    #[test]
    fn what_is_no_discovery_is_refused() {
        let wanted = GroupVersion::new("a", "v1");
        for garbage in ["", "[]", "null", "{\"items\": 7}", "<html>", "{\"items\": [{}]}"] {
            assert!(from_aggregated(garbage.as_bytes(), &wanted).is_err(), "{garbage}");
        }
        for garbage in ["", "null", "{\"resources\": {}}", "{\"resources\": [{\"verbs\": 1}]}"] {
            assert!(from_legacy(garbage.as_bytes(), &wanted).is_err(), "{garbage}");
        }
        let many = vec![json!({"name": "x"}); RESOURCES_MAX + 1];
        let many: Vec<Value> = many
            .into_iter()
            .enumerate()
            .map(|(index, _)| json!({"name": format!("x{index}")}))
            .collect();
        let many = json!({"resources": many}).to_string();
        assert!(matches!(from_legacy(many.as_bytes(), &wanted), Err(Error::TooMany)));
    }
}
