//! What a namespace's copy of the authority lacks. Pure.

use std::collections::BTreeMap;

use api::core::config_map::ConfigMap;
use api::core::namespace::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::owners;

pub(crate) const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
/// The text that upstream's ConfigMap has.
const DESCRIPTION_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    Create(ConfigMap),
    Update(ConfigMap),
}

/// Only an active namespace has a copy; what others put into its data is taken out.
pub(crate) fn plan(
    namespace: Option<&Namespace>,
    stored: Option<&ConfigMap>,
    root_ca: &str,
) -> Option<Action> {
    let namespace = namespace.filter(|it| !owners::is_deleting(&it.metadata))?;
    let wanted = wanted(stored, owners::name(&namespace.metadata), root_ca);
    match stored {
        Some(stored) if *stored == wanted => None,
        Some(_) => Some(Action::Update(wanted)),
        None => Some(Action::Create(wanted)),
    }
}

fn wanted(stored: Option<&ConfigMap>, namespace: &str, root_ca: &str) -> ConfigMap {
    let mut config_map = stored.cloned().unwrap_or_else(|| ConfigMap {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    });
    let annotations = config_map.metadata.annotations.get_or_insert_default();
    annotations.insert(DESCRIPTION.to_owned(), DESCRIPTION_TEXT.to_owned());
    config_map.data = Some(BTreeMap::from([("ca.crt".to_owned(), root_ca.to_owned())]));
    config_map.binary_data = None;
    config_map
}
