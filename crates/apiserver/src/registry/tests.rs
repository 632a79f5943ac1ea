//! Definitions that claim what is built in, against what is served and stored.

use std::sync::Arc;

use api::apiextensions::{CustomKind, CustomResourceDefinition};
use api::{Kind, Resource};
use apimachinery::{GroupResource, GroupVersionResource};
use serde_json::json;

use super::Registry;

fn kinds_of(group: &str, version: &str, plural: &str) -> Vec<Arc<dyn Kind>> {
    let definition = json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": "x", "kind": "X", "listKind": "XList"},
            "versions": [{"name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
        "status": {
            "acceptedNames": {"plural": plural, "kind": "X"},
            "conditions": [{"type": "Established", "status": "True"}],
            "storedVersions": [version],
        },
    });
    let definition = CustomResourceDefinition::decode(definition.to_string().as_bytes()).unwrap();
    CustomKind::of(&definition)
}

/// Every built-in resource, as a definition in its own version and in another one, established as
/// if an older program or another server had let it be.
#[test]
fn no_definition_takes_the_place_of_a_built_in_kind() {
    let registry = Registry::new(api::kinds());
    let before: Vec<GroupVersionResource> =
        registry.kinds().iter().map(|it| it.names().gvr()).collect();
    for gvr in &before {
        for version in [gvr.version.as_str(), "v9"] {
            let kinds = kinds_of(&gvr.group, version, &gvr.resource);
            assert!(!kinds.is_empty(), "the definition says that it is established");
            registry.set_custom(&format!("{gvr:?}"), kinds, None);
        }
    }
    let kinds = registry.kinds();
    let after: Vec<GroupVersionResource> = kinds.iter().map(|it| it.names().gvr()).collect();
    assert_eq!(after, before);
    for gvr in &before {
        assert!(!kinds.find(gvr).unwrap().is_custom(), "{gvr:?}");
        let resource = GroupResource::new(gvr.group.as_str(), gvr.resource.as_str());
        if let Some(prefix) = kinds.prefix_of(&resource) {
            assert!(!kinds.stored_at(prefix).unwrap().is_custom(), "{gvr:?}");
        }
    }
    assert!(kinds.locate("rbac.authorization.k8s.io/rolebindings/ns/name").is_none());
}

#[test]
fn other_groups_and_other_versions_of_a_group_are_free() {
    let registry = Registry::new(api::kinds());
    let is_served = |group: &str, version: &str, plural: &str| {
        registry.set_custom(&format!("{plural}.{group}"), kinds_of(group, version, plural), None);
        registry.kinds().find(&GroupVersionResource::new(group, version, plural)).is_some()
    };
    assert!(is_served("example.com", "v1", "roles"));
    assert!(is_served("gateway.networking.k8s.io", "v1", "gateways"));
    assert!(is_served("rbac.authorization.k8s.io", "v9", "fruits"));
    // The server answers for its own versions alone.
    assert!(!is_served("rbac.authorization.k8s.io", "v1", "fruits"));
}

/// Two versions of one kind are one family; so are two groups that share their objects.
#[test]
fn a_family_is_stored_as_its_hub_even_where_that_is_not_served() {
    let all = api::kinds();
    let is_hub = |it: &Arc<dyn Kind>| it.names().api_version() == "autoscaling/v2";
    let without: Vec<_> = all.iter().filter(|it| !is_hub(it)).cloned().collect();
    for kinds in [all, without] {
        let registry = Registry::new(kinds);
        let kinds = registry.kinds();
        for (group, version, plural, stored) in [
            ("autoscaling", "v1", "horizontalpodautoscalers", "autoscaling/v2"),
            ("events.k8s.io", "v1", "events", "v1"),
            ("", "v1", "events", "v1"),
            ("", "v1", "pods", "v1"),
        ] {
            let kind = kinds.find(&GroupVersionResource::new(group, version, plural)).unwrap();
            let family = kinds.family_of(kind);
            assert_eq!(family.stored().names().api_version(), stored, "{plural}");
            assert_eq!(
                family.is_stored_as(kind.as_ref()),
                kind.names().api_version() == stored,
                "{plural}"
            );
            let resource = GroupResource::new(group, plural);
            let prefix = kinds.prefix_of(&resource).unwrap();
            assert_eq!(kinds.stored_at(prefix).unwrap().names(), family.stored().names());
        }
    }
}

/// Whoever kept a group sees that it is another, and that the others are not.
#[test]
fn a_definition_changes_its_own_group_alone() {
    let registry = Registry::new(api::kinds());
    let mut before = registry.kinds();
    let mut changed = || {
        let now = registry.kinds();
        let names = now.changed_since(&before);
        before = now;
        names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let set = |group: &str, plural: &str, is_there: bool| {
        let kinds = if is_there { kinds_of(group, "v1", plural) } else { Vec::new() };
        registry.set_custom(&format!("{plural}.{group}"), kinds, None);
    };
    set("a.example.com", "xs", true);
    assert_eq!(changed(), "a.example.com");
    set("b.example.com", "xs", true);
    set("a.example.com", "ys", true);
    assert_eq!(changed(), "a.example.com b.example.com");
    set("a.example.com", "none", false);
    assert_eq!(changed(), "");
    set("b.example.com", "xs", false);
    assert_eq!(changed(), "b.example.com");
    assert!(!registry.kinds().has_group("b.example.com"));
    set("a.example.com", "xs", false);
    let kinds = registry.kinds();
    assert!(kinds.find(&GroupVersionResource::new("a.example.com", "v1", "xs")).is_none());
    assert!(kinds.find(&GroupVersionResource::new("a.example.com", "v1", "ys")).is_some());
    assert!(kinds.stored_at("a.example.com/xs").is_none());
    assert!(kinds.locate("a.example.com/ys/ns/name").is_some());
}
