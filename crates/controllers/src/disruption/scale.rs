//! How many pods the owners of pods want. The usual owners are in caches; of any other the server
//! is asked for the scale.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Identified as _;
use api::apps::deployment::Deployment;
use api::apps::replica_set::ReplicaSet;
use api::apps::stateful_set::StatefulSet;
use api::core::pod::PodView;
use api::core::replication_controller::ReplicationController;
use apimachinery::{ApiError, GroupVersion, GroupVersionResource, ObjectKey};
use client::Client;
use informer::Indexer;
use k8s_openapi::api::autoscaling::v1::Scale as WireScale;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResourceList, ObjectMeta, OwnerReference};

use super::plan::Scale;
use crate::owners;

pub(super) struct Scales {
    pub replication_controllers: Indexer<ReplicationController>,
    pub replica_sets: Indexer<ReplicaSet>,
    pub deployments: Indexer<Deployment>,
    pub stateful_sets: Indexer<StatefulSet>,
    pub client: Client,
}

impl Scales {
    /// Each owner once. Pods without one are left out; why it is not known what an owner wants is
    /// said in words that go into the budget's status.
    pub(super) async fn of_owners(
        &self,
        namespace: &str,
        pods: &[Arc<PodView>],
    ) -> Result<Vec<Scale>, String> {
        let mut found: BTreeMap<String, i32> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for pod in pods {
            let Some(owner) = pod.controller().filter(|it| seen.insert(it.uid.clone())) else {
                continue;
            };
            let scale = match self.cached(namespace, owner) {
                Some(scale) => Some(scale),
                None => self.asked(namespace, owner).await?,
            };
            let scale = scale
                .ok_or_else(|| format!("found no controllers for pod {:?}", pod.meta.key.name))?;
            found.insert(scale.uid, scale.replicas);
        }
        Ok(found.into_iter().map(|(uid, replicas)| Scale { uid, replicas }).collect())
    }

    fn cached(&self, namespace: &str, owner: &OwnerReference) -> Option<Scale> {
        let group = GroupVersion::parse(&owner.api_version)?.group;
        let key = ObjectKey::new(namespace, &owner.name);
        match (group.as_str(), owner.kind.as_str()) {
            ("", "ReplicationController") => {
                let it = self.replication_controllers.get(&key)?;
                scale(&it.metadata, it.spec.as_ref()?.replicas, owner)
            }
            ("apps" | "extensions", "ReplicaSet") => {
                let it = self.replica_sets.get(&key)?;
                match it.controller().filter(|it| it.kind == "Deployment") {
                    None => scale(&it.metadata, it.spec.as_ref()?.replicas, owner),
                    Some(above) if owners::uid(&it.metadata) == owner.uid => {
                        let key = ObjectKey::new(namespace, &above.name);
                        let deployment = self.deployments.get(&key)?;
                        scale(&deployment.metadata, deployment.spec.as_ref()?.replicas, above)
                    }
                    Some(_) => None,
                }
            }
            ("apps", "StatefulSet") => {
                let it = self.stateful_sets.get(&key)?;
                scale(&it.metadata, it.spec.as_ref()?.replicas, owner)
            }
            _ => None,
        }
    }

    /// `None` if the owner is gone, or is another of that name.
    async fn asked(
        &self,
        namespace: &str,
        owner: &OwnerReference,
    ) -> Result<Option<Scale>, String> {
        let (api_version, kind) = (&owner.api_version, &owner.kind);
        let group = GroupVersion::parse(api_version)
            .ok_or_else(|| format!("unexpected GroupVersion string: {api_version}"))?;
        let served = self.client.discover().await.map_err(|err| err.to_string())?;
        let mut served = served.into_iter().map(|it| (it.kind, it.resource));
        let resource = served.find(|(it, resource)| it == kind && resource.group == group.group);
        let Some((_, resource)) = resource else {
            return Err(format!("no matches for kind {kind:?} in version {api_version:?}"));
        };
        let api = self.client.dynamic(resource.clone());
        match api.get_subresource(namespace, &owner.name, "scale").await {
            Ok(stored) => {
                let scale: WireScale =
                    serde_json::from_slice(&stored.bytes).map_err(|err| err.to_string())?;
                let replicas = scale.spec.and_then(|it| it.replicas);
                Ok(self::scale(&scale.metadata, replicas.or(Some(0)), owner))
            }
            Err(err) if err.is_not_found() => {
                let has = self.has_scale(&resource).await.map_err(|err| err.to_string())?;
                let resource = resource.group_resource();
                let none = || format!("{resource} does not implement the scale subresource");
                if has { Ok(None) } else { Err(none()) }
            }
            Err(err) => Err(err.to_string()),
        }
    }

    async fn has_scale(&self, resource: &GroupVersionResource) -> Result<bool, ApiError> {
        let path = match resource.group.as_str() {
            "" => format!("/api/{}", resource.version),
            group => format!("/apis/{group}/{}", resource.version),
        };
        let document = self.client.get_path(&path).await?;
        let list: APIResourceList = serde_json::from_slice(&document).map_err(|err| {
            ApiError::internal("a discovery document cannot be read").with_source(err)
        })?;
        let wanted = format!("{}/scale", resource.resource);
        Ok(list.resources.iter().any(|it| it.name == wanted && it.kind == "Scale"))
    }
}

/// Of the object that is meant, and no other of its name.
fn scale(meta: &ObjectMeta, replicas: Option<i32>, owner: &OwnerReference) -> Option<Scale> {
    let uid = owners::uid(meta).to_owned();
    (uid == owner.uid).then(|| Scale { uid, replicas: replicas.unwrap_or(1) })
}
