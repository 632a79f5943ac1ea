//! The scale of what an autoscaler scales: any kind that has one, custom ones too.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use api::autoscaling::scale::Scale;
use apimachinery::{ApiError, GroupVersion, GroupVersionResource};
use client::Client;
use k8s_openapi::api::autoscaling::v2::CrossVersionObjectReference;

pub(super) struct Targets {
    client: Client,
    /// Where kinds are served, by group and kind. Only what was found to have a scale: there are no
    /// more than kinds.
    known: Mutex<BTreeMap<(String, String), GroupVersionResource>>,
}

pub(super) struct Target {
    resource: GroupVersionResource,
    pub(super) scale: Scale,
}

impl Target {
    /// What is asked for.
    pub(super) fn wanted(&self) -> i32 {
        self.scale.spec.as_ref().and_then(|it| it.replicas).unwrap_or(0)
    }

    /// What there is.
    pub(super) fn running(&self) -> i32 {
        self.scale.status.as_ref().map_or(0, |it| it.replicas)
    }

    pub(super) fn selector(&self) -> &str {
        let status = self.scale.status.as_ref();
        status.and_then(|it| it.selector.as_deref()).unwrap_or_default()
    }
}

/// Why there is no scale.
pub(super) struct NoScale {
    pub(super) why: String,
    /// Whether the reference cannot mean anything.
    pub(super) is_spec: bool,
}

impl Targets {
    pub(super) fn new(client: Client) -> Self {
        Self { client, known: Mutex::default() }
    }

    pub(super) async fn get(
        &self,
        namespace: &str,
        reference: &CrossVersionObjectReference,
    ) -> Result<Target, NoScale> {
        let version = reference.api_version.as_deref().unwrap_or_default();
        let group = GroupVersion::parse(version).ok_or_else(|| NoScale {
            why: format!("unexpected GroupVersion string: {version}"),
            is_spec: true,
        })?;
        let unknown = |err: ApiError| NoScale { why: err.to_string(), is_spec: false };
        let key = (group.group, reference.kind.clone());
        if let Some(resource) = self.known(&key) {
            match self.scale(namespace, resource, &reference.name).await {
                Ok(target) => return Ok(target),
                // Kinds come and go: it may be served elsewhere by now.
                Err(err) if err.is_not_found() => self.forget(&key),
                Err(err) => return Err(unknown(err)),
            }
        }
        let served = self.client.discover().await.map_err(unknown)?;
        let found = served.into_iter().find(|it| it.resource.group == key.0 && it.kind == key.1);
        let Some(resource) = found.map(|it| it.resource) else {
            let why = format!("no matches for kind {:?} in group {:?}", key.1, key.0);
            return Err(NoScale { why, is_spec: false });
        };
        let target = self.scale(namespace, resource, &reference.name).await.map_err(unknown)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key, target.resource.clone());
        Ok(target)
    }

    pub(super) async fn resource_of(
        &self,
        group: &str,
        kind: &str,
    ) -> Result<GroupVersionResource, ApiError> {
        let served = self.client.discover().await?;
        let found = served.into_iter().find(|it| it.resource.group == group && it.kind == kind);
        found.map(|it| it.resource).ok_or_else(|| {
            ApiError::bad_request(format!("no matches for kind {kind:?} in group {group:?}"))
        })
    }

    /// Once more if somebody else wrote meanwhile: it is the number that counts, and the rest of a
    /// scale is not ours.
    pub(super) async fn set(&self, target: Target, replicas: i32) -> Result<(), ApiError> {
        let namespace = target.scale.metadata.namespace.clone().unwrap_or_default();
        let name = target.scale.metadata.name.clone().unwrap_or_default();
        let resource = target.resource.clone();
        match self.put(target, &namespace, &name, replicas).await {
            Err(err) if err.is_conflict() => {
                let target = self.scale(&namespace, resource, &name).await?;
                self.put(target, &namespace, &name, replicas).await
            }
            other => other,
        }
    }

    async fn put(
        &self,
        mut target: Target,
        namespace: &str,
        name: &str,
        replicas: i32,
    ) -> Result<(), ApiError> {
        target.scale.spec.get_or_insert_default().replicas = Some(replicas);
        let api = self.client.dynamic(target.resource);
        api.update_subresource(namespace, name, "scale", target.scale).await.map(|_| ())
    }

    async fn scale(
        &self,
        namespace: &str,
        resource: GroupVersionResource,
        name: &str,
    ) -> Result<Target, ApiError> {
        let api = self.client.dynamic(resource.clone());
        let stored = api.get_subresource(namespace, name, "scale").await?;
        let scale = serde_json::from_slice(&stored.bytes)
            .map_err(|err| ApiError::internal("a scale cannot be read").with_source(err))?;
        Ok(Target { resource, scale })
    }

    fn known(&self, key: &(String, String)) -> Option<GroupVersionResource> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn forget(&self, key: &(String, String)) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
