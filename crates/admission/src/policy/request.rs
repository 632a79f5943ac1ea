//! What expressions see of a request: `request`, `namespaceObject`, `object` and `oldObject`.

use std::borrow::Cow;
use std::sync::Arc;

use ::authz::Attributes;
use apimachinery::cel::libraries::authz::{self, Check, Decision, Decisions, Subject, Target};
use apimachinery::selector::Fields;
use apimachinery::{ApiError, GroupResource, ObjectKey, User};
use serde_json::{Value, json};

use crate::attributes::Operation;
use crate::context::Context;
use crate::matching::{Invocation, namespace_of};

/// What of a Namespace's metadata is not shown.
const HIDDEN: &[&str] = &["managedFields", "ownerReferences", "selfLink"];

/// The objects of a request in the version that a policy asks for. Where that is the one that is
/// worked on they are the request's own, one tree for all policies.
pub(crate) struct Shown<'a> {
    pub(crate) object: Cow<'a, Value>,
    pub(crate) old: Cow<'a, Value>,
}

impl<'a> Shown<'a> {
    pub(crate) async fn new(
        context: &'a Context<'_>,
        invocation: &Invocation,
    ) -> Result<Self, ApiError> {
        let api_version = invocation.kind.api_version();
        let object = match context.draft() {
            Some(draft) => convert(context, draft.tree(), &api_version).await?,
            None => Cow::Owned(Value::Null),
        };
        let old = match context.old() {
            Some(old) => convert(context, old.tree(), &api_version).await?,
            None => Cow::Owned(Value::Null),
        };
        Ok(Self { object, old })
    }
}

async fn convert<'a>(
    context: &Context<'_>,
    tree: &'a Value,
    api_version: &str,
) -> Result<Cow<'a, Value>, ApiError> {
    let request = &context.request;
    let is_as_asked = tree["apiVersion"].as_str().is_none_or(|it| it == api_version);
    if request.has_own_kind() || request.operation == Operation::Connect || is_as_asked {
        return Ok(Cow::Borrowed(tree));
    }
    let json = tree.to_string().into_bytes().into();
    let converted = request.versions.convert(json, api_version).await?;
    let converted = serde_json::from_slice(&converted);
    converted
        .map(Cow::Owned)
        .map_err(|err| ApiError::internal("failed to convert object version").with_source(err))
}

/// The value of `request`. What is empty is not there, as in an AdmissionReview.
pub(crate) fn request_value(context: &Context<'_>, invocation: &Invocation) -> Value {
    let request = &context.request;
    let (kind, resource) = (&invocation.kind, &invocation.resource);
    let requested = request.requested;
    let requested_kind = match request.has_own_kind() {
        true => request.kind_of_object(),
        false => requested.gvk(),
    };
    let mut value = json!({
        "uid": "",
        "kind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "resource": {
            "group": resource.group, "version": resource.version, "resource": resource.resource,
        },
        "requestKind": {
            "group": requested_kind.group, "version": requested_kind.version,
            "kind": requested_kind.kind,
        },
        "requestResource": {
            "group": requested.group, "version": requested.version,
            "resource": requested.plural,
        },
        "operation": request.operation.text(),
        "userInfo": user_value(request.user),
        "dryRun": request.is_dry_run(),
        "object": null,
        "oldObject": null,
        "options": request.options.to_value(request.operation),
    });
    for (field, text) in [
        ("subResource", request.subresource),
        ("requestSubResource", request.subresource),
        ("name", context.name()),
        ("namespace", namespace_of(context)),
    ] {
        if !text.is_empty() {
            value[field] = text.into();
        }
    }
    value
}

fn user_value(user: &User) -> Value {
    let mut value = json!({});
    for (field, text) in [("username", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            value[field] = text.as_str().into();
        }
    }
    if !user.groups.is_empty() {
        value["groups"] = json!(user.groups);
    }
    if !user.extra.is_empty() {
        value["extra"] = json!(user.extra);
    }
    value
}

/// The value of `namespaceObject`: null for what is in no namespace, and for a Namespace itself.
pub(crate) fn namespace_value(context: &Context<'_>) -> Result<Value, ApiError> {
    let namespace = context.request.namespace;
    if namespace.is_empty() || context.request.is_of("", "namespaces") {
        return Ok(Value::Null);
    }
    let resource = GroupResource::new("", "namespaces");
    let found = context.lookup.find(&resource, &ObjectKey::cluster(namespace));
    let Some(found) = found else { return Err(ApiError::not_found(&resource, namespace)) };
    let mut tree: Value = serde_json::from_slice(&found.bytes).unwrap_or_default();
    if let Some(metadata) = tree["metadata"].as_object_mut() {
        metadata.retain(|field, _| !HIDDEN.contains(&field.as_str()));
    }
    let mut shown = json!({});
    for field in ["metadata", "spec", "status"] {
        shown[field] = tree[field].take();
    }
    Ok(shown)
}

/// What `authorizer.requestResource` asks about.
pub(crate) fn requested_resource(context: &Context<'_>) -> authz::Resource {
    let request = &context.request;
    authz::Resource {
        group: request.requested.group.clone(),
        resource: request.requested.plural.clone(),
        subresource: request.subresource.to_owned(),
        namespace: namespace_of(context).to_owned(),
        name: context.name().to_owned(),
        ..authz::Resource::default()
    }
}

/// Evaluates until nothing is asked of the authorizer that has no answer. The answers are kept for
/// the whole request.
pub(crate) async fn settle<T>(
    context: &Context<'_>,
    decisions: &Arc<Decisions>,
    evaluate: impl Fn() -> T,
) -> T {
    loop {
        let result = evaluate();
        if decisions.is_settled() {
            return result;
        }
        for check in decisions.take_asked() {
            let decision = answer(context, &check).await;
            decisions.decide(check, decision);
        }
    }
}

async fn answer(context: &Context<'_>, check: &Check) -> Decision {
    let account;
    let user = match &check.subject {
        Subject::Requester => context.request.user,
        Subject::ServiceAccount { namespace, name } => {
            let group = format!("system:serviceaccounts:{namespace}");
            let groups = ["system:serviceaccounts", &group];
            account = User::new(format!("system:serviceaccount:{namespace}:{name}"), &groups);
            &account
        }
    };
    let attributes = attributes(check);
    let decision = context.authorizer.decide(user, &attributes).await;
    Decision {
        is_allowed: decision.is_allowed(),
        reason: decision.reason().to_owned(),
        error: None,
    }
}

fn attributes(check: &Check) -> Attributes {
    match &check.target {
        Target::Path(path) => Attributes::path(check.verb.as_str(), path.as_str()),
        Target::Resource(it) => Attributes {
            verb: check.verb.clone(),
            group: it.group.clone(),
            version: "*".to_owned(),
            resource: it.resource.clone(),
            subresource: it.subresource.clone(),
            namespace: it.namespace.clone(),
            name: it.name.clone(),
            path: String::new(),
            is_resource: true,
            // A selector that cannot be read narrows nothing.
            fields: fields(&it.field_selector),
        },
    }
}

fn fields(selector: &str) -> Vec<(String, String)> {
    let terms = Fields::parse(selector).map(|it| it.terms).unwrap_or_default();
    let equal = terms.into_iter().filter(|it| it.2);
    equal.map(|(field, value, _)| (field, value)).collect()
}
