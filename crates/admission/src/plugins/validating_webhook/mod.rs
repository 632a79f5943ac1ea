//! ValidatingAdmissionWebhook: those whom ValidatingWebhookConfigurations name may refuse what is
//! written, deleted or connected to.

use std::sync::Arc;

use crate::attributes::Attributes;
use crate::chain::{Phase, Plugin, Validating};
use crate::context::Context;
use crate::webhook::Webhooks;

pub struct ValidatingWebhook(pub Arc<Webhooks>);

impl Plugin for ValidatingWebhook {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate && self.0.has_validating(request)
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(async {
            self.0.validate(context).await?;
            Ok(None)
        })
    }
}
