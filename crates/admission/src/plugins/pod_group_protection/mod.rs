//! A PodGroup stays while it has pods: it gets a finalizer, which a controller takes away. Idle
//! where groups are not served.

#[cfg(test)]
mod tests;

use std::future::ready;

use features::{GENERIC_WORKLOAD, Gates};

use crate::attributes::{Attributes, Operation};
use crate::chain::{Admitting, Phase, Plugin};
use crate::context::Context;
use crate::plugins::finalizers;

const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

pub struct PodGroupProtection {
    is_active: bool,
}

impl PodGroupProtection {
    pub fn new(gates: &Gates) -> Self {
        Self { is_active: gates.is_enabled(GENERIC_WORKLOAD) }
    }
}

impl Plugin for PodGroupProtection {
    fn name(&self) -> &'static str {
        "PodGroupProtection"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        self.is_active
            && phase == Phase::Mutate
            && request.operation == Operation::Create
            && request.is("scheduling.k8s.io", "podgroups", "")
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        finalizers::add(context, FINALIZER);
        Box::pin(ready(Ok(())))
    }
}
