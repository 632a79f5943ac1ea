//! What a case is given: the cluster, a namespace of its own and a suffix that nobody else has. It
//! remembers what was made outside that namespace, so that nothing stays.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::Method;
use rand::TryRngCore as _;
use serde_json::{Value, json};

use crate::client::{Collection, Refusal};
use crate::kubectl::Kubectl;

/// The label of all namespaces that a suite makes.
const LABEL: &str = "conformance";

/// Between two looks at what can only be looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(crate) struct Scope {
    client: kube::Client,
    kubectl: Option<Kubectl>,
    /// Of the case, in lower case letters and digits.
    pub(crate) suffix: String,
    pub(crate) namespace: String,
    /// Paths of what is not in the namespace, and of the namespace itself.
    made: RefCell<Vec<String>>,
    /// What the case waits for.
    doing: RefCell<String>,
}

impl Scope {
    pub(crate) fn new(client: kube::Client, kubectl: Option<Kubectl>) -> Result<Self> {
        let suffix = random_suffix()?;
        let namespace = format!("conformance-{suffix}");
        let (made, doing) = (RefCell::default(), RefCell::default());
        Ok(Self { client, kubectl, suffix, namespace, made, doing })
    }

    /// Makes the namespace and waits until pods can be made in it.
    pub(crate) async fn enter(&self) -> Result<()> {
        self.namespace(&self.namespace).await
    }

    /// A namespace beside the case's own.
    pub(crate) async fn another_namespace(&self, name: &str) -> Result<String> {
        let name = format!("{name}-{}", self.suffix);
        self.namespace(&name).await?;
        Ok(name)
    }

    async fn namespace(&self, name: &str) -> Result<()> {
        let labels = json!({ LABEL: self.suffix });
        let object = json!({ "metadata": { "name": name, "labels": labels } });
        self.all("v1", "namespaces").create(&object).await.context("making a namespace")?;
        let accounts = self.in_namespace(name, "v1", "serviceaccounts");
        self.until("there is a default service account", async || {
            accounts.get("default").await.map(drop)
        })
        .await
    }

    pub(crate) fn client(&self) -> &kube::Client {
        &self.client
    }

    /// What `kubectl` does with this cluster; a case without it is skipped.
    pub(crate) fn kubectl(&self) -> Result<&Kubectl> {
        self.kubectl
            .as_ref()
            .ok_or_else(|| Skipped("there is no kubectl on PATH".to_owned()).into())
    }

    /// A collection in the case's namespace.
    pub(crate) fn own(&self, group_version: &str, resource: &str) -> Collection<'_> {
        self.in_namespace(&self.namespace, group_version, resource)
    }

    /// A collection of a kind without namespaces, or that of all namespaces.
    pub(crate) fn all(&self, group_version: &str, resource: &str) -> Collection<'_> {
        let path = format!("{}/{resource}", root(group_version));
        Collection { scope: self, path }
    }

    pub(crate) fn in_namespace(
        &self,
        namespace: &str,
        group_version: &str,
        resource: &str,
    ) -> Collection<'_> {
        let path = format!("{}/namespaces/{namespace}/{resource}", root(group_version));
        Collection { scope: self, path }
    }

    /// `name-suffix`
    pub(crate) fn unique(&self, name: &str) -> String {
        format!("{name}-{}", self.suffix)
    }

    /// Looks again and again until it is so; the case's time is the bound, and what was wrong last
    /// is told.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        mut look: impl AsyncFnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            match look().await {
                Ok(seen) => return Ok(seen),
                Err(err) if err.is::<Skipped>() => return Err(err),
                Err(err) => self.doing(&format!("waiting until {what}; last: {err:#}")),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    pub(crate) fn doing(&self, what: &str) {
        what.clone_into(&mut self.doing.borrow_mut());
    }

    pub(crate) fn last_doing(&self) -> String {
        self.doing.borrow().clone()
    }

    /// Remembers what was made, unless it goes with its namespace.
    pub(crate) fn made(&self, path: String) {
        let is_namespace =
            path.strip_prefix("/api/v1/namespaces/").is_some_and(|it| !it.contains('/'));
        if is_namespace || !path.contains("/namespaces/") {
            self.made.borrow_mut().push(path);
        }
    }

    /// Deletes what the case made; returns the paths, for a last look at the end.
    pub(crate) async fn leave(&self) -> Result<Vec<String>> {
        let made = self.made.take();
        let mut failures = Vec::new();
        for path in made.iter().rev() {
            match self.call(Method::DELETE, path, &[], Vec::new()).await {
                Ok(_) => {}
                Err(err) if is_absent(&err) => {}
                Err(err) => failures.push(format!("{err:#}")),
            }
        }
        anyhow::ensure!(failures.is_empty(), "cleaning up: {}", failures.join("; "));
        Ok(made)
    }

    /// Waits until the path names nothing any more.
    pub(crate) async fn gone(&self, path: &str) -> Result<()> {
        self.until(&format!("{path} is gone"), async || {
            match self.call(Method::GET, path, &[], Vec::new()).await {
                Err(err) if is_absent(&err) => Ok(()),
                Err(err) => Err(err),
                Ok(object) => Err(anyhow::anyhow!("still there: {}", object["status"])),
            }
        })
        .await
    }
}

/// A case that cannot run here, and why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Skipped(pub(crate) String);

fn is_absent(err: &anyhow::Error) -> bool {
    err.downcast_ref::<Refusal>().is_some_and(|it| it.code == 404)
}

fn root(group_version: &str) -> String {
    let prefix = if group_version.contains('/') { "/apis" } else { "/api" };
    format!("{prefix}/{group_version}")
}

fn random_suffix() -> Result<String> {
    let mut bytes = [0; 8];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes)?;
    Ok(bytes
        .iter()
        .map(|it| char::from(b"bcdfghjklmnpqrstvwxz2456789"[usize::from(*it) % 27]))
        .collect())
}

/// What a case writes into `metadata`: a name and the case's label.
pub(crate) fn named(scope: &Scope, name: &str) -> Value {
    json!({ "name": name, "labels": { LABEL: scope.suffix } })
}

/// Selects what has the case's label.
pub(crate) fn selector(scope: &Scope) -> String {
    format!("{LABEL}={}", scope.suffix)
}
