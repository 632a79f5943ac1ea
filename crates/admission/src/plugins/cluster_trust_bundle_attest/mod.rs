//! Who says whom to trust in the name of a signer has the permission to.

#[cfg(test)]
mod tests;

use api::certificates::ClusterTrustBundle;
use apimachinery::ApiError;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;
use crate::plugins::signers;

pub struct ClusterTrustBundleAttest;

/// What the garbage collector, or a migration of what is stored, changes says nothing new.
fn is_saying_the_same(new: &ClusterTrustBundle, old: &ClusterTrustBundle) -> bool {
    let mut new = new.clone();
    new.metadata.owner_references.clone_from(&old.metadata.owner_references);
    new.metadata.finalizers.clone_from(&old.metadata.finalizers);
    new.metadata.managed_fields.clone_from(&old.metadata.managed_fields);
    new.metadata.resource_version.clone_from(&old.metadata.resource_version);
    new == *old
}

async fn validate(context: &Context<'_>) -> Result<(), ApiError> {
    let Some(new) = context.object_as::<ClusterTrustBundle>() else { return Ok(()) };
    let signer = new.spec.signer_name.as_deref().unwrap_or_default();
    let old = context.old_as::<ClusterTrustBundle>();
    if signer.is_empty() || old.is_some_and(|old| is_saying_the_same(new, old)) {
        return Ok(());
    }
    let why = "user not permitted to attest for signerName";
    signers::authorize(context, "attest", signer, why).await
}

impl Plugin for ClusterTrustBundleAttest {
    fn name(&self) -> &'static str {
        "ClusterTrustBundleAttest"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate
            && matches!(request.operation, Operation::Create | Operation::Update)
            && request.is_of("certificates.k8s.io", "clustertrustbundles")
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(async move { validate(context).await.map(|()| None) })
    }
}
