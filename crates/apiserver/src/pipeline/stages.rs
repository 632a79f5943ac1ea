//! The stages before the body is looked at: who asks, may they, and for what kind.

use std::sync::Arc;

use api::{Kind, Part};
use apimachinery::selector::Fields;
use apimachinery::{ApiError, User};
use authn::{Authenticated, Credential};
use authz::{Attributes, Authorized};

use super::{Call, method_not_allowed, trace};
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
    let authenticated = core.authenticator.authenticate(credential.clone())?;
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
    let fields = call.list.field_selector.as_deref().map(Fields::parse);
    let fields = match fields {
        Some(Ok(fields)) => fields.terms,
        _ => Vec::new(),
    };
    let exact: Vec<_> =
        fields.into_iter().filter(|it| it.2).map(|(field, value, _)| (field, value)).collect();
    let selected_name = exact.iter().find(|it| it.0 == "metadata.name").map(|it| it.1.clone());
    let attributes = Attributes {
        verb: call.verb.name().to_owned(),
        group: call.resource.group.clone(),
        version: call.resource.version.clone(),
        resource: call.resource.resource.clone(),
        subresource: call.subresource.clone().unwrap_or_default(),
        namespace: call.namespace.clone().unwrap_or_default(),
        name: call.name.clone().or(selected_name).unwrap_or_default(),
        is_resource: true,
        fields: exact,
        ..Attributes::default()
    };
    Ok(core.authorizer.authorize(authenticated.user(), attributes)?)
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
    let warnings = kind.deprecation().into_iter().collect();
    Ok(Request { call, kind, warnings, authorized })
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

    pub(crate) fn path(&self) -> String {
        crate::cache::path_of(self.namespace(), self.name())
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
