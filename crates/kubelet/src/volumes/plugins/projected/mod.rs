//! Several sources in one volume, among them tokens of the pod's ServiceAccount, certificates of its own
//! and whom to trust.

mod trust_bundle;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{
    Pod, ProjectedVolumeSource, ServiceAccountTokenProjection, Volume, VolumeProjection,
};
use node_api::volumes::{File, FilesPlugin};

use super::keys::Reference;
use super::{Error, Files, Kind, Plugin, Rendered, config_map, downward_api, mode, secret};
use crate::pod_facts::{CertificateKey, Credential, PodFacts, TokenKey};

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
            let bundles = it.cluster_trust_bundle.iter();
            let bundles = bundles.map(|_| (Kind::ClusterTrustBundles, String::new()));
            let requests = it.pod_certificate.iter();
            let requests = requests.map(|_| (Kind::PodCertificateRequests, String::new()));
            config_map.chain(secret).chain(bundles).chain(requests).collect::<Vec<_>>()
        };
        sources(volume).flat_map(of).collect()
    }

    fn tokens(&self, volume: &Volume) -> Vec<TokenKey> {
        sources(volume).filter_map(|it| it.service_account_token.as_ref()).map(key).collect()
    }

    fn render(&self, pod: &Pod, volume: &Volume, facts: &PodFacts) -> Option<Rendered> {
        let plugin = FilesPlugin::Projected;
        let files = files(pod, &volume.name, volume.projected.as_ref()?, facts);
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
fn files(
    pod: &Pod,
    volume: &str,
    source: &ProjectedVolumeSource,
    facts: &PodFacts,
) -> Result<Files, Error> {
    let mode = mode(source.default_mode);
    let (mut files, mut errors) = (Files::new(), Vec::new());
    for (index, projection) in source.sources.iter().flatten().enumerate() {
        let certificate = certificate(pod, (volume, index), projection, mode, facts);
        let of = of(pod, projection, mode, facts);
        match of.and_then(|files| Ok((files, certificate?))).map(|(a, b)| a.into_iter().chain(b)) {
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
    if let Some(source) = &projection.cluster_trust_bundle {
        let content = trust_bundle::content(source, facts)?;
        files.insert(source.path.clone(), owned(pod, content, mode));
    }
    Ok(files)
}

/// The key and the certificates of the pod's own, each where it is asked for.
fn certificate(
    pod: &Pod,
    (volume, source): (&str, usize),
    projection: &VolumeProjection,
    mode: u32,
    facts: &PodFacts,
) -> Result<Files, Error> {
    let Some(wanted) = &projection.pod_certificate else { return Ok(Files::new()) };
    let certificates = facts.lookups.certificates.as_ref().ok_or(Error::CertificatesOff)?;
    let key = CertificateKey { volume: volume.to_owned(), source };
    let credential = match certificates.get(&key) {
        Some(Ok(credential)) => credential,
        Some(Err(why)) => return Err(Error::Certificate(why.clone())),
        None => return Err(Error::Certificate("no credentials yet".to_owned())),
    };
    let Credential { key_pem, chain_pem } = credential;
    let files = [
        (&wanted.credential_bundle_path, format!("{key_pem}{chain_pem}")),
        (&wanted.key_path, key_pem.clone()),
        (&wanted.certificate_chain_path, chain_pem.clone()),
    ];
    let asked = files.into_iter().filter_map(|(path, content)| {
        let path = path.as_ref().filter(|it| !it.is_empty())?;
        Some((path.clone(), owned(pod, content.into(), mode)))
    });
    Ok(asked.collect())
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
    Ok(owned(pod, content, mode))
}

/// What the pod's one user alone may read, if it has one.
fn owned(pod: &Pod, content: Bytes, mode: u32) -> File {
    let (user, context) =
        (only_user(pod), pod.spec.as_ref().and_then(|it| it.security_context.as_ref()));
    let has_owner = user.is_some() || context.is_some_and(|it| it.fs_group.is_some());
    File { content, mode: if has_owner { TOKEN_MODE } else { mode }, user }
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
