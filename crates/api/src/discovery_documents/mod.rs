//! What `/api` and `/apis` answer, made from the list of served kinds: the legacy documents, one
//! per group and version, and the aggregated one (`apidiscovery.k8s.io/v2`), which says all at
//! once.

mod order;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use apimachinery::{GroupVersion, Scope};

use crate::kind::{Kind, Subresource};

pub use order::{group_priority, version_order, version_priority};

/// Version to its kinds, of one group.
type Versions<'a> = Vec<(&'a str, Vec<&'a dyn Kind>)>;

/// The group versions that have something to show, in discovery order.
pub fn group_versions(kinds: &[Arc<dyn Kind>]) -> Vec<GroupVersion> {
    groups(kinds)
        .iter()
        .flat_map(|(group, versions)| {
            versions.iter().map(|(version, _)| GroupVersion::new(*group, *version))
        })
        .collect()
}

/// GET /api, legacy form. `server_address` is `host:port` as clients reach it.
pub fn api_versions(server_address: &str) -> Vec<u8> {
    render(&json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [
            { "clientCIDR": "0.0.0.0/0", "serverAddress": server_address },
        ],
    }))
}

/// GET /apis, legacy form.
pub fn group_list(kinds: &[Arc<dyn Kind>]) -> Vec<u8> {
    let groups: Vec<Value> = named_groups(kinds)
        .map(|(group, versions)| Value::Object(group_body(group, &versions)))
        .collect();
    render(&json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }))
}

/// GET /apis/<group>.
pub fn group(kinds: &[Arc<dyn Kind>], name: &str) -> Option<Vec<u8>> {
    let (group, versions) = named_groups(kinds).find(|(group, _)| *group == name)?;
    let mut body = group_body(group, &versions);
    body.insert("kind".to_owned(), json!("APIGroup"));
    body.insert("apiVersion".to_owned(), json!("v1"));
    Some(render(&Value::Object(body)))
}

fn group_body(group: &str, versions: &Versions<'_>) -> Map<String, Value> {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(version, _)| {
            json!({ "groupVersion": format!("{group}/{version}"), "version": version })
        })
        .collect();
    Map::from_iter([
        ("name".to_owned(), json!(group)),
        ("preferredVersion".to_owned(), versions.first().cloned().unwrap_or_default()),
        ("versions".to_owned(), Value::Array(versions)),
    ])
}

/// GET /api/v1 and /apis/<group>/<version>.
pub fn resource_list(kinds: &[Arc<dyn Kind>], group_version: &GroupVersion) -> Option<Vec<u8>> {
    let kinds = groups(kinds)
        .into_iter()
        .filter(|(group, _)| *group == group_version.group)
        .flat_map(|(_, versions)| versions)
        .find(|(version, _)| *version == group_version.version)?
        .1;
    let resources: Vec<Value> = kinds.into_iter().flat_map(legacy_resources).collect();
    Some(render(&json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version.to_string(),
        "resources": resources,
    })))
}

/// The resource itself, then each subresource.
fn legacy_resources(kind: &dyn Kind) -> Vec<Value> {
    let names = kind.names();
    let is_namespaced = kind.scope() == Scope::Namespaced;
    let mut resource = Map::from_iter([
        ("name".to_owned(), json!(names.plural)),
        ("singularName".to_owned(), json!(names.singular)),
        ("namespaced".to_owned(), json!(is_namespaced)),
        ("kind".to_owned(), json!(names.kind)),
        ("verbs".to_owned(), json!(kind.verbs())),
    ]);
    insert_filled(&mut resource, "shortNames", &names.short_names);
    insert_filled(&mut resource, "categories", &names.categories);
    let hash = kind.storage_version_hash();
    if !hash.is_empty() {
        resource.insert("storageVersionHash".to_owned(), json!(hash));
    }
    let mut resources = vec![Value::Object(resource)];
    for subresource in sorted_subresources(kind) {
        let target = subresource.kind_below(names);
        let mut entry = Map::from_iter([
            ("name".to_owned(), json!(format!("{}/{}", names.plural, subresource.name))),
            ("singularName".to_owned(), json!("")),
            ("namespaced".to_owned(), json!(is_namespaced)),
            ("kind".to_owned(), json!(target.kind)),
            ("verbs".to_owned(), json!(subresource.verbs)),
        ]);
        // Only a kind from elsewhere names its group and version.
        if target.group_version() != names.gvk().group_version() {
            entry.insert("group".to_owned(), json!(target.group));
            entry.insert("version".to_owned(), json!(target.version));
        }
        resources.push(Value::Object(entry));
    }
    resources
}

