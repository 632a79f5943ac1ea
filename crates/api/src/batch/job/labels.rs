//! Labels that tell the pods of a Job from all others, and the selector of those. The server makes
//! them when a Job is made, from its uid, unless it says that it selects by hand.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::selector::Labels;

use crate::check::text;
use crate::codec;

pub const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
pub const JOB_NAME: &str = "batch.kubernetes.io/job-name";
/// The same from before labels had prefixes.
pub const CONTROLLER_UID_OLD: &str = "controller-uid";
pub const JOB_NAME_OLD: &str = "job-name";

/// What is there already stays; if it is wrong, it is refused.
pub(super) fn generate(job: &mut Job) {
    let uid = job.metadata.uid.clone().unwrap_or_default();
    let name = job.metadata.name.clone().unwrap_or_default();
    let spec = job.spec.get_or_insert_default();
    if spec.manual_selector == Some(true) {
        return;
    }
    let metadata = spec.template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    for (key, value) in expected(&uid, &name) {
        labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    let selector = spec.selector.get_or_insert_default().match_labels.get_or_insert_default();
    selector.entry(CONTROLLER_UID.to_owned()).or_insert(uid);
}

/// A Job without labels has those of its pods.
pub(super) fn take_over(job: &mut Job) {
    let labels = job.spec.as_ref().and_then(|it| template_labels(it)).cloned();
    if labels.is_some() && job.metadata.labels.as_ref().is_none_or(BTreeMap::is_empty) {
        job.metadata.labels = labels;
    }
}

fn expected<'a>(uid: &'a str, name: &'a str) -> [(&'static str, &'a str); 4] {
    [(CONTROLLER_UID_OLD, uid), (JOB_NAME_OLD, name), (CONTROLLER_UID, uid), (JOB_NAME, name)]
}

/// Whether the template has the labels with prefixes, which jobs of older clusters lack.
fn has_prefixed(spec: &JobSpec) -> bool {
    let labels = template_labels(spec);
    [CONTROLLER_UID, JOB_NAME].iter().all(|it| labels.is_some_and(|all| all.contains_key(*it)))
}

fn template_labels(spec: &JobSpec) -> Option<&BTreeMap<String, String>> {
    spec.template.metadata.as_ref()?.labels.as_ref()
}

/// `stored` is the spec that is replaced, if there is one.
pub(super) fn validate(
    job: &Job,
    spec: &JobSpec,
    stored: Option<&JobSpec>,
    errors: &mut FieldErrors,
) {
    let Some(selector) = &spec.selector else { return };
    if spec.manual_selector == Some(true) {
        return;
    }
    let uid = text(job.metadata.uid.as_ref());
    if uid.is_empty() {
        errors.required(&Path::new("metadata.uid"), "");
    }
    let mut wanted = expected(uid, text(job.metadata.name.as_ref())).to_vec();
    if !stored.is_none_or(has_prefixed) {
        wanted.truncate(2);
    }
    let empty = BTreeMap::new();
    let labels = template_labels(spec).unwrap_or(&empty);
    let path = Path::new("spec.template.metadata.labels");
    for (key, value) in &wanted {
        let detail = format!("must be '{value}'");
        match labels.get(*key) {
            Some(found) if found == value => {}
            Some(_) => errors.invalid(&path.key(key), codec::tree(labels), &detail),
            None => errors.required(&path.key(key), &detail),
        }
    }
    let made = wanted.iter().map(|(key, it)| ((*key).to_owned(), (*it).to_owned())).collect();
    if Labels::from_selector(Some(selector)).is_ok_and(|it| !it.matches(&made)) {
        let path = Path::new("spec.selector");
        errors.invalid(&path, codec::tree(selector), "`selector` not auto-generated");
    }
}
