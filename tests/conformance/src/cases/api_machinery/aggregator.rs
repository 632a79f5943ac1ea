//! A part of the API that a server in a pod serves: it is found, asked, watched and guarded as if it
//! were the API server's own.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::cases::toolbox::{certificate, deployment, image, needs_real_nodes, probe, served};
use crate::cases::{Case, case};
use crate::client::Patch;
use crate::expect::{count, items, refused, same, says, shows};
use crate::scope::{Scope, named};

pub(crate) const CASES: &[Case] = &[case!(
    "[sig-api-machinery] Aggregator Should be able to support the 1.17 Sample API Server using the current Aggregator [LinuxOnly] [Conformance]",
    another_server
)];

const SERVICES: &str = "apiregistration.k8s.io/v1";
/// What the tool `extension-server` serves.
const GROUP: &str = "wardle.example.com";
const VERSION: &str = "wardle.example.com/v1";
const NAME: &str = "v1.wardle.example.com";

async fn another_server(scope: &Scope) -> Result<()> {
    needs_real_nodes(scope).await?;
    let authority = certificate(scope, "extension", "certs").await?;
    run(scope).await?;
    let service = json!({
        "metadata": named(scope, NAME),
        "spec": {
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 2_000, "versionPriority": 200,
            "service": { "namespace": scope.namespace, "name": "extension" },
            "caBundle": authority,
        },
    });
    let services = scope.all(SERVICES, "apiservices");
    services.create(&service).await?;
    scope
        .until("it is available", async || {
            let service = services.get(NAME).await?;
            let conditions = service["status"]["conditions"].as_array().map_or(&[][..], |it| it);
            let available = conditions.iter().find(|it| it["type"] == "Available");
            ensure!(available.is_some_and(|it| it["status"] == "True"), "{available:?}");
            Ok(())
        })
        .await?;
    discovered(scope).await?;
    objects(scope).await?;
    guarded(scope).await?;
    status(scope).await?;
    services.delete(NAME).await?;
    scope
        .until("nobody is asked any more", async || {
            refused("listing", scope.own(VERSION, "flunders").list(&[]).await, 404).map(drop)
        })
        .await
}

/// The server in a pod, which trusts whom the cluster says that it sends.
async fn run(scope: &Scope) -> Result<()> {
    let facts = scope.in_namespace("kube-system", "v1", "configmaps");
    let facts = facts.get("extension-apiserver-authentication").await?;
    let authority = &facts["data"]["requestheader-client-ca-file"];
    ensure!(authority.is_string(), "who speaks for users is not said: {facts}");
    let names = facts["data"]["requestheader-allowed-names"].as_str().unwrap_or("[]");
    let names: Vec<String> = serde_json::from_str(names)?;
    let proxies = json!({
        "metadata": named(scope, "proxies"), "data": { "ca.crt": authority },
    });
    scope.own("v1", "configmaps").create(&proxies).await?;
    let names = format!("--requestheader-allowed-names={}", names.join(","));
    let container = json!({
        "name": "extension", "image": image(), "readinessProbe": probe(),
        "args": [
            "extension-server", "--tls-cert-file=/certs/tls.crt",
            "--tls-private-key-file=/certs/tls.key",
            "--requestheader-client-ca-file=/proxies/ca.crt", names,
        ],
        "volumeMounts": [
            { "name": "certs", "mountPath": "/certs" }, { "name": "proxies", "mountPath": "/proxies" },
        ],
    });
    let volumes = json!([
        { "name": "certs", "secret": { "secretName": "certs" } },
        { "name": "proxies", "configMap": { "name": "proxies" } },
    ]);
    let deployment = deployment(scope, "extension", &container, &volumes);
    scope.own("apps/v1", "deployments").create(&deployment).await?;
    served(scope, "extension").await
}

