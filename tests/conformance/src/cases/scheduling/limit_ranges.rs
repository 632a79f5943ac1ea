//! LimitRanges: what pods get, and what they may not ask for.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cases::node::pods;
use crate::cases::{Case, case};
use crate::expect::{count, refused, same, shows};
use crate::operations::Operations;
use crate::scope::{Scope, selector};

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-scheduling] LimitRange should create a LimitRange with defaults and ensure pod has those defaults applied. [Conformance]",
        defaults
    ),
    case!(
        "[sig-scheduling] LimitRange should list, patch and delete a LimitRange by collection [Conformance]",
        collection
    ),
];

fn resources(cpu: &str, memory: &str, storage: &str) -> Value {
    let all = [("cpu", cpu), ("memory", memory), ("ephemeral-storage", storage)];
    let some = all.iter().filter(|it| !it.1.is_empty());
    some.map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn range(minimum: &Value) -> Value {
    json!({ "spec": { "limits": [{
        "type": "Container",
        "min": minimum,
        "max": resources("500m", "500Mi", "500Gi"),
        "default": resources("500m", "500Mi", "500Gi"),
        "defaultRequest": resources("100m", "200Mi", "200Gi"),
    }] } })
}

fn pod(name: &str, requests: &Value, limits: &Value) -> Value {
    let mut pod = pods::idle(name);
    pod["spec"]["containers"][0]["resources"] = json!({ "requests": requests, "limits": limits });
    pod
}

async fn collection(scope: &Scope) -> Result<()> {
    let ranges = Operations {
        group_version: "v1",
        resource: "limitranges",
        kind: "LimitRange",
        is_namespaced: true,
        object: range(&resources("50m", "100Mi", "100Gi")),
        change: range(&resources("9m", "49Mi", "49Gi")),
        status: None,
        names: None,
    };
    ranges.check(scope).await?;

    // A collection is that of one namespace, and the other's stays.
    let other = scope.another_namespace("other").await?;
    let mut object = range(&resources("50m", "100Mi", "100Gi"));
    object["metadata"] = json!({ "name": "range", "labels": { "conformance": scope.suffix } });
    let (here, there) =
        (scope.own("v1", "limitranges"), scope.in_namespace(&other, "v1", "limitranges"));
    here.create(&object).await?;
    there.create(&object).await?;
    let everywhere = scope.all("v1", "limitranges");
    count("in all namespaces", &everywhere.labeled(&selector(scope)).await?, 2)?;
    here.delete_all(&[("labelSelector", &*selector(scope))]).await?;
    count("in all namespaces, then", &everywhere.labeled(&selector(scope)).await?, 1)
}

async fn defaults(scope: &Scope) -> Result<()> {
    let ranges = scope.own("v1", "limitranges");
    let mut watch = ranges.watch_from_now(&[]).await?;
    let mut object = range(&resources("50m", "100Mi", "100Gi"));
    object["metadata"] = json!({ "name": "range" });
    ranges.create(&object).await?;
    watch.expect("ADDED", &object).await?;
    shows(&ranges.get("range").await?, &object)?;

    let pods = scope.own("v1", "pods");
    let none = json!({});
    let small = resources("10m", "50Mi", "50Gi");
    let large = resources("600m", "600Mi", "600Gi");
    let gets = async |pod: &Value, requests: Value, limits: Value| -> Result<()> {
        let made = pods.create(pod).await?;
        let seen = &made["spec"]["containers"][0]["resources"];
        same("resources", seen, &json!({ "requests": requests, "limits": limits }))
    };
    // Servers may remember the range of a moment ago.
    scope
        .until("the range counts", async || {
            let outcome =
                pods.create_with(&pod("probe", &small, &none), &[("dryRun", "All")]).await;
            refused("less than the least", outcome, 403).map(drop)
        })
        .await?;
    let (requests, limits) =
        (resources("100m", "200Mi", "200Gi"), resources("500m", "500Mi", "500Gi"));
    gets(&pod("none", &none, &none), requests, limits).await?;
    let partial = pod("partial", &resources("", "150Mi", "150Gi"), &resources("300m", "", ""));
    let (requests, limits) =
        (resources("300m", "150Mi", "150Gi"), resources("300m", "500Mi", "500Gi"));
    gets(&partial, requests, limits).await?;
    refused("less than the least", pods.create(&pod("small", &small, &none)).await, 403)?;
    refused("more than the most", pods.create(&pod("large", &large, &large)).await, 403)?;

    let minimum = resources("9m", "49Mi", "49Gi");
    ranges.change("range", None, |it| it["spec"]["limits"][0]["min"] = minimum.clone()).await?;
    scope.until("less is enough", async || pods.create(&pod("small", &small, &none)).await).await?;
    refused("more than the most", pods.create(&pod("large", &large, &large)).await, 403)?;
    ranges.delete("range").await?;
    scope
        .until("nothing is too much", async || pods.create(&pod("large", &large, &large)).await)
        .await
        .map(drop)
}
