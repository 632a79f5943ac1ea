//! Pods keep to the Pod Security Standard that their namespace asks for: by refusal, by warnings
//! and by records, each with a level and a version of its own. What makes pods is warned of and
//! recorded, not refused.

mod checks;
mod configuration;
mod metrics;
mod namespaces;
mod policy;
mod templates;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::ready;

use api::core::Pod;
use apimachinery::{ApiError, FieldErrors, GroupResource, ObjectKey};
use k8s_openapi::api::core::v1::PodSpec;
use stdx::SharedClock;
use telemetry::Registry;

use self::checks::{Subject, Violations};
use self::configuration::{Configuration as Settings, Exemptions};
use self::metrics::Metrics;
use self::policy::{PREFIX, Policy, Standard};
use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::configuration::{self as files, Configuration};
use crate::context::Context;

pub use templates::RESOURCES as MAKERS_OF_PODS;

pub(crate) const NAME: &str = "PodSecurity";

/// Below these nobody changes what a pod is.
const HARMLESS_SUBRESOURCES: &[&str] =
    &["attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"];

pub struct PodSecurity {
    defaults: Policy,
    exemptions: Exemptions,
    metrics: Metrics,
    clock: SharedClock,
}

impl PodSecurity {
    pub fn new(
        files: &Configuration,
        metrics: &Registry,
        clock: SharedClock,
    ) -> Result<Self, files::Error> {
        let settings: Settings = files.settings()?.unwrap_or_default();
        Ok(Self {
            defaults: settings.defaults(),
            exemptions: settings.exemptions,
            metrics: Metrics::new(metrics),
            clock,
        })
    }

    fn is_exempt_class(&self, subject: &Subject<'_>) -> bool {
        let class = subject.spec.runtime_class_name.as_deref();
        class.is_some_and(|it| self.exemptions.runtime_classes.contains(it))
    }

    fn exempt(&self, context: &Context<'_>, why: &str) {
        self.metrics.exempted(&context.request);
        annotate(context, "exempt", why);
    }

    /// Whether whoever asks, or where, is none of ours.
    fn is_exempt(&self, context: &Context<'_>) -> bool {
        let request = &context.request;
        if self.exemptions.namespaces.contains(request.namespace) {
            self.exempt(context, "namespace");
            return true;
        }
        let is_exempt = self.exemptions.usernames.contains(&request.user.name);
        if is_exempt {
            self.exempt(context, "user");
        }
        is_exempt
    }

    /// The policy of the request's namespace, and what of its labels cannot be read.
    fn policy_of(&self, context: &Context<'_>) -> Option<(Policy, FieldErrors)> {
        let key = ObjectKey::cluster(context.request.namespace);
        // Labels are at hand; to decode the object would cost every pod's write.
        let namespace = context.lookup.find(&GroupResource::new("", "namespaces"), &key)?;
        let labels = namespace.meta.labels.iter().filter(|(name, _)| name.starts_with(PREFIX));
        let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some(Policy::of(Some(&labels), &self.defaults))
    }

    fn validate_pod(&self, context: &Context<'_>) -> Result<(), ApiError> {
        if self.is_exempt(context) {
            return Ok(());
        }
        let Some((policy, errors)) = self.policy_of(context) else {
            self.metrics.failed(&context.request, true);
            return Err(ApiError::internal("looking up the namespace of a pod"));
        };
        if errors.is_empty() && policy.is_privileged() {
            self.metrics.evaluated(&context.request, ("enforce", policy.enforce), true);
            annotate(context, "enforce-policy", &Standard::PRIVILEGED.to_string());
            return Ok(());
        }
        let Some(pod) = context.object_as::<Pod>() else {
            self.metrics.failed(&context.request, true);
            return Err(ApiError::bad_request("failed to decode pod"));
        };
        if let Some(old) = context.old_as::<Pod>()
            && !is_significant(pod.spec.as_ref(), old.spec.as_ref())
        {
            return Ok(());
        }
        templates::of_pod(pod).map_or(Ok(()), |pod| {
            self.evaluate(context, (&policy, &errors), &pod, Enforcement::Refuse)
        })
    }

