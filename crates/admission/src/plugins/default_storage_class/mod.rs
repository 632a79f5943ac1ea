//! A claim that asks for no class gets the default one, if there is one: the youngest of them.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::future::ready;
use std::sync::Arc;

use api::Lookup;
use api::core::PersistentVolumeClaim;
use api::core::persistent_volume_claim::has_class;
use api::storage::StorageClass;
use api::storage::storage_class::is_default;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;

pub struct DefaultStorageClass;

impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate
            && request.operation == Operation::Create
            && request.is("", "persistentvolumeclaims", "")
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        let lacks = context.object_as::<PersistentVolumeClaim>().is_some_and(|it| !has_class(it));
        if lacks
            && let Some(class) = default_class(context.lookup)
            && let Some(claim) = context.object_as_mut::<PersistentVolumeClaim>()
        {
            let spec = claim.spec.get_or_insert_default();
            spec.storage_class_name.clone_from(&class.metadata.name);
        }
        Box::pin(ready(Ok(())))
    }
}

/// Of several that are as young, the first by name.
fn default_class(lookup: &(dyn Lookup + 'static)) -> Option<Arc<StorageClass>> {
    let all = lookup.all::<StorageClass>(None).into_iter();
    all.filter(|it| is_default(it)).min_by_key(|it| {
        let created = it.metadata.creation_timestamp.as_ref().map(|it| it.0);
        (Reverse(created), it.metadata.name.clone())
    })
}
