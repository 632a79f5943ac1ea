//! Webhooks that only look, all at the same time. All are waited for; of several refusals the first
//! in their order is the answer.

use std::sync::Arc;

use apimachinery::ApiError;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::hook::Hook;
use super::observed::Watched;
use super::{Kind, Webhooks};
use crate::context::Context;
use crate::matching::Invocation;
use crate::shown::Shown;

impl Webhooks {
    pub(crate) async fn validate(&self, context: &Context<'_>) -> Result<(), ApiError> {
        let mut asked: Vec<(Arc<Hook>, Invocation, Shown)> = Vec::new();
        for hook in self.validating.all().iter() {
            let found = self.match_hook(hook, Kind::Validating, context).await?;
            if let Some((invocation, shown)) = found {
                asked.push((hook.clone(), invocation, shown));
            }
        }
        let all = asked.iter().enumerate().map(|(index, (hook, invocation, shown))| {
            self.look(hook, index, (context, invocation, shown))
        });
        join_all(all).await.into_iter().collect()
    }

    async fn look(
        &self,
        hook: &Hook,
        index: usize,
        about: (&Context<'_>, &Invocation, &Shown),
    ) -> Result<(), ApiError> {
        let mut watched = Watched::begin(about.0, Kind::Validating);
        if watched.skips(hook, about.0) {
            return Ok(());
        }
        let begin = Instant::now();
        let outcome = self.ask(hook, Kind::Validating, about, &mut watched).await;
        let elapsed = begin.elapsed();
        let open = format!("failed-open.validation.webhook.admission.k8s.io/round_0_index_{index}");
        let settled = self.settle(hook, Kind::Validating, about.0, (outcome, elapsed, &open));
        watched.end(hook, about.0, &settled);
        settled.map(drop)
    }
}
