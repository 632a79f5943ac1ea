//! Webhooks in pods: what they change, refuse and convert, and what holds when they do not answer.

mod conditions;
mod conversion;
mod custom;
mod hook;
mod selecting;

use std::time::Duration;

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cases::{Case, case};
use crate::client::Patch;
use crate::expect::{count, refusal, refused, says, shows};
use crate::scope::{Scope, selector};
use hook::{GROUP, Hook, Kind, rule};

pub(crate) const CASES: &[Case] = &[
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] listing mutating webhooks should work [Conformance]",
        listing_mutating
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] listing validating webhooks should work [Conformance]",
        listing_validating
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] patching/updating a mutating webhook should work [Conformance]",
        changing_mutating
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] patching/updating a validating webhook should work [Conformance]",
        changing_validating
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should be able to create and update mutating webhook configurations with match conditions [Conformance]",
        conditions::mutating
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should be able to create and update validating webhook configurations with match conditions [Conformance]",
        conditions::validating
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should be able to deny attaching pod [Conformance]",
        attaching
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should be able to deny custom resource creation, update and deletion [Conformance]",
        custom::denied
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should be able to deny pod and configmap creation [Conformance]",
        denied
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should deny crd creation [Conformance]",
        custom::definition_denied
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should honor timeout [Conformance]",
        timeouts
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should include webhook resources in discovery documents [Conformance]",
        discovery
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should mutate configmap [Conformance]",
        chained
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should mutate custom resource [Conformance]",
        custom::mutated
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should mutate custom resource with different stored version [Conformance]",
        custom::stored_otherwise
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should mutate custom resource with pruning [Conformance]",
        custom::pruned
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should mutate everything except 'skip-me' configmaps [Conformance]",
        conditions::skipped
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should mutate pod and apply defaults after mutation [Conformance]",
        defaults
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should not be able to mutate or prevent deletion of webhook configuration objects [Conformance]",
        configurations_are_exempt
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should reject mutating webhook configurations with invalid match conditions [Conformance]",
        conditions::invalid_mutating
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should reject validating webhook configurations with invalid match conditions [Conformance]",
        conditions::invalid_validating
    ),
    case!(
        "[sig-api-machinery] AdmissionWebhook [Privileged:ClusterAdmin] should unconditionally reject operations on fail closed webhook [Conformance]",
        fails_closed
    ),
    case!(
        "[sig-api-machinery] CustomResourceConversionWebhook [Privileged:ClusterAdmin] should be able to convert a non homogeneous list of CRs [Conformance]",
        conversion::mixed_list
    ),
    case!(
        "[sig-api-machinery] CustomResourceConversionWebhook [Privileged:ClusterAdmin] should be able to convert from CR v1 to CR v2 [Conformance]",
        conversion::one_version_to_the_other
    ),
    case!(
        "[sig-api-machinery] CustomResourceFieldSelectors [Privileged:ClusterAdmin] CustomResourceFieldSelectors MUST list and watch custom resources matching the field selector [Conformance]",
        selecting::selected_by_fields
    ),
];

const ADDED: &str = "/data/added";
const NO: &str = "/deny/no";

fn maps() -> Value {
    rule(&["CREATE"], "configmaps")
}

/// A new config map: whether the webhook has changed it.
async fn is_changed(scope: &Scope) -> Result<bool> {
    let map = json!({ "metadata": { "generateName": "map-" } });
    let made = scope.own("v1", "configmaps").create(&map).await?;
    Ok(made["data"]["added"] == "yes")
}

async fn until_changed(scope: &Scope, expected: bool) -> Result<()> {
    scope
        .until("config maps are changed or not", async || {
            ensure!(is_changed(scope).await? == expected, "expected {expected}");
            Ok(())
        })
        .await
}

async fn until_refused(scope: &Scope, expected: bool) -> Result<()> {
    scope
        .until("config maps are refused or not", async || {
            let made = is_changed(scope).await;
            ensure!(made.is_err() == expected, "expected {expected}");
            if expected {
                let message = refusal("a config map", made)?.message().to_owned();
                says("the refusal", &message, &["denied the request: no"])?;
            }
            Ok(())
        })
        .await
}

async fn listing_mutating(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    for name in ["a", "b"] {
        hook.register(Kind::Mutating, name, &[hook.at(ADDED, maps())]).await?;
    }
    let all = scope.all(GROUP, Kind::Mutating.resource()).labeled(&selector(scope)).await?;
    count("configurations", &all, 2)?;
    until_changed(scope, true).await?;
    hook.unregister(Kind::Mutating).await?;
    until_changed(scope, false).await
}

async fn listing_validating(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    for name in ["a", "b"] {
        hook.register(Kind::Validating, name, &[hook.at(NO, maps())]).await?;
    }
    let all = scope.all(GROUP, Kind::Validating.resource()).labeled(&selector(scope)).await?;
    count("configurations", &all, 2)?;
    until_refused(scope, true).await?;
    hook.unregister(Kind::Validating).await?;
    until_refused(scope, false).await
}

