//! What a pod refers to by name in its own namespace. Who may run a pod on a node decides by this
//! what the node may read, so that a field forgotten here is a hole or an outage: a test compares
//! it with the schema.

#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, PodSpec, Volume};

/// The Secrets that containers, volumes and image pulls need.
pub fn secrets(spec: &PodSpec) -> Vec<&str> {
    let pulls = spec.image_pull_secrets.iter().flatten().map(|it| it.name.as_str());
    let volumes = spec.volumes.iter().flatten().flat_map(secrets_of_volume);
    named(pulls.chain(environments(spec).filter_map(|it| it.secret())).chain(volumes))
}

/// The ConfigMaps that containers and volumes need.
pub fn config_maps(spec: &PodSpec) -> Vec<&str> {
    let volumes = spec.volumes.iter().flatten().flat_map(|volume| {
        let own = volume.config_map.iter().map(|it| it.name.as_str());
        let sources = volume.projected.iter().flat_map(|it| &it.sources).flatten();
        own.chain(sources.flat_map(|it| &it.config_map).map(|it| it.name.as_str()))
    });
    named(environments(spec).filter_map(|it| it.config_map()).chain(volumes))
}

/// The claims of the pod `pod`; those of ephemeral volumes are called after the pod.
pub fn claims(pod: &str, spec: &PodSpec) -> Vec<String> {
    let claims = spec.volumes.iter().flatten().filter_map(|volume| {
        match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(format!("{pod}-{}", volume.name)),
            (None, None) => None,
        }
    });
    claims.collect()
}

/// A reference without a name is none.
fn named<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.filter(|it| !it.is_empty()).collect()
}

/// The Secrets that one volume needs, by whichever of its fields.
pub fn secrets_of_volume(volume: &Volume) -> impl Iterator<Item = &str> {
    let plain = [
        volume.azure_file.as_ref().map(|it| it.secret_name.as_str()),
        volume.secret.as_ref().and_then(|it| it.secret_name.as_deref()),
        volume.scale_io.as_ref().map(|it| it.secret_ref.name.as_str()),
    ];
    let references = [
        volume.cephfs.as_ref().and_then(|it| it.secret_ref.as_ref()),
        volume.cinder.as_ref().and_then(|it| it.secret_ref.as_ref()),
        volume.csi.as_ref().and_then(|it| it.node_publish_secret_ref.as_ref()),
        volume.flex_volume.as_ref().and_then(|it| it.secret_ref.as_ref()),
        volume.iscsi.as_ref().and_then(|it| it.secret_ref.as_ref()),
        volume.rbd.as_ref().and_then(|it| it.secret_ref.as_ref()),
        volume.storageos.as_ref().and_then(|it| it.secret_ref.as_ref()),
    ];
    let sources = volume.projected.iter().flat_map(|it| &it.sources).flatten();
    plain
        .into_iter()
        .flatten()
        .chain(references.into_iter().flatten().map(|it| it.name.as_str()))
        .chain(sources.flat_map(|it| &it.secret).map(|it| it.name.as_str()))
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
