//! What a history needs next, and what of it may go. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Identified as _;
use api::apps::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};

use crate::owners;
use crate::workload::Workload;

/// A workload that keeps the templates that it had.
pub(crate) trait Templated: Workload {
    /// The label of a revision that says its hash.
    const HASH_LABEL: &'static str;

    fn template(&self) -> Option<&PodTemplateSpec>;
    fn set_template(&mut self, template: PodTemplateSpec);
    /// How often the name for a template was taken.
    fn collisions(&self) -> i32;
}

/// A history that shows the present template.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Oldest first.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// The one for the present template: the last.
    pub update: Arc<ControllerRevision>,
    /// Those that are equal to it: it, and any that somebody made beside it.
    pub equal: Vec<Arc<ControllerRevision>>,
}

#[derive(Debug)]
pub(super) enum Step {
    Complete(Record),
    Create(Box<ControllerRevision>),
    /// A template comes back: its revision becomes the latest.
    Renumber(Arc<ControllerRevision>, i64),
}

pub(super) fn plan<T: Templated>(owner: &T, mut revisions: Vec<Arc<ControllerRevision>>) -> Step {
    revisions.sort_by(|one, two| order(one).cmp(&order(two)));
    let wanted = data(owner);
    let is_equal =
        |it: &&Arc<ControllerRevision>| it.data.as_ref().is_some_and(|it| it.0 == wanted);
    let mut equal: Vec<_> = revisions.iter().filter(is_equal).cloned().collect();
    let latest = revisions.last().cloned();
    let next = latest.as_ref().map_or(0, |it| it.revision).saturating_add(1);
    let found = match (equal.last().cloned(), latest) {
        (Some(it), Some(latest)) if it.uid() == latest.uid() => it,
        (Some(it), _) => return Step::Renumber(it, next),
        // Written by somebody who leaves out what is the default, or by an older server.
        (None, Some(latest)) if means(owner, &latest, &wanted) => {
            equal.push(latest.clone());
            latest
        }
        (None, _) => return Step::Create(Box::new(revision(owner, wanted, next))),
    };
    Step::Complete(Record { revisions, update: found, equal })
}

fn order(revision: &ControllerRevision) -> (i64, Option<jiff::Timestamp>, &str) {
    let meta = &revision.metadata;
    (revision.revision, meta.creation_timestamp.as_ref().map(|it| it.0), owners::name(meta))
}

/// The patch that would bring the present template back: what a revision stores.
pub(super) fn data<T: Templated>(owner: &T) -> Value {
    let whole: Value = serde_json::from_slice(&owner.encode()).expect("an object is JSON");
    let mut template = whole["spec"]["template"].clone();
    if !template.is_object() {
        template = json!({});
    }
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

/// The template that a revision stores.
pub(crate) fn template(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

/// Whether going back to a revision would change nothing.
fn means<T: Templated>(owner: &T, revision: &ControllerRevision, wanted: &Value) -> bool {
    let Some(template) = template(revision) else { return false };
    let mut restored = owner.clone();
    restored.set_template(template);
    restored.apply_defaults();
    data(&restored) == *wanted
}

fn revision<T: Templated>(owner: &T, data: Value, number: i64) -> ControllerRevision {
    let hash = hash(&data, owner.collisions());
    let meta = owner.metadata();
    let labels = owner.template().and_then(|it| it.metadata.as_ref()?.labels.clone());
    let mut labels: BTreeMap<String, String> = labels.unwrap_or_default();
    labels.insert(T::HASH_LABEL.to_owned(), hash.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(name(owners::name(meta), &hash)),
            namespace: meta.namespace.clone(),
            labels: Some(labels),
            // Among them the cause of the change, for `kubectl rollout history`.
            annotations: meta.annotations.clone(),
            owner_references: Some(vec![owners::controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    }
}

/// What a revision's name has of its owner's, at most.
const PREFIX_MAX: usize = 223;

fn name(owner: &str, hash: &str) -> String {
    // Names are ASCII.
    format!("{}-{hash}", owner.get(..PREFIX_MAX).unwrap_or(owner))
}

/// Letters that spell no words, as in generated names.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// FNV-1 of the data, as they are stored, and the number of collisions, in upstream's spelling:
/// whoever of the two made a revision, the other finds it under its name.
pub(super) fn hash(data: &Value, collisions: i32) -> String {
    let text = format!("{}{collisions}", api::encode_raw(data));
    let hash = text
        .bytes()
        .fold(2_166_136_261_u32, |hash, byte| hash.wrapping_mul(16_777_619) ^ u32::from(byte));
    let spell = |it: u8| char::from(ALPHABET[usize::from(it) % ALPHABET.len()]);
    hash.to_string().bytes().map(spell).collect()
}

/// The hash that pods are labeled with.
pub(crate) fn hash_of<T: Templated>(revision: &ControllerRevision) -> &str {
    revision.label(T::HASH_LABEL).unwrap_or_else(|| owners::name(&revision.metadata))
}

/// How many revisions beside the present one are kept.
pub(crate) enum Limit {
    /// So many, and those in use beside.
    BesideUsed(i32),
    /// So many, with those in use, which stay whatever the number.
    WithUsed(i32),
}

/// The oldest revisions beyond the limit that are not in use. A negative limit is none.
pub(crate) fn surplus(
    record: &Record,
    limit: Limit,
    is_used: impl Fn(&ControllerRevision) -> bool,
) -> Vec<Arc<ControllerRevision>> {
    let is_past = |it: &&Arc<ControllerRevision>| it.uid() != record.update.uid();
    let past = || record.revisions.iter().filter(is_past);
    let unused: Vec<_> = past().filter(|it| !is_used(it)).cloned().collect();
    let (all, limit) = match limit {
        Limit::BesideUsed(limit) => (unused.len(), limit),
        Limit::WithUsed(limit) => (past().count(), limit),
    };
    let Ok(limit) = usize::try_from(limit) else { return Vec::new() };
    unused.into_iter().take(all.saturating_sub(limit)).collect()
}
