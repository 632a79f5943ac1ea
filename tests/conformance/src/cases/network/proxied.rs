//! Servers that are asked by way of the API server: a pod or a Service, a port by number or by name,
//! with TLS and without.

use anyhow::{Result, ensure};
use http::Method;
use serde_json::json;

use crate::cases::apps::running::until_ready;
use crate::cases::{Case, case, toolbox};
use crate::scope::Scope;

pub(crate) const CASES: &[Case] = &[case!(
    "[sig-network] Proxy version v1 should proxy through a service and a pod [Conformance]",
    every_way
)];

async fn every_way(scope: &Scope) -> Result<()> {
    toolbox::needs_real_nodes(scope).await?;
    toolbox::certificate(scope, "web", "certs").await?;
    let mut pod = toolbox::web_server(&json!({ "app": "web" }));
    pod["metadata"]["name"] = json!("web");
    let secure = json!({
        "name": "secure", "image": toolbox::image(), "args": ["webhook"],
        "readinessProbe": toolbox::probe(),
        "ports": [{ "name": "secure", "containerPort": 8443 }],
        "volumeMounts": [{ "name": "certs", "mountPath": "/certs" }],
    });
    if let Some(containers) = pod["spec"]["containers"].as_array_mut() {
        containers.push(secure);
    }
    pod["spec"]["volumes"] = json!([{ "name": "certs", "secret": { "secretName": "certs" } }]);
    scope.own("v1", "pods").create(&pod).await?;
    until_ready(scope, "app=web", 1).await?;
    let ports = json!([
        { "name": "plain", "port": 80, "targetPort": toolbox::PORT },
        { "name": "safe", "port": 443, "targetPort": "secure" },
    ]);
    let spec = json!({ "selector": { "app": "web" }, "ports": ports });
    let services = scope.own("v1", "services");
    services.create(&json!({ "metadata": { "name": "web" }, "spec": spec })).await?;
    let pods = scope.own("v1", "pods");
    for (collection, way) in [
        (&pods, "web:8080"),
        (&pods, "http:web:8080"),
        (&pods, "https:web:8443"),
        (&services, "web:80"),
        (&services, "web:plain"),
        (&services, "http:web:plain"),
        (&services, "https:web:443"),
        (&services, "https:web:safe"),
    ] {
        let path = format!("{}/proxy/healthz", collection.object(way));
        scope
            .until(&format!("{path} is answered"), async || {
                let answer = scope.send(Method::GET, &path, &[], Vec::new()).await?;
                let text = String::from_utf8_lossy(&answer.body).into_owned();
                ensure!(answer.code == 200, "expected 200, saw {} {text}", answer.code);
                Ok(())
            })
            .await?;
    }
    Ok(())
}
