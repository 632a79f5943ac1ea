//! One question to one webhook, and what becomes of the request after it.

use std::time::Duration;

use apimachinery::ApiError;
use client::hooks::{ANSWER_MAX, Place};

use super::hook::Hook;
use super::metrics::Called;
use super::observed::Watched;
use super::own::{Blocking, own_step};
use super::review::{self, Answer, Version};
use super::{Blocked, Kind, Webhooks, messages};
use crate::context::Context;
use crate::matching::Invocation;
use crate::shown::Shown;
use crate::vital;

/// Why there is no answer that counts.
pub(super) enum Failure {
    /// It could not be asked, or its answer is none: what happens is up to the failurePolicy.
    /// `logged` is the same without anything that it answered.
    Call { why: String, logged: String, code: u16 },
    /// It says no.
    Denied(ApiError),
    /// The request cannot be carried out, whatever the failurePolicy.
    Refused(ApiError),
}

impl Failure {
    /// There is an answer, and it is none.
    pub(super) fn of_answer(why: String) -> Self {
        Self::Call { why, logged: messages::UNUSABLE.to_owned(), code: 503 }
    }
}

impl Webhooks {
    pub(super) async fn ask(
        &self,
        hook: &Hook,
        kind: Kind,
        (context, invocation, shown): (&Context<'_>, &Invocation, &Shown),
        watched: &mut Watched<'_>,
    ) -> Result<Answer, Failure> {
        if context.request.is_dry_run() && !hook.takes_dry_runs {
            return Err(Failure::Refused(messages::no_dry_run(&hook.name)));
        }
        let version = Version::of(&hook.review_versions).ok_or_else(|| {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)".to_owned();
            Failure::Call { logged: why.clone(), why, code: 400 }
        })?;
        let uid = self.world.random.uuid();
        let question = review::question(version, &uid, (context, invocation, shown))
            .map_err(|err| Failure::Refused(review::unaskable(&err)))?;
        let timeout = match vital::is_vital(&context.request) {
            true => hook.timeout.min(vital::TIMEOUT),
            false => hook.timeout,
        };
        let body = self.caller.post(&hook.target, question, timeout, ANSWER_MAX).await;
        let body = body.map_err(|err| {
            let said = |why: &str| format!("failed to call webhook: {why}");
            let (why, logged) = (said(&err.to_string()), said(err.for_log()));
            Failure::Call { why, logged, code: err.code() }
        })?;
        let answer = review::answer(version, (&uid, kind == Kind::Mutating), &body)
            .map_err(Failure::of_answer)?;
        watched.said(hook, &answer);
        for (key, value) in &answer.audit_annotations {
            context.annotate(&format!("{}/{key}", hook.name), value);
        }
        for warning in &answer.warnings {
            context.warn(warning);
        }
        if !answer.is_allowed {
            return Err(Failure::Denied(messages::denied(&hook.name, answer.status)));
        }
        Ok(answer)
    }

    /// Counts a call that is over. The refusal, if the request ends with it; `key` is where the
    /// audit log has that it does not.
    pub(super) fn settle<T>(
        &self,
        hook: &Hook,
        kind: Kind,
        context: &Context<'_>,
        (outcome, elapsed, key): (Result<T, Failure>, Duration, &str),
    ) -> Result<Option<T>, ApiError> {
        let operation = context.request.operation.text();
        let called = Called { hook: &hook.name, phase: kind.phase(), operation };
        match outcome {
            Ok(answer) => {
                self.metrics.observe(&called, (200, false), elapsed);
                Ok(Some(answer))
            }
            Err(Failure::Denied(err)) => {
                self.metrics.rejected(&called, "no_error", err.code());
                self.metrics.observe(&called, (err.code(), true), elapsed);
                self.tell_if_it_blocks_itself(hook, kind, context, Blocking::Refuses(&err));
                Err(err)
            }
            Err(Failure::Refused(err)) => {
                self.metrics.rejected(&called, "apiserver_internal_error", 0);
                self.metrics.observe(&called, (0, true), elapsed);
                Err(err)
            }
            Err(Failure::Call { why, logged, code }) => {
                let why = messages::call_failed(&hook.name, &why);
                let logged = messages::call_failed(&hook.name, &logged);
                let is_open = hook.fails_open || vital::is_vital(&context.request);
                self.metrics.observe(&called, (code, !is_open), elapsed);
                if is_open {
                    tracing::warn!(
                        configuration = hook.configuration,
                        error = logged,
                        "failed calling a webhook, failing open"
                    );
                    self.metrics.failed_open(&called);
                    context.annotate(key, &hook.name);
                    return Ok(None);
                }
                tracing::warn!(
                    configuration = hook.configuration,
                    error = logged,
                    "failed calling a webhook, failing closed"
                );
                self.metrics.rejected(&called, "calling_webhook_error", code);
                self.tell_if_it_blocks_itself(hook, kind, context, Blocking::IsAway(&why));
                Err(messages::failed(&why, logged))
            }
        }
    }

    /// A webhook that keeps its own pods from serving is not there to agree to them, for ever, and
    /// whoever waits for it sees nothing but pods that do not come.
    fn tell_if_it_blocks_itself(
        &self,
        hook: &Hook,
        kind: Kind,
        context: &Context<'_>,
        blocking: Blocking<'_>,
    ) {
        let Place::Service { namespace, name, .. } = hook.target.place() else { return };
        let Some(step) = own_step(context, (namespace, name)) else { return };
        let text = blocking.text(step, &hook.name, (namespace, name));
        context.warn(&text);
        if context.request.is_dry_run() {
            return;
        }
        let (kind, configuration) = (kind.object(), hook.configuration.clone());
        let now = blocking.why().to_owned();
        self.notice.blocks_itself(Blocked { kind, configuration, text, now });
    }
}
