//! Objects that are there for real, on both servers, and are removed again: in namespaces of the
//! run's own, or of names that examples have.

use serde_json::{Value, json};

use crate::Result;
use crate::requests::Live;
use crate::server::Server;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
/// Of a deletion: what holds an object back is taken away in between.
const TRIES_MAX: usize = 5;

/// Upstream first.
pub(crate) type Pair = [Server; 2];

/// With the service account that pods of it need.
pub(crate) async fn create_namespace(pair: &mut Pair, name: &str) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    for server in pair {
        server.call("POST", "/api/v1/namespaces", JSON, &namespace.to_string()).await?;
        let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
        server.call("POST", &accounts, JSON, &account.to_string()).await?;
    }
    Ok(())
}

/// Nobody need be there who empties it.
pub(crate) async fn delete_namespace(pair: &mut Pair, name: &str) -> Result<()> {
    for server in pair {
        delete_from(server, "/api/v1/namespaces", name).await?;
    }
    Ok(())
}

/// The object on both servers, or nothing if one of them refuses it.
pub(crate) async fn create(
    pair: &mut Pair,
    collection: &str,
    manifest: &Value,
) -> Result<Option<Live>> {
    let name = manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let mut body = manifest.clone();
    reach_nobody(&mut body);
    let mut shown = Vec::new();
    for server in pair.iter_mut() {
        delete_from(server, collection, &name).await?;
        let answer = server.call("POST", collection, JSON, &body.to_string()).await?;
        if answer.code == 201 {
            shown.push(answer.body);
        }
    }
    match <[Value; 2]>::try_from(shown) {
        Ok(shown) => Ok(Some(Live { manifest: body, shown })),
        Err(_) => {
            delete(pair, collection, &name).await?;
            Ok(None)
        }
    }
}

/// Gives the object that is there a status, where both servers take it.
pub(crate) async fn give_status(
    pair: &mut Pair,
    collection: &str,
    live: &mut Live,
    status: &Value,
) -> Result<()> {
    let name = live.manifest["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("{collection}/{name}/status");
    let patch = json!({ "status": status }).to_string();
    for (server, shown) in pair.iter_mut().zip(&mut live.shown) {
        let answer = server.call("PATCH", &path, MERGE, &patch).await?;
        if answer.code != 200 {
            return Err(format!("{path}: {}", answer.body["message"]).into());
        }
        *shown = answer.body;
    }
    Ok(())
}

pub(crate) async fn delete(pair: &mut Pair, collection: &str, name: &str) -> Result<()> {
    for server in pair {
        delete_from(server, collection, name).await?;
    }
    Ok(())
}

/// Whatever may hold it back.
async fn delete_from(server: &mut Server, collection: &str, name: &str) -> Result<()> {
    let path = format!("{collection}/{name}");
    for _ in 0..TRIES_MAX {
        let now = format!("{path}?gracePeriodSeconds=0&propagationPolicy=Background");
        let answer = server.call("DELETE", &now, JSON, "").await?;
        if answer.code == 404 {
            return Ok(());
        }
        let found = server.get(&path).await?;
        if found.code == 404 {
            return Ok(());
        }
        let free = json!({"metadata": {"finalizers": null}}).to_string();
        server.call("PATCH", &path, MERGE, &free).await?;
        if found.body["kind"] == "Namespace" {
            let mut namespace = found.body;
            namespace["spec"]["finalizers"] = json!([]);
            server.call("PUT", &format!("{path}/finalize"), JSON, &namespace.to_string()).await?;
        }
    }
    Err(format!("{path} cannot be deleted").into())
}

/// What decides about the objects of others decides about none.
fn reach_nobody(object: &mut Value) {
    let nobody = json!({"matchLabels": {"differ": "nobody"}});
    if let Some(webhooks) = object.get_mut("webhooks").and_then(Value::as_array_mut) {
        webhooks.iter_mut().for_each(|it| it["namespaceSelector"] = nobody.clone());
    }
    if object["kind"].as_str().is_some_and(|it| it.ends_with("AdmissionPolicyBinding")) {
        object["spec"]["matchResources"]["namespaceSelector"] = nobody;
    }
}
