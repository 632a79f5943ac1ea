//! The stages before the body is looked at: who asks, may they, and for what kind.

use std::sync::Arc;

use admission::Notes;
use api::kind::Door;
use api::{ApiObject, Kind, Part, Subresource};
use apimachinery::selector::Fields;
use apimachinery::validation::is_path_segment;
use apimachinery::{ApiError, GroupVersionKind, Scope, User};
use authn::{Authenticated, Component, Credential, Unauthorized};
use authz::{Attributes, Authorized};
use client::Verb;

use super::core::Core;
use super::hooks::Hooks;
use super::{Call, method_not_allowed, trace};
use crate::cache::{ObjectPath, validate_segment};
use crate::flow::{self, Class, Length, Seat};
use crate::legacy_tokens;
use crate::registry::Family;

/// A call that was let in, with the kind it is about. Nobody has one who is not known, seated and
/// allowed.
pub(crate) struct Request {
    pub call: Call,
    /// In the version that was asked for.
    pub kind: Arc<dyn Kind>,
    pub(super) family: Arc<Family>,
    /// What is said beside the answer.
    pub(super) notes: Notes,
    /// Whether the body has lists or maps without anything in them.
    pub(super) has_empties: bool,
    /// JSON pointers to the lists among them.
    pub(super) empty_lists: Vec<String>,
    /// What is known of the body that is not in it any more, and is told with what it has.
    pub(super) problems: Vec<String>,
    pub(super) hooks: Arc<dyn Hooks>,
    /// The kind's own, if the call names one.
    subresource: Option<Subresource>,
    authorized: Authorized,
    /// Goes on into the answer.
    pub(super) seat: Seat,
}

/// The one way in, for calls, watches and streams, over HTTP and in process: a seat, then may they,
/// then is there such a thing.
pub(crate) async fn enter(
    core: &Core,
    authenticated: Authenticated,
    class: Class,
    (call, notes): (Call, Notes),
) -> Result<Request, ApiError> {
    if let Some(used) = authenticated.legacy_token() {
        legacy_tokens::remark(used, &notes);
    }
    let length = length(core, &call);
    let seated = core.flow.enter(authenticated, class, length).await?;
    trace::passed("seat");
    let authorized = authorize(core, seated.authenticated(), &call)?;
    find_kind(core, authorized, seated.into_seat(), (call, notes))
}

/// For components of this process. They have no more rights than their user, and wait for a seat
/// like everybody.
pub(crate) async fn enter_in_process(
    core: &Core,
    component: &Component,
    call: Call,
) -> Result<Request, ApiError> {
    let authenticated = authenticate(core, &Credential::Component(component.clone()), None)?;
    let resource = Some(call.resource.resource.as_str());
    let class = flow::classify(authenticated.user(), call.verb.name(), resource, "");
    enter(core, authenticated, class, (call, Notes::default())).await
}

/// For requests that are about no resource. What is returned is proof, and the seat.
pub(crate) async fn enter_path(
    core: &Core,
    authenticated: Authenticated,
    class: Class,
    (verb, path): (&str, &str),
) -> Result<(Authorized, Seat), ApiError> {
    let seated = core.flow.enter(authenticated, class, Length::Read).await?;
    let attributes = Attributes::path(verb, path);
    let authorized = core.authorizer.authorize(seated.authenticated().user(), attributes)?;
    Ok((authorized, seated.into_seat()))
}

/// For requests that another server answers: what they are about is that server's to know, and who
/// may ask for it this one's. What is returned is proof, and the seat.
pub(crate) async fn enter_elsewhere(
    core: &Core,
    authenticated: Authenticated,
    class: Class,
    (attributes, length): (Attributes, Length),
) -> Result<(Authorized, Seat), ApiError> {
    let seated = core.flow.enter(authenticated, class, length).await?;
    let authorized = core.authorizer.authorize(seated.authenticated().user(), attributes)?;
    Ok((authorized, seated.into_seat()))
}

