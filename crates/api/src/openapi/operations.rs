//! Which operations there are on which path, in a form that both versions of OpenAPI are rendered
//! from.

use std::sync::Arc;

use apimachinery::{GroupVersionKind, Scope};

use super::parameters::{self, DELETE, LIST, PATCH, Parameter, WRITE};
use super::{META, built_in_definition, list_definition};
use crate::kind::{Kind, Subresource};

const JSON_AND_YAML: &[&str] = &["application/json", "application/yaml"];
const ANYTHING: &[&str] = &["*/*"];
/// Strategic merge patch is for built-in kinds.
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/strategic-merge-patch+json",
];

/// One method on one path.
pub(super) struct Operation {
    pub(super) method: &'static str,
    /// `x-kubernetes-action`.
    pub(super) action: &'static str,
    /// Unique in a document: `listAppsV1NamespacedDeployment`.
    pub(super) id: String,
    pub(super) description: String,
    /// `apps_v1`: of the group and version of the path.
    pub(super) tag: String,
    pub(super) kind: GroupVersionKind,
    pub(super) body: Option<Body>,
    /// The definition of the answer; without one it is text.
    pub(super) answer: Option<String>,
    /// How it may end well.
    pub(super) codes: &'static [(u16, &'static str)],
    pub(super) consumes: &'static [&'static str],
    pub(super) produces: &'static [&'static str],
    /// Sorted. Those that are not said of the path.
    pub(super) parameters: Vec<Arc<Parameter>>,
}

pub(super) struct Body {
    pub(super) definition: String,
    pub(super) is_required: bool,
}

pub(super) struct Path {
    /// `/apis/apps/v1/namespaces/{namespace}/deployments/{name}`
    pub(super) path: String,
    pub(super) operations: Vec<Operation>,
    /// Those of all its operations. Sorted.
    pub(super) parameters: Vec<Arc<Parameter>>,
}

impl Path {
    fn new(kind: &dyn Kind, path: String, mut operations: Vec<Operation>) -> Self {
        let has = |part: &str| path.contains(part);
        let name = has("{name}").then(|| parameters::name_of(&kind.names().kind));
        let namespace = parameters::all(&["namespace"]).filter(|_| has("{namespace}"));
        let mut common: Vec<Arc<Parameter>> = name.into_iter().chain(namespace).collect();
        let in_all = |it: &Arc<Parameter>| operations.iter().all(|op| op.parameters.contains(it));
        let first = operations.first().map(|it| it.parameters.clone()).unwrap_or_default();
        common.extend(first.into_iter().filter(in_all));
        for operation in &mut operations {
            operation.parameters.retain(|it| !common.contains(it));
            sort(&mut operation.parameters);
        }
        sort(&mut common);
        Self { path, operations, parameters: common }
    }
}

fn sort(parameters: &mut [Arc<Parameter>]) {
    parameters.sort_by(|a, b| (&a.name, &a.place).cmp(&(&b.name, &b.place)));
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
    let of = |path: &str, methods: &[(&str, &'static str, &'static str)], scope: &str| {
        let methods = methods.iter().filter(|(verb, _, _)| verbs.contains(verb));
        let operations =
            methods.map(|(_, method, action)| main_operation(kind, method, action, scope));
        Path::new(kind, path.to_owned(), operations.collect())
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
    let answer = match action {
        "list" => list_definition(&definition),
        "delete" | "deletecollection" if !kind.returns_deleted() => format!("{META}.Status"),
        _ => definition.clone(),
    };
    Operation {
        id: operation_id(action, kind, &scoped(scope, &names.kind)),
        kind: names.gvk(),
        ..acting(kind, (method, action), "", (&definition, answer))
    }
}

/// What an operation of this sort has whatever it is about.
fn acting(
    kind: &dyn Kind,
    (method, action): (&'static str, &'static str),
    subresource: &str,
    (body, answer): (&str, String),
) -> Operation {
    let is_custom = kind.is_custom();
    Operation {
        method,
        action,
        id: String::new(),
        description: described(kind, action, subresource),
        tag: tag(kind),
        kind: kind.names().gvk(),
        body: body_of(action, body, is_custom),
        answer: Some(answer),
        codes: codes(action, is_custom),
        consumes: match action {
            "patch" if is_custom => &PATCHES[..3],
            "patch" => PATCHES,
            _ if is_custom => JSON_AND_YAML,
            _ => ANYTHING,
        },
        produces: JSON_AND_YAML,
        parameters: parameters_of(action, is_custom),
    }
}

fn body_of(action: &str, definition: &str, is_custom: bool) -> Option<Body> {
    let (definition, is_required) = match action {
        "post" | "put" => (definition.to_owned(), true),
        "patch" => (format!("{META}.Patch"), true),
        "delete" => (format!("{META}.DeleteOptions"), false),
        "deletecollection" if !is_custom => (format!("{META}.DeleteOptions"), false),
        _ => return None,
    };
    Some(Body { definition, is_required })
}

fn codes(action: &str, is_custom: bool) -> &'static [(u16, &'static str)] {
    const ALL: &[(u16, &str)] = &[(200, "OK"), (201, "Created"), (202, "Accepted")];
    const ACCEPTED: &[(u16, &str)] = &[(200, "OK"), (202, "Accepted")];
    match action {
        "post" => ALL,
        "put" => &ALL[..2],
        "patch" if !is_custom => &ALL[..2],
        "delete" => ACCEPTED,
        _ => &ALL[..1],
    }
}

