//! What is said about a request beside its answer: warnings for the client, annotations for the
//! audit log. Everybody who works on the request writes to the same notes, and a refusal has them,
//! too.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apimachinery::validation::is_qualified_name;
use telemetry::logs::AuditId;

use crate::observer::Observer;

/// Of all warnings together, in characters; when they are more, each is cut. As upstream
/// (endpoints/filters/warning.go).
const WARNINGS_MAX: usize = 4 * 1024;
const WARNING_CUT: usize = 256;
/// Of all annotations together, in bytes.
const ANNOTATIONS_MAX: usize = 1 << 20;

/// Cheap to clone.
#[derive(Clone, Default)]
pub struct Notes(Arc<Inner>);

#[derive(Default)]
struct Inner {
    audit_id: Option<AuditId>,
    warnings: Mutex<Warnings>,
    annotations: Mutex<Annotations>,
    /// Those with content of objects, for an audit log that has requests in it.
    with_content: Mutex<Annotations>,
    observer: Option<Observer>,
}

#[derive(Default)]
struct Warnings {
    /// In the order in which they came, each once, none longer than all may be together.
    texts: Vec<String>,
    /// What they are, in characters, when each is cut.
    cut_total: usize,
}

#[derive(Default)]
struct Annotations {
    by_key: BTreeMap<String, String>,
    n_bytes: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cut(text: &str, n_chars: usize) -> &str {
    text.char_indices().nth(n_chars).map_or(text, |(end, _)| &text[..end])
}

impl Notes {
    pub fn new(audit_id: AuditId) -> Self {
        Self(Arc::new(Inner { audit_id: Some(audit_id), ..Inner::default() }))
    }

    /// Of a request whose steps somebody wants to be told.
    pub fn observed(audit_id: Option<AuditId>) -> Self {
        let observer = Some(Observer::default());
        Self(Arc::new(Inner { audit_id, observer, ..Inner::default() }))
    }

    pub fn observer(&self) -> Option<&Observer> {
        self.0.observer.as_ref()
    }

    /// Calls from within the process have none.
    pub fn audit_id(&self) -> Option<&AuditId> {
        self.0.audit_id.as_ref()
    }

    /// For whoever made the request. Said once, however often it is.
    pub fn warn(&self, text: &str) {
        let mut warnings = lock(&self.0.warnings);
        // One character more tells that it is too long.
        let text = cut(text, WARNINGS_MAX + 1);
        let is_full = warnings.cut_total >= WARNINGS_MAX;
        if text.is_empty() || is_full || warnings.texts.iter().any(|it| it == text) {
            return;
        }
        warnings.cut_total += cut(text, WARNING_CUT).chars().count();
        warnings.texts.push(text.to_owned());
    }

    /// As clients can take them.
    pub fn warnings(&self) -> Vec<String> {
        let warnings = lock(&self.0.warnings);
        let total: usize = warnings.texts.iter().map(|it| it.chars().count()).sum();
        let each = if total > WARNINGS_MAX { WARNING_CUT } else { WARNINGS_MAX };
        warnings.texts.iter().map(|it| cut(it, each).to_owned()).collect()
    }

    /// For the audit log, under a key like `plugin.example.com/why`. Who comes first is right.
    pub fn annotate(&self, key: &str, value: &str) {
        annotate(&self.0.annotations, key, value);
    }

    /// The same of what is content of the object: not for logs that have none of it.
    pub fn annotate_with_content(&self, key: &str, value: &str) {
        annotate(&self.0.with_content, key, value);
    }

    pub(crate) fn n_warnings(&self) -> usize {
        lock(&self.0.warnings).texts.len()
    }

    /// Both kinds.
    pub(crate) fn all_annotations(&self) -> BTreeMap<String, String> {
        let mut all = self.annotations();
        all.extend(self.annotations_with_content());
        all
    }

    pub fn annotations(&self) -> BTreeMap<String, String> {
        lock(&self.0.annotations).by_key.clone()
    }

    pub fn annotations_with_content(&self) -> BTreeMap<String, String> {
        lock(&self.0.with_content).by_key.clone()
    }
}

fn annotate(annotations: &Mutex<Annotations>, key: &str, value: &str) {
    if key.split('/').count() != 2 || !is_qualified_name(key).is_empty() {
        tracing::warn!(key, "an audit annotation's key is no qualified name");
        return;
    }
    let mut annotations = lock(annotations);
    if let Some(first) = annotations.by_key.get(key) {
        if first != value {
            tracing::warn!(key, "an audit annotation has been set already");
        }
        return;
    }
    let n_bytes = annotations.n_bytes + key.len() + value.len();
    if n_bytes > ANNOTATIONS_MAX {
        tracing::warn!(key, "an audit annotation is dropped: the request has too many");
        return;
    }
    annotations.n_bytes = n_bytes;
    annotations.by_key.insert(key.to_owned(), value.to_owned());
}

impl Extend<String> for Notes {
    fn extend<I: IntoIterator<Item = String>>(&mut self, warnings: I) {
        for warning in warnings {
            self.warn(&warning);
        }
    }
}
