//! Which operations there are on which path, in a form that both versions of OpenAPI are rendered
//! from.

use apimachinery::{GroupVersionKind, Scope};

use super::{META, built_in_definition, list_definition};
use crate::kind::{Kind, Subresource};

/// A query parameter: name, JSON type, what it does.
pub(super) type Parameter = (&'static str, &'static str, &'static str);

const DRY_RUN: Parameter = ("dryRun", "string", "`All`: check everything, store nothing.");
const FIELD_MANAGER: Parameter =
    ("fieldManager", "string", "The name under which written fields are owned.");
const FIELD_VALIDATION: Parameter = (
    "fieldValidation",
    "string",
    "What to do with unknown and duplicate fields: `Ignore`, `Warn` or `Strict`.",
);
const FORCE: Parameter =
    ("force", "boolean", "Apply only: take over fields that other managers own.");

const WRITE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
const PATCH: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
const DELETE: &[Parameter] = &[
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "Seconds until the object is gone; 0 means at once."),
    ("orphanDependents", "boolean", "Deprecated: use propagationPolicy."),
    (
        "propagationPolicy",
        "string",
        "What becomes of dependents: `Orphan`, `Background` or `Foreground`.",
    ),
];
const LIST: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean", "Watch only: send bookmarks."),
    ("continue", "string", "The token of the next page, from the page before."),
    ("fieldSelector", "string", "Only objects whose fields match."),
    ("labelSelector", "string", "Only objects whose labels match."),
    ("limit", "integer", "At most this many objects on a page."),
    ("resourceVersion", "string", "The revision to read at, or to watch from."),
    ("resourceVersionMatch", "string", "How resourceVersion is meant: `Exact` or `NotOlderThan`."),
    ("sendInitialEvents", "boolean", "Watch only: begin with the objects that exist."),
    ("timeoutSeconds", "integer", "When the call ends at the latest."),
    ("watch", "boolean", "Send changes as they happen instead of a list."),
];

/// One method on one path.
pub(super) struct Operation {
    pub(super) method: &'static str,
    /// `x-kubernetes-action`.
    pub(super) action: &'static str,
    /// Unique in a document: `listAppsV1NamespacedDeployment`.
    pub(super) id: String,
    /// `apps_v1`: of the group and version of the path.
    pub(super) tag: String,
    pub(super) kind: GroupVersionKind,
    /// Definitions of the body and of the answer. An answer without one is text.
    pub(super) body: Option<String>,
    pub(super) answer: Option<String>,
    pub(super) parameters: Vec<Parameter>,
    /// Strategic merge patch is for built-in kinds.
    pub(super) is_custom: bool,
}

pub(super) struct Path {
    /// `/apis/apps/v1/namespaces/{namespace}/deployments/{name}`
    pub(super) path: String,
    pub(super) operations: Vec<Operation>,
}

/// Every path of a kind.
pub(super) fn paths(kind: &dyn Kind) -> Vec<Path> {
    let names = kind.names();
    let root = if names.group.is_empty() {
        format!("/api/{}", names.version)
    } else {
        format!("/apis/{}/{}", names.group, names.version)
    };
    let is_namespaced = kind.scope() == Scope::Namespaced;
    let collection = if is_namespaced {
        format!("{root}/namespaces/{{namespace}}/{}", names.plural)
    } else {
        format!("{root}/{}", names.plural)
    };
    let item = format!("{collection}/{{name}}");
    let verbs = kind.verbs();
    let of = |path: &str, methods: &[(&str, &'static str, &'static str)], scope: &str| Path {
        path: path.to_owned(),
        operations: methods
            .iter()
            .filter(|(verb, _, _)| verbs.contains(verb))
            .map(|(_, method, action)| main_operation(kind, method, action, scope))
            .collect(),
    };
    let scope = if is_namespaced { "Namespaced" } else { "" };
    let mut paths = vec![
        of(
            &collection,
            &[
                ("list", "get", "list"),
                ("create", "post", "post"),
                ("deletecollection", "delete", "deletecollection"),
            ],
            scope,
        ),
        of(
            &item,
            &[
                ("get", "get", "get"),
                ("update", "put", "put"),
                ("patch", "patch", "patch"),
                ("delete", "delete", "delete"),
            ],
            scope,
        ),
    ];
    if is_namespaced {
        let everywhere = format!("{root}/{}", names.plural);
        paths.push(of(&everywhere, &[("list", "get", "list")], "ForAllNamespaces"));
    }
    paths.extend(kind.subresources().iter().map(|it| subresource(kind, it, &item)));
    paths.retain(|it| !it.operations.is_empty());
    paths
}

