//! Webhooks that may change the object, one after the other: each sees what those before it made of
//! it.

use std::collections::BTreeSet;

use apimachinery::{ApiError, patch};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::call::Failure;
use super::hook::Hook;
use super::observed::Watched;
use super::{Kind, Webhooks, messages};
use crate::context::Context;
use crate::matching::Invocation;
use crate::shown::Shown;

/// What the second round must know of the first.
#[derive(Default)]
struct Rounds {
    /// Webhooks that want to be asked again if the object changed since they were.
    asked: BTreeSet<(String, String)>,
    /// Those of them for whom it did.
    due: BTreeSet<(String, String)>,
    /// How the last webhook left the object.
    left: Option<u64>,
}

impl Rounds {
    fn changed(&mut self) {
        self.due.append(&mut self.asked);
    }
}

impl Webhooks {
    pub(crate) async fn mutate(&self, context: &mut Context<'_>) -> Result<(), ApiError> {
        let mut rounds = std::mem::take(context.memory::<Rounds>());
        if context.is_reinvocation() && rounds.left != Some(context.generation()) {
            // Plugins of ours have changed it since.
            rounds.changed();
        }
        for (index, hook) in self.mutating.all().iter().enumerate() {
            let found = self.match_hook(hook, Kind::Mutating, context).await?;
            let Some((invocation, shown)) = found else { continue };
            let (configuration, name) = hook.id();
            let id = (configuration.to_owned(), name.to_owned());
            // Whoever was not asked before is not asked in the second round either.
            if context.is_reinvocation() && !rounds.due.contains(&id) {
                continue;
            }
            if self.change_by(hook, index, context, (&invocation, &shown)).await? {
                rounds.changed();
            }
            if hook.is_reinvoked {
                rounds.asked.insert(id);
            }
        }
        rounds.left = Some(context.generation());
        *context.memory::<Rounds>() = rounds;
        Ok(())
    }

    /// Whether it changed the object.
    async fn change_by(
        &self,
        hook: &Hook,
        index: usize,
        context: &mut Context<'_>,
        (invocation, shown): (&Invocation, &Shown),
    ) -> Result<bool, ApiError> {
        let round = u8::from(context.is_reinvocation());
        let key = |of: &str| format!("{of}.webhook.admission.k8s.io/round_{round}_index_{index}");
        let mut watched = Watched::begin(context, Kind::Mutating);
        if watched.skips(hook, context) {
            return Ok(false);
        }
        let begin = Instant::now();
        let about = (&*context, invocation, shown);
        let answer = self.ask(hook, Kind::Mutating, about, &mut watched).await;
        let outcome = match answer {
            Ok(answer) if answer.patch.is_empty() => Ok(false),
            Ok(answer) => {
                apply(hook, context, (invocation, shown), &answer.patch, &key("patch")).await
            }
            Err(failure) => Err(failure),
        };
        let is_changed = matches!(outcome, Ok(true));
        let noted = json!({
            "configuration": hook.configuration, "webhook": hook.name, "mutated": is_changed,
        });
        let noted = noted.to_string();
        context.annotate(&key("mutation"), &noted);
        watched.noted(key("mutation"), noted);
        let elapsed = begin.elapsed();
        let open = key("failed-open.mutation");
        let settled = self.settle(hook, Kind::Mutating, context, (outcome, elapsed, &open));
        watched.end(hook, context, &settled);
        Ok(settled?.unwrap_or_default())
    }
}

/// The patch, on the object in the version that the webhook saw; then the object as it is worked
/// on, with its defaults.
async fn apply(
    hook: &Hook,
    context: &mut Context<'_>,
    (invocation, shown): (&Invocation, &Shown),
    patch: &[u8],
    key: &str,
) -> Result<bool, Failure> {
    let logged = || messages::call_failed(&hook.name, messages::UNUSABLE);
    let internal = |why: &str| Failure::Refused(messages::failed(why, logged()));
    let undecodable = |why: &str| {
        Failure::of_answer(format!("received undecodable patch in webhook response: {why}"))
    };
    let operations: Value =
        serde_json::from_slice(patch).map_err(|err| undecodable(&err.to_string()))?;
    if operations.as_array().is_some_and(Vec::is_empty) {
        return Ok(false);
    }
    let Some(object) = &shown.object else {
        return Err(Failure::Refused(messages::nothing_to_change(&hook.name)));
    };
    let before = object.tree();
    let mut after = patch::json(before, patch).map_err(|err| match err {
        patch::Error::Malformed(why) => undecodable(&why),
        err => internal(&err.to_string()),
    })?;
    keep_own(before, &mut after);
    let noted = json!({
        "configuration": hook.configuration, "webhook": hook.name, "patch": operations,
        "patchType": "JSONPatch",
    });
    context.annotate_with_content(key, &noted.to_string());
    if after == *before {
        return Ok(false);
    }
    let request = &context.request;
    let working = request.kind.names().api_version();
    let after = match request.has_own_kind() || working == invocation.kind.api_version() {
        true => after,
        false => {
            let json = after.to_string().into_bytes().into();
            let json = request.versions.convert(json, &working).await.map_err(Failure::Refused)?;
            serde_json::from_slice(&json).map_err(|err| internal(&err.to_string()))?
        }
    };
    context.replace(&after).map_err(|err| internal(&err.to_string()))
}

/// Which version of the object is written over, and who wrote what before, is between the client
/// and this server.
fn keep_own(before: &Value, after: &mut Value) {
    let Some(metadata) = after.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in ["managedFields", "resourceVersion"] {
        match before["metadata"].get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
}
