//! A webhook in a pod behind a Service, and configurations that name it.

use anyhow::Result;
use serde_json::{Value, json};

use crate::cases::toolbox::{certificate, image, needs_real_nodes, probe, served};
use crate::scope::{Scope, named, selector};

pub(super) const GROUP: &str = "admissionregistration.k8s.io/v1";

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
        let authority = certificate(scope, "hook", "certs").await?;
        scope.own("apps/v1", "deployments").create(&deployment(scope)).await?;
        served(scope, "hook").await?;
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
    let container = json!({
        "name": "hook", "image": image(), "args": ["webhook"], "readinessProbe": probe(),
        "volumeMounts": [{ "name": "certs", "mountPath": "/certs" }],
    });
    let volumes = json!([{ "name": "certs", "secret": { "secretName": "certs" } }]);
    crate::cases::toolbox::deployment(scope, "hook", &container, &volumes)
}
