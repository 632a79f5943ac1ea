//! What is wrong with a StatefulSet.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{
    RollingUpdateStatefulSetStrategy, StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy,
};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimVolumeSource, PodSpec, PodTemplateSpec, Volume,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::selector::Labels;
use apimachinery::validation::is_dns_label;

use crate::apps::workload;
use crate::check::{self, text};
use crate::core::persistent_volume_claim;
use crate::core::pod_spec::validation::template;
use crate::kind::Part;
use crate::{codec, semantic};

/// How much of a spec is looked at.
#[derive(Clone, Copy)]
struct Scope {
    /// Names and claims, which cannot change once they are stored, whatever they are.
    has_fixed_fields: bool,
    /// The whole template, or its labels and annotations alone.
    has_pods: bool,
}

pub(super) fn validate_create(object: &StatefulSet, errors: &mut FieldErrors) {
    let absent = StatefulSetSpec::default();
    let spec = object.spec.as_ref().unwrap_or(&absent);
    validate_spec(spec, Scope { has_fixed_fields: true, has_pods: true }, errors);
}

/// A template that was stored when less was checked does not stand in the way of other changes.
pub(super) fn validate_update(
    object: &StatefulSet,
    stored: &StatefulSet,
    part: Part,
    errors: &mut FieldErrors,
) {
    if part == Part::Status {
        return validate_status(object, stored, errors);
    }
    let absent = StatefulSetSpec::default();
    let spec = object.spec.as_ref().unwrap_or(&absent);
    let old = stored.spec.as_ref().unwrap_or(&absent);
    let mut old_errors = FieldErrors::new();
    validate_spec(old, Scope { has_fixed_fields: false, has_pods: true }, &mut old_errors);
    let scope = Scope { has_fixed_fields: false, has_pods: old_errors.is_empty() };
    validate_spec(spec, scope, errors);
    validate_fixed(spec, old, errors);
}

fn validate_fixed(spec: &StatefulSetSpec, old: &StatefulSetSpec, errors: &mut FieldErrors) {
    let expected = StatefulSetSpec {
        replicas: old.replicas,
        template: old.template.clone(),
        update_strategy: old.update_strategy.clone(),
        min_ready_seconds: old.min_ready_seconds,
        ordinals: old.ordinals.clone(),
        revision_history_limit: old.revision_history_limit,
        persistent_volume_claim_retention_policy: old
            .persistent_volume_claim_retention_policy
            .clone(),
        ..spec.clone()
    };
    if !semantic::equal(&expected, old) {
        errors.forbidden(
            &Path::new("spec"),
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
             'minReadySeconds' are forbidden",
        );
    }
}

fn validate_spec(spec: &StatefulSetSpec, scope: Scope, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    validate_management(spec, &path.child("podManagementPolicy"), errors);
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    validate_strategy(&strategy, &path.child("updateStrategy"), errors);
    validate_retention(spec, &path.child("persistentVolumeClaimRetentionPolicy"), errors);
    let claims = spec.volume_claim_templates.iter().flatten().enumerate();
    for (index, claim) in claims.filter(|_| scope.has_fixed_fields) {
        let path = path.child("volumeClaimTemplates").index(index).child("spec");
        persistent_volume_claim::validate_new_spec(
            &claim.spec.clone().unwrap_or_default(),
            &path,
            errors,
        );
    }
    check::non_negative(spec.replicas.unwrap_or(0), &path.child("replicas"), errors);
    let ready_seconds = spec.min_ready_seconds.unwrap_or(0);
    check::non_negative(ready_seconds, &path.child("minReadySeconds"), errors);
    if let Some(start) = spec.ordinals.as_ref().and_then(|it| it.start) {
        check::non_negative(start, &path.child("ordinals.start"), errors);
    }
    let service = text(spec.service_name.as_ref());
    if scope.has_fixed_fields && !service.is_empty() {
        check::format(service, &is_dns_label(service), &path.child("serviceName"), errors);
    }
    let path_selector = path.child("selector");
    let selector =
        workload::validate_selector(&spec.selector, "statefulset", &path_selector, errors);
    match selector {
        Some(selector) => validate_template(spec, &selector, scope, &path, errors),
        None => workload::refuse_malformed(&spec.selector, "", &path_selector, errors),
    }
    template::validate_endless(&spec.template, "StatefulSet", &path.child("template"), errors);
}

fn validate_management(spec: &StatefulSetSpec, path: &Path, errors: &mut FieldErrors) {
    match text(spec.pod_management_policy.as_ref()) {
        "OrderedReady" | "Parallel" => {}
        "" => errors.required(path, ""),
        other => errors.invalid(path, other, "must be 'OrderedReady' or 'Parallel'"),
    }
}

