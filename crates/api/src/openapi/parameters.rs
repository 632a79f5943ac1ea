//! The parameters of operations, in the words that clients show: `kubectl explain`, generators of
//! clients, pages about an API. They are upstream's, and so are the names under which version 2 says
//! them once for all operations.

use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use serde_json::{Value, json};

const WORDS: &str = include_str!("parameters.json");

#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: String,
    /// `path` or `query`.
    #[serde(rename = "in")]
    pub(super) place: String,
    #[serde(rename = "type")]
    kind: String,
    description: String,
    /// Its name among those of the whole document.
    #[serde(default)]
    pub(super) shared: Option<String>,
}

/// What an operation can be told beside its path.
pub(super) const PATCH: &[&str] = &["dryRun", "fieldManager-7c6nTn1T", "fieldValidation", "force"];
pub(super) const WRITE: &[&str] = &["dryRun", "fieldManager", "fieldValidation"];
pub(super) const DELETE: &[&str] = &[
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
];
pub(super) const LIST: &[&str] = &[
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "shardSelector",
    "timeoutSeconds",
    "watch",
];

/// Those with these names; where there are several of one name, the first, or the one that is shared
/// under it.
pub(super) fn all(names: &[&str]) -> impl Iterator<Item = Arc<Parameter>> {
    static ALL: OnceLock<Vec<Arc<Parameter>>> = OnceLock::new();
    let known = ALL.get_or_init(|| serde_json::from_str(WORDS).expect("a test reads them"));
    let find = |name: &&str| {
        let mut known = known.iter();
        known.find(|it| it.name == *name || it.shared.as_deref() == Some(*name)).cloned()
    };
    names.iter().filter_map(find).collect::<Vec<_>>().into_iter()
}

/// The name of the object, which is said with its kind.
pub(super) fn name_of(kind: &str) -> Arc<Parameter> {
    Arc::new(Parameter {
        name: "name".to_owned(),
        place: "path".to_owned(),
        kind: "string".to_owned(),
        description: format!("name of the {kind}"),
        shared: None,
    })
}

impl Parameter {
    pub(super) fn v3(&self) -> Value {
        let mut said = json!({
            "name": self.name,
            "in": self.place,
            "description": self.description,
            "schema": { "type": self.kind, "uniqueItems": true },
        });
        self.require(&mut said);
        said
    }

    pub(super) fn v2(&self) -> Value {
        let mut said = json!({
            "name": self.name,
            "in": self.place,
            "description": self.description,
            "type": self.kind,
            "uniqueItems": true,
        });
        self.require(&mut said);
        said
    }

    fn require(&self, said: &mut Value) {
        if self.place == "path" {
            said["required"] = json!(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_of_an_operation_has_its_words() {
        for names in [PATCH, WRITE, DELETE, LIST, &["namespace", "pretty"]] {
            let found: Vec<String> = all(names).map(|it| it.name.clone()).collect();
            let names: Vec<&str> = names.iter().filter_map(|it| it.split('-').next()).collect();
            assert_eq!(found, names);
        }
        let manager = |names| all(names).find(|it| it.name == "fieldManager").unwrap();
        assert_ne!(manager(PATCH), manager(WRITE), "a patch may have to say who makes it");
    }
}
