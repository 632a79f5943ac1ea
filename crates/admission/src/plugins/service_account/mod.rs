//! Every pod runs as a service account, with that account's token mounted and its pull secrets at
//! hand; and, where the account says so, with no other Secrets than the account's.

mod mountable;
#[cfg(test)]
mod tests;
mod token_volume;

use std::future::ready;
use std::sync::Arc;

use api::core::pod::mirror::is_mirror;
use api::core::pod_spec::references;
use api::core::{Pod, ServiceAccount};
use apimachinery::{ApiError, ObjectKey};
use k8s_openapi::api::core::v1::PodSpec;
use stdx::Random;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin, Validating};
use crate::context::Context;

const DEFAULT: &str = "default";

pub struct ServiceAccounts {
    random: Random,
}

impl ServiceAccounts {
    pub fn new(random: Random) -> Self {
        Self { random }
    }

    fn fill(&self, context: &mut Context<'_>) -> Result<(), ApiError> {
        let Some(pod) = context.object_as::<Pod>() else { return Ok(()) };
        let Some(spec) = &pod.spec else { return Ok(()) };
        if is_mirror(pod) {
            // Its spec stays as it is, or the kubelet would not know it again.
            return validate_mirror(spec).map_err(|why| context.forbidden(why));
        }
        let name = spec.service_account_name.clone().filter(|it| !it.is_empty());
        let name = name.unwrap_or_else(|| DEFAULT.to_owned());
        let account = account_of(context, &name)?;
        let Some(pod) = context.object_as_mut::<Pod>() else { return Ok(()) };
        let Some(spec) = &mut pod.spec else { return Ok(()) };
        // The old name of the field is kept equal to the new one, for clients that read it.
        spec.service_account = Some(name.clone());
        spec.service_account_name = Some(name);
        let automount = spec.automount_service_account_token;
        if automount.or(account.automount_service_account_token).unwrap_or(true) {
            token_volume::mount(spec, &self.random);
        }
        if spec.image_pull_secrets.as_ref().is_none_or(Vec::is_empty) {
            spec.image_pull_secrets.clone_from(&account.image_pull_secrets);
        }
        Ok(())
    }
}

/// The account of a pod, or the refusal.
fn account_of(context: &Context<'_>, name: &str) -> Result<Arc<ServiceAccount>, ApiError> {
    let namespace = context.request.namespace;
    context.lookup.get::<ServiceAccount>(&ObjectKey::new(namespace, name)).ok_or_else(|| {
        context.forbidden(&format!(
            "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
        ))
    })
}

fn validate(context: &Context<'_>) -> Result<(), ApiError> {
    let Some(pod) = context.object_as::<Pod>() else { return Ok(()) };
    let Some(spec) = &pod.spec else { return Ok(()) };
    if is_mirror(pod) {
        return validate_mirror(spec).map_err(|why| context.forbidden(why));
    }
    let name = spec.service_account_name.as_deref().unwrap_or_default();
    let account = account_of(context, name)?;
    if mountable::is_enforced(&account) {
        let outcome = mountable::validate(&account, spec);
        return outcome.map_err(|why| context.forbidden(&why));
    }
    Ok(())
}

/// Ephemeral containers come later than the pod, and bring an environment of their own.
fn validate_ephemeral(context: &Context<'_>) -> Result<(), ApiError> {
    let Some(pod) = context.object_as::<Pod>() else { return Ok(()) };
    let Some(spec) = &pod.spec else { return Ok(()) };
    let name = spec.service_account_name.as_deref().unwrap_or_default();
    if name.is_empty() {
        let (namespace, name) = (context.request.namespace, context.request.name);
        let why = format!("no service account specified for pod {namespace}/{name}");
        return Err(context.forbidden(&why));
    }
    let account = account_of(context, name)?;
    if mountable::is_enforced(&account) {
        let outcome = mountable::validate_ephemeral(&account, spec);
        return outcome.map_err(|why| context.forbidden(&why));
    }
    Ok(())
}

/// Mirrors stand for pods that run whatever the API says, so that they may ask nothing of it.
fn validate_mirror(spec: &PodSpec) -> Result<(), &'static str> {
    if spec.service_account_name.as_ref().is_some_and(|it| !it.is_empty()) {
        return Err("a mirror pod may not reference service accounts");
    }
    if !references::secrets(spec).is_empty() {
        return Err("a mirror pod may not reference secrets");
    }
    let projected = spec.volumes.iter().flatten().flat_map(|it| &it.projected);
    let mut sources = projected.flat_map(|it| it.sources.iter().flatten());
    if sources.any(|it| it.service_account_token.is_some()) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

fn is_creation(request: &Attributes<'_>) -> bool {
    request.operation == Operation::Create && request.is("", "pods", "")
}

fn is_debugging(request: &Attributes<'_>) -> bool {
    request.operation == Operation::Update && request.is("", "pods", "ephemeralcontainers")
}

impl Plugin for ServiceAccounts {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        is_creation(request) || (phase == Phase::Validate && is_debugging(request))
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        Box::pin(ready(self.fill(context)))
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        let is_creation = is_creation(&context.request);
        let outcome = if is_creation { validate(context) } else { validate_ephemeral(context) };
        Box::pin(ready(outcome.map(|()| None)))
    }
}
