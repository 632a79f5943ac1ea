//! Versions of custom resources that a webhook converts, as their definition says.
//!
//! Promises: an answer is what upstream would take for one, or the reason why it is none in
//! upstream's words; it comes within a deadline and is bounded; what was converted a moment ago is
//! not asked for again. Whoever waits here waits alone: nothing is locked meanwhile.

mod garbage;
mod kept;
mod metrics;
mod review;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::apiextensions::CustomResourceDefinition;
use api::apiextensions::custom_resource_definition::conversion;
use apimachinery::{ApiError, Reason};
use bytes::Bytes;
use client::hooks::{Caller, Place, Target, Unanswered};
use futures_util::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    WebhookClientConfig, WebhookConversion,
};
use stdx::Random;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::pipeline::converted::{QUESTION_BYTES_MAX, QUESTION_OBJECTS_MAX};
use crate::registry::Converter;
pub(crate) use garbage::take_any;
use kept::Kept;
use metrics::{Metrics, Outcome};
use review::Question;

/// Upstream waits as long as the request may last; so that nobody waits for ever, this long.
const DEADLINE: Duration = Duration::from_secs(30);
/// Of an answer: all objects of a question, which may grow.
const ANSWER_MAX: usize = 16 << 20;
/// Questions to one webhook at the same time; who comes later waits within the deadline.
const ASKED_MAX: usize = 64;
const PORT: u16 = 443;

/// The converters of a server's definitions.
pub(crate) struct Conversions {
    shared: Arc<Shared>,
    /// By definition, with what was said when it was made: connections and what is kept outlive
    /// changes of anything else.
    made: Mutex<BTreeMap<String, (WebhookConversion, Arc<Webhook>)>>,
}

struct Shared {
    caller: Caller,
    random: Random,
    metrics: Metrics,
    kept: Kept,
}

impl Conversions {
    pub(crate) fn new(caller: Caller, random: &Random, registry: &telemetry::Registry) -> Self {
        let metrics = Metrics::new(registry);
        let shared = Shared { caller, random: random.clone(), metrics, kept: Kept::default() };
        Self { shared: Arc::new(shared), made: Mutex::default() }
    }

    /// Who converts from now on; nobody, if versions differ in their names alone.
    pub(crate) fn of(
        &self,
        name: &str,
        definition: Option<&CustomResourceDefinition>,
    ) -> Option<Arc<dyn Converter>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(said) = definition.and_then(conversion::webhook) else {
            made.remove(name);
            return None;
        };
        if let Some((_, webhook)) = made.get(name).filter(|it| it.0 == *said) {
            return Some(webhook.clone());
        }
        let webhook = Arc::new(Webhook::new(name, said, self.shared.clone()));
        made.insert(name.to_owned(), (said.clone(), webhook.clone()));
        Some(webhook)
    }
}

struct Webhook {
    definition: String,
    /// Stands for it where answers are kept.
    id: u64,
    /// `None`: it names none that we know.
    version: Option<review::Version>,
    target: Target,
    room: Semaphore,
    shared: Arc<Shared>,
}

/// Why objects were not converted.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    text: String,
    /// The same without anything that was answered.
    logged: String,
    outcome: Outcome,
}

impl Webhook {
    fn new(definition: &str, said: &WebhookConversion, shared: Arc<Shared>) -> Self {
        let client = said.client_config.clone().unwrap_or_default();
        let bundle = client.ca_bundle.as_ref().map_or(&[][..], |it| it.0.trim_ascii());
        Self {
            definition: definition.to_owned(),
            id: shared.random.next_u64(),
            version: review::Version::of(&said.conversion_review_versions),
            target: Target::new(place_of(&client), bundle),
            room: Semaphore::new(ASKED_MAX),
            shared,
        }
    }

