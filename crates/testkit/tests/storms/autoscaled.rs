//! A Deployment that an autoscaler makes larger and smaller, since what its pods use changes.

use client::Client;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};
use stdx::Random;
use testkit::History;

use crate::objects::{OPEN, create, deploy, patch, template, unless_available};

const USAGE: &str = "simulator.xebec.local/usage";
/// As many as there are in the end.
const SIZE_MAX: i32 = 4;

fn uses(cpu: &str) -> Value {
    json!({"metadata": {"annotations": {USAGE: format!("cpu={cpu}")}}})
}

pub(crate) async fn make(admin: &Client, script: &str) {
    let mut template = template("scaled", script, "Always");
    template["metadata"]["annotations"][USAGE] = json!("cpu=80m");
    template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "100m"}});
    deploy(admin, OPEN, "scaled", 2, template).await;
    let autoscaler = json!({
        "metadata": {"name": "scaled", "namespace": OPEN},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "scaled"},
            "minReplicas": 1, "maxReplicas": SIZE_MAX,
            "metrics": [{"type": "Resource", "resource": {
                "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    });
    create::<HorizontalPodAutoscaler>(admin, &autoscaler).await;
}

async fn use_cpu(admin: &Client, cpu: &str) {
    patch::<Deployment>(admin, "scaled", json!({"spec": {"template": uses(cpu)}})).await;
}

pub(crate) async fn change(admin: &Client, random: &Random) {
    use_cpu(admin, ["10m", "30m", "80m"][random.below(3) as usize]).await;
}

pub(crate) async fn calm(admin: &Client) {
    use_cpu(admin, "80m").await;
}

/// Each uses more than it should, however many there are.
pub(crate) async fn missing(admin: &Client) -> Vec<String> {
    let lacking = unless_available(admin, OPEN, "scaled", SIZE_MAX).await;
    let autoscaler = admin.api::<HorizontalPodAutoscaler>().get(OPEN, "scaled").await.unwrap();
    let status = autoscaler.status.clone().unwrap_or_default();
    let wanted = status.desired_replicas;
    let unwilling = (wanted != SIZE_MAX).then(|| format!("scaled is to have {wanted} pods"));
    lacking.into_iter().chain(unwilling).collect()
}

pub(crate) fn violations(history: &History) -> Vec<String> {
    let key = format!("/deployments/{OPEN}/scaled");
    testkit::replicas_outside(history, &key, 1..=SIZE_MAX).unwrap()
}
