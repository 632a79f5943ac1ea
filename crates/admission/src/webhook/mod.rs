//! Webhooks: whom both plugins ask, about what, and what becomes of what they answer.
//!
//! Configurations are made ready when they change, so that a request that no webhook is for costs a
//! look at a list.

mod call;
mod configured;
pub(crate) mod credentials;
pub mod garbage;
mod hook;
mod messages;
mod metrics;
mod mutating;
mod observed;
mod own;
mod review;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod validating;

use std::sync::Arc;

use api::admissionregistration::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use apimachinery::ApiError;
use arc_swap::ArcSwap;
use client::hooks::{Caller, Credentials};
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhook, ValidatingWebhook};
use stdx::World;
use telemetry::Registry;

use crate::attributes::Attributes;
use crate::configuration::{Configuration, Error};
use crate::context::Context;
use crate::matching::{Invocation, Untold, is_configuration};
use crate::policy::conditions::Verdict;
use crate::policy::conditions::metrics::Of;
use crate::shown::Shown;
use crate::vital;
use configured::Configured;
use hook::Hook;
use metrics::Metrics;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mutating,
    Validating,
}

impl Kind {
    /// As metrics name it.
    fn phase(self) -> &'static str {
        match self {
            Self::Mutating => "admit",
            Self::Validating => "validating",
        }
    }

    fn resource(self) -> &'static str {
        match self {
            Self::Mutating => "mutatingwebhookconfigurations",
            Self::Validating => "validatingwebhookconfigurations",
        }
    }

    fn object(self) -> &'static str {
        match self {
            Self::Mutating => "MutatingWebhookConfiguration",
            Self::Validating => "ValidatingWebhookConfiguration",
        }
    }
}

/// A configuration that keeps the pods of its own Service from being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub kind: &'static str,
    pub configuration: String,
    pub text: String,
    /// What it came to this time; the webhook's own words may be in it.
    pub now: String,
}

/// Told of what somebody should see who does not make the request. Must not wait.
pub trait Notice: Send + Sync {
    fn blocks_itself(&self, blocked: Blocked);
}

/// For both plugins, in the order of their phases.
fn credentials_of(configuration: &Configuration) -> Result<[Credentials; 2], Error> {
    Ok([
        credentials::load::<credentials::Mutating>(configuration)?,
        credentials::load::<credentials::Validating>(configuration)?,
    ])
}

/// All webhooks of a server.
pub struct Webhooks {
    caller: Caller,
    world: World,
    metrics: Metrics,
    notice: Arc<dyn Notice>,
    mutating: Configured<MutatingWebhook>,
    validating: Configured<ValidatingWebhook>,
    /// Who this server is to each.
    credentials: ArcSwap<[Credentials; 2]>,
}

impl Webhooks {
    pub fn new(
        caller: Caller,
        world: &World,
        metrics: &Registry,
        notice: Arc<dyn Notice>,
        configuration: &Configuration,
    ) -> Result<Self, Error> {
        let credentials = ArcSwap::from_pointee(credentials_of(configuration)?);
        Ok(Self {
            caller,
            world: world.clone(),
            metrics: Metrics::new(metrics),
            notice,
            mutating: Configured::default(),
            validating: Configured::default(),
            credentials,
        })
    }

    /// Is somebody else to those that it asks, from now on; or what of it cannot be, and nothing is
    /// changed.
    pub fn reconfigure(&self, configuration: &Configuration) -> Result<(), Error> {
        self.credentials.store(Arc::new(credentials_of(configuration)?));
        self.mutating.renew(|name, it| self.ready_mutating(name, it));
        self.validating.renew(|name, it| self.ready_validating(name, it));
        Ok(())
    }

    fn ready_mutating(&self, configuration: &str, said: &MutatingWebhook) -> Hook {
        Hook::mutating(configuration, said, &self.credentials.load()[0])
    }

    fn ready_validating(&self, configuration: &str, said: &ValidatingWebhook) -> Hook {
        Hook::validating(configuration, said, &self.credentials.load()[1])
    }

    /// Whoever else asks somebody outside asks by the same.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// What a configuration is from now on; `None`: there is none of this name.
    pub fn set_mutating(&self, name: &str, configuration: Option<&MutatingWebhookConfiguration>) {
        let webhooks = configuration.iter().flat_map(|it| it.webhooks.iter().flatten()).cloned();
        self.mutating.set(name, webhooks.collect(), |name, it| self.ready_mutating(name, it));
    }

    pub fn set_validating(
        &self,
        name: &str,
        configuration: Option<&ValidatingWebhookConfiguration>,
    ) {
        let webhooks = configuration.iter().flat_map(|it| it.webhooks.iter().flatten()).cloned();
        self.validating.set(name, webhooks.collect(), |name, it| self.ready_validating(name, it));
    }

    pub(crate) fn has_mutating(&self, request: &Attributes<'_>) -> bool {
        !self.mutating.is_empty() && !is_configuration(request)
    }

    pub(crate) fn has_validating(&self, request: &Attributes<'_>) -> bool {
        !self.validating.is_empty() && !is_configuration(request)
    }

    /// How a webhook is asked about the request, if it is.
    async fn match_hook(
        &self,
        hook: &Hook,
        kind: Kind,
        context: &Context<'_>,
    ) -> Result<Option<(Invocation, Shown)>, ApiError> {
        let found = hook.constraints.find(context).map_err(|it| match it {
            Untold::Selector(why) => messages::internal(&why),
            Untold::NoNamespace(err) => err,
        });
        let Some(invocation) = found? else { return Ok(None) };
        let shown = Shown::new(context, &invocation).await?;
        if hook.conditions.is_empty() {
            return Ok(Some((invocation, shown)));
        }
        let (object, old) = (shown.object_tree(), shown.old_tree());
        let asked = (&invocation.resource, &invocation.kind);
        let judged = hook.conditions.evaluate(context, asked, (object, old)).await;
        let (of, operation) = (Of::Webhook(&hook.name, kind.phase()), context.request.operation);
        let metrics = &self.metrics.conditions;
        metrics.judged(of, operation, &judged);
        match judged.verdict {
            Verdict::Match => return Ok(Some((invocation, shown))),
            Verdict::Error(why) if !hook.fails_open && !vital::is_vital(&context.request) => {
                return Err(context.forbidden(&why));
            }
            Verdict::Error(why) if !hook.fails_open => {
                let configuration = &hook.configuration;
                tracing::warn!(
                    configuration,
                    webhook = hook.name,
                    error = why,
                    "matchConditions that cannot be evaluated, failing open"
                );
            }
            Verdict::No | Verdict::Error(_) => {}
        }
        metrics.excluded(of, operation);
        Ok(None)
    }
}
