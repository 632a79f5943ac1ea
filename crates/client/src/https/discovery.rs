//! The served resources, from aggregated discovery or, for older servers, group by group. Pure.

use std::collections::BTreeSet;

use apimachinery::{GroupVersion, GroupVersionResource, Scope};
use serde::Deserialize;

use crate::transport::Discovered;

/// Asks for the aggregated form; a server without it answers with the old one.
pub(super) const ACCEPT: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Either form of `/api` and `/apis`, told apart by which lists are there.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Root {
    /// Aggregated.
    items: Vec<Group>,
    /// Old form of `/api`.
    versions: Vec<String>,
    /// Old form of `/apis`.
    groups: Vec<OldGroup>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: GroupMeta,
    /// The preferred one first.
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupMeta {
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldGroup {
    preferred_version: OldVersion,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OldVersion {
    group_version: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OldResources {
    group_version: String,
    #[serde(default)]
    resources: Vec<OldResource>,
}

#[derive(Deserialize)]
struct OldResource {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

impl Root {
    /// Paths still to be asked for, when the answer is in the old form.
    pub(super) fn old_paths(&self) -> Vec<String> {
        let core = self.versions.first().map(|it| format!("/api/{it}"));
        let groups = self.groups.iter();
        let groups = groups.map(|it| format!("/apis/{}", it.preferred_version.group_version));
        core.into_iter().chain(groups).collect()
    }

    /// Each resource once, in the first version that has it.
    pub(super) fn resources(self) -> Vec<Discovered> {
        let mut found = Vec::new();
        for group in self.items {
            let mut seen = BTreeSet::new();
            for version in group.versions {
                for it in version.resources {
                    if !seen.insert(it.resource.clone()) {
                        continue;
                    }
                    let is_cluster = it.scope == "Cluster";
                    found.push(Discovered {
                        resource: GroupVersionResource::new(
                            group.metadata.name.as_str(),
                            version.version.as_str(),
                            it.resource,
                        ),
                        kind: it.response_kind.map(|it| it.kind).unwrap_or_default(),
                        scope: if is_cluster { Scope::Cluster } else { Scope::Namespaced },
                        verbs: it.verbs,
                    });
                }
            }
        }
        found
    }
}

impl OldResources {
    pub(super) fn resources(self) -> Vec<Discovered> {
        let version =
            GroupVersion::parse(&self.group_version).unwrap_or_else(|| GroupVersion::new("", "v1"));
        let own = self.resources.into_iter().filter(|it| !it.name.contains('/'));
        own.map(|it| Discovered {
            resource: GroupVersionResource::new(
                version.group.as_str(),
                version.version.as_str(),
                it.name,
            ),
            kind: it.kind,
            scope: if it.namespaced { Scope::Namespaced } else { Scope::Cluster },
            verbs: it.verbs,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{OldResources, Root};
    use crate::transport::Discovered;

    fn check(found: Vec<Discovered>, expected: &[&str]) {
        let found: Vec<String> = found
            .iter()
            .map(|it| {
                let resource = &it.resource;
                format!(
                    "{} {} {} {:?}",
                    resource.group_version(),
                    resource.resource,
                    it.kind,
                    it.scope
                )
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_resource_is_taken_from_the_first_version_that_has_it() {
        let root: Root = serde_json::from_str(
            r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[
            {"version":"v2","resources":[{"resource":"a","responseKind":{"group":"","version":"","kind":"A"},"scope":"Namespaced","verbs":["get"]}]},
            {"version":"v1","resources":[{"resource":"a","scope":"Cluster","verbs":[]},{"resource":"b","responseKind":{"kind":"B"},"scope":"Cluster"}]}]}]}"#,
        )
        .unwrap();
        assert!(root.old_paths().is_empty());
        check(root.resources(), &["apps/v2 a A Namespaced", "apps/v1 b B Cluster"]);
    }

    #[test]
    fn an_old_server_is_asked_group_by_group() {
        let root = |text| serde_json::from_str::<Root>(text).unwrap().old_paths();
        assert_eq!(root(r#"{"kind":"APIVersions","versions":["v1"]}"#), ["/api/v1"]);
        let groups = r#"{"groups":[{"name":"apps","preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}"#;
        assert_eq!(root(groups), ["/apis/apps/v1"]);
        let resources: OldResources = serde_json::from_str(
            r#"{"groupVersion":"apps/v1","resources":[{"name":"d","kind":"D","namespaced":true,"verbs":[]},{"name":"d/status","kind":"D"}]}"#,
        )
        .unwrap();
        check(resources.resources(), &["apps/v1 d D Namespaced"]);
    }
}
