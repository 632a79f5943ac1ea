//! The stages before the body is looked at: who asks, may they, and for what kind.

use std::sync::Arc;

use api::{Kind, Part};
use apimachinery::selector::Fields;
use apimachinery::validation::is_path_segment;
use apimachinery::{ApiError, Scope, User};
use authn::{Authenticated, Credential};
use authz::{Attributes, Authorized};
use client::Verb;

use super::{Call, method_not_allowed, trace};
use crate::cache::{ObjectPath, check_segment};
use crate::server::Core;

/// A call that was let in, with the kind it is about.
pub(crate) struct Request {
    pub call: Call,
    pub kind: Arc<dyn Kind>,
    pub warnings: Vec<String>,
    authorized: Authorized,
}

pub(crate) fn authenticate(
    core: &Core,
    credential: &Credential,
    impersonate: Option<&User>,
) -> Result<Authenticated, ApiError> {
    trace::passed("authenticate");
    let authenticated = core.authenticator.authenticate(credential)?;
    match impersonate {
        None => Ok(authenticated),
        Some(user) => core.impersonate(&authenticated, user),
    }
}

pub(crate) fn authorize(
    core: &Core,
    authenticated: &Authenticated,
    call: &Call,
) -> Result<Authorized, ApiError> {
    trace::passed("authorize");
    let fields = selected_fields(call);
    let name = call.name.clone().or_else(|| selected_name(call.verb, &fields)).unwrap_or_default();
    // A namespace is within itself: whoever has rights there has them on it.
    let is_namespace = call.resource.group.is_empty() && call.resource.resource == "namespaces";
    let within = call.name.as_ref().filter(|_| is_namespace);
    let namespace = call.namespace.as_ref().or(within);
    let attributes = Attributes {
        verb: call.verb.name().to_owned(),
        group: call.resource.group.clone(),
        version: call.resource.version.clone(),
        resource: call.resource.resource.clone(),
        subresource: call.subresource.clone().unwrap_or_default(),
        namespace: namespace.cloned().unwrap_or_default(),
        name,
        is_resource: true,
        fields,
        ..Attributes::default()
    };
    Ok(core.authorizer.authorize(authenticated.user(), attributes)?)
}

/// The exact terms of the field selector, where the verb heeds one: elsewhere they would be a claim that nobody checks.
fn selected_fields(call: &Call) -> Vec<(String, String)> {
    if !matches!(call.verb, Verb::List | Verb::Watch | Verb::DeleteCollection) {
        return Vec::new();
    }
    let terms = match call.list.field_selector.as_deref().map(Fields::parse) {
        Some(Ok(fields)) => fields.terms,
        _ => return Vec::new(),
    };
    terms.into_iter().filter(|it| it.2).map(|(field, value, _)| (field, value)).collect()
}

/// A list or watch of one name is a request for that object.
fn selected_name(verb: Verb, fields: &[(String, String)]) -> Option<String> {
    let name = fields.iter().find(|it| it.0 == "metadata.name").map(|it| &it.1)?;
    let is_read = matches!(verb, Verb::List | Verb::Watch);
    (is_read && is_path_segment(name).is_empty()).then(|| name.clone())
}

/// Proof that the verb `create` was asked for and allowed. Without one nothing new is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct MayCreate(());

/// Where an object comes into being the verb `create` is needed, whatever the door.
pub(super) fn authorize_creation(core: &Core, request: &Request) -> Result<MayCreate, ApiError> {
    if request.authorized.attributes().verb == Verb::Create.name() {
        return Ok(MayCreate(()));
    }
    let attributes = Attributes {
        verb: Verb::Create.name().to_owned(),
        ..request.authorized.attributes().clone()
    };
    core.authorizer.authorize(request.user(), attributes)?;
    Ok(MayCreate(()))
}

/// For requests that are about no resource.
pub(crate) fn authorize_path(
    core: &Core,
    authenticated: &Authenticated,
    verb: &str,
    path: &str,
) -> Result<Authorized, ApiError> {
    Ok(core.authorizer.authorize(authenticated.user(), Attributes::path(verb, path))?)
}

pub(super) fn find_kind(
    core: &Core,
    authorized: Authorized,
    call: Call,
) -> Result<Request, ApiError> {
    trace::passed("find kind");
    let kinds = core.registry.kinds();
    let kind = kinds.find(&call.resource).cloned().ok_or_else(ApiError::no_such_resource)?;
    let verb = call.verb.name();
    match &call.subresource {
        None => {
            // A POST to one object, or a PUT to the collection, is no verb at all.
            if !kind.verbs().contains(&verb) {
                return Err(method_not_allowed());
            }
        }
        Some(name) => {
            let subresources = kind.subresources();
            let subresource = subresources
                .iter()
                .find(|it| it.name == name)
                .ok_or_else(ApiError::no_such_resource)?;
            if !subresource.verbs.contains(&verb) {
                return Err(method_not_allowed());
            }
        }
    }
    check_place(kind.as_ref(), &call)?;
    let warnings = kind.deprecation().into_iter().collect();
    Ok(Request { call, kind, warnings, authorized })
}

/// Whether the path is one that the kind has. One that is not, whoever may use it, leads nowhere: a right in a namespace is
/// no right to what is in none.
fn check_place(kind: &dyn Kind, call: &Call) -> Result<(), ApiError> {
    match (kind.scope(), &call.namespace) {
        (Scope::Cluster, Some(_)) => return Err(ApiError::no_such_resource()),
        (Scope::Namespaced, None) if call.name.is_some() => {
            return Err(ApiError::no_such_resource());
        }
        // All namespaces at once are only read.
        (Scope::Namespaced, None) if !matches!(call.verb, Verb::List | Verb::Watch) => {
            let is_path = !kind.is_custom() && kind.verbs().contains(&Verb::List.name());
            return Err(if is_path { method_not_allowed() } else { ApiError::no_such_resource() });
        }
        _ => {}
    }
    if let Some(namespace) = &call.namespace {
        check_segment("Namespace", namespace)?;
    }
    if let Some(name) = &call.name {
        check_segment("Name", name)?;
    }
    Ok(())
}

impl Request {
    pub(crate) fn user(&self) -> &User {
        self.authorized.user()
    }

    pub(crate) fn subresource(&self) -> Option<&str> {
        self.call.subresource.as_deref()
    }

    pub(crate) fn namespace(&self) -> &str {
        self.call.namespace.as_deref().unwrap_or_default()
    }

    pub(crate) fn name(&self) -> &str {
        self.call.name.as_deref().unwrap_or_default()
    }

    /// Where the object is; nowhere, if the name is none or the scope does not fit.
    pub(crate) fn path(&self) -> Result<ObjectPath, ApiError> {
        ObjectPath::of(self.kind.as_ref(), self.namespace(), self.name())
    }

    /// Which part of the object a write is about.
    pub(crate) fn part(&self) -> Part {
        match self.subresource() {
            None => Part::Main,
            Some("status") => Part::Status,
            Some("finalize") => Part::Other("finalize"),
            Some("ephemeralcontainers") => Part::Other("ephemeralcontainers"),
            Some("resize") => Part::Other("resize"),
            Some("approval") => Part::Other("approval"),
            Some(_) => Part::Other(""),
        }
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.kind.names().group_resource(), self.name())
    }

    pub(crate) fn modified(&self) -> ApiError {
        ApiError::modified(&self.kind.names().group_resource(), self.name())
    }

    /// Who writes, for managedFields.
    pub(crate) fn manager(&self) -> &str {
        self.call.write.field_manager.as_deref().unwrap_or(&self.call.user_agent)
    }
}
