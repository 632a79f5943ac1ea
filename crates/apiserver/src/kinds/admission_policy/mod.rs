//! Policies and their bindings: what they say holds from the moment it is stored, and nobody lets a
//! policy read, as parameters, what they may not read themselves.

mod parameters;

use std::fmt::Write as _;
use std::sync::Arc;

use admission::policy::Policies;
use api::admissionregistration::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
};
use api::{ApiObject, Lookup};
use apimachinery::field::Path;
use apimachinery::{ApiError, FieldErrors, GroupResource, ObjectKey, User};
use authz::Attributes;
use k8s_openapi::api::admissionregistration::v1::{ParamKind, ParamRef};

use crate::cache::Change;
use crate::pipeline::Core;
use crate::pipeline::hooks::{Hooks, Of, Write};

const GROUP: &str = "admissionregistration.k8s.io";
const GROUP_MASTERS: &str = "system:masters";

pub(crate) use parameters::FromCache;

pub(crate) struct AdmissionPolicies(Arc<Policies>);

impl AdmissionPolicies {
    pub(crate) fn new(policies: Arc<Policies>) -> Self {
        Self(policies)
    }
}

impl Hooks for AdmissionPolicies {
    fn of(&self) -> &'static [Of] {
        &[
            (GROUP, "mutatingadmissionpolicies"),
            (GROUP, "mutatingadmissionpolicybindings"),
            (GROUP, "validatingadmissionpolicies"),
            (GROUP, "validatingadmissionpolicybindings"),
        ]
    }

    fn observe(&self, resource: &GroupResource, change: &Change) {
        let name = change.latest().meta.key.name.as_str();
        let stored = change.object.as_deref();
        match resource.resource.as_str() {
            "mutatingadmissionpolicies" => {
                let it = stored.and_then(|it| it.shared().ok());
                self.0.set_mutating(name, it.as_deref());
            }
            "mutatingadmissionpolicybindings" => {
                let it = stored.and_then(|it| it.shared().ok());
                self.0.set_mutating_binding(name, it.as_deref());
            }
            "validatingadmissionpolicies" => {
                let it = stored.and_then(|it| it.shared().ok());
                self.0.set_validating(name, it.as_deref());
            }
            _ => {
                let it = stored.and_then(|it| it.shared().ok());
                self.0.set_validating_binding(name, it.as_deref());
            }
        }
    }

    fn validate_write(&self, core: &Core, write: &Write<'_>) -> Result<(), ApiError> {
        let user = write.request.user();
        if user.is_in(GROUP_MASTERS) {
            return Ok(());
        }
        let refused = match Written::of(write.object) {
            Some(written) if write.old.and_then(Written::of).as_ref() == Some(&written) => None,
            Some(Written::Policy(kind)) => {
                refuse_kind(core, user, &kind).map(|it| ("paramKind", it))
            }
            Some(Written::Binding(binding)) => {
                refuse_reference(core, user, &binding).map(|it| ("paramRef", it))
            }
            None => None,
        };
        let Some((field, why)) = refused else { return Ok(()) };
        let mut errors = FieldErrors::new();
        errors.forbidden(&Path::new("spec").child(field), &why);
        let name = write.object.meta().name.as_deref().unwrap_or_default();
        let kind = write.request.kind.names().gvk().group_kind();
        Err(ApiError::invalid(&kind, name, &errors))
    }
}

/// What an object says of parameters, if it has any.
#[derive(PartialEq)]
enum Written {
    Policy(ParamKind),
    Binding(Binding),
}

#[derive(PartialEq)]
struct Binding {
    is_mutating: bool,
    policy: String,
    reference: ParamRef,
}

impl Written {
    fn of(object: &dyn ApiObject) -> Option<Self> {
        if let Some(policy) = object.downcast_ref::<ValidatingAdmissionPolicy>() {
            return policy.spec.as_ref()?.param_kind.clone().map(Self::Policy);
        }
        if let Some(policy) = object.downcast_ref::<MutatingAdmissionPolicy>() {
            return policy.spec.as_ref()?.param_kind.clone().map(Self::Policy);
        }
        let binding = |is_mutating, policy: Option<&String>, reference: Option<&ParamRef>| {
            let policy = policy.cloned().unwrap_or_default();
            let reference = reference.cloned()?;
            Some(Self::Binding(Binding { is_mutating, policy, reference }))
        };
        if let Some(it) = object.downcast_ref::<ValidatingAdmissionPolicyBinding>() {
            return binding(false, Some(&it.spec.policy_name), it.spec.param_ref.as_ref());
        }
        let spec = object.downcast_ref::<MutatingAdmissionPolicyBinding>()?.spec.as_ref()?;
        binding(true, spec.policy_name.as_ref(), spec.param_ref.as_ref())
    }
}