/// GET /api, aggregated form: one item without a name.
pub fn aggregated_core(kinds: &[Arc<dyn Kind>]) -> Vec<u8> {
    aggregated(groups(kinds).into_iter().filter(|(group, _)| group.is_empty()))
}

/// GET /apis, aggregated form.
pub fn aggregated_groups(kinds: &[Arc<dyn Kind>]) -> Vec<u8> {
    aggregated(named_groups(kinds))
}

fn aggregated<'a>(groups: impl Iterator<Item = (&'a str, Versions<'a>)>) -> Vec<u8> {
    let items: Vec<Value> = groups
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .into_iter()
                .map(|(version, kinds)| {
                    let resources: Vec<Value> =
                        kinds.into_iter().map(aggregated_resource).collect();
                    json!({ "version": version, "resources": resources, "freshness": "Current" })
                })
                .collect();
            let mut metadata = Map::from_iter([("creationTimestamp".to_owned(), Value::Null)]);
            if !group.is_empty() {
                metadata.insert("name".to_owned(), json!(group));
            }
            json!({ "metadata": metadata, "versions": versions })
        })
        .collect();
    render(&json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    }))
}

fn aggregated_resource(kind: &dyn Kind) -> Value {
    let names = kind.names();
    let scope = match kind.scope() {
        Scope::Namespaced => "Namespaced",
        Scope::Cluster => "Cluster",
    };
    let mut resource = Map::from_iter([
        ("resource".to_owned(), json!(names.plural)),
        (
            "responseKind".to_owned(),
            json!({ "group": names.group, "version": names.version, "kind": names.kind }),
        ),
        ("scope".to_owned(), json!(scope)),
        ("singularResource".to_owned(), json!(names.singular)),
        ("verbs".to_owned(), json!(kind.verbs())),
    ]);
    insert_filled(&mut resource, "shortNames", &names.short_names);
    insert_filled(&mut resource, "categories", &names.categories);
    let subresources: Vec<Value> = sorted_subresources(kind)
        .iter()
        .map(|it| {
            let target = it.kind_below(names);
            json!({
                "subresource": it.name,
                "responseKind": {
                    "group": target.group, "version": target.version, "kind": target.kind,
                },
                "verbs": it.verbs,
            })
        })
        .collect();
    insert_filled(&mut resource, "subresources", &subresources);
    Value::Object(resource)
}

fn insert_filled<T: serde::Serialize>(target: &mut Map<String, Value>, name: &str, items: &[T]) {
    if !items.is_empty() {
        target.insert(name.to_owned(), json!(items));
    }
}

fn sorted_subresources(kind: &dyn Kind) -> Vec<Subresource> {
    let mut subresources = kind.subresources();
    subresources.sort_by_key(|it| it.name);
    subresources
}

/// Groups by priority, their versions newest first, resources by name. A kind without verbs and
/// without subresources exists only as the body of another's subresource.
fn groups(kinds: &[Arc<dyn Kind>]) -> Vec<(&str, Versions<'_>)> {
    let mut found: BTreeMap<&str, BTreeMap<&str, Vec<&dyn Kind>>> = BTreeMap::new();
    for kind in kinds.iter().filter(|it| !it.verbs().is_empty()) {
        let names = kind.names();
        let versions = found.entry(&names.group).or_default();
        versions.entry(&names.version).or_default().push(kind.as_ref());
    }
    let mut groups: Vec<(&str, Versions<'_>)> = found
        .into_iter()
        .map(|(group, versions)| {
            let mut versions: Versions<'_> = versions.into_iter().collect();
            versions.sort_by(|(a, _), (b, _)| version_order(a, b));
            for (_, kinds) in &mut versions {
                kinds.sort_by(|a, b| a.names().plural.cmp(&b.names().plural));
            }
            (group, versions)
        })
        .collect();
    // Stable: groups of one priority stay in the order of their names.
    groups.sort_by_key(|(group, _)| std::cmp::Reverse(group_priority(group)));
    groups
}

fn named_groups(kinds: &[Arc<dyn Kind>]) -> impl Iterator<Item = (&str, Versions<'_>)> {
    groups(kinds).into_iter().filter(|(group, _)| !group.is_empty())
}

fn render(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}
