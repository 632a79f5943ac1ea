//! What a DaemonSet is when it does not say.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::apps::workload;

pub(super) fn apply(object: &mut DaemonSet) {
    let spec = object.spec.get_or_insert_default();
    let strategy = spec.update_strategy.get_or_insert_default();
    if strategy.type_.as_deref().unwrap_or_default().is_empty() {
        strategy.type_ = Some("RollingUpdate".to_owned());
    }
    if strategy.type_.as_deref() == Some("RollingUpdate") {
        let rolling = strategy.rolling_update.get_or_insert_default();
        rolling.max_unavailable.get_or_insert(IntOrString::Int(1));
    }
    // Go's zeros: what there is of it is never absent.
    if let Some(rolling) = &mut strategy.rolling_update {
        rolling.max_unavailable.get_or_insert(IntOrString::Int(0));
        rolling.max_surge.get_or_insert(IntOrString::Int(0));
    }
    spec.revision_history_limit.get_or_insert(10);
    workload::apply_template_defaults(&mut spec.template);
}
