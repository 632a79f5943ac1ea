//! ResourceQuotas: as objects, and what they count of objects that nobody runs.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::cases::node::pods;
use crate::cases::{Case, SLOW, case};
use crate::client::{Collection, Patch};
use crate::expect::{refused, says, shows};
use crate::operations::Operations;
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[
    // Upstream's controller comes back to a status that somebody else wrote after minutes.
    Case {
        codename: "[sig-api-machinery] ResourceQuota should apply changes to a resourcequota status [Conformance]",
        limit: SLOW,
        run: |scope| Box::pin(status(scope)),
    },
    case!(
        "[sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a configMap. [Conformance]",
        config_map
    ),
    case!(
        "[sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a pod. [Conformance]",
        pod
    ),
    case!(
        "[sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a replica set. [Conformance]",
        replica_set
    ),
    case!(
        "[sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a replication controller. [Conformance]",
        replication_controller
    ),
    case!(
        "[sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a secret. [Conformance]",
        secret
    ),
    case!(
        "[sig-api-machinery] ResourceQuota should create a ResourceQuota and capture the life of a service. [Conformance]",
        service
    ),
    case!(
        "[sig-api-machinery] ResourceQuota should create a ResourceQuota and ensure its status is promptly calculated. [Conformance]",
        counted
    ),
    case!(
        "[sig-api-machinery] ResourceQuota should verify ResourceQuota with best effort scope. [Conformance]",
        best_effort
    ),
    case!(
        "[sig-api-machinery] ResourceQuota should verify ResourceQuota with terminating scopes. [Conformance]",
        terminating
    ),
    case!(
        "[sig-api-machinery] ResourceQuota should be able to update and delete ResourceQuota. [Conformance]",
        replace_and_delete
    ),
    case!(
        "[sig-api-machinery] ResourceQuota should manage the lifecycle of a ResourceQuota [Conformance]",
        lifecycle
    ),
];

async fn replace_and_delete(scope: &Scope) -> Result<()> {
    let quotas = scope.own("v1", "resourcequotas");
    let quota = |cpu: &str, memory: &str| {
        let hard = json!({ "cpu": cpu, "memory": memory });
        json!({ "metadata": { "name": "quota" }, "spec": { "hard": hard } })
    };
    quotas.create(&quota("1", "500Mi")).await?;
    shows(&quotas.get("quota").await?, &quota("1", "500Mi"))?;
    // Without a resourceVersion it replaces whatever is there.
    shows(&quotas.replace(&quota("2", "1Gi")).await?, &quota("2", "1Gi"))?;
    shows(&quotas.get("quota").await?, &quota("2", "1Gi"))?;
    quotas.delete("quota").await?;
    refused("reading a quota that was deleted", quotas.get("quota").await, 404).map(drop)
}

async fn lifecycle(scope: &Scope) -> Result<()> {
    let quotas = Operations {
        group_version: "v1",
        resource: "resourcequotas",
        kind: "ResourceQuota",
        is_namespaced: true,
        object: json!({ "spec": { "hard": { "cpu": "1", "memory": "500Mi" } } }),
        change: json!({ "spec": { "hard": { "memory": "750Mi" } } }),
        status: None,
        names: None,
    };
    quotas.check(scope).await
}

/// A quota that its controller has counted.
async fn bound<'a>(scope: &'a Scope, name: &str, spec: &Value) -> Result<Collection<'a>> {
    let quotas = scope.own("v1", "resourcequotas");
    quotas.create(&json!({ "metadata": { "name": name }, "spec": spec })).await?;
    scope
        .until("the quota is counted", async || {
            let quota = quotas.get(name).await?;
            shows(&quota, &json!({ "status": { "hard": spec["hard"] } }))?;
            let counted = quota["status"]["used"].as_object().map_or(0, serde_json::Map::len);
            ensure!(Some(counted) == spec["hard"].as_object().map(serde_json::Map::len), "{quota}");
            Ok(())
        })
        .await?;
    Ok(quotas)
}

async fn until_used(
    scope: &Scope,
    quotas: &Collection<'_>,
    name: &str,
    used: &Value,
) -> Result<()> {
    let expected = json!({ "status": { "used": used } });
    scope.until("so much is used", async || shows(&quotas.get(name).await?, &expected)).await
}