/// What of a kind of parameters is known: what is not has to be allowed for everything.
struct Known {
    group: String,
    version: String,
    resource: String,
}

impl Known {
    const ALL: &str = "*";

    fn nothing() -> Self {
        let all = || Self::ALL.to_owned();
        Self { group: all(), version: all(), resource: all() }
    }

    fn of(core: &Core, kind: &ParamKind) -> Self {
        let api_version = kind.api_version.as_deref().unwrap_or_default();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let wanted = kind.kind.as_deref().unwrap_or_default();
        let kinds = core.registry.kinds();
        let found = kinds.iter().map(|it| it.names()).find(|it| {
            (it.group.as_str(), it.version.as_str(), it.kind.as_str()) == (group, version, wanted)
        });
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: found.map_or(Self::ALL, |it| &it.plural).to_owned(),
        }
    }

    fn attributes(self, verb: &str, namespace: &str, name: &str) -> Attributes {
        let attributes = Attributes::resource(verb, &self.group, &self.resource);
        Attributes { version: self.version, ..attributes }.within(namespace, name)
    }
}

/// Whoever writes a policy can read all objects of its kind of parameters.
fn refuse_kind(core: &Core, user: &User, kind: &ParamKind) -> Option<String> {
    let attributes = Known::of(core, kind).attributes("get", "*", "*");
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    let refuse = || {
        format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            shown(user),
            text(&kind.kind),
            text(&kind.api_version)
        )
    };
    (!core.authorizer.decide(user, &attributes).is_allowed()).then(refuse)
}

/// Whoever binds a policy can read what it is bound with.
fn refuse_reference(core: &Core, user: &User, binding: &Binding) -> Option<String> {
    let (policy, reference) = (&binding.policy, &binding.reference);
    let found = param_kind(core, binding);
    let known = match &found {
        Some(Some(kind)) => Known::of(core, kind),
        Some(None) | None => Known::nothing(),
    };
    let is_resolved = known.resource != Known::ALL;
    let name = reference.name.as_deref().unwrap_or_default();
    let verb = if name.is_empty() { "list" } else { "get" };
    let namespace = reference.namespace.as_deref().unwrap_or_default();
    let attributes = known.attributes(verb, namespace, name);
    if core.authorizer.decide(user, &attributes).is_allowed() {
        return None;
    }
    let user = shown(user);
    let everything = format!(
        "to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all groups, versions and resources"
    );
    Some(match found {
        None => format!("unable to get policy {policy} {everything}"),
        Some(Some(kind)) if !is_resolved => {
            let text = |it: Option<String>| it.unwrap_or_default();
            let (api_version, kind) = (text(kind.api_version), text(kind.kind));
            format!(
                "unable to resolve paramKind &ParamKind{{APIVersion:{api_version},Kind:{kind},}} {everything}"
            )
        }
        Some(_) => {
            format!(
                "user {user} does not have \"{verb}\" permission on the object referenced by paramRef"
            )
        }
    })
}

/// Of the policy that is bound; nothing at all if there is no such policy.
fn param_kind(core: &Core, binding: &Binding) -> Option<Option<ParamKind>> {
    let lookup: &dyn Lookup = core.cache.as_ref();
    let key = ObjectKey::new("", binding.policy.as_str());
    match binding.is_mutating {
        true => {
            let policy = lookup.get::<MutatingAdmissionPolicy>(&key)?;
            Some(policy.spec.as_ref().and_then(|it| it.param_kind.clone()))
        }
        false => {
            let policy = lookup.get::<ValidatingAdmissionPolicy>(&key)?;
            Some(policy.spec.as_ref().and_then(|it| it.param_kind.clone()))
        }
    }
}

/// As Go prints the struct, which is what users see of upstream.
fn shown(user: &User) -> String {
    let mut extra = String::new();
    for (index, (key, values)) in user.extra.iter().enumerate() {
        let gap = if index == 0 { "" } else { " " };
        let _ = write!(extra, "{gap}{key}:[{}]", values.join(" "));
    }
    format!("&{{{} {} [{}] map[{extra}]}}", user.name, user.uid, user.groups.join(" "))
}
