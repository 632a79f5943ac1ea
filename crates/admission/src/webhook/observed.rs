//! What one webhook does to a request, for whoever wants to be told of it. Where nobody does it is
//! one look at that.

use std::collections::BTreeMap;

use apimachinery::ApiError;
use serde_json::Value;
use tokio::time::Instant;

use super::Kind;
use super::hook::Hook;
use super::review::Answer;
use crate::context::Context;
use crate::observer::{By, Observer, Part, Refusal, diff, micros};

/// Nothing in requests that nobody observes.
pub(super) struct Watched<'a>(Option<Seen<'a>>);

struct Seen<'a> {
    observer: &'a Observer,
    kind: Kind,
    begin: Instant,
    before: Option<Value>,
    warnings: Vec<String>,
    annotations: BTreeMap<String, String>,
}

impl<'a> Watched<'a> {
    pub(super) fn begin(context: &Context<'a>, kind: Kind) -> Self {
        Self(context.observer().map(|observer| Seen {
            observer,
            kind,
            begin: Instant::now(),
            before: context.draft().filter(|_| kind == Kind::Mutating).map(|it| it.tree().clone()),
            warnings: Vec::new(),
            annotations: BTreeMap::new(),
        }))
    }

    /// A dry run ends where a webhook has side effects. Whoever wants to be told is told so, and
    /// what the others say.
    pub(super) fn skips(&self, hook: &Hook, context: &Context<'_>) -> bool {
        let Some(seen) = &self.0 else { return false };
        if hook.takes_dry_runs || !context.request.is_dry_run() {
            return false;
        }
        let mut part = seen.part(hook);
        part.is_unasked = true;
        let why = "not asked, because it has side effects: a dry run with it is refused, and what \
                   it would do about a real write cannot be told";
        part.note = Some(why.to_owned());
        seen.observer.part(part);
        true
    }

    pub(super) fn said(&mut self, hook: &Hook, answer: &Answer) {
        let Some(seen) = &mut self.0 else { return };
        seen.warnings.clone_from(&answer.warnings);
        let annotations = answer.audit_annotations.iter();
        let annotations = annotations.map(|(key, it)| (format!("{}/{key}", hook.name), it.clone()));
        seen.annotations.extend(annotations);
    }

    pub(super) fn noted(&mut self, key: String, value: String) {
        if let Some(seen) = &mut self.0 {
            seen.annotations.insert(key, value);
        }
    }

    pub(super) fn end<T>(
        self,
        hook: &Hook,
        context: &Context<'_>,
        settled: &Result<Option<T>, ApiError>,
    ) {
        let Some(seen) = self.0 else { return };
        let mut part = seen.part(hook);
        if let (Some(before), Some(draft)) = (&seen.before, context.draft()) {
            (part.changes, part.n_changes_left_out) = diff(before, draft.tree());
        }
        part.refusal = settled.as_ref().err().map(Refusal::of);
        if matches!(settled, Ok(None)) {
            let why = "it could not be asked, and its failure is ignored (failurePolicy)";
            part.note = Some(why.to_owned());
        }
        (part.warnings, part.annotations) = (seen.warnings, seen.annotations);
        seen.observer.part(part);
    }
}

impl Seen<'_> {
    fn part(&self, hook: &Hook) -> Part {
        let by = By::Webhook {
            resource: self.kind.resource().to_owned(),
            configuration: hook.configuration.clone(),
            name: hook.name.clone(),
        };
        Part::new(by, micros(self.begin.elapsed()))
    }
}
