//! What a StatefulSet is when it does not say.

use k8s_openapi::api::apps::v1::StatefulSet;

use crate::apps::workload;
use crate::core::persistent_volume_claim;

pub(super) fn apply(object: &mut StatefulSet) {
    let spec = object.spec.get_or_insert_default();
    fill(&mut spec.pod_management_policy, "OrderedReady");
    let strategy = spec.update_strategy.get_or_insert_default();
    if strategy.type_.as_deref().unwrap_or_default().is_empty() {
        strategy.type_ = Some("RollingUpdate".to_owned());
        strategy.rolling_update.get_or_insert_default();
    }
    if let (Some("RollingUpdate"), Some(rolling)) =
        (strategy.type_.as_deref(), &mut strategy.rolling_update)
    {
        rolling.partition.get_or_insert(0);
    }
    let retention = spec.persistent_volume_claim_retention_policy.get_or_insert_default();
    fill(&mut retention.when_deleted, "Retain");
    fill(&mut retention.when_scaled, "Retain");
    spec.replicas.get_or_insert(1);
    spec.revision_history_limit.get_or_insert(10);
    // These are always there, zero or not.
    spec.service_name.get_or_insert_default();
    if let Some(ordinals) = &mut spec.ordinals {
        ordinals.start.get_or_insert(0);
    }
    workload::apply_template_defaults(&mut spec.template);
    spec.volume_claim_templates
        .iter_mut()
        .flatten()
        .for_each(persistent_volume_claim::defaults::apply);
    apply_to_status(object);
}

/// The count is always there, zero or not.
pub(super) fn apply_to_status(object: &mut StatefulSet) {
    object.status.get_or_insert_default().available_replicas.get_or_insert(0);
}

fn fill(field: &mut Option<String>, value: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(value.to_owned());
    }
}