fn main_operation(
    kind: &dyn Kind,
    method: &'static str,
    action: &'static str,
    scope: &str,
) -> Operation {
    let (names, definition) = (kind.names(), kind.definition());
    let parameters = match action {
        "list" => LIST.to_vec(),
        "deletecollection" => [DELETE, LIST].concat(),
        "delete" => DELETE.to_vec(),
        "patch" => PATCH.to_vec(),
        "post" | "put" => WRITE.to_vec(),
        _ => Vec::new(),
    };
    let body = match action {
        "post" | "put" => Some(definition.clone()),
        "patch" => Some(format!("{META}.Patch")),
        "delete" | "deletecollection" => Some(format!("{META}.DeleteOptions")),
        _ => None,
    };
    let answer = match action {
        "list" => list_definition(&definition),
        "delete" | "deletecollection" if !kind.returns_deleted() => format!("{META}.Status"),
        _ => definition,
    };
    Operation {
        method,
        action,
        id: operation_id(action, kind, &scoped(scope, &names.kind)),
        tag: tag(kind),
        kind: names.gvk(),
        body,
        answer: Some(answer),
        parameters,
        is_custom: kind.is_custom(),
    }
}

fn subresource(kind: &dyn Kind, subresource: &Subresource, item: &str) -> Path {
    let names = kind.names();
    let target = subresource.kind_below(names);
    let definition = if target == names.gvk() {
        kind.definition()
    } else {
        built_in_definition(&target.group, &target.version, &target.kind)
    };
    let operation = |method: &'static str, action: &'static str| Operation {
        method,
        action,
        id: operation_id(action, kind, &named(kind, subresource)),
        tag: tag(kind),
        // Upstream names the custom kind itself, for its scale too.
        kind: if kind.is_custom() { names.gvk() } else { target.clone() },
        body: match action {
            "get" => None,
            "patch" => Some(format!("{META}.Patch")),
            _ => Some(definition.clone()),
        },
        answer: Some(definition.clone()),
        parameters: match action {
            "get" => Vec::new(),
            "patch" => PATCH.to_vec(),
            _ => WRITE.to_vec(),
        },
        is_custom: kind.is_custom(),
    };
    if subresource.is_stream() {
        return streams(kind, subresource, item);
    }
    let operations = subresource
        .verbs
        .iter()
        .filter_map(|verb| match *verb {
            "create" => Some(operation("post", "post")),
            "get" => Some(operation("get", "get")),
            "patch" => Some(operation("patch", "patch")),
            "update" => Some(operation("put", "put")),
            _ => None,
        })
        .collect();
    Path { path: format!("{item}/{}", subresource.name), operations }
}

/// `connectCoreV1GetPodExec`; reading a log is a plain GET.
fn streams(kind: &dyn Kind, subresource: &Subresource, item: &str) -> Path {
    let names = kind.names();
    let what = named(kind, subresource);
    let operation = |verb: &&'static str| {
        let (method, action) = match *verb {
            "get" if subresource.name == "log" => ("get", "get"),
            "get" => ("get", "connect"),
            "create" => ("post", "connect"),
            "update" => ("put", "connect"),
            other => (other, "connect"),
        };
        let id = match action {
            "connect" => operation_id("connect", kind, &format!("{}{what}", capital(method))),
            other => operation_id(other, kind, &what),
        };
        Operation {
            method,
            action,
            id,
            tag: tag(kind),
            kind: subresource.kind_below(names),
            body: None,
            answer: None,
            parameters: Vec::new(),
            is_custom: false,
        }
    };
    let operations = subresource.verbs.iter().map(operation).collect();
    Path { path: format!("{item}/{}", subresource.name), operations }
}

/// `NamespacedPodStatus`
fn named(kind: &dyn Kind, subresource: &Subresource) -> String {
    let scope = if kind.scope() == Scope::Namespaced { "Namespaced" } else { "" };
    format!("{scope}{}{}", kind.names().kind, capital(subresource.name))
}

/// `NamespacedDeployment`, `DeploymentForAllNamespaces`
fn scoped(scope: &str, kind: &str) -> String {
    if scope == "ForAllNamespaces" { format!("{kind}{scope}") } else { format!("{scope}{kind}") }
}

/// `patchAppsV1NamespacedDeployment`, `deleteAppsV1CollectionNamespacedDeployment`
fn operation_id(action: &str, kind: &dyn Kind, what: &str) -> String {
    let (verb, of_all) = match action {
        "get" => ("read", ""),
        "post" => ("create", ""),
        "put" => ("replace", ""),
        "deletecollection" => ("delete", "Collection"),
        other => (other, ""),
    };
    format!("{verb}{}{}{of_all}{what}", group(kind), capital(&kind.names().version))
}

/// `apps_v1`, `rbacAuthorization_v1`
fn tag(kind: &dyn Kind) -> String {
    let group = group(kind);
    let mut letters = group.chars();
    let first = letters.next().map(|it| it.to_ascii_lowercase());
    let group: String = first.into_iter().chain(letters).collect();
    format!("{group}_{}", kind.names().version)
}

/// `Core`, `RbacAuthorization`, `PkiTestDev`
fn group(kind: &dyn Kind) -> String {
    match kind.names().group.as_str() {
        "" => "Core".to_owned(),
        group => group.trim_end_matches(".k8s.io").split(['.', '-']).map(capital).collect(),
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|it| it.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