/// In discovery and OpenAPI, beside all others.
async fn discovered(scope: &Scope) -> Result<()> {
    let groups = scope.document("/apis").await?;
    let group = groups["groups"].as_array().into_iter().flatten().find(|it| it["name"] == GROUP);
    ensure!(group.is_some(), "the group is not in /apis");
    let resources = scope.document(&format!("/apis/{VERSION}")).await?;
    shows(&resources, &json!({ "groupVersion": VERSION }))?;
    same("its resource", &resources["resources"][0]["name"], &json!("flunders"))?;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    scope
        .until("its documents are merged", async || {
            let answer =
                scope.send(Method::GET, "/apis", &[("accept", accept)], Vec::new()).await?;
            let merged = answer.json()?;
            let mut all = merged["items"].as_array().into_iter().flatten();
            let ours = all.find(|it| it["metadata"]["name"] == GROUP);
            let resource = ours.map(|it| &it["versions"][0]["resources"][0]["resource"]);
            ensure!(resource == Some(&json!("flunders")), "{ours:?}");
            let index = scope.document("/openapi/v3").await?;
            ensure!(index["paths"][format!("apis/{VERSION}")].is_object(), "no OpenAPI of it");
            Ok(())
        })
        .await
}

fn flunder(name: &str, reference: &str) -> Value {
    json!({
        "apiVersion": VERSION, "kind": "Flunder", "metadata": { "name": name },
        "spec": { "reference": reference },
    })
}

/// Made, listed, watched, replaced and deleted through the API server.
async fn objects(scope: &Scope) -> Result<()> {
    let flunders = scope.own(VERSION, "flunders");
    count("flunders", &flunders.list(&[]).await?, 0)?;
    let mut events = flunders.watch_from_now(&[]).await?;
    let made = flunders.create(&flunder("one", "two")).await?;
    events.expect("ADDED", &made).await?;
    refused("making it twice", flunders.create(&flunder("one", "")).await, 409)?;
    let mut changed = flunders.get("one").await?;
    changed["spec"]["reference"] = json!("three");
    let changed = flunders.replace(&changed).await?;
    shows(&changed, &json!({ "spec": { "reference": "three" } }))?;
    events.expect("MODIFIED", &changed).await?;
    let list = flunders.list(&[]).await?;
    shows(&items(&list)?[0], &json!({ "metadata": { "name": "one" } }))?;
    flunders.delete("one").await?;
    let gone = events.next().await?;
    same("the last event", gone.kind.as_str(), "DELETED")?;
    refused("reading", flunders.get("one").await, 404)?;
    Ok(())
}

/// Who may not is refused before that server is asked.
async fn guarded(scope: &Scope) -> Result<()> {
    let path = scope.own(VERSION, "flunders").path;
    let headers = [("impersonate-user", "nobody-of-note")];
    let answer = scope.send(Method::GET, &path, &headers, Vec::new()).await?;
    same("the code for a stranger", answer.code, 403)?;
    let message = answer.json()?["message"].as_str().unwrap_or_default().to_owned();
    says("the refusal", &message, &["\"nobody-of-note\"", "flunders", GROUP])
}

/// The APIService itself can be read, changed and patched, its status too.
async fn status(scope: &Scope) -> Result<()> {
    let services = scope.all(SERVICES, "apiservices");
    let part = services.get_part(NAME, "status").await?;
    shows(&part, &json!({ "kind": "APIService", "metadata": { "name": NAME } }))?;
    let label = json!({ "metadata": { "labels": { "patched": "yes" } } });
    services.patch(NAME, Patch::Merge, &label).await?;
    let condition = json!({
        "type": "StatusUpdated", "status": "True", "reason": "E2E", "message": "Set by a case",
    });
    services
        .change(NAME, Some("status"), |it| {
            if let Some(all) = it["status"]["conditions"].as_array_mut() {
                all.push(condition.clone());
            }
        })
        .await?;
    let service = services.get(NAME).await?;
    shows(&service, &json!({ "metadata": { "labels": { "patched": "yes" } } }))?;
    let conditions = service["status"]["conditions"].as_array().map_or(&[][..], |it| it);
    ensure!(conditions.iter().any(|it| it["type"] == "StatusUpdated"), "{service}");
    let list = services.labeled("patched=yes").await?;
    count("services with the label", &list, 1)
}
