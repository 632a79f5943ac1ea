//! Secrets with tokens of service accounts: the day of a token's last use is a label of its Secret.

use std::sync::Arc;

use api::core::Secret;
use apimachinery::ApiError;
use authn::legacy::LAST_USED;
use client::{PatchKind, Verb};
use lifecycle::Shutdown;
use serde_json::json;

use crate::legacy_tokens::{Day, LegacyTokens};
use crate::own_calls;
use crate::pipeline::hooks::{Hooks, Of};
use crate::pipeline::{Body, Call, Core};

pub(crate) struct Secrets {
    pub(crate) tokens: LegacyTokens,
}

impl Hooks for Secrets {
    fn of(&self) -> &'static [Of] {
        &[("", "secrets")]
    }

    fn spawn(self: Arc<Self>, core: &Arc<Core>) {
        let its = core.clone();
        core.tasks.spawn("legacy-token-labels", |shutdown| self.run(its, shutdown));
    }
}

impl Secrets {
    async fn run(self: Arc<Self>, core: Arc<Core>, shutdown: Shutdown) {
        loop {
            let day = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                day = self.tokens.next() => day,
            };
            if let Err(err) = write(&core, &day).await {
                let (secret, error) = (&day.secret, stdx::error_chain(&err));
                tracing::warn!(%secret, %error, "the last use of a token was not written down");
            }
            self.tokens.done(&day);
        }
    }
}

async fn write(core: &Core, Day { secret, uid, day }: &Day) -> Result<(), ApiError> {
    let resource = core.kind_of::<Secret>().names().gvr();
    let call = Call {
        namespace: Some(secret.namespace.clone()),
        name: Some(secret.name.clone()),
        ..own_calls::call(Verb::Patch, resource)
    };
    let patch = json!({"metadata": {"uid": uid, "labels": {LAST_USED: day}}});
    let body = Body::Patch(PatchKind::Merge, patch.to_string().into());
    own_calls::carry_out(core, call, body).await
}