/// Without and with CREATE, by a PUT and by a patch.
async fn switch(scope: &Scope, kind: Kind, name: &str, is_on: bool) -> Result<()> {
    let configurations = scope.all(GROUP, kind.resource());
    match is_on {
        false => {
            let operations = json!(["UPDATE"]);
            let change =
                |it: &mut Value| it["webhooks"][0]["rules"][0]["operations"] = operations.clone();
            configurations.change(name, None, change).await?;
        }
        true => {
            let path = "/webhooks/0/rules/0/operations";
            let patch = json!([{ "op": "replace", "path": path, "value": ["CREATE"] }]);
            configurations.patch(name, Patch::Json, &patch).await?;
        }
    }
    Ok(())
}

async fn changing_mutating(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let name = hook.register(Kind::Mutating, "one", &[hook.at(ADDED, maps())]).await?;
    until_changed(scope, true).await?;
    switch(scope, Kind::Mutating, &name, false).await?;
    until_changed(scope, false).await?;
    switch(scope, Kind::Mutating, &name, true).await?;
    until_changed(scope, true).await
}

async fn changing_validating(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let name = hook.register(Kind::Validating, "one", &[hook.at(NO, maps())]).await?;
    until_refused(scope, true).await?;
    switch(scope, Kind::Validating, &name, false).await?;
    until_refused(scope, false).await?;
    switch(scope, Kind::Validating, &name, true).await?;
    until_refused(scope, true).await
}

async fn attaching(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let connect = rule(&["CONNECT"], "pods/attach");
    hook.register(Kind::Validating, "attach", &[hook.at("/deny/not-attached", connect)]).await?;
    let pods = scope.own("v1", "pods").labeled("app=hook").await?;
    let name = crate::expect::name(&crate::expect::items(&pods)?[0])?.to_owned();
    let path = format!("{}?stdout=true", scope.own("v1", "pods").object(&format!("{name}/attach")));
    scope
        .until("attaching is refused", async || {
            let answer = scope.send(Method::POST, &path, &[], Vec::new()).await?;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            says("the refusal", &text, &["denied the request: not-attached"])
        })
        .await
}

async fn denied(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let marked = "/deny-marked/mark";
    let pods = rule(&["CREATE"], "pods");
    let exempt = scope.another_namespace("exempt").await?;
    let own = json!({ "matchLabels": { "kubernetes.io/metadata.name": scope.namespace } });
    let mut webhooks = [hook.at(marked, maps()), hook.at(marked, pods)];
    for (index, webhook) in webhooks.iter_mut().enumerate() {
        webhook["name"] = json!(format!("marked-{index}.example.com"));
        webhook["namespaceSelector"] = own.clone();
    }
    hook.register(Kind::Validating, "marked", &webhooks).await?;
    let bad = json!({ "metadata": { "generateName": "map-" }, "data": { "mark": "deny" } });
    let (own, maps_there) =
        (scope.own("v1", "configmaps"), scope.in_namespace(&exempt, "v1", "configmaps"));
    scope
        .until("what is marked is refused", async || {
            let refusal = refused("a config map", own.create(&bad).await, 403)?;
            says("the refusal", refusal.message(), &["denied the request", "marked by mark"])
        })
        .await?;
    let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.10.2" });
    let pod = json!({
        "metadata": { "name": "bad", "labels": { "mark": "deny" } },
        "spec": { "schedulerName": "nobody", "containers": [container] },
    });
    refused("a pod", scope.own("v1", "pods").create(&pod).await, 403)?;
    let fine = json!({ "metadata": { "name": "fine" } });
    own.create(&fine).await?;
    // What is made bad later is refused, too, once changes are asked about.
    let name = scope.unique("marked");
    let both = json!(["CREATE", "UPDATE"]);
    let change = |it: &mut Value| it["webhooks"][0]["rules"][0]["operations"] = both.clone();
    scope.all(GROUP, Kind::Validating.resource()).change(&name, None, change).await?;
    scope
        .until("a bad change is refused", async || {
            let patch = json!({ "data": { "mark": "deny" } });
            refused("a change", own.patch("fine", Patch::Merge, &patch).await, 403).map(drop)
        })
        .await?;
    maps_there.create(&bad).await?;
    Ok(())
}

