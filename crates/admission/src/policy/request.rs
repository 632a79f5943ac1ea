//! What expressions see of a request beside its objects: `request`, `namespaceObject` and what
//! `authorizer` is asked about.

use std::sync::Arc;

use ::authz::Attributes;
use apimachinery::cel::libraries::authz::{self, Check, Decision, Decisions, Subject, Target};
use apimachinery::selector::Fields;
use apimachinery::{ApiError, GroupResource, ObjectKey, User};
use serde_json::{Value, json};

use crate::context::Context;
use crate::matching::{Invocation, namespace_of};

/// What of a Namespace's metadata is not shown.
const HIDDEN: &[&str] = &["managedFields", "ownerReferences", "selfLink"];

/// What expressions see of a request beside its objects, where it counts as one resource.
pub(crate) struct Asked {
    invocation: Invocation,
    /// As it was when this was made: an object may get its name meanwhile.
    name: String,
    pub(crate) request: Value,
    pub(crate) namespace: Arc<Value>,
    /// What `authorizer.requestResource` asks about.
    pub(crate) resource: authz::Resource,
}

/// The same for all policies that are for the request: made when the first of them is.
#[derive(Default)]
pub(crate) struct AskedAbout {
    all: Vec<Arc<Asked>>,
    namespace: Option<Arc<Value>>,
}

impl AskedAbout {
    pub(crate) fn find(
        &mut self,
        context: &Context<'_>,
        invocation: &Invocation,
    ) -> Result<Arc<Asked>, ApiError> {
        let is_it = |it: &&Arc<Asked>| it.invocation == *invocation && it.name == context.name();
        if let Some(found) = self.all.iter().find(is_it) {
            return Ok(found.clone());
        }
        let namespace = match &self.namespace {
            Some(known) => known.clone(),
            None => self.namespace.insert(Arc::new(namespace_value(context)?)).clone(),
        };
        let asked = Arc::new(Asked {
            invocation: invocation.clone(),
            name: context.name().to_owned(),
            request: request_value(context, invocation),
            namespace,
            resource: requested_resource(context),
        });
        self.all.push(asked.clone());
        Ok(asked)
    }
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
fn namespace_value(context: &Context<'_>) -> Result<Value, ApiError> {
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
