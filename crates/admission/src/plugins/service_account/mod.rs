//! Every pod runs as a service account, with that account's token mounted and its pull secrets at hand; and, where the
//! account says so, with no other Secrets than the account's.

mod mountable;
#[cfg(test)]
mod tests;
mod token_volume;

use std::future::ready;
use std::sync::Arc;

use api::Lookup;
use api::core::pod::mirror::is_mirror;
use api::core::pod_spec::references;
use api::core::{Pod, ServiceAccount};
use apimachinery::{ApiError, ObjectKey};
use futures_util::future::BoxFuture;
use k8s_openapi::api::core::v1::PodSpec;
use stdx::Random;

use crate::attributes::{Attributes, Operation};
use crate::chain::Plugin;

const DEFAULT: &str = "default";

pub struct ServiceAccounts {
    lookup: Arc<dyn Lookup>,
    random: Random,
}

impl ServiceAccounts {
    pub fn new(lookup: Arc<dyn Lookup>, random: Random) -> Self {
        Self { lookup, random }
    }

    /// The account of the pod, or the refusal.
    fn account(
        &self,
        attributes: &Attributes<'_>,
        name: &str,
    ) -> Result<Arc<ServiceAccount>, ApiError> {
        let namespace = attributes.namespace;
        self.lookup.get::<ServiceAccount>(&ObjectKey::new(namespace, name)).ok_or_else(|| {
            attributes.forbidden(&format!(
                "error looking up service account {namespace}/{name}: serviceaccount {name:?} not found"
            ))
        })
    }

    fn fill(&self, attributes: &mut Attributes<'_>) -> Result<(), ApiError> {
        let Some(pod) = attributes.object_as::<Pod>() else { return Ok(()) };
        let Some(spec) = &pod.spec else { return Ok(()) };
        if is_mirror(pod) {
            // Its spec stays as it is, or the kubelet would not know it again.
            return check_mirror(spec).map_err(|why| attributes.forbidden(why));
        }
        let name = spec.service_account_name.clone().filter(|it| !it.is_empty());
        let name = name.unwrap_or_else(|| DEFAULT.to_owned());
        let account = self.account(attributes, &name)?;
        let Some(pod) = attributes.object_as_mut::<Pod>() else { return Ok(()) };
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

    fn check(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        let Some(pod) = attributes.object_as::<Pod>() else { return Ok(()) };
        let Some(spec) = &pod.spec else { return Ok(()) };
        if is_mirror(pod) {
            return check_mirror(spec).map_err(|why| attributes.forbidden(why));
        }
        let name = spec.service_account_name.as_deref().unwrap_or_default();
        let account = self.account(attributes, name)?;
        if mountable::is_enforced(&account) {
            let outcome = mountable::check(&account, spec);
            return outcome.map_err(|why| attributes.forbidden(&why));
        }
        Ok(())
    }

    /// Ephemeral containers come later than the pod, and bring an environment of their own.
    fn check_ephemeral(&self, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        let Some(pod) = attributes.object_as::<Pod>() else { return Ok(()) };
        let Some(spec) = &pod.spec else { return Ok(()) };
        let name = spec.service_account_name.as_deref().unwrap_or_default();
        if name.is_empty() {
            let (namespace, name) = (attributes.namespace, attributes.name);
            let why = format!("no service account specified for pod {namespace}/{name}");
            return Err(attributes.forbidden(&why));
        }
        let account = self.account(attributes, name)?;
        if mountable::is_enforced(&account) {
            let outcome = mountable::check_ephemeral(&account, spec);
            return outcome.map_err(|why| attributes.forbidden(&why));
        }
        Ok(())
    }
}

/// Mirrors stand for pods that run whatever the API says, so that they may ask nothing of it.
fn check_mirror(spec: &PodSpec) -> Result<(), &'static str> {
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

fn is_creation(attributes: &Attributes<'_>) -> bool {
    attributes.operation == Operation::Create && attributes.is("", "pods", "")
}

fn is_debugging(attributes: &Attributes<'_>) -> bool {
    attributes.operation == Operation::Update && attributes.is("", "pods", "ephemeralcontainers")
}

impl Plugin for ServiceAccounts {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a mut Attributes<'_>,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        let outcome = if is_creation(attributes) { self.fill(attributes) } else { Ok(()) };
        Box::pin(ready(outcome))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        let outcome = if is_creation(attributes) {
            self.check(attributes)
        } else if is_debugging(attributes) {
            self.check_ephemeral(attributes)
        } else {
            Ok(())
        };
        Box::pin(ready(outcome))
    }
}
