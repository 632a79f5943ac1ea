//! One rule of what is for which requests: operations on resources of groups and versions, in a scope,
//! perhaps by name. Pure.

use apimachinery::Names;
use k8s_openapi::api::admissionregistration::v1::NamedRuleWithOperations;

use crate::attributes::Operation;

const ALL: &str = "*";

pub(super) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// `pods`, `pods/status`, `pods/*`, `*/scale`, `*/*`.
    resources: Vec<String>,
    scope: Option<String>,
    names: Vec<String>,
}

/// What a rule is held against, beside the resource.
pub(super) struct Asked<'a> {
    pub(super) operation: Operation,
    pub(super) subresource: &'a str,
    pub(super) name: &'a str,
    pub(super) is_cluster_scoped: bool,
}

impl Rule {
    pub(super) fn new(rule: &NamedRuleWithOperations) -> Self {
        let list = |it: &Option<Vec<String>>| it.clone().unwrap_or_default();
        Self {
            operations: list(&rule.operations),
            groups: list(&rule.api_groups),
            versions: list(&rule.api_versions),
            resources: list(&rule.resources),
            scope: rule.scope.clone(),
            names: list(&rule.resource_names),
        }
    }

    pub(super) fn matches(&self, asked: &Asked<'_>, names: &Names) -> bool {
        self.has_scope(asked)
            && has(&self.operations, asked.operation.text())
            && has(&self.groups, &names.group)
            && has(&self.versions, &names.version)
            && self.resources.iter().any(|it| is_resource(it, asked, names))
            && (self.names.is_empty() || self.names.iter().any(|it| it == asked.name))
    }

    fn has_scope(&self, asked: &Asked<'_>) -> bool {
        match self.scope.as_deref() {
            Some("Cluster") => asked.is_cluster_scoped,
            Some("Namespaced") => !asked.is_cluster_scoped,
            _ => true,
        }
    }

    /// The set of operations that it is for.
    pub(super) fn operations(&self) -> u8 {
        let of = Operation::ALL.iter().filter(|it| has(&self.operations, it.text()));
        of.fold(0, |set, it| set | it.bit())
    }

    /// The resources that it names; `None` if it is for all.
    pub(super) fn resources(&self) -> Option<Vec<String>> {
        let name = |it: &String| it.split('/').next().unwrap_or_default().to_owned();
        let names: Vec<String> = self.resources.iter().map(name).collect();
        (!names.iter().any(|it| it == ALL)).then_some(names)
    }
}

fn is_resource(pattern: &str, asked: &Asked<'_>, names: &Names) -> bool {
    let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
    (resource == ALL || resource == names.plural)
        && (subresource == ALL || subresource == asked.subresource)
}

fn has(items: &[String], wanted: &str) -> bool {
    items.iter().any(|it| it == ALL || it == wanted)
}
