//! Webhook configurations: what they say holds from the moment it is stored.

use std::sync::Arc;

use admission::webhook::Webhooks;
use api::admissionregistration::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use apimachinery::GroupResource;

use crate::cache::Change;
use crate::pipeline::hooks::{Hooks, Of};

const GROUP: &str = "admissionregistration.k8s.io";
const MUTATING: &str = "mutatingwebhookconfigurations";
const VALIDATING: &str = "validatingwebhookconfigurations";

pub(crate) struct WebhookConfigurations {
    webhooks: Arc<Webhooks>,
}

impl WebhookConfigurations {
    pub(crate) fn new(webhooks: Arc<Webhooks>) -> Self {
        Self { webhooks }
    }
}

impl Hooks for WebhookConfigurations {
    fn of(&self) -> &'static [Of] {
        &[(GROUP, MUTATING), (GROUP, VALIDATING)]
    }

    fn observe(&self, resource: &GroupResource, change: &Change) {
        let name = change.latest().meta.key.name.as_str();
        let stored = change.object.as_deref();
        match resource.resource == MUTATING {
            true => {
                let it = stored.and_then(|it| it.shared::<MutatingWebhookConfiguration>().ok());
                self.webhooks.set_mutating(name, it.as_deref());
            }
            false => {
                let it = stored.and_then(|it| it.shared::<ValidatingWebhookConfiguration>().ok());
                self.webhooks.set_validating(name, it.as_deref());
            }
        }
    }
}