async fn timeouts(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let slow = |seconds: Option<i32>, policy: &str| {
        let mut webhook = hook.at("/delay/5", maps());
        webhook["failurePolicy"] = json!(policy);
        if let Some(seconds) = seconds {
            webhook["timeoutSeconds"] = json!(seconds);
        }
        webhook
    };
    let deny = hook.at(NO, maps());
    // Once this refuses, what is registered with it is asked, too.
    for (seconds, policy, is_refused) in [
        (Some(1), "Fail", true),
        (Some(1), "Ignore", false),
        (Some(10), "Fail", false),
        (None, "Fail", false),
    ] {
        let name = hook.register(Kind::Validating, "slow", std::slice::from_ref(&deny)).await?;
        until_refused(scope, true).await?;
        let webhooks = json!([slow(seconds, policy)]);
        let change = |it: &mut Value| it["webhooks"] = webhooks.clone();
        scope.all(GROUP, Kind::Validating.resource()).change(&name, None, change).await?;
        let begin = scope
            .until("the slow one is asked", async || {
                let begin = Instant::now();
                let made = is_changed(scope).await;
                if let Err(err) = &made {
                    let text = format!("{err:#}");
                    ensure!(!text.contains("denied the request"), "still the other one");
                    says("the refusal", &text, &["timeout=1s", "context deadline exceeded"])?;
                }
                ensure!(made.is_err() == is_refused, "{seconds:?} {policy}: {made:?}");
                ensure!(begin.elapsed() >= Duration::from_millis(900), "nobody was asked");
                Ok(begin.elapsed())
            })
            .await?;
        ensure!(seconds == Some(1) || begin >= Duration::from_millis(4900), "{begin:?}");
        scope.all(GROUP, Kind::Validating.resource()).delete(&name).await?;
        until_refused(scope, false).await?;
    }
    Ok(())
}

async fn discovery(scope: &Scope) -> Result<()> {
    let groups = scope.document("/apis").await?;
    let group = groups["groups"].as_array().and_then(|all| {
        all.iter().find(|it| it["name"] == "admissionregistration.k8s.io").cloned()
    });
    let version = json!({ "groupVersion": GROUP, "version": "v1" });
    let listed =
        |group: &Value| group["versions"].as_array().is_some_and(|it| it.contains(&version));
    ensure!(group.as_ref().is_some_and(listed), "{group:?}");
    let group = scope.document("/apis/admissionregistration.k8s.io").await?;
    ensure!(listed(&group), "{group}");
    let resources = scope.document(&format!("/apis/{GROUP}")).await?;
    for kind in [Kind::Mutating, Kind::Validating] {
        let all = resources["resources"].as_array().map_or(&[][..], |it| it);
        let found = all.iter().any(|it| it["name"] == kind.resource());
        ensure!(found, "{} is not in {resources}", kind.resource());
    }
    Ok(())
}

async fn chained(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let webhooks = [hook.at("/data/first", maps()), hook.at("/data/second", maps())];
    hook.register(Kind::Mutating, "two", &webhooks).await?;
    scope
        .until("both have changed it", async || {
            let map = json!({ "metadata": { "generateName": "map-" }, "data": { "start": "yes" } });
            let made = scope.own("v1", "configmaps").create(&map).await?;
            shows(&made, &json!({ "data": { "start": "yes", "first": "yes", "second": "yes" } }))
        })
        .await
}

async fn defaults(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let pods = rule(&["CREATE"], "pods");
    hook.register(Kind::Mutating, "pods", &[hook.at("/container/added", pods)]).await?;
    scope
        .until("a container is added, with its defaults", async || {
            let container = json!({ "name": "main", "image": "registry.k8s.io/pause:3.10.2" });
            let pod = json!({
                "metadata": { "generateName": "pod-" },
                "spec": { "schedulerName": "nobody", "containers": [container] },
            });
            let made = scope.own("v1", "pods").create(&pod).await?;
            let added = &made["spec"]["containers"][1];
            shows(added, &json!({
                "name": "added", "terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent",
            }))
        })
        .await
}

async fn configurations_are_exempt(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let every = json!({
        "operations": ["*"], "apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["*"],
        "resources": ["*"],
    });
    let mut changing = every.clone();
    changing["operations"] = json!(["CREATE", "UPDATE"]);
    hook.register(Kind::Validating, "deny-all", &[hook.at(NO, every)]).await?;
    hook.register(Kind::Mutating, "change-all", &[hook.at("/label/changed", changing)]).await?;
    for kind in [Kind::Mutating, Kind::Validating] {
        let name = hook.register(kind, "dummy", &[hook.at("/allow", maps())]).await?;
        let made = scope.all(GROUP, kind.resource()).get(&name).await?;
        ensure!(made["metadata"]["labels"]["changed"].is_null(), "{made}");
        scope.all(GROUP, kind.resource()).delete(&name).await?;
    }
    Ok(())
}

async fn fails_closed(scope: &Scope) -> Result<()> {
    let hook = Hook::start(scope).await?;
    let mut webhook = hook.at("/allow", maps());
    webhook["failurePolicy"] = json!("Fail");
    // Nobody that this machine trusts has signed its certificate.
    if let Some(client) = webhook["clientConfig"].as_object_mut() {
        client.remove("caBundle");
    }
    hook.register(Kind::Validating, "closed", &[webhook]).await?;
    scope
        .until("whatever is written is refused", async || {
            let refusal = refused("a config map", is_changed(scope).await, 500)?;
            says("the refusal", refusal.message(), &["failed calling webhook", "allow.example.com"])
        })
        .await
}
