//! MutatingAdmissionWebhook: those whom MutatingWebhookConfigurations name may change what is
//! written.

use std::sync::Arc;

use crate::attributes::Attributes;
use crate::chain::{Admitting, Phase, Plugin, Reinvocation};
use crate::context::Context;
use crate::webhook::Webhooks;

pub struct MutatingWebhook(pub Arc<Webhooks>);

impl Plugin for MutatingWebhook {
    fn name(&self) -> &'static str {
        "MutatingAdmissionWebhook"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Mutate && self.0.has_mutating(request)
    }

    fn reinvocation(&self) -> Reinvocation {
        Reinvocation::Outside
    }

    fn admit<'a>(&'a self, context: &'a mut Context<'_>) -> Admitting<'a> {
        Box::pin(self.0.mutate(context))
    }
}
