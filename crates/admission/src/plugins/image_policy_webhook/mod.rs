//! ImagePolicyWebhook: somebody outside says whether the images of a pod may be run.

mod answers;
mod review;
mod settings;
#[cfg(test)]
mod tests;

use std::time::Duration;

use api::core::Pod;
use apimachinery::ApiError;
use bytes::Bytes;
use client::hooks::{ANSWER_MAX, Caller, Failure, Target};
use jiff::SignedDuration;
use stdx::World;

use self::answers::Answers;
use self::review::{Answer, Spec};
use self::settings::{ImagePolicy, ImagePolicyWebhookSettings};
use crate::attributes::{Attributes, Operation};
use crate::chain::{Phase, Plugin, Validating};
use crate::configuration::{Configuration, Error};
use crate::context::Context;

const PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";
const EPHEMERAL: &str = "ephemeralcontainers";
/// Of one try.
const TIMEOUT: Duration = Duration::from_secs(30);
const TRIES_MAX: u32 = 5;
/// Each delay is half again as long as the one before, and up to a fifth longer by chance.
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;

/// Whom to ask and how, as the configuration says it.
struct Backend {
    target: Target,
    policy: ImagePolicy,
}

impl Backend {
    fn new(files: &Configuration) -> Result<Self, Error> {
        let settings: Option<ImagePolicyWebhookSettings> = files.settings()?;
        let what = "imagePolicy with kubeConfigFile: no config specified";
        let missing = Error::Missing { plugin: settings::PLUGIN, what };
        let policy = settings.ok_or(missing)?.image_policy;
        let target = files.kubeconfig(&policy.kube_config_file)?.target()?;
        Ok(Self { target, policy })
    }
}

/// Why there is no answer; and the same without anything that was answered.
struct Unreviewed {
    why: String,
    logged: String,
}

pub struct ImagePolicyWebhook {
    backend: Backend,
    caller: Caller,
    world: World,
    answers: Answers,
}

impl ImagePolicyWebhook {
    /// None where there is nobody to ask by, and the configuration can be.
    pub fn new(
        files: &Configuration,
        caller: Option<&Caller>,
        world: &World,
    ) -> Result<Option<Self>, Error> {
        let backend = Backend::new(files)?;
        let Some(caller) = caller.cloned() else { return Ok(None) };
        let (world, answers) = (world.clone(), Answers::default());
        Ok(Some(Self { backend, caller, world, answers }))
    }

    async fn review(&self, context: &Context<'_>) -> Result<(), ApiError> {
        let Some(pod) = context.object_as::<Pod>() else {
            let why = "Resource was marked with kind Pod but was unable to be converted";
            return Err(ApiError::bad_request(why.to_owned()));
        };
        let request = &context.request;
        let spec = Spec::new(pod, request.subresource, request.namespace);
        let key = spec.key();
        let known = self.answers.get(&key, self.world.clock.now());
        let answer = match known {
            Some(answer) => answer,
            None => match self.ask(&key, spec.question().into()).await {
                Ok(answer) => answer,
                Err(Unreviewed { logged, .. }) if self.backend.policy.default_allow => {
                    tracing::warn!(error = logged, "images cannot be reviewed, failing open");
                    context.annotate(&format!("{PREFIX}failed-open"), "true");
                    return Ok(());
                }
                Err(Unreviewed { why, .. }) => return Err(context.forbidden(&why)),
            },
        };
        for (key, value) in &answer.audit_annotations {
            context.annotate(&format!("{PREFIX}{key}"), value);
        }
        review::refusal(&answer).map_or(Ok(()), |why| Err(context.forbidden(&why)))
    }

    /// Remembers what was answered.
    async fn ask(&self, key: &[u8], question: Bytes) -> Result<Answer, Unreviewed> {
        let body = self
            .post(question)
            .await
            .map_err(|err| Unreviewed { why: err.to_string(), logged: err.for_log().to_owned() })?;
        let answer = review::answer(&body).map_err(|why| {
            let logged = "the answer of the backend cannot be used".to_owned();
            Unreviewed { why, logged }
        })?;
        let policy = &self.backend.policy;
        let time = if answer.allowed { policy.allow_for } else { policy.deny_for };
        let time = SignedDuration::try_from(time).unwrap_or_default();
        if !time.is_zero() {
            let until = self.world.clock.now() + time;
            self.answers.put(key, (&answer, body.len()), until);
        }
        Ok(answer)
    }

    /// Again and again while the backend says that it is busy or broken, a bounded number of times.
    async fn post(&self, question: Bytes) -> Result<Bytes, Failure> {
        let mut delay = self.backend.policy.retry_backoff;
        let mut n_tries = 1;
        loop {
            let asked =
                self.caller.post(&self.backend.target, question.clone(), TIMEOUT, ANSWER_MAX);
            match asked.await {
                Err(err) if n_tries < TRIES_MAX && matches!(err.code(), 429 | 500 | 504) => {}
                settled => return settled,
            }
            tokio::time::sleep(self.world.random.jitter(delay, JITTER)).await;
            delay = delay.mul_f64(FACTOR);
            n_tries += 1;
        }
    }
}

impl Plugin for ImagePolicyWebhook {
    fn name(&self) -> &'static str {
        settings::PLUGIN
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        phase == Phase::Validate
            && matches!(request.operation, Operation::Create | Operation::Update)
            && (request.is("", "pods", "") || request.is("", "pods", EPHEMERAL))
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        Box::pin(async { self.review(context).await.map(|()| None) })
    }
}
