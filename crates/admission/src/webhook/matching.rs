//! Whether a webhook is asked about a request, and in which version: rules, then the same resource
//! in other versions, selectors, conditions.

use std::collections::BTreeMap;

use api::core::Namespace;
use apimachinery::{
    ApiError, GroupResource, GroupVersionKind, GroupVersionResource, Names, ObjectKey,
};

use super::hook::Hook;
use super::messages;
use super::rules::Asked;
use crate::attributes::{Attributes, Operation};
use crate::context::Context;

const GROUP: &str = "admissionregistration.k8s.io";
/// Whoever registers wrongly must be able to make it right.
const NEVER: &[&str] = &[
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// The resource and kind that the webhook is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Invocation {
    pub(super) resource: GroupVersionResource,
    pub(super) kind: GroupVersionKind,
}

pub(super) fn is_exempt(request: &Attributes<'_>) -> bool {
    let names = request.kind.names();
    names.group == GROUP && NEVER.contains(&names.plural.as_str())
}

/// That of a Namespace is itself.
pub(super) fn namespace_of<'a>(context: &'a Context<'_>) -> &'a str {
    match context.request.is_of("", "namespaces") {
        true => context.name(),
        false => context.request.namespace,
    }
}

/// By its rules and selectors. Upstream looks at the selectors first; what comes out is the same,
/// and rules are cheap.
pub(super) fn invocation(
    hook: &Hook,
    context: &Context<'_>,
) -> Result<Option<Invocation>, ApiError> {
    let request = &context.request;
    let asked = Asked {
        operation: request.operation,
        subresource: request.subresource,
        namespace: namespace_of(context),
    };
    let Some(names) = by_rules(hook, &asked, request.requested, request.versions.served()) else {
        return Ok(None);
    };
    if !matches_namespace(hook, context)? || !matches_object(hook, context)? {
        return Ok(None);
    }
    Ok(Some(Invocation { resource: names.gvr(), kind: kind_of(request, names) }))
}

/// The names by which a rule has the resource: those of the request, else the first of `served`
/// that any rule has.
fn by_rules<'a>(
    hook: &Hook,
    asked: &Asked<'_>,
    requested: &'a Names,
    served: &'a [Names],
) -> Option<&'a Names> {
    if hook.rules.iter().any(|it| it.matches(asked, requested)) {
        return Some(requested);
    }
    if !hook.is_equivalent {
        return None;
    }
    let rules = hook.rules.iter();
    rules.filter_map(|rule| served.iter().find(|it| rule.matches(asked, it))).next()
}

/// Of the object that the webhook is shown: what is below an object may have a kind of its own,
/// which is the same in all versions.
fn kind_of(request: &Attributes<'_>, names: &Names) -> GroupVersionKind {
    match request.has_own_kind() {
        true => request.kind_of_object(),
        false => names.gvk(),
    }
}

fn matches_namespace(hook: &Hook, context: &Context<'_>) -> Result<bool, ApiError> {
    let namespace = namespace_of(context);
    if namespace.is_empty() && !context.request.is_of("", "namespaces") {
        return Ok(true);
    }
    let selector = hook.namespaces.as_ref().map_err(|err| messages::internal(err))?;
    if selector.is_everything() {
        return Ok(true);
    }
    let request = &context.request;
    let is_written = matches!(request.operation, Operation::Create | Operation::Update);
    if request.is("", "namespaces", "") && is_written {
        // What will be, which nobody could look up.
        let labels = context.object().and_then(|it| it.meta().labels.as_ref());
        return Ok(selector.matches(labels.unwrap_or(&BTreeMap::new())));
    }
    let found = context.lookup.get::<Namespace>(&ObjectKey::cluster(namespace));
    let missing = || ApiError::not_found(&GroupResource::new("", "namespaces"), namespace);
    let found = found.ok_or_else(missing)?;
    Ok(selector.matches(found.metadata.labels.as_ref().unwrap_or(&BTreeMap::new())))
}

/// By the labels that the object has or had. The options of a stream have none.
fn matches_object(hook: &Hook, context: &Context<'_>) -> Result<bool, ApiError> {
    let selector = hook.objects.as_ref().map_err(|err| messages::internal(err))?;
    if selector.is_everything() {
        return Ok(true);
    }
    if context.request.operation == Operation::Connect {
        return Ok(false);
    }
    let both = [context.object(), context.old().map(|it| it.object())];
    let none = BTreeMap::new();
    let mut labels = both.into_iter().flatten().map(|it| it.meta().labels.as_ref());
    Ok(labels.any(|it| selector.matches(it.unwrap_or(&none))))
}
