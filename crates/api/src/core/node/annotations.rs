//! Annotations of Nodes that mean something, from before there were fields for it: JSON in a text.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::validation::validate_taints;

const AVOID_PODS: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";
const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";

/// Whose pods rather run elsewhere.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AvoidPods {
    prefer_avoid_pods: Option<Vec<Avoided>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Avoided {
    pod_signature: Option<Signature>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Signature {
    pod_controller: Option<OwnerReference>,
}

pub(super) fn validate(annotations: &BTreeMap<String, String>, errors: &mut FieldErrors) {
    let path = Path::new("metadata").child("annotations");
    match read::<Vec<Taint>>(annotations, TAINTS) {
        Ok(taints) => validate_taints(&taints, &path.child(TAINTS), errors),
        Err(problem) => errors.invalid(&path, TAINTS, &problem.to_string()),
    }
    match read::<AvoidPods>(annotations, AVOID_PODS) {
        Ok(avoided) => validate_avoided(&avoided, &path.child(AVOID_PODS), errors),
        Err(problem) => {
            errors.invalid(&path.child("AvoidPods"), AVOID_PODS, &problem.to_string());
        }
    }
}

/// Nothing, where there is nothing.
fn read<T: Default + DeserializeOwned>(
    annotations: &BTreeMap<String, String>,
    key: &str,
) -> Result<T, serde_json::Error> {
    match annotations.get(key).filter(|it| !it.is_empty()) {
        Some(text) => serde_json::from_str::<Option<T>>(text).map(Option::unwrap_or_default),
        None => Ok(T::default()),
    }
}

fn validate_avoided(avoided: &AvoidPods, path: &Path, errors: &mut FieldErrors) {
    for (index, it) in avoided.prefer_avoid_pods.iter().flatten().enumerate() {
        let path = path.index(index).child("PodSignature");
        let Some(owner) = it.pod_signature.as_ref().and_then(|it| it.pod_controller.as_ref())
        else {
            errors.required(&path, "");
            continue;
        };
        if owner.controller != Some(true) {
            let path = path.child("PodController").child("Controller");
            errors.invalid(&path, false, "must point to a controller");
        }
    }
}
