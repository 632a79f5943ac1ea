//! Which requests a webhook is for: operations on resources of groups and versions, in a scope.
//! Pure.

use apimachinery::Names;
use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;

use crate::attributes::Operation;

const ALL: &str = "*";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    Cluster,
    Namespaced,
}

pub(super) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// With the subresource, which is empty for the resource itself.
    resources: Vec<(String, String)>,
    scope: Scope,
}

/// What a rule is held against.
pub(super) struct Asked<'a> {
    pub(super) operation: Operation,
    pub(super) subresource: &'a str,
    /// That of a Namespace is itself.
    pub(super) namespace: &'a str,
}

impl Rule {
    pub(super) fn new(rule: &RuleWithOperations) -> Self {
        let list = |it: &Option<Vec<String>>| it.clone().unwrap_or_default();
        let split = |it: &String| match it.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (it.clone(), String::new()),
        };
        Self {
            operations: list(&rule.operations),
            groups: list(&rule.api_groups),
            versions: list(&rule.api_versions),
            resources: rule.resources.iter().flatten().map(split).collect(),
            scope: match rule.scope.as_deref() {
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                _ => Scope::All,
            },
        }
    }

    pub(super) fn matches(&self, asked: &Asked<'_>, names: &Names) -> bool {
        self.has_scope(asked, names)
            && has(&self.operations, asked.operation.text())
            && has(&self.groups, &names.group)
            && has(&self.versions, &names.version)
            && self.resources.iter().any(|(name, subresource)| {
                (name == ALL || *name == names.plural)
                    && (subresource == ALL || subresource == asked.subresource)
            })
    }

    /// A Namespace is in no namespace, whatever the request says.
    fn has_scope(&self, asked: &Asked<'_>, names: &Names) -> bool {
        let is_namespace = names.group.is_empty() && names.plural == "namespaces";
        let is_cluster = is_namespace || asked.namespace.is_empty();
        match self.scope {
            Scope::All => true,
            Scope::Cluster => is_cluster,
            Scope::Namespaced => !is_cluster,
        }
    }
}

fn has(items: &[String], wanted: &str) -> bool {
    items.iter().any(|it| it == ALL || it == wanted)
}