    /// What makes pods is never refused: its pods are.
    fn validate_controller(&self, context: &Context<'_>) {
        if self.is_exempt(context) {
            return;
        }
        let Some((policy, errors)) = self.policy_of(context) else {
            self.metrics.failed(&context.request, true);
            annotate(context, "error", "failed to lookup namespace");
            return;
        };
        if errors.is_empty() && policy.warn.is_privileged() && policy.audit.is_privileged() {
            return;
        }
        if let Some(pod) = context.object().and_then(templates::of) {
            let _ = self.evaluate(context, (&policy, &errors), &pod, Enforcement::None);
        }
    }

    fn evaluate(
        &self,
        context: &Context<'_>,
        (policy, errors): (&Policy, &FieldErrors),
        pod: &Subject<'_>,
        enforcement: Enforcement,
    ) -> Result<(), ApiError> {
        if self.is_exempt_class(pod) {
            self.exempt(context, "runtimeClass");
            return Ok(());
        }
        if !errors.is_empty() {
            annotate(context, "error", &format!("Failed to parse policy: {errors}"));
            self.metrics.failed(&context.request, false);
        }
        // Modes that ask for the same are judged once.
        let mut known = BTreeMap::new();
        let mut judge = |standard: Standard| {
            let violations = known.entry(standard);
            violations.or_insert_with(|| Violations::of(standard, pod)).clone()
        };
        let mut refusal = None;
        if enforcement == Enforcement::Refuse {
            annotate(context, "enforce-policy", &policy.enforce.to_string());
            let found = judge(policy.enforce);
            let mode = ("enforce", policy.enforce);
            self.metrics.evaluated(&context.request, mode, found.is_empty());
            refusal = (!found.is_empty()).then(|| told("violates", policy.enforce, &found));
        }
        let found = judge(policy.audit);
        if !found.is_empty() {
            let text = told("would violate", policy.audit, &found);
            annotate(context, "audit-violations", &text);
            self.metrics.evaluated(&context.request, ("audit", policy.audit), false);
        }
        if let Some(refusal) = refusal {
            return Err(context.forbidden(&refusal));
        }
        let found = judge(policy.warn);
        if !found.is_empty() {
            context.warn(&told("would violate", policy.warn, &found));
            self.metrics.evaluated(&context.request, ("warn", policy.warn), false);
        }
        Ok(())
    }
}

/// Whether what is enforced is of any concern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Enforcement {
    Refuse,
    None,
}

/// `violates PodSecurity "baseline:latest": privileged (...)`
fn told(verb: &str, standard: Standard, found: &Violations) -> String {
    format!("{verb} PodSecurity \"{standard}\": {}", found.details())
}

fn annotate(context: &Context<'_>, key: &str, value: &str) {
    context.annotate(&format!("{PREFIX}{key}"), value);
}

/// Whether an update may make of a pod what it was not: by another image, or by containers more.
fn is_significant(spec: Option<&PodSpec>, old: Option<&PodSpec>) -> bool {
    let (Some(spec), Some(old)) = (spec, old) else { return true };
    let images = |spec: &PodSpec| {
        let init: Vec<_> =
            spec.init_containers.iter().flatten().map(|it| it.image.clone()).collect();
        let plain: Vec<_> = spec.containers.iter().map(|it| it.image.clone()).collect();
        (init, plain)
    };
    let was_there = |name: &str, image: &Option<String>| {
        let before = old.ephemeral_containers.iter().flatten().find(|it| it.name == name);
        before.is_some_and(|it| it.image == *image)
    };
    let mut ephemeral = spec.ephemeral_containers.iter().flatten();
    images(spec) != images(old) || !ephemeral.all(|it| was_there(&it.name, &it.image))
}

impl Plugin for PodSecurity {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        let is_write = matches!(request.operation, Operation::Create | Operation::Update);
        if phase != Phase::Validate || !is_write {
            return false;
        }
        if request.is_of("", "pods") {
            return !HARMLESS_SUBRESOURCES.contains(&request.subresource);
        }
        let has_pods = |it: &(&str, &str)| request.is(it.0, it.1, "");
        request.is("", "namespaces", "") || templates::RESOURCES.iter().any(has_pods)
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        let outcome = if context.request.is_of("", "pods") {
            self.validate_pod(context)
        } else if context.request.is_of("", "namespaces") {
            namespaces::validate(self, context)
        } else {
            self.validate_controller(context);
            Ok(())
        };
        Box::pin(ready(outcome.map(|()| None)))
    }
}
