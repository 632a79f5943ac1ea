//! Which ConfigMaps and Secrets of its namespace a pod refers to, and whether to ClusterTrustBundles.
//! Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, Pod, PodSpec};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// All of the cluster, under no name: a signer's are known by what they say.
    ClusterTrustBundles,
    ConfigMap,
    /// All of this node, under no name: the kubelet makes them itself.
    PodCertificateRequests,
    Secret,
}

pub(crate) fn references(pod: &Pod) -> BTreeSet<(Kind, String)> {
    let mut found = BTreeSet::new();
    let Some(spec) = &pod.spec else { return found };
    for volume in spec.volumes.iter().flatten() {
        found.extend(crate::volumes::objects(volume));
    }
    for (one, all) in environments(spec) {
        one.iter().for_each(|it| of_variable(it, &mut found));
        all.iter().for_each(|it| of_all(it, &mut found));
    }
    for secret in spec.image_pull_secrets.iter().flatten() {
        found.insert((Kind::Secret, secret.name.clone()));
    }
    found
}

type Environment<'a> = (&'a [EnvVar], &'a [EnvFromSource]);

fn environments(spec: &PodSpec) -> Vec<Environment<'_>> {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let own = containers.map(|it| {
        (it.env.as_deref().unwrap_or_default(), it.env_from.as_deref().unwrap_or_default())
    });
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|it| {
        (it.env.as_deref().unwrap_or_default(), it.env_from.as_deref().unwrap_or_default())
    });
    own.chain(ephemeral).collect()
}

fn of_variable(variable: &EnvVar, found: &mut BTreeSet<(Kind, String)>) {
    let Some(source) = &variable.value_from else { return };
    if let Some(key) = &source.config_map_key_ref {
        found.insert((Kind::ConfigMap, key.name.clone()));
    }
    if let Some(key) = &source.secret_key_ref {
        found.insert((Kind::Secret, key.name.clone()));
    }
}

fn of_all(source: &EnvFromSource, found: &mut BTreeSet<(Kind, String)>) {
    if let Some(source) = &source.config_map_ref {
        found.insert((Kind::ConfigMap, source.name.clone()));
    }
    if let Some(source) = &source.secret_ref {
        found.insert((Kind::Secret, source.name.clone()));
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::references;

    #[test]
    fn every_place_that_can_name_an_object_is_looked_at() {
        let pod: Pod = serde_json::from_value(json!({ "spec": {
            "imagePullSecrets": [{ "name": "pull" }],
            "volumes": [
                { "name": "a", "configMap": { "name": "volume" } },
                { "name": "b", "secret": { "secretName": "volume" } },
                { "name": "c", "projected": { "sources": [
                    { "configMap": { "name": "projected" } }, { "secret": { "name": "projected" } },
                    { "clusterTrustBundle": { "name": "ca", "path": "ca" } },
                    { "podCertificate": { "signerName": "a.io/b", "keyType": "ED25519" } }] } },
            ],
            "initContainers": [{ "name": "i", "envFrom": [
                { "configMapRef": { "name": "all" } }, { "secretRef": { "name": "all" } }] }],
            "containers": [{ "name": "c", "env": [
                { "name": "A", "valueFrom": { "configMapKeyRef": { "name": "one", "key": "k" } } },
                { "name": "B", "valueFrom": { "secretKeyRef": { "name": "one", "key": "k" } } }] }],
        } }))
        .unwrap();
        let found: Vec<String> =
            references(&pod).into_iter().map(|(kind, name)| format!("{kind:?} {name}")).collect();
        assert_eq!(
            found,
            [
                "ClusterTrustBundles ",
                "ConfigMap all",
                "ConfigMap one",
                "ConfigMap projected",
                "ConfigMap volume",
                "PodCertificateRequests ",
                "Secret all",
                "Secret one",
                "Secret projected",
                "Secret pull",
                "Secret volume",
            ]
        );
    }
}
