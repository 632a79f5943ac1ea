//! Which requests a webhook, a policy or a binding is for, and as which resource it sees them: rules,
//! then the same resource in other versions, and selectors. Pure but for the look at a Namespace.

mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use apimachinery::selector::Labels;
use apimachinery::{
    ApiError, GroupResource, GroupVersionKind, GroupVersionResource, Names, ObjectKey,
};
use k8s_openapi::api::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations, RuleWithOperations,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::attributes::{Attributes, Operation};
use crate::context::Context;
use rules::{Asked, Rule};

const GROUP: &str = "admissionregistration.k8s.io";
const CONFIGURATIONS: &[&str] = &[
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// What nobody is asked about: whoever made one of these that is wrong must be able to change it.
pub(crate) fn is_configuration(request: &Attributes<'_>) -> bool {
    let names = request.kind.names();
    names.group == GROUP && CONFIGURATIONS.contains(&names.plural.as_str())
}

/// The resource and kind that is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) resource: GroupVersionResource,
    pub(crate) kind: GroupVersionKind,
}

/// Why it cannot be told whether something is for a request.
pub(crate) enum Untold {
    /// A selector that is none.
    Selector(String),
    NoNamespace(ApiError),
}

impl std::fmt::Display for Untold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Selector(why) => f.write_str(why),
            Self::NoNamespace(err) => f.write_str(err.message()),
        }
    }
}

/// `matchConstraints`, `matchResources`, or what a webhook says. Selectors that say nothing are a
/// text that says why.
pub(crate) struct Constraints {
    namespaces: Result<Labels, String>,
    objects: Result<Labels, String>,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    is_equivalent: bool,
    /// Without a rule it is for nothing; else for all.
    needs_a_rule: bool,
}

/// That of a Namespace is itself.
pub(crate) fn namespace_of<'a>(context: &'a Context<'_>) -> &'a str {
    if context.request.is_of("", "namespaces") { context.name() } else { context.request.namespace }
}

impl Constraints {
    pub(crate) fn new(resources: &MatchResources) -> Self {
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
            needs_a_rule: false,
        }
    }

    /// Rules of webhooks name no objects.
    pub(crate) fn of_webhook(
        rules: &[RuleWithOperations],
        match_policy: Option<&str>,
        (namespaces, objects): (Option<&LabelSelector>, Option<&LabelSelector>),
    ) -> Self {
        let named = |it: &RuleWithOperations| NamedRuleWithOperations {
            api_groups: it.api_groups.clone(),
            api_versions: it.api_versions.clone(),
            operations: it.operations.clone(),
            resource_names: None,
            resources: it.resources.clone(),
            scope: it.scope.clone(),
        };
        let resources = MatchResources {
            exclude_resource_rules: None,
            match_policy: match_policy.map(ToOwned::to_owned),
            namespace_selector: namespaces.cloned(),
            object_selector: objects.cloned(),
            resource_rules: Some(rules.iter().map(named).collect()),
        };
        Self { needs_a_rule: true, ..Self::new(&resources) }
    }

    /// The resources that it names; `None` if it may be for any.
    pub(crate) fn resources(&self) -> Option<Vec<String>> {
        if self.rules.is_empty() {
            return None;
        }
        let names: Option<Vec<Vec<String>>> = self.rules.iter().map(Rule::resources).collect();
        names.map(|it| it.into_iter().flatten().collect())
    }

    /// The set of operations that it may be for.
    pub(crate) fn operations(&self) -> u8 {
        match self.rules.is_empty() {
            true => u8::MAX,
            false => self.rules.iter().fold(0, |set, it| set | it.operations()),
        }
    }

    /// How the request is seen, if it is for this; or why that cannot be told.
    pub(crate) fn find(&self, context: &Context<'_>) -> Result<Option<Invocation>, Untold> {
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
        let names = match self.rules.is_empty() && !self.needs_a_rule {
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

    fn matches_namespace(&self, context: &Context<'_>) -> Result<bool, Untold> {
        let request = &context.request;
        let namespace = namespace_of(context);
        if namespace.is_empty() && !request.is_of("", "namespaces") {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(|it| Untold::Selector(it.clone()))?;
        if selector.is_everything() {
            return Ok(true);
        }
        let is_written = matches!(request.operation, Operation::Create | Operation::Update);
        if request.is("", "namespaces", "") && is_written {
            // What will be, which nobody could look up.
            let labels = context.object().and_then(|it| it.meta().labels.as_ref());
            return Ok(selector.matches(labels.unwrap_or(&BTreeMap::new())));
        }
        // Labels are at hand; to decode the object would cost every write.
        let resource = GroupResource::new("", "namespaces");
        let Some(found) = context.lookup.find(&resource, &ObjectKey::cluster(namespace)) else {
            return Err(Untold::NoNamespace(ApiError::not_found(&resource, namespace)));
        };
        Ok(selector.matches_with(|key| found.meta.labels.get(key)))
    }

    /// By the labels that the object has or had. The options of a stream have none.
    fn matches_object(&self, context: &Context<'_>) -> Result<bool, Untold> {
        let selector = self.objects.as_ref().map_err(|it| Untold::Selector(it.clone()))?;
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
