//! The pods of a Job, made from its template. Pure.

use api::batch::job::TRACKING_FINALIZER;
use api::batch::job::{COMPLETION_INDEX, INDEX_FAILURES, INDEX_IGNORED_FAILURES, Job};
use api::core::pod::Pod;
use k8s_openapi::api::core::v1::{
    Container, EnvVar, EnvVarSource, ObjectFieldSelector, PodTemplateSpec,
};

use super::staffing::Creation;
use crate::{owners, pod_control};

/// Where the containers of an indexed Job find which completion they are for.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// What the server makes names of, at most; it adds five characters.
const GENERATE_NAME_MAX: usize = 58;

pub(super) fn pod(job: &Job, template: &PodTemplateSpec, creation: &Creation) -> Pod {
    let name = owners::name(&job.metadata);
    let mut pod = pod_control::from_template(job, template);
    let finalizers = pod.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|it| it == TRACKING_FINALIZER) {
        finalizers.push(TRACKING_FINALIZER.to_owned());
    }
    if let Some(index) = creation.index {
        number(&mut pod, name, index, creation);
    }
    pod
}

/// Says which completion the pod is for.
fn number(pod: &mut Pod, job: &str, index: i32, creation: &Creation) {
    let meta = &mut pod.metadata;
    meta.generate_name = Some(generate_name(job, index));
    let labels = meta.labels.get_or_insert_default();
    labels.insert(COMPLETION_INDEX.to_owned(), index.to_string());
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(COMPLETION_INDEX.to_owned(), index.to_string());
    if let Some(failures) = creation.failures {
        annotations.insert(INDEX_FAILURES.to_owned(), failures.counted.to_string());
        if failures.ignored > 0 {
            annotations.insert(INDEX_IGNORED_FAILURES.to_owned(), failures.ignored.to_string());
        }
    }
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(format!("{job}-{index}"));
    let init = spec.init_containers.iter_mut().flatten();
    spec.containers.iter_mut().chain(init).for_each(tell_index);
}

fn generate_name(job: &str, index: i32) -> String {
    let end = format!("-{index}-");
    let room = GENERATE_NAME_MAX.saturating_sub(end.len());
    // Names are ASCII.
    format!("{}{end}", job.get(..room).unwrap_or(job))
}

fn tell_index(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|it| it.name == INDEX_VARIABLE) {
        return;
    }
    let field_path = format!("metadata.labels['{COMPLETION_INDEX}']");
    variables.push(EnvVar {
        name: INDEX_VARIABLE.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector { field_path, ..ObjectFieldSelector::default() }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    });
}

#[cfg(test)]
mod tests {
    use api::batch::job::Job;
    use serde_json::{Value, json};

    use super::{generate_name, pod};
    use crate::job::staffing::{Creation, IndexFailures};

    fn made(creation: &Creation) -> Value {
        let job: Job = serde_json::from_value(json!({
            "metadata": {"name": "pi", "namespace": "ns", "uid": "u"},
            "spec": {"template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "containers": [{"name": "c", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]}],
                    "initContainers": [{"name": "i"}],
                },
            }},
        }))
        .unwrap();
        let pod = pod(&job, &job.spec.as_ref().unwrap().template, creation);
        serde_json::to_value(pod).unwrap()
    }

    #[test]
    fn a_pod_has_the_finalizer_and_its_owner() {
        let pod = made(&Creation::default());
        let meta = &pod["metadata"];
        assert_eq!(meta["generateName"], "pi-");
        assert_eq!(meta["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
        assert_eq!(meta["ownerReferences"][0]["kind"], "Job");
        assert_eq!(pod["spec"].get("hostname"), None);
    }

    #[test]
    fn a_pod_of_an_index_says_which_everywhere() {
        let failures = Some(IndexFailures { counted: 2, ignored: 0 });
        let pod = made(&Creation { index: Some(7), failures });
        let meta = &pod["metadata"];
        assert_eq!(meta["generateName"], "pi-7-");
        assert_eq!(meta["labels"]["batch.kubernetes.io/job-completion-index"], "7");
        let annotations = json!({
            "batch.kubernetes.io/job-completion-index": "7",
            "batch.kubernetes.io/job-index-failure-count": "2",
        });
        assert_eq!(meta["annotations"], annotations);
        assert_eq!(pod["spec"]["hostname"], "pi-7");
        assert_eq!(pod["spec"]["containers"][0]["env"].as_array().unwrap().len(), 1);
        let field = &pod["spec"]["initContainers"][0]["env"][0]["valueFrom"]["fieldRef"];
        assert_eq!(
            field["fieldPath"],
            "metadata.labels['batch.kubernetes.io/job-completion-index']"
        );
    }

    #[test]
    fn long_names_lose_their_end_and_not_their_index() {
        let name = generate_name(&"x".repeat(63), 1234);
        assert_eq!((name.len(), name.ends_with("x-1234-")), (58, true));
    }
}
