//! A webhook in a pod behind a Service, and configurations that name it.

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::expect::items;
use crate::scope::{Scope, Skipped, named, selector};

pub(super) const GROUP: &str = "admissionregistration.k8s.io/v1";
/// The image with the tool `webhook`; another cluster than ours must be told where it has it.
const IMAGE: &str = "xebec.local/toolbox";
const IMAGE_VARIABLE: &str = "XEBEC_TEST_TOOLBOX_IMAGE";
const SIMULATED: &str = "simulated://";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mutating,
    Validating,
}

impl Kind {
    pub(super) fn resource(self) -> &'static str {
        match self {
            Self::Mutating => "mutatingwebhookconfigurations",
            Self::Validating => "validatingwebhookconfigurations",
        }
    }
}

pub(super) struct Hook<'a> {
    scope: &'a Scope,
    authority: String,
}

impl<'a> Hook<'a> {
    /// Runs it and waits until it answers.
    pub(super) async fn start(scope: &'a Scope) -> Result<Self> {
        needs_real_nodes(scope).await?;
        let host = format!("hook.{}.svc", scope.namespace);
        let certified = rcgen::generate_simple_self_signed(vec![host])?;
        let authority = STANDARD.encode(certified.cert.pem());
        let secret = json!({
            "metadata": named(scope, "certs"), "type": "kubernetes.io/tls",
            "data": {
                "tls.crt": authority,
                "tls.key": STANDARD.encode(certified.signing_key.serialize_pem()),
            },
        });
        scope.own("v1", "secrets").create(&secret).await?;
        scope.own("apps/v1", "deployments").create(&deployment(scope)).await?;
        let service = json!({
            "metadata": named(scope, "hook"),
            "spec": { "selector": { "app": "hook" }, "ports": [{ "port": 443, "targetPort": 8443 }] },
        });
        scope.own("v1", "services").create(&service).await?;
        let slices = scope.own("discovery.k8s.io/v1", "endpointslices");
        scope
            .until("the webhook is ready", async || {
                let list = slices.labeled("kubernetes.io/service-name=hook").await?;
                let all = items(&list)?.iter().flat_map(|it| it["endpoints"].as_array());
                let is_ready = all.flatten().any(|it| it["conditions"]["ready"] == true);
                ensure!(is_ready, "no endpoint is ready");
                Ok(())
            })
            .await?;
        Ok(Self { scope, authority })
    }

    /// Where it is asked what `path` says.
    pub(super) fn client_config(&self, path: &str) -> Value {
        json!({
            "service": { "namespace": self.scope.namespace, "name": "hook", "path": path },
            "caBundle": self.authority,
        })
    }

    /// A webhook that is asked at `path` about what the rule says, in the case's namespaces alone.
    pub(super) fn at(&self, path: &str, rule: Value) -> Value {
        let labels = json!({ "matchLabels": { "conformance": self.scope.suffix } });
        json!({
            "name": format!("{}.example.com", path.trim_matches('/').replace('/', "-")),
            "clientConfig": self.client_config(path),
            "rules": [rule], "namespaceSelector": labels, "sideEffects": "None",
            "admissionReviewVersions": ["v1", "v1beta1"],
        })
    }

    /// Makes a configuration of these; its name.
    pub(super) async fn register(
        &self,
        kind: Kind,
        name: &str,
        webhooks: &[Value],
    ) -> Result<String> {
        let name = self.scope.unique(name);
        let object = json!({ "metadata": named(self.scope, &name), "webhooks": webhooks });
        self.scope.all(GROUP, kind.resource()).create(&object).await?;
        Ok(name)
    }

    /// Deletes the configurations of the case.
    pub(super) async fn unregister(&self, kind: Kind) -> Result<()> {
        let own = selector(self.scope);
        self.scope.all(GROUP, kind.resource()).delete_all(&[("labelSelector", &own)]).await?;
        Ok(())
    }
}

pub(super) fn rule(operations: &[&str], resource: &str) -> Value {
    json!({
        "operations": operations, "apiGroups": [""], "apiVersions": ["v1"],
        "resources": [resource],
    })
}

fn deployment(scope: &Scope) -> Value {
    let image = std::env::var(IMAGE_VARIABLE).unwrap_or_else(|_| IMAGE.to_owned());
    let labels = json!({ "app": "hook" });
    let probe = json!({
        "httpGet": { "path": "/healthz", "port": 8443, "scheme": "HTTPS" }, "periodSeconds": 1,
    });
    let container = json!({
        "name": "hook", "image": image, "args": ["webhook"], "readinessProbe": probe,
        "volumeMounts": [{ "name": "certs", "mountPath": "/certs" }],
    });
    json!({
        "metadata": named(scope, "hook"),
        "spec": {
            "replicas": 1, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": {
                "terminationGracePeriodSeconds": 0, "containers": [container],
                "volumes": [{ "name": "certs", "secret": { "secretName": "certs" } }],
            } },
        },
    })
}

/// Simulated nodes run no programs.
async fn needs_real_nodes(scope: &Scope) -> Result<()> {
    let list = scope.all("v1", "nodes").list(&[]).await?;
    let is_real = |node: &&Value| {
        let conditions = node["status"]["conditions"].as_array().map_or(&[][..], |it| it);
        let is_ready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True");
        let provider = node["spec"]["providerID"].as_str().unwrap_or_default();
        is_ready && !provider.starts_with(SIMULATED)
    };
    match items(&list)?.iter().any(|it| is_real(&it)) {
        true => Ok(()),
        false => Err(Skipped("no real node is ready".to_owned()).into()),
    }
}
