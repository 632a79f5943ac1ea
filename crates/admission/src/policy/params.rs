//! The objects that a binding gives to its policy.

use std::sync::Arc;

use apimachinery::Scope;
use apimachinery::selector::Labels;
use futures_util::future::BoxFuture;
use k8s_openapi::api::admissionregistration::v1::{ParamKind, ParamRef};
use serde_json::Value;

use super::source::{Binding, Definition};

/// Objects of any kind, as the server knows them.
pub trait Parameters: Send + Sync {
    /// Whether there is such a kind, and whether it has namespaces.
    fn scope(&self, api_version: &str, kind: &str) -> Option<Scope>;

    /// Those that are asked for, in the version that is asked for, sorted by key.
    fn find<'a>(&'a self, wanted: Found<'a>) -> BoxFuture<'a, Result<Vec<Arc<Value>>, String>>;
}

/// Which objects are asked for.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    /// `None` for kinds without namespaces.
    pub namespace: Option<&'a str>,
    /// Of one object; else all that the selector matches.
    pub name: Option<&'a str>,
    pub selector: &'a Labels,
}

fn kind_text(kind: &ParamKind) -> (&str, &str) {
    (kind.api_version.as_deref().unwrap_or_default(), kind.kind.as_deref().unwrap_or_default())
}

/// `namespace/name`, if it is an object.
pub(crate) fn name_of(params: &Value) -> Option<String> {
    let metadata = params.get("metadata")?;
    let name = metadata["name"].as_str()?;
    Some(match metadata["namespace"].as_str().filter(|it| !it.is_empty()) {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    })
}

/// Why the policy cannot be evaluated whatever its bindings say.
pub(crate) fn configuration_error<E>(
    definition: &Definition<E>,
    parameters: &dyn Parameters,
) -> Option<String> {
    let (api_version, kind) = kind_text(definition.param_kind.as_ref()?);
    if parameters.scope(api_version, kind).is_some() {
        return None;
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let shown = format!("{group}/{version}, Kind={kind}");
    Some(format!("failed to find resource referenced by paramKind: '{shown}'"))
}

/// The parameters to evaluate a policy with: `None` stands for one evaluation without any.
pub(crate) async fn collect<E>(
    definition: &Definition<E>,
    binding: &Binding,
    namespace: &str,
    parameters: &dyn Parameters,
) -> Result<Vec<Option<Arc<Value>>>, String> {
    let (Some(kind), Some(reference)) = (&definition.param_kind, &binding.param_ref) else {
        return Ok(vec![None]);
    };
    let (api_version, kind) = kind_text(kind);
    let Some(scope) = parameters.scope(api_version, kind) else {
        return Err(format!("paramKind kind `{api_version}, Kind={kind}` not known"));
    };
    let namespace = namespace_of(reference, scope, namespace)?;
    let selector = match &reference.selector {
        Some(selector) => Labels::from_selector(Some(selector)).map_err(|it| it.to_string())?,
        None => Labels::nothing(),
    };
    let name = reference.name.as_deref().filter(|it| !it.is_empty());
    if name.is_none() && reference.selector.is_none() {
        return Err("one of name or selector must be provided".to_owned());
    }
    let wanted = Found { api_version, kind, namespace, name, selector: &selector };
    let found = parameters.find(wanted).await?;
    if found.is_empty() && reference.parameter_not_found_action.as_deref() == Some("Deny") {
        let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
        return Err(why.to_owned());
    }
    Ok(found.into_iter().map(Some).collect())
}

fn namespace_of<'a>(
    reference: &'a ParamRef,
    scope: Scope,
    namespace: &'a str,
) -> Result<Option<&'a str>, String> {
    let own = reference.namespace.as_deref().filter(|it| !it.is_empty());
    match (scope, own) {
        (Scope::Cluster, None) => Ok(None),
        (Scope::Cluster, Some(_)) => {
            Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                .to_owned())
        }
        (Scope::Namespaced, Some(own)) => Ok(Some(own)),
        (Scope::Namespaced, None) if namespace.is_empty() => {
            Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped \
                 resources"
                .to_owned())
        }
        (Scope::Namespaced, None) => Ok(Some(namespace)),
    }
}