    /// What is not kept is asked for; what is answered is kept.
    async fn convert_all(
        &self,
        objects: Vec<Bytes>,
        api_version: &str,
    ) -> Result<Vec<Bytes>, ApiError> {
        let kept = &self.shared.kept;
        let keys: Vec<kept::Key> =
            objects.iter().map(|it| kept::key(self.id, it, api_version)).collect();
        let mut converted: Vec<Option<Bytes>> = keys.iter().map(|it| kept.get(it)).collect();
        let missing: Vec<usize> =
            (0..objects.len()).filter(|index| converted[*index].is_none()).collect();
        for part in parts(&missing, &objects) {
            let asked: Vec<&Bytes> = part.iter().map(|index| &objects[*index]).collect();
            let answers = self.ask(&asked, api_version).await?;
            for (index, answer) in part.iter().zip(answers) {
                kept.put(keys[*index], answer.clone());
                converted[*index] = Some(answer);
            }
        }
        Ok(converted.into_iter().flatten().collect())
    }

    /// One question.
    async fn ask(&self, objects: &[&Bytes], api_version: &str) -> Result<Vec<Bytes>, ApiError> {
        let Some(version) = self.version else {
            return Err(refused("no supported conversion review versions"));
        };
        let uid = self.shared.random.uuid();
        let question = Question { version, uid: &uid, api_version, objects };
        let began = Instant::now();
        let answer = self.post(&question).await;
        let outcome = answer.as_ref().err().map(|it| it.outcome);
        let versions = (question.version_asked(), question.version_wanted());
        self.shared.metrics.observe(&self.definition, versions, outcome, began.elapsed());
        answer.map_err(|it| refused(&it.text).with_source(Unanswered(it.logged)))
    }

    async fn post(&self, question: &Question<'_>) -> Result<Vec<Bytes>, Refusal> {
        let failed = |why: &str, logged: &str| {
            let text = |why| format!("conversion webhook for {} failed: {why}", question.kind());
            Refusal { text: text(why), logged: text(logged), outcome: Outcome::CallFailure }
        };
        let deadline = Instant::now() + DEADLINE;
        let waited = tokio::time::timeout_at(deadline, self.room.acquire()).await;
        let Ok(Ok(_permit)) = waited else {
            let why = format!("{ASKED_MAX} questions to it are not answered yet");
            return Err(failed(&why, &why));
        };
        let left = deadline.saturating_duration_since(Instant::now());
        let body = question.body();
        let answer = self.shared.caller.post(&self.target, body, left, ANSWER_MAX).await;
        let answer = answer.map_err(|it| failed(&it.to_string(), it.for_log()))?;
        question.converted(&answer)
    }
}

impl Converter for Webhook {
    fn convert<'a>(
        &'a self,
        objects: Vec<Bytes>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Bytes>, ApiError>> {
        Box::pin(self.convert_all(objects, api_version))
    }
}

fn refused(why: &str) -> ApiError {
    ApiError::new(Reason::InternalError, why)
}

fn place_of(client: &WebhookClientConfig) -> Place {
    match &client.service {
        Some(service) => Place::Service {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            port: service.port.and_then(|it| u16::try_from(it).ok()).unwrap_or(PORT),
            path: service.path.clone().unwrap_or_default(),
        },
        None => Place::Url { url: client.url.clone().unwrap_or_default() },
    }
}

/// As many to a question as it may have; one at least.
fn parts<'a>(indexes: &'a [usize], objects: &[Bytes]) -> Vec<&'a [usize]> {
    let mut parts = Vec::new();
    let (mut start, mut n_bytes) = (0, 0);
    for (at, index) in indexes.iter().enumerate() {
        let size = objects[*index].len();
        let is_full = at - start >= QUESTION_OBJECTS_MAX || n_bytes + size > QUESTION_BYTES_MAX;
        if is_full && at > start {
            parts.push(&indexes[start..at]);
            (start, n_bytes) = (at, 0);
        }
        n_bytes += size;
    }
    if start < indexes.len() {
        parts.push(&indexes[start..]);
    }
    parts
}
