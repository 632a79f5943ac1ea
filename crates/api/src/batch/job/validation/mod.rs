//! What is wrong with a Job.

mod policies;
mod spec;
mod status;
mod update;

use k8s_openapi::api::batch::v1::{Job, JobSpec};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::selector::Labels;
use apimachinery::validation::{is_dns_label, validate_label_selector};

use super::{is_indexed, labels};
use crate::check::text;
use crate::core::pod_spec::validation::template;
use crate::kind::Part;

pub(crate) use spec::validate as validate_spec;

pub(super) fn validate_create(job: &Job, errors: &mut FieldErrors) {
    let spec = job.spec.clone().unwrap_or_default();
    validate_whole(job, &spec, None, errors);
}

pub(super) fn validate_update(job: &Job, stored: &Job, part: Part, errors: &mut FieldErrors) {
    let spec = job.spec.clone().unwrap_or_default();
    if part == Part::Status {
        return status::validate(job, stored, &spec, errors);
    }
    let old = stored.spec.clone().unwrap_or_default();
    let n_problems = errors.iter().count();
    validate_whole(job, &spec, Some(&old), errors);
    // Upstream looks at the spec twice, and at the labels that it made once.
    if errors.iter().count() > n_problems {
        let path = Path::new("spec");
        spec::validate(&spec, &path, errors);
        validate_selector(&spec, &path, errors);
    }
    update::validate(&spec, stored, &old, errors);
}

fn validate_whole(job: &Job, spec: &JobSpec, old: Option<&JobSpec>, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    labels::validate(job, spec, old, errors);
    spec::validate(spec, &path, errors);
    validate_selector(spec, &path, errors);
    validate_hostnames(job, spec, errors);
}

fn validate_selector(spec: &JobSpec, path: &Path, errors: &mut FieldErrors) {
    let path_selector = path.child("selector");
    let selected = match &spec.selector {
        None => {
            errors.required(&path_selector, "");
            Ok(Labels::nothing())
        }
        Some(selector) => {
            validate_label_selector(selector, &path_selector, errors);
            Labels::from_selector(Some(selector))
        }
    };
    if let Ok(selected) = selected {
        template::validate_selected(&spec.template, &selected, &path.child("template"), errors);
    }
}

/// Pods of an indexed Job are called after their index: the last one has the longest name.
fn validate_hostnames(job: &Job, spec: &JobSpec, errors: &mut FieldErrors) {
    let Some(completions @ 1..) = spec.completions.filter(|_| is_indexed(spec)) else { return };
    let name = text(job.metadata.name.as_ref());
    let hostname = format!("{name}-{}", completions - 1);
    if !is_dns_label(&hostname).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {hostname}");
        errors.invalid(&Path::new("metadata.name"), name, &detail);
    }
}