/// One object of a resource that is counted by its number: there, and gone.
async fn life_of(
    scope: &Scope,
    bounded: &str,
    objects: &Collection<'_>,
    object: &Value,
) -> Result<()> {
    let quotas = bound(scope, "quota", &json!({ "hard": { bounded: "7" } })).await?;
    let before = quotas.get("quota").await?["status"]["used"][bounded].clone();
    let number: u32 = before.as_str().unwrap_or_default().parse()?;
    objects.create(object).await?;
    until_used(scope, &quotas, "quota", &json!({ bounded: (number + 1).to_string() })).await?;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    objects.delete(name).await?;
    until_used(scope, &quotas, "quota", &json!({ bounded: before })).await
}

async fn counted(scope: &Scope) -> Result<()> {
    let hard = json!({ "pods": "5", "services": "10", "cpu": "1", "requests.storage": "1Gi" });
    let quotas = bound(scope, "quota", &json!({ "hard": hard })).await?;
    let used = json!({ "pods": "0", "services": "0", "cpu": "0", "requests.storage": "0" });
    shows(&quotas.get("quota").await?, &json!({ "status": { "used": used } }))
}

async fn config_map(scope: &Scope) -> Result<()> {
    let maps = scope.own("v1", "configmaps");
    // Every namespace has one.
    scope.until("the authority is published", async || maps.get("kube-root-ca.crt").await).await?;
    life_of(scope, "configmaps", &maps, &json!({ "metadata": { "name": "counted" } })).await
}

async fn secret(scope: &Scope) -> Result<()> {
    let secrets = scope.own("v1", "secrets");
    life_of(scope, "secrets", &secrets, &json!({ "metadata": { "name": "counted" } })).await
}

fn workload(selector: &Value) -> Value {
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": pods::idle_spec() });
    let spec = json!({ "replicas": 0, "selector": selector, "template": template });
    json!({ "metadata": { "name": "counted" }, "spec": spec })
}

async fn replica_set(scope: &Scope) -> Result<()> {
    let sets = scope.own("apps/v1", "replicasets");
    let set = workload(&json!({ "matchLabels": { "app": "web" } }));
    life_of(scope, "count/replicasets.apps", &sets, &set).await
}

async fn replication_controller(scope: &Scope) -> Result<()> {
    let controllers = scope.own("v1", "replicationcontrollers");
    let controller = workload(&json!({ "app": "web" }));
    life_of(scope, "replicationcontrollers", &controllers, &controller).await
}

async fn service(scope: &Scope) -> Result<()> {
    let hard = json!({ "services": "2", "services.nodeports": "1", "services.loadbalancers": "1" });
    let quotas = bound(scope, "quota", &json!({ "hard": hard })).await?;
    let services = scope.own("v1", "services");
    let one = |name: &str, type_: &str| {
        let ports = json!([{ "port": 80 }]);
        json!({ "metadata": { "name": name }, "spec": { "type": type_, "ports": ports } })
    };
    let used = |services: &str, node_ports: &str| {
        json!({
            "services": services, "services.nodeports": node_ports, "services.loadbalancers": "0",
        })
    };
    services.create(&one("plain", "ClusterIP")).await?;
    services.create(&one("outside", "NodePort")).await?;
    until_used(scope, &quotas, "quota", &used("2", "1")).await?;
    let refusal =
        refused("a third Service", services.create(&one("more", "ClusterIP")).await, 403)?;
    says("the refusal", refusal.message(), &["exceeded quota: quota", "services=2"])?;
    services.delete("plain").await?;
    until_used(scope, &quotas, "quota", &used("1", "1")).await?;
    refused("another port of the nodes", services.create(&one("more", "NodePort")).await, 403)?;
    let balanced = services.create(&one("more", "LoadBalancer")).await;
    refused("a load balancer, which has ports of the nodes", balanced, 403)?;
    services.delete("outside").await?;
    until_used(scope, &quotas, "quota", &used("0", "0")).await
}

/// That nobody runs, and that asks for this much.
fn sized(name: &str, resources: &Value) -> Value {
    let mut pod = pods::idle(name);
    pod["spec"]["containers"][0]["resources"] = resources.clone();
    pod
}

