//! Servers of the toolbox in pods behind Services, for cases that are about who asks them.

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::expect::items;
use crate::scope::{Scope, Skipped, named};

/// The image with the tools; another cluster than ours must be told where it has it.
const IMAGE: &str = "xebec.local/toolbox";
const IMAGE_VARIABLE: &str = "XEBEC_TEST_TOOLBOX_IMAGE";
const SIMULATED: &str = "simulated://";

pub(super) fn image() -> String {
    std::env::var(IMAGE_VARIABLE).unwrap_or_else(|_| IMAGE.to_owned())
}

pub(super) fn probe() -> Value {
    json!({
        "httpGet": { "path": "/healthz", "port": 8443, "scheme": "HTTPS" }, "periodSeconds": 1,
    })
}

/// A certificate for a Service, in a Secret; what clients have to trust, in base64.
pub(super) async fn certificate(scope: &Scope, service: &str, secret: &str) -> Result<String> {
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

pub(super) fn deployment(scope: &Scope, name: &str, container: &Value, volumes: &Value) -> Value {
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
pub(super) async fn served(scope: &Scope, name: &str) -> Result<()> {
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
pub(super) async fn needs_real_nodes(scope: &Scope) -> Result<()> {
    let list = scope.all("v1", "nodes").list(&[]).await?;
    let is_real = |node: &Value| {
        let provider = node["spec"]["providerID"].as_str().unwrap_or_default();
        !provider.starts_with(SIMULATED)
    };
    match items(&list)?.iter().any(is_real) {
        true => Ok(()),
        false => Err(Skipped("there is no real node".to_owned()).into()),
    }
}