/// Upstream says what custom resources take as it is read from their options, and of built-in ones
/// what they look at.
fn parameters_of(action: &str, is_custom: bool) -> Vec<Arc<Parameter>> {
    let own: &[&[&str]] = match action {
        "list" => &[LIST],
        "deletecollection" if is_custom => &[LIST],
        "deletecollection" => &[DELETE, LIST],
        "delete" => &[DELETE],
        "patch" => &[PATCH],
        "post" | "put" => &[WRITE],
        "get" if is_custom => &[&["resourceVersion"]],
        _ => &[],
    };
    own.iter().chain(&[&["pretty"][..]]).flat_map(|it| parameters::all(it)).collect()
}

/// `create a Deployment`, `partially update status of the specified Deployment`
fn described(kind: &dyn Kind, action: &str, subresource: &str) -> String {
    let name = kind.names().kind.as_str();
    let of = if subresource.is_empty() { String::new() } else { format!(" {subresource} of") };
    match action {
        "list" if kind.is_custom() => format!("list{of} objects of kind {name}"),
        "list" => format!("list or watch{of} objects of kind {name}"),
        "get" => format!("read{of} the specified {name}"),
        "put" => format!("replace{of} the specified {name}"),
        "patch" => format!("partially update{of} the specified {name}"),
        "post" => format!("create{of} {}", with_article(name)),
        "delete" => format!("delete{of} {}", with_article(name)),
        _ => format!("delete collection of {name}"),
    }
}

/// Plurals have none.
fn with_article(name: &str) -> String {
    if name.ends_with('s') && !name.ends_with("ss") {
        return name.to_owned();
    }
    let is_vowel = name.starts_with(|it: char| "aeiou".contains(it.to_ascii_lowercase()));
    format!("{} {name}", if is_vowel { "an" } else { "a" })
}

fn subresource(kind: &dyn Kind, subresource: &Subresource, item: &str) -> Path {
    let names = kind.names();
    let path = format!("{item}/{}", subresource.name);
    if subresource.is_stream() {
        return Path::new(kind, path, streams(kind, subresource));
    }
    let target = subresource.kind_below(names);
    let definition = if target == names.gvk() {
        kind.definition()
    } else {
        built_in_definition(&target.group, &target.version, &target.kind)
    };
    let operation = |method: &'static str, action: &'static str| Operation {
        id: operation_id(action, kind, &named(kind, subresource)),
        // Upstream names the custom kind itself, for its scale too.
        kind: if kind.is_custom() { names.gvk() } else { target.clone() },
        ..acting(kind, (method, action), subresource.name, (&definition, definition.clone()))
    };
    let operations = subresource.verbs.iter().filter_map(|verb| match *verb {
        "create" => Some(operation("post", "post")),
        "get" => Some(operation("get", "get")),
        "patch" => Some(operation("patch", "patch")),
        "update" => Some(operation("put", "put")),
        _ => None,
    });
    Path::new(kind, path, operations.collect())
}

/// `connectCoreV1GetPodExec`; reading a log is a plain GET.
fn streams(kind: &dyn Kind, subresource: &Subresource) -> Vec<Operation> {
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
        let (id, description) = match action {
            "connect" => (
                operation_id("connect", kind, &format!("{}{what}", capital(method))),
                format!(
                    "connect {} requests to {} of {}",
                    method.to_uppercase(),
                    subresource.name,
                    names.kind
                ),
            ),
            other => (operation_id(other, kind, &what), described(kind, other, subresource.name)),
        };
        Operation {
            id,
            description,
            kind: subresource.kind_below(names),
            answer: None,
            parameters: Vec::new(),
            ..acting(kind, (method, action), subresource.name, ("", String::new()))
        }
    };
    subresource.verbs.iter().map(operation).collect()
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