fn length(core: &Core, call: &Call) -> Length {
    let kinds = core.registry.kinds();
    let subresource = kinds.find(&call.resource).zip(call.subresource.as_ref());
    let is_stream = subresource.is_some_and(|(kind, name)| {
        kind.subresources().iter().any(|it| it.name == name && it.is_stream())
    });
    match call.verb {
        Verb::Watch => Length::Long,
        _ if is_stream => Length::Long,
        Verb::Get | Verb::List | Verb::Options => Length::Read,
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => {
            Length::Write
        }
    }
}

pub(crate) fn authenticate(
    core: &Core,
    credential: &Credential,
    impersonate: Option<&User>,
) -> Result<Authenticated, ApiError> {
    trace::passed("authenticate");
    let authenticated = core.authenticator.authenticate(credential).inspect_err(|err| {
        if let Unauthorized::Invalidated(used) = err {
            core.legacy_tokens.refused(used, &core.metrics, core.world.clock.now());
        }
    })?;
    if let Some(used) = authenticated.legacy_token() {
        core.legacy_tokens.used(used, &core.metrics, core.world.clock.now());
    }
    match impersonate {
        None => Ok(authenticated),
        Some(user) => core.impersonate(&authenticated, user),
    }
}

/// Whose `get` is the right to what the store remembers beyond the horizon of all clients.
const HISTORY_PATH: &str = "/history";

fn authorize(
    core: &Core,
    authenticated: &Authenticated,
    call: &Call,
) -> Result<Authorized, ApiError> {
    trace::passed("authorize");
    let fields = selected_fields(call);
    let attributes = Attributes {
        verb: call.verb.name().to_owned(),
        group: call.resource.group.clone(),
        version: call.resource.version.clone(),
        resource: call.resource.resource.clone(),
        subresource: call.subresource.clone().unwrap_or_default(),
        namespace: call.namespace.clone().unwrap_or_default(),
        name: call.name.clone().unwrap_or_default(),
        is_resource: true,
        ..Attributes::default()
    };
    let mut attributes = attributes.within_itself();
    if let Some(name) = selected_name(call.verb, &fields).filter(|_| call.name.is_none()) {
        attributes.name = name;
    }
    attributes.fields = fields;
    if call.list.is_beyond_horizon {
        // What somebody deleted long ago is not for everybody who may see what is there now.
        let history = Attributes::path("get", HISTORY_PATH);
        core.authorizer.authorize(authenticated.user(), history)?;
    }
    Ok(core.authorizer.authorize(authenticated.user(), attributes)?)
}

/// The exact terms of the field selector, where the verb heeds one: elsewhere they would be a claim
/// that nobody checks.
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
    request.authorize_also(core, Verb::Create)?;
    Ok(MayCreate(()))
}

fn find_kind(
    core: &Core,
    authorized: Authorized,
    seat: Seat,
    (call, mut notes): (Call, Notes),
) -> Result<Request, ApiError> {
    trace::passed("find kind");
    let kinds = core.registry.kinds();
    let kind = kinds.find(&call.resource).cloned().ok_or_else(ApiError::no_such_resource)?;
    let subresource = find_subresource(kind.as_ref(), &call)?;
    let verbs = subresource.map_or_else(|| kind.verbs(), |it| it.verbs.to_vec());
    // A POST to one object, or a PUT to the collection, is no verb at all.
    let is_known = match call.verb {
        Verb::Options => subresource.is_some_and(|it| it.door == Door::Proxy),
        verb => verbs.contains(&verb.name()),
    };
    if !is_known {
        return Err(method_not_allowed());
    }
    validate_place(kind.as_ref(), &call)?;
    let family = kinds.family_of(&kind);
    let hooks = hooks_of(core, family.stored().as_ref());
    notes.extend(kind.deprecation());
    let (has_empties, problems) = (false, Vec::new());
    let request = Request {
        call,
        kind,
        family,
        notes,
        has_empties,
        empty_lists: Vec::new(),
        problems,
        hooks,
        subresource,
        authorized,
        seat,
    };
    request.hooks.validate_call(&request)?;
    Ok(request)
}

