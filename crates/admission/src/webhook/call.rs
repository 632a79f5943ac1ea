//! One question to one webhook, and what becomes of the request after it.

use std::time::Duration;

use api::core::{Pod, Service};
use apimachinery::{ApiError, ObjectKey};
use client::hooks::{ANSWER_MAX, Place};

use super::hook::Hook;
use super::metrics::Called;
use super::observed::Watched;
use super::review::{self, Answer, Shown, Version};
use super::{Blocked, Kind, Webhooks, messages, vital};
use crate::attributes::Operation;
use crate::context::Context;
use crate::matching::Invocation;

/// Why there is no answer that counts.
pub(super) enum Failure {
    /// It could not be asked, or its answer is none: what happens is up to the failurePolicy.
    Call { why: String, code: u16 },
    /// It says no.
    Denied(ApiError),
    /// The request cannot be carried out, whatever the failurePolicy.
    Refused(ApiError),
}

/// How a webhook keeps its own pods away, and what it came to this time.
enum Blocking<'a> {
    IsAway(&'a str),
    Refuses(&'a str),
}

impl Blocking<'_> {
    fn why(&self) -> &str {
        match self {
            Self::IsAway(why) | Self::Refuses(why) => why,
        }
    }

    fn text(&self, hook: &str, namespace: &str, service: &str) -> String {
        let begin = format!("webhook {hook:?} keeps its own pods from being created");
        let exempt = "Exempt them by a namespaceSelector or an objectSelector";
        match self {
            Self::IsAway(_) => format!(
                "{begin}: it must agree to pods in namespace {namespace:?}, where those of its Service {service:?} are. {exempt}, or set failurePolicy to Ignore"
            ),
            Self::Refuses(_) => format!(
                "{begin}: it refuses one that its Service {service:?} in namespace {namespace:?} selects. When those that run are gone, nobody is left to agree to anything. {exempt}, or make them such that it agrees"
            ),
        }
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
        let call = |why: String, code| Failure::Call { why, code };
        let version = Version::of(&hook.review_versions).ok_or_else(|| {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            call(why.to_owned(), 400)
        })?;
        let uid = self.world.random.uuid();
        let question = review::question(version, &uid, (context, invocation, shown))
            .map_err(|err| Failure::Refused(review::unaskable(&err)))?;
        let timeout = match vital::is_vital(&context.request) {
            true => hook.timeout.min(vital::TIMEOUT),
            false => hook.timeout,
        };
        let body = self.caller.post(&hook.target, question, timeout, ANSWER_MAX).await;
        let body =
            body.map_err(|err| call(format!("failed to call webhook: {err}"), err.code()))?;
        let answer = review::answer(version, (&uid, kind == Kind::Mutating), &body)
            .map_err(|why| call(why, 503))?;
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
                self.tell_if_it_blocks_itself(
                    hook,
                    kind,
                    context,
                    &Blocking::Refuses(err.message()),
                );
                Err(err)
            }
            Err(Failure::Refused(err)) => {
                self.metrics.rejected(&called, "apiserver_internal_error", 0);
                self.metrics.observe(&called, (0, true), elapsed);
                Err(err)
            }
            Err(Failure::Call { why, code }) => {
                let why = messages::call_failed(&hook.name, &why);
                let is_open = hook.fails_open || vital::is_vital(&context.request);
                self.metrics.observe(&called, (code, !is_open), elapsed);
                if is_open {
                    tracing::warn!(
                        configuration = hook.configuration,
                        error = why,
                        "failed calling a webhook, failing open"
                    );
                    self.metrics.failed_open(&called);
                    context.annotate(key, &hook.name);
                    return Ok(None);
                }
                tracing::warn!(
                    configuration = hook.configuration,
                    error = why,
                    "failed calling a webhook, failing closed"
                );
                self.metrics.rejected(&called, "calling_webhook_error", code);
                self.tell_if_it_blocks_itself(hook, kind, context, &Blocking::IsAway(&why));
                Err(messages::internal(&why))
            }
        }
    }

    /// A webhook whose own pods cannot be made because it is not there to agree stays away for
    /// ever, and whoever waits for it sees nothing but pods that do not come. One that refuses them
    /// is there until its last pod goes.
    fn tell_if_it_blocks_itself(
        &self,
        hook: &Hook,
        kind: Kind,
        context: &Context<'_>,
        blocking: &Blocking<'_>,
    ) {
        let request = &context.request;
        let is_creation = request.operation == Operation::Create && request.is("", "pods", "");
        let Place::Service { namespace, name, .. } = hook.target.place() else { return };
        if !is_creation || namespace != request.namespace {
            return;
        }
        let service = context.lookup.get::<Service>(&ObjectKey::new(namespace, name));
        let selector = service.as_ref().and_then(|it| it.spec.as_ref()?.selector.as_ref());
        let labels = context.object_as::<Pod>().and_then(|it| it.metadata.labels.as_ref());
        let (Some(selector), Some(labels)) = (selector, labels) else { return };
        if selector.is_empty() || !selector.iter().all(|(key, it)| labels.get(key) == Some(it)) {
            return;
        }
        let text = blocking.text(&hook.name, namespace, name);
        context.warn(&text);
        if request.is_dry_run() {
            return;
        }
        self.notice.blocks_itself(Blocked {
            kind: kind.object(),
            configuration: hook.configuration.clone(),
            text: format!("{text}. Now: {}", blocking.why()),
        });
    }
}
