//! Every pod runs as a service account, with that account's token mounted and its pull secrets at hand.

#[cfg(test)]
mod tests;
mod token_volume;

use std::future::ready;
use std::sync::Arc;

use api::Lookup;
use api::core::{Pod, ServiceAccount};
use apimachinery::{ApiError, ObjectKey};
use futures_util::future::BoxFuture;
use stdx::Random;

use crate::attributes::{Attributes, Operation};
use crate::chain::Plugin;

const DEFAULT: &str = "default";
pub(crate) const ANNOTATION_MIRROR: &str = "kubernetes.io/config.mirror";

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
            return Ok(());
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
        let name = spec.service_account_name.as_deref().unwrap_or_default();
        if is_mirror(pod) {
            let why = "a mirror pod may not reference service accounts";
            return if name.is_empty() { Ok(()) } else { Err(attributes.forbidden(why)) };
        }
        self.account(attributes, name).map(|_| ())
    }
}

/// A pod that a kubelet read from a file and shows in the API: no account acts for it.
fn is_mirror(pod: &Pod) -> bool {
    pod.metadata.annotations.as_ref().is_some_and(|it| it.contains_key(ANNOTATION_MIRROR))
}

fn concerns(attributes: &Attributes<'_>) -> bool {
    attributes.operation == Operation::Create && attributes.is("", "pods", "")
}

impl Plugin for ServiceAccounts {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn admit<'a>(
        &'a self,
        attributes: &'a mut Attributes<'_>,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        let outcome = if concerns(attributes) { self.fill(attributes) } else { Ok(()) };
        Box::pin(ready(outcome))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
    ) -> BoxFuture<'a, Result<(), ApiError>> {
        let outcome = if concerns(attributes) { self.check(attributes) } else { Ok(()) };
        Box::pin(ready(outcome))
    }
}