/// All versions of a kind have those of the one that is stored.
pub(super) fn hooks_of(core: &Core, kind: &dyn Kind) -> Arc<dyn Hooks> {
    match kind.is_custom() {
        true => core.hooks.none().clone(),
        false => core.hooks.find(&kind.names().group, &kind.names().plural).clone(),
    }
}

fn find_subresource(kind: &dyn Kind, call: &Call) -> Result<Option<Subresource>, ApiError> {
    let Some(name) = &call.subresource else { return Ok(None) };
    let mut subresources = kind.subresources().into_iter();
    subresources.find(|it| it.name == name).map(Some).ok_or_else(ApiError::no_such_resource)
}

/// Whether the path is one that the kind has. One that is not, whoever may use it, leads nowhere: a
/// right in a namespace is no right to what is in none.
fn validate_place(kind: &dyn Kind, call: &Call) -> Result<(), ApiError> {
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
        validate_segment("Namespace", namespace)?;
    }
    if let Some(name) = &call.name {
        validate_segment("Name", name)?;
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

    /// What is behind the path; `None`: the object itself, or the collection.
    pub(crate) fn door(&self) -> Option<Door> {
        self.subresource.map(|it| it.door)
    }

    /// What is read and written here.
    pub(super) fn kind_of_body(&self) -> GroupVersionKind {
        let names = self.kind.names();
        self.subresource.map_or_else(|| names.gvk(), |it| it.kind_below(names))
    }

    /// Whether what is read and written is the object itself or a part of it, in its own form.
    pub(super) fn is_about_object(&self) -> bool {
        let is_stored = !self.kind.registry_prefix().is_empty();
        is_stored && matches!(self.door(), None | Some(Door::Part(_)))
    }

    /// The kind that the object is stored as.
    pub(crate) fn stored_kind(&self) -> &dyn Kind {
        self.family.stored().as_ref()
    }

    /// The kind that the object has the form of while rules are applied to it: built-in ones that
    /// of the store, custom ones that of the request.
    pub(super) fn working_kind(&self) -> &dyn Kind {
        if self.kind.is_custom() { self.kind.as_ref() } else { self.stored_kind() }
    }

    /// Which part of the object a write is about.
    pub(crate) fn part(&self) -> Part {
        match self.door() {
            None => Part::Main,
            Some(Door::Part(part)) => part,
            Some(Door::Scale | Door::Action | Door::Stream | Door::Proxy) => Part::Other(""),
        }
    }

    /// Whether the caller may do something else, too, with what the request is about.
    pub(crate) fn authorize_also(&self, core: &Core, verb: Verb) -> Result<(), ApiError> {
        let attributes =
            Attributes { verb: verb.name().to_owned(), ..self.authorized.attributes().clone() };
        core.authorizer.authorize(self.user(), attributes)?;
        Ok(())
    }

    /// The same caller's request, for the object itself and not for what is below it: an action has
    /// become a write of it. `kind` is that of the object.
    pub(crate) fn turn_to(&mut self, core: &Core, kind: Arc<dyn Kind>) {
        self.family = core.registry.kinds().family_of(&kind);
        self.hooks = hooks_of(core, self.family.stored().as_ref());
        self.kind = kind;
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.kind.names().group_resource(), self.name())
    }

    pub(crate) fn modified(&self) -> ApiError {
        ApiError::modified(&self.kind.names().group_resource(), self.name())
    }

    /// Of what is odd about a valid object; `old` is what it replaces.
    pub(super) fn warn_of(&self, object: &dyn ApiObject, old: Option<&dyn ApiObject>) {
        let warnings = match old {
            Some(old) => self.kind.update_warnings(object, old, self.part()),
            None => self.kind.warnings(object),
        };
        for warning in warnings {
            self.notes.warn(&warning);
        }
    }

    /// Who writes, for managedFields.
    pub(crate) fn manager(&self) -> &str {
        self.call.write.field_manager.as_deref().unwrap_or(&self.call.user_agent)
    }
}
