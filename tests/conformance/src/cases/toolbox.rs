//! Servers of the toolbox in pods, and clients of them, for cases that need programs in pods.

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

use super::apps::running::until_ready;
use crate::expect::{items, name, same};
use crate::scope::{Scope, Skipped, named};

/// The image with the tools; another cluster than ours must be told where it has it.
const IMAGE: &str = "xebec.local/toolbox";
const IMAGE_VARIABLE: &str = "XEBEC_TEST_TOOLBOX_IMAGE";
const SIMULATED: &str = "simulated://";

pub(crate) fn image() -> String {
    std::env::var(IMAGE_VARIABLE).unwrap_or_else(|_| IMAGE.to_owned())
}

pub(crate) fn probe() -> Value {
    json!({
        "httpGet": { "path": "/healthz", "port": 8443, "scheme": "HTTPS" }, "periodSeconds": 1,
    })
}

/// A certificate for a Service, in a Secret; what clients have to trust, in base64.
pub(crate) async fn certificate(scope: &Scope, service: &str, secret: &str) -> Result<String> {
    let host = format!("{service}.{}.svc", scope.namespace);
    let certified = rcgen::generate_simple_self_signed(vec![host])?;
    let authority = STANDARD.encode(certified.cert.pem());
    let secret = json!({
        "metadata": named(scope, secret), "type": "kubernetes.io/tls",
        "data": {
            "tls.crt": authority,
            "tls.key": STANDARD.encode(certified.signing_key.serialize_pem()),
        },
    });
    scope.own("v1", "secrets").create(&secret).await?;
    Ok(authority)
}

pub(crate) fn deployment(scope: &Scope, name: &str, container: &Value, volumes: &Value) -> Value {
    let labels = json!({ "app": name });
    json!({
        "metadata": named(scope, name),
        "spec": {
            "replicas": 1, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": {
                "terminationGracePeriodSeconds": 0, "containers": [container],
                "volumes": volumes,
            } },
        },
    })
}

/// Makes the Service of a deployment, and waits until somebody is ready behind it.
pub(crate) async fn served(scope: &Scope, name: &str) -> Result<()> {
    let service = json!({
        "metadata": named(scope, name),
        "spec": { "selector": { "app": name }, "ports": [{ "port": 443, "targetPort": 8443 }] },
    });
    scope.own("v1", "services").create(&service).await?;
    let slices = scope.own("discovery.k8s.io/v1", "endpointslices");
    let selector = format!("kubernetes.io/service-name={name}");
    scope
        .until("the server is ready", async || {
            let list = slices.labeled(&selector).await?;
            let all = items(&list)?.iter().flat_map(|it| it["endpoints"].as_array());
            let is_ready = all.flatten().any(|it| it["conditions"]["ready"] == true);
            ensure!(is_ready, "no endpoint is ready");
            Ok(())
        })
        .await
}

/// Simulated nodes run no programs. Whether a real one is ready is waited for with its pods.
pub(crate) async fn needs_real_nodes(scope: &Scope) -> Result<()> {
    real_node(scope).await.map(drop)
}

/// The name of a node that runs programs.
pub(crate) async fn real_node(scope: &Scope) -> Result<String> {
    let list = scope.all("v1", "nodes").list(&[]).await?;
    let is_real = |node: &&Value| {
        let provider = node["spec"]["providerID"].as_str().unwrap_or_default();
        let is_made_by_a_case = node["spec"]["unschedulable"] == true;
        !provider.starts_with(SIMULATED) && !is_made_by_a_case
    };
    match items(&list)?.iter().find(is_real) {
        Some(node) => Ok(name(node)?.to_owned()),
        None => Err(Skipped("there is no real node".to_owned()).into()),
    }
}

/// Where [`web_server`] listens.
pub(crate) const PORT: u16 = 8080;

/// The template of pods that answer their names over HTTP.
pub(crate) fn web_server(labels: &Value) -> Value {
    let probe = json!({ "httpGet": { "path": "/healthz", "port": PORT }, "periodSeconds": 1 });
    let container = json!({
        "name": "main", "image": image(), "args": ["http", "--drain", "0"],
        "ports": [{ "name": "web", "containerPort": PORT }], "readinessProbe": probe,
    });
    json!({ "metadata": { "labels": labels }, "spec": {
        "terminationGracePeriodSeconds": 1, "containers": [container],
    } })
}

/// What a pod answers by way of the API server.
pub(crate) async fn ask_pod(scope: &Scope, pod: &str) -> Result<String> {
    let path = scope.own("v1", "pods").object(&format!("{pod}:{PORT}/proxy/"));
    let answer = scope.send(Method::GET, &path, &[], Vec::new()).await?;
    let text = String::from_utf8_lossy(&answer.body).trim().to_owned();
    ensure!(answer.code == 200, "GET {path}: expected 200, saw {} {text}", answer.code);
    Ok(text)
}

/// Until there are so many pods with these labels; each of them then answers its own name.
pub(crate) async fn each_answers_its_name(
    scope: &Scope,
    selector: &str,
    expected: usize,
) -> Result<()> {
    for pod in until_ready(scope, selector, expected).await? {
        let pod = name(&pod)?;
        same("the answer", ask_pod(scope, pod).await?.as_str(), pod)?;
    }
    Ok(())
}
