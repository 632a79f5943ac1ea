//! How often OpenAPI is another one because of a definition, under upstream's names. Documents are
//! made when somebody asks for them: what is counted is that those that there were hold no more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::Kind;
use apimachinery::GroupVersion;
use telemetry::{Counter, Description, Family, Registry, Stability};

const OF_DEFINITIONS: Description<2> = Description {
    name: "apiextensions_openapi_v2_regeneration_count",
    stability: Stability::Alpha,
    help: "Counter of OpenAPI v2 spec regeneration count broken down by causing CRD name and reason.",
    labels: ["crd", "reason"],
};
const OF_VERSIONS: Description<4> = Description {
    name: "apiextensions_openapi_v3_regeneration_count",
    stability: Stability::Alpha,
    help: "Counter of OpenAPI v3 spec regeneration count broken down by group, version, causing CRD and reason.",
    labels: ["group", "version", "crd", "reason"],
};

/// What stands for the description of each version.
type Versions = BTreeMap<GroupVersion, Option<[u8; 32]>>;

pub(super) struct Described {
    of_definitions: Family<Counter, 2>,
    of_versions: Family<Counter, 4>,
    /// By definition.
    known: Mutex<BTreeMap<String, Versions>>,
}

impl Described {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            of_definitions: registry.counters(&OF_DEFINITIONS),
            of_versions: registry.counters(&OF_VERSIONS),
            known: Mutex::default(),
        }
    }

    /// What a definition is served as from now on; nothing once it is gone.
    pub(super) fn changed(&self, definition: &str, kinds: &[Arc<dyn Kind>]) {
        let now: Versions = kinds
            .iter()
            .map(|it| (it.names().gvr().group_version(), it.description_id()))
            .collect();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.remove(definition).unwrap_or_default();
        let reason = match (before.is_empty(), now.is_empty()) {
            (true, false) => Some("add"),
            (false, true) => Some("remove"),
            _ => (before != now).then_some("update"),
        };
        if let Some(reason) = reason {
            self.of_definitions.with([definition, reason]).increment();
        }
        let is_new = |it: &GroupVersion| {
            !before.contains_key(it) && !known.values().any(|others| others.contains_key(it))
        };
        let here = now.iter().filter(|(version, id)| before.get(version) != Some(id));
        let here = here.map(|it| (it.0, if is_new(it.0) { "add" } else { "update" }));
        let gone = before.keys().filter(|it| !now.contains_key(it)).map(|it| (it, "remove"));
        for (GroupVersion { group, version }, reason) in here.chain(gone) {
            self.of_versions.with([group, version, definition, reason]).increment();
        }
        if !now.is_empty() {
            known.insert(definition.to_owned(), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use api::Resource as _;
    use api::apiextensions::{CustomKind, CustomResourceDefinition};
    use serde_json::json;

    use super::*;

    fn kinds(plural: &str, versions: &[&str], field: &str) -> Vec<Arc<dyn Kind>> {
        let version = |name: &&str| {
            json!({
                "name": name, "served": true, "storage": *name == "v1",
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {field: {"type": "string"}},
                }},
            })
        };
        let definition = json!({
            "metadata": {"name": format!("{plural}.a.org")},
            "spec": {
                "group": "a.org", "scope": "Namespaced",
                "names": {"plural": plural, "kind": plural},
                "versions": versions.iter().map(version).collect::<Vec<_>>(),
            },
            "status": {
                "acceptedNames": {"plural": plural, "kind": plural},
                "conditions": [{"type": "Established", "status": "True"}],
            },
        });
        let definition = CustomResourceDefinition::decode(definition.to_string().as_bytes());
        CustomKind::of(&definition.expect("a definition"))
    }

    #[test]
    fn what_is_described_as_before_is_not_counted() {
        let registry = Registry::default();
        let described = Described::new(&registry);
        for _ in 0..2 {
            described.changed("cats.a.org", &kinds("cats", &["v1"], "x"));
        }
        described.changed("dogs.a.org", &kinds("dogs", &["v1", "v2"], "x"));
        described.changed("cats.a.org", &kinds("cats", &["v1"], "y"));
        described.changed("dogs.a.org", &kinds("dogs", &["v1"], "x"));
        for _ in 0..2 {
            described.changed("cats.a.org", &[]);
        }
        let page = registry.render();
        let lines: Vec<&str> = page
            .lines()
            .filter_map(|it| it.strip_prefix("apiextensions_openapi_"))
            .map(|it| it.trim_end_matches(" 1"))
            .collect();
        let expected = [
            r#"v2_regeneration_count{crd="cats.a.org",reason="add"}"#,
            r#"v2_regeneration_count{crd="cats.a.org",reason="remove"}"#,
            r#"v2_regeneration_count{crd="cats.a.org",reason="update"}"#,
            r#"v2_regeneration_count{crd="dogs.a.org",reason="add"}"#,
            r#"v2_regeneration_count{crd="dogs.a.org",reason="update"}"#,
            r#"v3_regeneration_count{crd="cats.a.org",group="a.org",reason="add",version="v1"}"#,
            r#"v3_regeneration_count{crd="cats.a.org",group="a.org",reason="remove",version="v1"}"#,
            r#"v3_regeneration_count{crd="cats.a.org",group="a.org",reason="update",version="v1"}"#,
            r#"v3_regeneration_count{crd="dogs.a.org",group="a.org",reason="add",version="v2"}"#,
            r#"v3_regeneration_count{crd="dogs.a.org",group="a.org",reason="remove",version="v2"}"#,
            r#"v3_regeneration_count{crd="dogs.a.org",group="a.org",reason="update",version="v1"}"#,
        ];
        assert_eq!(lines, expected);
    }
}
