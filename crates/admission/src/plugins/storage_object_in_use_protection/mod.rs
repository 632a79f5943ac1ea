//! Volumes, claims and classes of attributes that are in use are not deleted under their users:
//! each gets a finalizer, which a controller takes away when nobody uses it any more.

#[cfg(test)]
mod tests;

use std::future::ready;

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;
use crate::plugins::finalizers;

pub struct StorageObjectInUseProtection;

fn finalizer(request: &Attributes<'_>) -> Option<&'static str> {
    if request.is("", "persistentvolumeclaims", "") {
        Some("kubernetes.io/pvc-protection")
    } else if request.is("", "persistentvolumes", "") {
        Some("kubernetes.io/pv-protection")
    } else if request.is("storage.k8s.io", "volumeattributesclasses", "") {
        Some("kubernetes.io/vac-protection")
    } else {
        None
    }
}

impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate
            && request.operation == Operation::Create
            && finalizer(request).is_some()
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        if let Some(finalizer) = finalizer(&context.request) {
            finalizers::add(context, finalizer);
        }
        Box::pin(ready(Ok(())))
    }
}
