//! ReplicationControllers: their scale, and pods that no longer match.

use anyhow::{Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::cases::node::pods;
use crate::cases::{Case, case};
use crate::client::Collection;
use crate::expect::{items, name, says, shows};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-apps] ReplicationController should get and update a ReplicationController scale [Conformance]",
        scale
    ),
    case!(
        "[sig-apps] ReplicationController should release no longer matching pods [Conformance]",
        releases
    ),
    case!(
        "[sig-apps] ReplicationController should surface a failure condition on a common issue like exceeded quota [Conformance]",
        says_what_stops_it
    ),
];

async fn create(scope: &Scope) -> Result<(Collection<'_>, Value)> {
    let controllers = scope.own("v1", "replicationcontrollers");
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": pods::idle_spec() });
    let made = controllers
        .create(&json!({ "metadata": { "name": "web" }, "spec": {
            "replicas": 1, "selector": labels, "template": template,
        } }))
        .await?;
    until_replicas(scope, &controllers, 1).await?;
    Ok((controllers, made))
}

async fn until_replicas(
    scope: &Scope,
    controllers: &Collection<'_>,
    replicas: usize,
) -> Result<()> {
    let status = json!({ "status": { "replicas": replicas } });
    scope.until("its pods are there", async || shows(&controllers.get("web").await?, &status)).await
}

async fn scale(scope: &Scope) -> Result<()> {
    let (controllers, made) = create(scope).await?;
    let read = controllers.get_part("web", "scale").await?;
    let metadata = json!({ "name": "web", "uid": made["metadata"]["uid"] });
    let expected = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata,
        "spec": { "replicas": 1 }, "status": { "replicas": 1, "selector": "app=web" },
    });
    shows(&read, &expected)?;
    let scaled =
        controllers.change("web", Some("scale"), |it| it["spec"]["replicas"] = json!(2)).await?;
    shows(&scaled, &json!({ "kind": "Scale", "spec": { "replicas": 2 } }))?;
    shows(&controllers.get("web").await?, &json!({ "spec": { "replicas": 2 } }))?;
    until_replicas(scope, &controllers, 2).await
}

async fn releases(scope: &Scope) -> Result<()> {
    let (_, made) = create(scope).await?;
    let pods = scope.own("v1", "pods");
    let list = pods.labeled("app=web").await?;
    let pod = items(&list)?.first().ok_or_else(|| anyhow!("expected a pod, saw none"))?;
    pods.change(name(pod)?, None, |it| it["metadata"]["labels"] = json!({ "app": "other" }))
        .await?;
    scope
        .until("the pod is released", async || {
            let read = pods.get(name(pod)?).await?;
            let owners = read["metadata"]["ownerReferences"].as_array().map_or(&[][..], |it| it);
            let is_owned = owners.iter().any(|it| it["uid"] == made["metadata"]["uid"]);
            ensure!(!is_owned, "still owned: {owners:?}");
            Ok(())
        })
        .await
}

async fn says_what_stops_it(scope: &Scope) -> Result<()> {
    let quotas = scope.own("v1", "resourcequotas");
    let hard = json!({ "hard": { "pods": "2" } });
    quotas.create(&json!({ "metadata": { "name": "quota" }, "spec": hard })).await?;
    let used = json!({ "status": { "hard": { "pods": "2" }, "used": { "pods": "0" } } });
    scope.until("the quota is counted", async || shows(&quotas.get("quota").await?, &used)).await?;
    let controllers = scope.own("v1", "replicationcontrollers");
    let labels = json!({ "app": "web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": pods::idle_spec() });
    let spec = json!({ "replicas": 3, "selector": labels, "template": template });
    controllers.create(&json!({ "metadata": { "name": "web" }, "spec": spec })).await?;
    let failure = async || -> Result<Option<Value>> {
        let read = controllers.get("web").await?;
        let conditions = read["status"]["conditions"].as_array().cloned().unwrap_or_default();
        Ok(conditions.into_iter().find(|it| it["type"] == "ReplicaFailure"))
    };
    let said = scope
        .until("it says what stops it", async || {
            failure().await?.ok_or_else(|| anyhow!("no condition"))
        })
        .await?;
    shows(&said, &json!({ "status": "True", "reason": "FailedCreate" }))?;
    says("the message", said["message"].as_str().unwrap_or_default(), &["exceeded quota: quota"])?;
    controllers.change("web", None, |it| it["spec"]["replicas"] = json!(2)).await?;
    scope
        .until("nothing stops it", async || {
            let failure = failure().await?;
            ensure!(failure.is_none(), "{failure:?}");
            Ok(())
        })
        .await
}
