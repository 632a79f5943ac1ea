//! StatefulSets of both policies and a DaemonSet, which get other templates and sizes.

use client::Client;
use k8s_openapi::api::apps::v1::{DaemonSet, StatefulSet};
use serde_json::{Value, json};
use stdx::Random;
use testkit::History;

use crate::NODES;
use crate::objects::{OPEN, create, patch, template};

/// Each with how its pods start, and how many there are at last.
const STATEFUL: [(&str, &str, i32); 2] = [("db", "OrderedReady", 3), ("web", "Parallel", 4)];

pub(crate) async fn make(admin: &Client, script: &str) {
    for (name, policy, replicas) in STATEFUL {
        let set = json!({
            "metadata": {"name": name, "namespace": OPEN},
            "spec": {
                "replicas": replicas, "serviceName": name, "podManagementPolicy": policy,
                "selector": {"matchLabels": {"app": name}},
                "template": template(name, script, "Always"),
            },
        });
        create::<StatefulSet>(admin, &set).await;
    }
    let agent = json!({
        "metadata": {"name": "agent", "namespace": OPEN},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": template("agent", script, "Always"),
        },
    });
    create::<DaemonSet>(admin, &agent).await;
}

/// The image of this round, and all else as it was.
fn image(round: usize) -> Value {
    let containers = json!([{"name": "main", "image": format!("xebec.local/toolbox:{round}")}]);
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

/// One of them gets another template, or another size.
pub(crate) async fn change(admin: &Client, random: &Random, round: usize) {
    let (name, _, replicas) = STATEFUL[random.below(2) as usize];
    match random.below(3) {
        0 => {
            let fewer = i32::try_from(random.below(3)).unwrap();
            let spec = json!({"spec": {"replicas": replicas - fewer}});
            patch::<StatefulSet>(admin, name, spec).await;
        }
        1 => patch::<DaemonSet>(admin, "agent", image(round)).await,
        _ => patch::<StatefulSet>(admin, name, image(round)).await,
    }
}

pub(crate) async fn calm(admin: &Client) {
    for (name, _, replicas) in STATEFUL {
        patch::<StatefulSet>(admin, name, json!({"spec": {"replicas": replicas}})).await;
    }
}

pub(crate) async fn missing(admin: &Client) -> Vec<String> {
    let mut missing = Vec::new();
    for (name, _, replicas) in STATEFUL {
        let set = admin.api::<StatefulSet>().get(OPEN, name).await.unwrap();
        let status = set.status.clone().unwrap_or_default();
        let counts = (status.available_replicas, status.updated_replicas);
        if counts != (Some(replicas), Some(replicas)) || status.replicas != replicas {
            missing.push(format!("{name}: {}", json!(status)));
        }
    }
    let nodes = i32::try_from(NODES).unwrap();
    let agent = admin.api::<DaemonSet>().get(OPEN, "agent").await.unwrap();
    let status = agent.status.clone().unwrap_or_default();
    if (status.number_available, status.updated_number_scheduled) != (Some(nodes), Some(nodes)) {
        missing.push(format!("agent: {}", json!(status)));
    }
    missing
}

pub(crate) fn violations(history: &History) -> Vec<String> {
    testkit::shared_identities(history, OPEN).unwrap()
}
