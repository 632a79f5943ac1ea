//! Pods get the tolerations that their namespace has for them, or else the cluster, and have none
//! beyond those that either lists.

mod settings;
#[cfg(test)]
mod tests;

use std::future::ready;

use api::core::pod_spec::qos_class;
use api::core::{Namespace, Pod};
use apimachinery::{ApiError, GroupResource, ObjectKey};
use k8s_openapi::api::core::v1::Toleration;

use self::settings::Tolerations;
use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin, Validating};
use crate::configuration::{Configuration, Error};
use crate::context::Context;
use crate::plugins::tolerations;

const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const WHITELIST: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

pub struct PodTolerationRestriction {
    cluster: Tolerations,
}

impl PodTolerationRestriction {
    pub fn new(files: &Configuration) -> Result<Self, Error> {
        Ok(Self { cluster: files.settings()?.unwrap_or_default() })
    }

    fn merge(&self, context: &mut Context<'_>) -> Result<(), ApiError> {
        let mut more = Vec::new();
        if context.request.operation == Operation::Create {
            let own = of_namespace(context, DEFAULTS)?;
            more = own.unwrap_or_else(|| self.cluster.default.clone());
        }
        let spec = context.object_as::<Pod>().and_then(|it| it.spec.as_ref());
        // Who has been promised something is not kept off a node that is short of memory.
        if spec.is_some_and(|it| qos_class(it) != "BestEffort") {
            more.push(Toleration {
                key: Some("node.kubernetes.io/memory-pressure".to_owned()),
                operator: Some("Exists".to_owned()),
                effect: Some("NoSchedule".to_owned()),
                ..Toleration::default()
            });
        }
        if !more.is_empty()
            && let Some(spec) = context.object_as_mut::<Pod>().and_then(|it| it.spec.as_mut())
        {
            let own = spec.tolerations.take().unwrap_or_default();
            spec.tolerations = Some(tolerations::merge(own, more));
        }
        self.validate(context)
    }

    fn validate(&self, context: &Context<'_>) -> Result<(), ApiError> {
        let spec = context.object_as::<Pod>().and_then(|it| it.spec.as_ref());
        let own = spec.and_then(|it| it.tolerations.as_deref()).unwrap_or_default();
        if own.is_empty() {
            return Ok(());
        }
        let (allowed, whose) = match of_namespace(context, WHITELIST)? {
            Some(allowed) => (allowed, "namespace"),
            None => (self.cluster.whitelist.clone(), "cluster"),
        };
        let is_allowed = |it: &Toleration| allowed.iter().any(|by| tolerations::includes(by, it));
        match allowed.is_empty() || own.iter().all(is_allowed) {
            true => Ok(()),
            false => Err(context.forbidden(&format!(
                "pod tolerations (possibly merged with namespace default tolerations) conflict with its {whose} whitelist"
            ))),
        }
    }
}

/// What an annotation of the request's namespace lists; one that is empty lists nothing.
fn of_namespace(
    context: &Context<'_>,
    annotation: &str,
) -> Result<Option<Vec<Toleration>>, ApiError> {
    let name = context.request.namespace;
    let missing = || ApiError::not_found(&GroupResource::new("", "namespaces"), name);
    let namespace = context.lookup.get::<Namespace>(&ObjectKey::cluster(name));
    let namespace = namespace.ok_or_else(missing)?;
    let annotations = namespace.metadata.annotations.as_ref();
    match annotations.and_then(|it| it.get(annotation)).map(String::as_str) {
        None => Ok(None),
        Some("") => Ok(Some(Vec::new())),
        Some(text) => serde_json::from_str(text).map(Some).map_err(|err| {
            context.forbidden(&format!("the annotation {annotation} of its namespace: {err}"))
        }),
    }
}

impl Plugin for PodTolerationRestriction {
    fn name(&self) -> &'static str {
        settings::PLUGIN
    }

    fn handles(&self, _phase: Phase, request: &Attributes<'_>) -> bool {
        matches!(request.operation, Operation::Create | Operation::Update)
            && request.is("", "pods", "")
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        Box::pin(ready(self.merge(context)))
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(ready(Self::validate(self, context).map(|()| None)))
    }
}
