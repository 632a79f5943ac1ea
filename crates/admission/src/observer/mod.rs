//! What each step of the chain does to one request, for whoever asks to be told: what it changes
//! and refuses, what it says, how long it takes and what its expressions cost. Ordinary requests
//! have no observer, and pay one look at that.
//!
//! Everything here is bounded: steps by the plugins that there are, parts and changes by number and
//! by bytes. What does not fit is counted, not kept.

mod diff;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apimachinery::ApiError;
use serde_json::Value;

pub use diff::{Change, diff};
pub use report::{By, Expression, NO_RIGHT, Part, Refusal, Report, Step, Verdict};

use crate::chain::Phase;
use crate::context::Context;

/// Policies and webhooks of one request.
const PARTS_MAX: usize = 1_000;
/// Of all changes together, as text.
const CHANGED_BYTES_MAX: usize = 1 << 20;

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Observer(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    operation: &'static str,
    steps: Vec<Step>,
    /// Of the step under way.
    parts: Vec<Part>,
    n_parts: usize,
    n_parts_left_out: usize,
    n_changed_bytes: usize,
}

/// How the object and the notes were before a plugin ran.
pub(crate) struct Before {
    observer: Observer,
    phase: Phase,
    is_second: bool,
    tree: Option<Value>,
    generation: u64,
    n_warnings: usize,
    annotations: BTreeMap<String, String>,
    begin: tokio::time::Instant,
}

impl Observer {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request passes the chain from its beginning: what was seen of an attempt before is of no
    /// concern.
    pub(crate) fn begin(&self, operation: &'static str) {
        *self.lock() = Seen { operation, ..Seen::default() };
    }

    /// Whether a request came as far as the chain.
    pub fn has_begun(&self) -> bool {
        !self.lock().operation.is_empty()
    }

    pub(crate) fn before(&self, context: &Context<'_>, phase: Phase) -> Before {
        let tree = (phase == Phase::Mutate).then(|| context.draft().map(|it| it.tree().clone()));
        Before {
            observer: self.clone(),
            phase,
            is_second: context.is_reinvocation(),
            tree: tree.flatten(),
            generation: context.generation(),
            n_warnings: context.notes().n_warnings(),
            annotations: context.notes().all_annotations(),
            begin: tokio::time::Instant::now(),
        }
    }

    /// A policy or a webhook is done with the request.
    pub(crate) fn part(&self, mut part: Part) {
        let mut seen = self.lock();
        seen.n_parts += 1;
        if seen.n_parts > PARTS_MAX {
            seen.n_parts_left_out += 1;
            return;
        }
        seen.fit(&mut part.changes, &mut part.n_changes_left_out);
        seen.parts.push(part);
    }

    /// What was seen, with how it ended.
    pub fn report(&self, refusal: Option<&ApiError>) -> Report {
        let seen = self.lock();
        Report::new(
            seen.operation,
            seen.steps.clone(),
            seen.n_parts_left_out,
            refusal.map(Refusal::of),
        )
    }
}

impl Seen {
    fn fit(&mut self, changes: &mut Vec<Change>, n_left_out: &mut usize) {
        let n_changes = changes.len();
        changes.retain(|it| {
            self.n_changed_bytes += it.n_bytes();
            self.n_changed_bytes <= CHANGED_BYTES_MAX
        });
        *n_left_out += n_changes - changes.len();
    }
}

impl Before {
    /// The plugin is done.
    pub(crate) fn after(
        self,
        plugin: &'static str,
        context: &Context<'_>,
        refusal: Option<&ApiError>,
    ) {
        let elapsed = self.begin.elapsed();
        let (mut changes, mut n_changes_left_out) = match (&self.tree, context.draft()) {
            (Some(before), Some(draft)) if self.generation != context.generation() => {
                diff(before, draft.tree())
            }
            _ => Default::default(),
        };
        let notes = context.notes();
        let mut seen = self.observer.lock();
        let parts = std::mem::take(&mut seen.parts);
        let warnings = notes.warnings().into_iter().skip(self.n_warnings);
        let of_parts = |it: &String| parts.iter().any(|part| part.warnings.contains(it));
        let warnings = warnings.filter(|it| !of_parts(it)).collect();
        let mut annotations = notes.all_annotations();
        annotations.retain(|key, _| {
            let is_of_part = parts.iter().any(|it| it.annotations.contains_key(key));
            !self.annotations.contains_key(key) && !is_of_part
        });
        // Where a part says what it changed the plugin has nothing of its own to add.
        if parts.iter().any(|it| !it.changes.is_empty() || it.n_changes_left_out > 0) {
            changes.clear();
            n_changes_left_out = 0;
        }
        seen.fit(&mut changes, &mut n_changes_left_out);
        seen.steps.push(Step {
            plugin: plugin.to_owned(),
            phase: match self.phase {
                Phase::Mutate => "mutate".to_owned(),
                Phase::Validate => "validate".to_owned(),
            },
            round: if self.is_second { 2 } else { 1 },
            micros: micros(elapsed),
            changes,
            n_changes_left_out,
            refusal: refusal.map(Refusal::of),
            warnings,
            annotations,
            parts,
        });
    }
}

pub(crate) fn micros(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX)
}
