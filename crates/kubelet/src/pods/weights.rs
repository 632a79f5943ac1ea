//! The share of processor time that burstable pods have together against guaranteed ones: what they
//! ask for.

use std::sync::Arc;

use k8s_openapi::api::core::v1::PodSpec;
use lifecycle::Tasks;
use node_api::Cgroups;
use node_api::containers::Resources;
use tokio::sync::watch;

use crate::cgroups;

/// Thousandths of a processor that a burstable pod asks for.
pub(super) fn of(spec: &PodSpec) -> Option<i64> {
    let is_burstable = api::core::pod::qos_class(spec) == "Burstable";
    is_burstable.then(|| api::core::pod::requests(spec).get("cpu").copied().unwrap_or(0))
}

pub(super) fn spawn(tasks: &Tasks, cgroups: Arc<dyn Cgroups>) -> watch::Sender<i64> {
    let (tx, mut millis) = watch::channel(0);
    tasks.spawn("burstable-weight", |shutdown| async move {
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                changed = millis.changed() => if changed.is_err() { return },
            }
            let shares = Some(cgroups::shares(*millis.borrow_and_update()));
            let resources = Resources { cpu_shares: shares, ..Resources::default() };
            let name = format!("{}/burstable", cgroups::ROOT);
            if let Err(err) = cgroups.ensure(&name, resources).await {
                tracing::warn!(error = stdx::error_chain(&err), "weight of burstable pods not set");
            }
        }
    });
    tx
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::of;

    #[test]
    fn only_burstable_pods_weigh() {
        let check = |requests: serde_json::Value, limits: serde_json::Value, expected| {
            let resources = json!({ "requests": requests, "limits": limits });
            let spec = json!({ "containers": [{ "name": "c", "resources": resources }] });
            assert_eq!(of(&serde_json::from_value(spec).unwrap()), expected);
        };
        let all = json!({ "cpu": "1", "memory": "1Gi" });
        check(json!({}), json!({}), None);
        check(json!({ "cpu": "250m" }), json!({}), Some(250));
        check(json!({ "memory": "1Gi" }), json!({}), Some(0));
        check(all.clone(), all, None);
    }
}
