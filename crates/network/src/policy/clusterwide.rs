//! ClusterNetworkPolicies, while the cluster has them: their kind is a definition that somebody
//! brings, and may take away.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::apiextensions::CustomResourceDefinition;
use api::{Stored, View};
use apimachinery::{GroupVersionResource, ObjectKey};
use informer::{EventHandler, Factory, Selection, SharedInformer};
use serde::Deserialize;

use super::cluster::{ClusterPolicyView, GROUP, PLURAL, VERSION};

/// Whether the definition of the kind serves the version that is read here.
#[derive(Clone, Debug)]
pub(super) struct DefinitionView {
    is_served: bool,
}

#[derive(Deserialize)]
struct Parts {
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    served: bool,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

impl View for DefinitionView {
    fn resource() -> GroupVersionResource {
        <CustomResourceDefinition as View>::resource()
    }

    fn read(stored: &Stored) -> Result<Self, serde_json::Error> {
        let Parts { spec, status } = serde_json::from_slice(&stored.bytes)?;
        let has_version = spec.versions.iter().any(|it| it.served && it.name == VERSION);
        let is_established = |it: &Condition| it.r#type == "Established" && it.status == "True";
        let is_served = has_version && status.conditions.iter().any(is_established);
        Ok(Self { is_served })
    }
}

type Handler = Arc<dyn EventHandler<ClusterPolicyView>>;

pub(super) struct Clusterwide {
    factory: Arc<Factory>,
    definitions: Arc<SharedInformer<DefinitionView>>,
    handler: Handler,
    followed: Mutex<Option<Arc<SharedInformer<ClusterPolicyView>>>>,
}

impl Clusterwide {
    /// The handlers hear of the definition, and of policies.
    pub(super) fn new(
        factory: &Arc<Factory>,
        of_definition: Arc<dyn EventHandler<DefinitionView>>,
        of_policies: Handler,
    ) -> Self {
        let definitions = factory.informer_of(Selection {
            field_selector: format!("metadata.name={PLURAL}.{GROUP}"),
            ..Selection::default()
        });
        definitions.add_event_handler(of_definition);
        let followed = Mutex::default();
        Self { factory: factory.clone(), definitions, handler: of_policies, followed }
    }

    fn followed(&self) -> MutexGuard<'_, Option<Arc<SharedInformer<ClusterPolicyView>>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins or ceases to follow policies, as the definition is there or not.
    pub(super) fn heed_definition(&self) {
        let is_served = self.definitions.indexer().list().iter().any(|it| it.is_served);
        let mut followed = self.followed();
        if is_served && followed.is_none() {
            let informer = self.factory.informer::<ClusterPolicyView>();
            informer.add_event_handler(self.handler.clone());
            *followed = Some(informer);
        } else if !is_served && followed.take().is_some() {
            self.factory.forget::<ClusterPolicyView>(&Selection::default());
        }
    }

    /// All that are there are known.
    pub(super) async fn is_whole(&self) {
        self.definitions.wait_for_sync().await;
        self.heed_definition();
        let followed = self.followed().clone();
        if let Some(followed) = followed {
            followed.wait_for_sync().await;
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<ClusterPolicyView>> {
        let followed = self.followed();
        followed.as_ref().and_then(|it| it.indexer().get(&ObjectKey::cluster(name)))
    }

    pub(super) fn names(&self) -> Vec<String> {
        let all = self.followed().as_ref().map(|it| it.indexer().list()).unwrap_or_default();
        all.iter().map(|it| it.key.name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use api::Meta;
    use serde_json::json;

    use super::*;

    #[test]
    fn policies_are_served_once_their_definition_is_established() {
        let check = |version: &str, served: bool, established: &str, expected: bool| {
            let object = json!({
                "spec": {"versions": [{"name": "v1alpha1", "served": true}, {"name": version, "served": served}]},
                "status": {"conditions": [{"type": "Established", "status": established}]},
            });
            let stored = Stored::new(Meta::default(), object.to_string().into());
            assert_eq!(DefinitionView::read(&stored).unwrap().is_served, expected, "{object}");
        };
        check("v1alpha2", true, "True", true);
        check("v1alpha2", true, "False", false);
        check("v1alpha2", false, "True", false);
        check("v1beta1", true, "True", false);
    }
}
