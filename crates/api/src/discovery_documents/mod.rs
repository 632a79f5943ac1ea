//! What `/api` and `/apis` answer, made from the list of served kinds: the legacy documents, one
//! per group and version, and the aggregated one (`apidiscovery.k8s.io/v2`), which says all at
//! once.

mod order;
mod shown;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use apimachinery::{GroupVersion, Scope};

use crate::kind::{Kind, Subresource};

pub use order::{group_priority, version_order, version_priority};
pub use shown::{Foreign, Shown};

use shown::{Content, Versions, groups, placed_groups};

/// The group versions that have something to show, in discovery order.
pub fn group_versions<'a>(shown: impl Into<Shown<'a>>) -> Vec<GroupVersion> {
    groups(&shown.into())
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
pub fn group_list<'a>(shown: impl Into<Shown<'a>>) -> Vec<u8> {
    let groups: Vec<Value> = named_groups(&shown.into())
        .map(|(group, versions)| Value::Object(group_body(group, &versions)))
        .collect();
    render(&json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }))
}

/// GET /apis/<group>.
pub fn group<'a>(shown: impl Into<Shown<'a>>, name: &str) -> Option<Vec<u8>> {
    let shown = shown.into();
    let (group, versions) = named_groups(&shown).find(|(group, _)| *group == name)?;
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

/// GET /api/v1 and /apis/<group>/<version>, of what is served here.
pub fn resource_list(kinds: &[Arc<dyn Kind>], group_version: &GroupVersion) -> Option<Vec<u8>> {
    let content = groups(&kinds.into())
        .into_iter()
        .filter(|(group, _)| *group == group_version.group)
        .flat_map(|(_, versions)| versions)
        .find(|(version, _)| *version == group_version.version)?
        .1;
    let Content::Kinds(kinds) = content else { return None };
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
    let shown = kinds.into();
    let core = groups(&shown).into_iter().filter(|(group, _)| group.is_empty());
    aggregated(core.map(|(group, versions)| item(group, versions)))
}

/// GET /apis, aggregated form.
pub fn aggregated_groups<'a>(shown: impl Into<Shown<'a>>) -> Vec<u8> {
    let shown = shown.into();
    aggregated(named_groups(&shown).map(|(group, versions)| item(group, versions)))
}

/// One group of the aggregated form.
pub struct Item {
    /// Higher comes first.
    pub place: u32,
    pub json: String,
}

/// That of a single group; `None`: it has nothing to show.
pub fn aggregated_item(shown: Shown<'_>) -> Option<Item> {
    let (place, group, versions) = placed_groups(&shown).into_iter().next()?;
    Some(Item { place, json: item(group, versions) })
}

/// The whole document, from the JSON of its items.
pub fn aggregated(items: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<u8> {
    let start = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":["#;
    let mut document = start.to_owned();
    for item in items {
        if !document.ends_with('[') {
            document.push(',');
        }
        document.push_str(item.as_ref());
    }
    document.push_str("]}");
    document.into_bytes()
}

/// One group of the aggregated form, in JSON.
fn item(group: &str, versions: Versions<'_>) -> String {
    let versions: Vec<String> = versions
        .into_iter()
        .map(|(version, content)| {
            let (resources, freshness) = match content {
                Content::Kinds(kinds) => {
                    let resources = kinds.into_iter().map(aggregated_resource).collect();
                    (Value::Array(resources).to_string(), "Current")
                }
                Content::Foreign(it) => {
                    let freshness = if it.is_stale { "Stale" } else { "Current" };
                    (String::from_utf8_lossy(&it.resources).into_owned(), freshness)
                }
            };
            let version = Value::from(version);
            format!(r#"{{"version":{version},"resources":{resources},"freshness":"{freshness}"}}"#)
        })
        .collect();
    let mut metadata = Map::from_iter([("creationTimestamp".to_owned(), Value::Null)]);
    if !group.is_empty() {
        metadata.insert("name".to_owned(), json!(group));
    }
    let (metadata, versions) = (Value::Object(metadata), versions.join(","));
    format!(r#"{{"metadata":{metadata},"versions":[{versions}]}}"#)
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

fn named_groups<'a>(shown: &Shown<'a>) -> impl Iterator<Item = (&'a str, Versions<'a>)> + use<'a> {
    groups(shown).into_iter().filter(|(group, _)| !group.is_empty())
}

fn render(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}
