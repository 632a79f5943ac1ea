//! Which requests a policy or a binding is for, and as which resource it sees them.

use std::collections::BTreeMap;

use api::core::Namespace;
use apimachinery::selector::Labels;
use apimachinery::{GroupResource, GroupVersionKind, GroupVersionResource, Names, ObjectKey};
use k8s_openapi::api::admissionregistration::v1::MatchResources;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::rules::{Asked, Rule};
use crate::attributes::{Attributes, Operation};
use crate::context::Context;

/// Never judged by policies: whoever made one that is wrong must be able to change it, and reviews
/// only tell something (upstream, `kubeapiserver/admission/exclusion`).
const EXEMPT: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

pub(crate) fn is_exempt(request: &Attributes<'_>) -> bool {
    let names = request.kind.names();
    EXEMPT.contains(&(names.group.as_str(), names.plural.as_str()))
}

/// The resource and kind that the policy sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) resource: GroupVersionResource,
    pub(crate) kind: GroupVersionKind,
}

/// `matchConstraints` or `matchResources`. Selectors that say nothing are a text that says why.
pub(crate) struct Constraints {
    namespaces: Result<Labels, String>,
    objects: Result<Labels, String>,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    is_equivalent: bool,
}

/// That of a Namespace is itself.
pub(crate) fn namespace_of<'a>(context: &'a Context<'_>) -> &'a str {
    if context.request.is_of("", "namespaces") { context.name() } else { context.request.namespace }
}

impl Constraints {
    pub(super) fn new(resources: &MatchResources) -> Self {
        // None would match nothing; here it is what nobody narrowed down.
        let everything = LabelSelector::default();
        let selector = |it: &Option<LabelSelector>| {
            let selector = it.as_ref().unwrap_or(&everything);
            Labels::from_selector(Some(selector)).map_err(|err| err.to_string())
        };
        let rules = |it: &Option<Vec<_>>| it.iter().flatten().map(Rule::new).collect();
        Self {
            namespaces: selector(&resources.namespace_selector),
            objects: selector(&resources.object_selector),
            rules: rules(&resources.resource_rules),
            excluded: rules(&resources.exclude_resource_rules),
            is_equivalent: resources.match_policy.as_deref() != Some("Exact"),
        }
    }

    /// The resources that it names; `None` if it may be for any.
    pub(super) fn resources(&self) -> Option<Vec<String>> {
        if self.rules.is_empty() {
            return None;
        }
        let names: Option<Vec<Vec<String>>> = self.rules.iter().map(Rule::resources).collect();
        names.map(|it| it.into_iter().flatten().collect())
    }

    /// How the request is seen, if it is for this; or why that cannot be told.
    pub(crate) fn find(&self, context: &Context<'_>) -> Result<Option<Invocation>, String> {
        let request = &context.request;
        let namespace = namespace_of(context);
        let is_namespace = request.is_of("", "namespaces");
        let asked = Asked {
            operation: request.operation,
            subresource: request.subresource,
            name: context.name(),
            is_cluster_scoped: is_namespace || namespace.is_empty(),
        };
        if self.by_rules(&self.excluded, &asked, request).is_some() {
            return Ok(None);
        }
        let names = match self.rules.is_empty() {
            true => Some(request.requested),
            false => self.by_rules(&self.rules, &asked, request),
        };
        let Some(names) = names else { return Ok(None) };
        if !self.matches_namespace(context)? || !self.matches_object(context)? {
            return Ok(None);
        }
        // What is below an object may have a kind of its own, the same in all versions.
        let kind = match request.has_own_kind() {
            true => request.kind_of_object(),
            false => names.gvk(),
        };
        Ok(Some(Invocation { resource: names.gvr(), kind }))
    }

    /// The names by which a rule has the resource: those of the request, else those of another
    /// version in which it is served.
    fn by_rules<'a>(
        &self,
        rules: &[Rule],
        asked: &Asked<'_>,
        request: &Attributes<'a>,
    ) -> Option<&'a Names> {
        if rules.iter().any(|it| it.matches(asked, request.requested)) {
            return Some(request.requested);
        }
        if !self.is_equivalent {
            return None;
        }
        let served = request.versions.served();
        rules.iter().find_map(|rule| served.iter().find(|it| rule.matches(asked, it)))
    }

    fn matches_namespace(&self, context: &Context<'_>) -> Result<bool, String> {
        let request = &context.request;
        let namespace = namespace_of(context);
        if namespace.is_empty() && !request.is_of("", "namespaces") {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(Clone::clone)?;
        if selector.is_everything() {
            return Ok(true);
        }
        let none = BTreeMap::new();
        let is_written = matches!(request.operation, Operation::Create | Operation::Update);
        if request.is("", "namespaces", "") && is_written {
            // What will be, which nobody could look up.
            let labels = context.object().and_then(|it| it.meta().labels.as_ref());
            return Ok(selector.matches(labels.unwrap_or(&none)));
        }
        let found = context.lookup.get::<Namespace>(&ObjectKey::cluster(namespace));
        let Some(found) = found else {
            let resource = GroupResource::new("", "namespaces");
            return Err(apimachinery::ApiError::not_found(&resource, namespace)
                .message()
                .to_owned());
        };
        Ok(selector.matches(found.metadata.labels.as_ref().unwrap_or(&none)))
    }

    /// By the labels that the object has or had. The options of a stream have none.
    fn matches_object(&self, context: &Context<'_>) -> Result<bool, String> {
        let selector = self.objects.as_ref().map_err(Clone::clone)?;
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
}