async fn pod(scope: &Scope) -> Result<()> {
    let dongles = "requests.example.com/dongle";
    let hard = json!({
        "pods": "5", "cpu": "1", "memory": "500Mi", "requests.ephemeral-storage": "50Gi", dongles: "3",
    });
    let quotas = bound(scope, "quota", &json!({ "hard": hard })).await?;
    let pods = scope.own("v1", "pods");
    let resources = |cpu: &str, dongles: &str| {
        json!({
            "requests": {
                "cpu": cpu, "memory": "252Mi", "ephemeral-storage": "30Gi", "example.com/dongle": dongles,
            },
            "limits": { "example.com/dongle": dongles },
        })
    };
    let one = pods.create(&sized("one", &resources("500m", "2"))).await?;
    let used = json!({
        "pods": "1", "cpu": "500m", "memory": "252Mi", "requests.ephemeral-storage": "30Gi", dongles: "2",
    });
    until_used(scope, &quotas, "quota", &used).await?;
    let second = pods.create(&sized("two", &resources("600m", "1"))).await;
    says(
        "the refusal",
        refused("a pod that asks for too much", second, 403)?.message(),
        &["exceeded quota: quota", "requested: cpu=600m", "used: cpu=500m", "limited: cpu=1"],
    )?;
    let small = json!({ "cpu": "100m", "memory": "100Mi", "example.com/dongle": "2" });
    let second = json!({ "requests": small, "limits": { "example.com/dongle": "2" } });
    let second = pods.create(&sized("two", &second)).await;
    says("the refusal", refused("too many dongles", second, 403)?.message(), &[dongles])?;
    // What it asks for stays, so that a change takes nothing.
    pods.change("one", None, |it| it["metadata"]["labels"] = json!({ "changed": "yes" })).await?;
    until_used(scope, &quotas, "quota", &used).await?;
    let options =
        json!({ "gracePeriodSeconds": 0, "preconditions": { "uid": one["metadata"]["uid"] } });
    pods.delete_with("one", &options).await?;
    let nothing = json!({
        "pods": "0", "cpu": "0", "memory": "0", "requests.ephemeral-storage": "0", dongles: "0",
    });
    until_used(scope, &quotas, "quota", &nothing).await
}

/// Of two quotas, a pod counts for the one whose scope it is in.
async fn counts_for(scope: &Scope, pod: &Value, [with, without]: [&str; 2]) -> Result<()> {
    let quotas = scope.own("v1", "resourcequotas");
    let pods = scope.own("v1", "pods");
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    pods.create(pod).await?;
    until_used(scope, &quotas, with, &json!({ "pods": "1" })).await?;
    until_used(scope, &quotas, without, &json!({ "pods": "0" })).await?;
    pods.delete_with(name, &json!({ "gracePeriodSeconds": 0 })).await?;
    until_used(scope, &quotas, with, &json!({ "pods": "0" })).await
}

async fn best_effort(scope: &Scope) -> Result<()> {
    for (name, of) in [("best", "BestEffort"), ("better", "NotBestEffort")] {
        bound(scope, name, &json!({ "hard": { "pods": "5" }, "scopes": [of] })).await?;
    }
    counts_for(scope, &pods::idle("plain"), ["best", "better"]).await?;
    let some = json!({ "requests": { "cpu": "500m", "memory": "200Mi" } });
    counts_for(scope, &sized("sized", &some), ["better", "best"]).await
}

async fn terminating(scope: &Scope) -> Result<()> {
    for (name, of) in [("ending", "Terminating"), ("lasting", "NotTerminating")] {
        bound(scope, name, &json!({ "hard": { "pods": "5" }, "scopes": [of] })).await?;
    }
    counts_for(scope, &pods::idle("plain"), ["lasting", "ending"]).await?;
    let mut brief = pods::idle("brief");
    brief["spec"]["activeDeadlineSeconds"] = json!(3600);
    counts_for(scope, &brief, ["ending", "lasting"]).await
}

async fn status(scope: &Scope) -> Result<()> {
    let hard = |cpu: &str, memory: &str| json!({ "cpu": cpu, "memory": memory });
    let quotas = bound(scope, "quota", &json!({ "hard": hard("500m", "500Mi") })).await?;
    let changed = quotas
        .change("quota", Some("status"), |it| {
            it["status"] = json!({ "hard": hard("400m", "400Mi") })
        })
        .await?;
    shows(&changed, &json!({ "status": { "hard": hard("400m", "400Mi") } }))?;
    let patch = json!({ "status": { "hard": hard("2", "2Gi") } });
    let patched = quotas.patch_part("quota", "status", Patch::Merge, &patch).await?;
    shows(&patched, &patch)?;
    shows(&patched, &json!({ "spec": { "hard": hard("500m", "500Mi") } }))?;
    let restored = json!({
        "spec": { "hard": hard("500m", "500Mi") }, "status": { "hard": hard("500m", "500Mi") },
    });
    scope
        .until("its controller has put the status right", async || {
            shows(&quotas.get("quota").await?, &restored)
        })
        .await
}