fn validate_strategy(strategy: &StatefulSetUpdateStrategy, path: &Path, errors: &mut FieldErrors) {
    let path_rolling = path.child("rollingUpdate");
    match (text(strategy.type_.as_ref()), &strategy.rolling_update) {
        ("OnDelete" | "RollingUpdate", None) => {}
        ("OnDelete", Some(rolling)) => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.invalid(&path_rolling, codec::tree(rolling), detail);
        }
        ("RollingUpdate", Some(rolling)) => validate_rolling(rolling, &path_rolling, errors),
        ("", _) => errors.required(path, ""),
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.invalid(path, codec::tree(strategy), detail);
        }
    }
}

fn validate_rolling(
    rolling: &RollingUpdateStatefulSetStrategy,
    path: &Path,
    errors: &mut FieldErrors,
) {
    check::non_negative(rolling.partition.unwrap_or(0), &path.child("partition"), errors);
    let Some(unavailable) = &rolling.max_unavailable else { return };
    let path = path.child("maxUnavailable");
    workload::validate_count_or_percent(unavailable, &path, errors);
    if workload::number(unavailable) == 0 {
        errors.invalid(&path, check::int_or_string(unavailable), "cannot be 0");
    }
    workload::validate_at_most_all(unavailable, &path, errors);
}

fn validate_retention(spec: &StatefulSetSpec, path: &Path, errors: &mut FieldErrors) {
    let Some(policy) = &spec.persistent_volume_claim_retention_policy else { return };
    for (field, value) in
        [("whenDeleted", &policy.when_deleted), ("whenScaled", &policy.when_scaled)]
    {
        let value = text(value.as_ref());
        let supported = ["Retain", "Delete"];
        if !supported.contains(&value) {
            errors.not_supported_as_listed(&path.child(field), value, &supported);
        }
    }
}

fn validate_template(
    spec: &StatefulSetSpec,
    selector: &Labels,
    scope: Scope,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let path = path.child("template");
    template::validate_selected(&spec.template, selector, &path, errors);
    if scope.has_pods {
        template::validate_template(&as_pods_get_it(spec), &path, errors);
    }
    template::validate_metadata(&spec.template, &path, errors);
}

/// Each pod has its own host name, the service's subdomain, and volumes of the claims in place of
/// those with the same names: what the template says there does not count.
fn as_pods_get_it(spec: &StatefulSetSpec) -> PodTemplateSpec {
    let mut template = spec.template.clone();
    let pod: &mut PodSpec = template.spec.get_or_insert_default();
    pod.subdomain = None;
    pod.hostname = None;
    let claims = spec.volume_claim_templates.as_deref().unwrap_or_default();
    if claims.is_empty() {
        return template;
    }
    let mut names = BTreeSet::new();
    let claimed = claims.iter().filter_map(|claim| {
        let name = claim.metadata.name.clone().unwrap_or_default();
        names.insert(name.clone()).then(|| Volume {
            name: name.clone(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: name,
                ..PersistentVolumeClaimVolumeSource::default()
            }),
            ..Volume::default()
        })
    });
    let mut volumes: Vec<Volume> = claimed.collect();
    let others = pod.volumes.take().unwrap_or_default();
    volumes.extend(others.into_iter().filter(|it| !names.contains(&it.name)));
    pod.volumes = Some(volumes);
    template
}

fn validate_status(object: &StatefulSet, stored: &StatefulSet, errors: &mut FieldErrors) {
    let status = object.status.clone().unwrap_or_default();
    let path = Path::new("status");
    let ready = status.ready_replicas.unwrap_or(0);
    let available = status.available_replicas.unwrap_or(0);
    let counts = [
        ("readyReplicas", ready),
        ("currentReplicas", status.current_replicas.unwrap_or(0)),
        ("updatedReplicas", status.updated_replicas.unwrap_or(0)),
        ("availableReplicas", available),
    ];
    workload::validate_status_counts(status.replicas, &counts, errors);
    if available > ready {
        let detail = "cannot be greater than status.readyReplicas";
        errors.invalid(&path.child("availableReplicas"), available, detail);
    }
    let generation = status.observed_generation.unwrap_or(0);
    check::non_negative(generation, &path.child("observedGeneration"), errors);
    let collisions = status.collision_count.unwrap_or(0);
    check::non_negative(collisions, &path.child("collisionCount"), errors);
    let stored = stored.status.as_ref().and_then(|it| it.collision_count);
    workload::validate_collisions(status.collision_count, stored, errors);
}
