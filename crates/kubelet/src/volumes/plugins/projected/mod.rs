//! Several sources in one volume, among them tokens of the pod's ServiceAccount.

use k8s_openapi::api::core::v1::{
    Pod, ProjectedVolumeSource, ServiceAccountTokenProjection, Volume, VolumeProjection,
};
use node_api::volumes::{File, FilesPlugin};

use super::keys::Reference;
use super::{Error, Files, Kind, Plugin, Rendered, config_map, downward_api, mode, secret};
use crate::pod_facts::{PodFacts, TokenKey};

/// What a projection without an expiration asks for.
const TOKEN_SECONDS: i64 = 3600;
/// Of a token that has an owner.
const TOKEN_MODE: u32 = 0o600;

pub(super) struct Projected;

fn sources(volume: &Volume) -> impl Iterator<Item = &VolumeProjection> {
    volume.projected.iter().flat_map(|it| &it.sources).flatten()
}

impl Plugin for Projected {
    fn objects(&self, volume: &Volume) -> Vec<(Kind, String)> {
        let of = |it: &VolumeProjection| {
            let config_map = it.config_map.iter().map(|it| (Kind::ConfigMap, it.name.clone()));
            let secret = it.secret.iter().map(|it| (Kind::Secret, it.name.clone()));
            config_map.chain(secret).collect::<Vec<_>>()
        };
        sources(volume).flat_map(of).collect()
    }

    fn tokens(&self, volume: &Volume) -> Vec<TokenKey> {
        sources(volume).filter_map(|it| it.service_account_token.as_ref()).map(key).collect()
    }

    fn render(&self, pod: &Pod, volume: &Volume, facts: &PodFacts) -> Option<Rendered> {
        let plugin = FilesPlugin::Projected;
        let files = files(pod, volume.projected.as_ref()?, facts);
        Some(files.map(|files| node_api::volumes::Volume::Files { plugin, files }))
    }
}

fn key(source: &ServiceAccountTokenProjection) -> TokenKey {
    TokenKey {
        audience: source.audience.clone().unwrap_or_default(),
        expiration_seconds: source.expiration_seconds.unwrap_or(TOKEN_SECONDS),
    }
}

/// Everything that is wrong is said at once.
fn files(pod: &Pod, source: &ProjectedVolumeSource, facts: &PodFacts) -> Result<Files, Error> {
    let mode = mode(source.default_mode);
    let (mut files, mut errors) = (Files::new(), Vec::new());
    for projection in source.sources.iter().flatten() {
        match of(pod, projection, mode, facts) {
            Ok(more) => files.extend(more),
            Err(err) => errors.push(err),
        }
    }
    match errors.len() {
        0 => Ok(files),
        1 => Err(errors.remove(0)),
        _ => Err(Error::Several(errors)),
    }
}

fn of(
    pod: &Pod,
    projection: &VolumeProjection,
    mode: u32,
    facts: &PodFacts,
) -> Result<Files, Error> {
    let mut files = Files::new();
    if let Some(source) = &projection.config_map {
        let reference = Reference {
            name: &source.name,
            items: source.items.as_deref(),
            is_optional: source.optional.unwrap_or_default(),
            mode,
        };
        files.extend(config_map::files(&reference, facts)?);
    }
    if let Some(source) = &projection.secret {
        let reference = Reference {
            name: &source.name,
            items: source.items.as_deref(),
            is_optional: source.optional.unwrap_or_default(),
            mode,
        };
        files.extend(secret::files(&reference, facts)?);
    }
    if let Some(source) = &projection.downward_api {
        let items = source.items.as_deref().unwrap_or_default();
        files.extend(downward_api::files(pod, items, mode, facts)?);
    }
    if let Some(source) = &projection.service_account_token {
        files.insert(source.path.clone(), token(pod, source, mode, facts)?);
    }
    if projection.cluster_trust_bundle.is_some() {
        return Err(Error::Projection("clusterTrustBundle"));
    }
    if projection.pod_certificate.is_some() {
        return Err(Error::Projection("podCertificate"));
    }
    Ok(files)
}

fn token(
    pod: &Pod,
    source: &ServiceAccountTokenProjection,
    mode: u32,
    facts: &PodFacts,
) -> Result<File, Error> {
    let key = key(source);
    let content = match facts.lookups.tokens.get(&key) {
        Some(token) => token.clone(),
        None => return Err(Error::Token { audience: key.audience }),
    };
    let (user, context) =
        (only_user(pod), pod.spec.as_ref().and_then(|it| it.security_context.as_ref()));
    let has_owner = user.is_some() || context.is_some_and(|it| it.fs_group.is_some());
    Ok(File { content, mode: if has_owner { TOKEN_MODE } else { mode }, user })
}

/// The user of all containers, if they run as one that is known.
fn only_user(pod: &Pod) -> Option<u32> {
    let spec = pod.spec.as_ref()?;
    let of_pod = spec.security_context.as_ref().and_then(|it| it.run_as_user);
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut users =
        containers.map(|it| it.security_context.as_ref().and_then(|it| it.run_as_user).or(of_pod));
    let first = users.next()??;
    if users.all(|it| it == Some(first)) { u32::try_from(first).ok() } else { None }
}
