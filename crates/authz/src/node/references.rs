//! What a pod refers to by name in its own namespace. Pure.

use api::core::Pod;
use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, PodSpec, Volume};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    Secret,
    ConfigMap,
    PersistentVolumeClaim,
    ServiceAccount,
}

pub(super) fn refers(pod: &Pod, reference: Reference, name: &str) -> bool {
    let Some(spec) = &pod.spec else { return false };
    match reference {
        Reference::ServiceAccount => spec.service_account_name.as_deref() == Some(name),
        Reference::PersistentVolumeClaim => volumes(spec).any(|it| {
            let claim = it.persistent_volume_claim.as_ref().map(|it| it.claim_name.as_str());
            let pod = pod.metadata.name.as_deref().unwrap_or_default();
            claim == Some(name) || (it.ephemeral.is_some() && format!("{pod}-{}", it.name) == name)
        }),
        Reference::ConfigMap => {
            volumes(spec).any(|it| volume_config_maps(it).any(|it| it == name))
                || environments(spec).any(|it| it.config_map() == Some(name))
        }
        Reference::Secret => {
            spec.image_pull_secrets.iter().flatten().any(|it| it.name == name)
                || volumes(spec).any(|it| volume_secrets(it).any(|it| it == name))
                || environments(spec).any(|it| it.secret() == Some(name))
        }
    }
}

fn volumes(spec: &PodSpec) -> impl Iterator<Item = &Volume> {
    spec.volumes.iter().flatten()
}

fn volume_config_maps(volume: &Volume) -> impl Iterator<Item = &str> {
    let own = volume.config_map.iter().map(|it| it.name.as_str());
    let sources = volume.projected.iter().flat_map(|it| &it.sources).flatten();
    own.chain(sources.flat_map(|it| &it.config_map).map(|it| it.name.as_str()))
}

fn volume_secrets(volume: &Volume) -> impl Iterator<Item = &str> {
    let own = volume.secret.iter().flat_map(|it| &it.secret_name).map(String::as_str);
    let sources = volume.projected.iter().flat_map(|it| &it.sources).flatten();
    let csi = volume.csi.iter().flat_map(|it| &it.node_publish_secret_ref);
    own.chain(sources.flat_map(|it| &it.secret).map(|it| it.name.as_str()))
        .chain(csi.map(|it| it.name.as_str()))
}

/// One place where a container takes its environment from.
enum Environment<'a> {
    One(&'a EnvVar),
    All(&'a EnvFromSource),
}

impl<'a> Environment<'a> {
    fn config_map(&self) -> Option<&'a str> {
        match self {
            Self::One(it) => {
                let key = it.value_from.as_ref()?.config_map_key_ref.as_ref()?;
                Some(&key.name)
            }
            Self::All(it) => Some(&it.config_map_ref.as_ref()?.name),
        }
    }

    fn secret(&self) -> Option<&'a str> {
        match self {
            Self::One(it) => Some(&it.value_from.as_ref()?.secret_key_ref.as_ref()?.name),
            Self::All(it) => Some(&it.secret_ref.as_ref()?.name),
        }
    }
}

fn environments(spec: &PodSpec) -> impl Iterator<Item = Environment<'_>> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let regular = containers.map(|it| (&it.env, &it.env_from));
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|it| (&it.env, &it.env_from));
    regular.chain(ephemeral).flat_map(|(env, env_from)| {
        let one = env.iter().flatten().map(Environment::One);
        one.chain(env_from.iter().flatten().map(Environment::All))
    })
}
