//! The pods of a namespace run on the nodes that the namespace, or the cluster for all that do not
//! say, selects by labels; and select by no others than the cluster lists for the namespace.

mod settings;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::ready;

use api::core::{Namespace, Pod};
use apimachinery::{ApiError, GroupResource, ObjectKey};

use self::settings::{DEFAULT, PodNodeSelectorSettings, Selector, parse};
use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin, Validating};
use crate::configuration::{Configuration, Error};
use crate::context::Context;

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";

pub struct PodNodeSelector {
    /// What each namespace may select by; under `DEFAULT`, what all do that say nothing.
    selectors: BTreeMap<String, Selector>,
}

impl PodNodeSelector {
    pub fn new(files: &Configuration) -> Result<Self, Error> {
        let settings: Option<PodNodeSelectorSettings> = files.settings()?;
        Ok(Self { selectors: settings.unwrap_or_default().into_selectors() })
    }

    /// What pods of the request's namespace select by, whatever they say.
    fn of_namespace(&self, context: &Context<'_>) -> Result<Selector, ApiError> {
        let name = context.request.namespace;
        let missing = || ApiError::not_found(&GroupResource::new("", "namespaces"), name);
        let namespace = context.lookup.get::<Namespace>(&ObjectKey::cluster(name));
        let namespace = namespace.ok_or_else(missing)?;
        let annotations = namespace.metadata.annotations.as_ref();
        match annotations.and_then(|it| it.get(ANNOTATION)) {
            Some(text) => parse(text).map_err(|why| context.forbidden(&why)),
            None => Ok(self.selectors.get(DEFAULT).cloned().unwrap_or_default()),
        }
    }

    fn merge(&self, context: &mut Context<'_>) -> Result<(), ApiError> {
        let mut selector = self.of_namespace(context)?;
        self.validate(context)?;
        if selector.is_empty() {
            return Ok(());
        }
        if let Some(spec) = context.object_as_mut::<Pod>().and_then(|it| it.spec.as_mut()) {
            selector.extend(spec.node_selector.take().unwrap_or_default());
            spec.node_selector = Some(selector);
        }
        Ok(())
    }

    fn validate(&self, context: &Context<'_>) -> Result<(), ApiError> {
        let required = self.of_namespace(context)?;
        let spec = context.object_as::<Pod>().and_then(|it| it.spec.as_ref());
        let own = spec.and_then(|it| it.node_selector.clone()).unwrap_or_default();
        let is_other =
            |(key, value): (&String, &String)| required.get(key).is_some_and(|it| it != value);
        if own.iter().any(is_other) {
            return Err(context.forbidden(
                "pod node label selector conflicts with its namespace node label selector",
            ));
        }
        let allowed = self.selectors.get(context.request.namespace);
        let Some(allowed) = allowed.filter(|it| !it.is_empty()) else { return Ok(()) };
        // What the namespace says is asked for, too.
        let all = own.iter().chain(required.iter().filter(|it| !own.contains_key(it.0)));
        match all.into_iter().all(|(key, value)| allowed.get(key) == Some(value)) {
            true => Ok(()),
            false => Err(context
                .forbidden("pod node label selector labels conflict with its namespace whitelist")),
        }
    }
}

impl Plugin for PodNodeSelector {
    fn name(&self) -> &'static str {
        settings::PLUGIN
    }

    fn handles(&self, _phase: Phase, request: &Attributes<'_>) -> bool {
        request.operation == Operation::Create && request.is("", "pods", "")
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        Box::pin(ready(self.merge(context)))
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(ready(Self::validate(self, context).map(|()| None)))
    }
}
