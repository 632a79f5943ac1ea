//! A claim grows only if it is bound and its class says that its volumes can.

#[cfg(test)]
mod tests;

use std::future::ready;

use api::Lookup;
use api::core::PersistentVolumeClaim;
use api::core::persistent_volume_claim::class_of;
use api::storage::StorageClass;
use apimachinery::ObjectKey;
use apimachinery::quantity::Amount;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;

pub struct PersistentVolumeClaimResize;

impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate
            && request.operation == Operation::Update
            && request.is("", "persistentvolumeclaims", "")
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        let claims = context.object_as().zip(context.old_as());
        let outcome = claims.map_or(Ok(()), |(claim, old)| judge(claim, old, context.lookup));
        Box::pin(ready(outcome.map(|()| None).map_err(|why| context.forbidden(why))))
    }
}

fn size(claim: &PersistentVolumeClaim) -> Amount {
    let resources = claim.spec.as_ref().and_then(|it| it.resources.as_ref());
    let storage = resources.and_then(|it| it.requests.as_ref()?.get("storage"));
    storage.and_then(|it| Amount::parse(&it.0).ok()).unwrap_or(Amount::ZERO)
}

fn judge(
    claim: &PersistentVolumeClaim,
    old: &PersistentVolumeClaim,
    lookup: &(dyn Lookup + 'static),
) -> Result<(), &'static str> {
    if size(claim) <= size(old) {
        return Ok(());
    }
    let phase = old.status.as_ref().and_then(|it| it.phase.as_deref());
    if phase != Some("Bound") {
        return Err("Only bound persistent volume claims can be expanded");
    }
    let class = class_of(claim);
    let is_same = !class.is_empty() && class == class_of(old);
    let found = lookup.get::<StorageClass>(&ObjectKey::cluster(class)).filter(|_| is_same);
    match found.is_some_and(|it| it.allow_volume_expansion == Some(true)) {
        true => Ok(()),
        false => Err(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        ),
    }
}
