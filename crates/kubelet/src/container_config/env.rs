//! The environment of a container: first what `envFrom` brings, then `env`, and Services where
//! nothing else has the name.

use std::collections::BTreeMap;

use apimachinery::validation::is_env_var_name;
use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, Pod,
};

use super::{Error, expansion, fields, service_links};
use crate::host_files;
use crate::pod_facts::{FileKey, PodFacts};

type Variables = BTreeMap<String, String>;

pub(super) fn render(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
) -> Result<Variables, Error> {
    let links = service_links::render(pod, facts.services.iter().map(AsRef::as_ref));
    let mut variables = Variables::new();
    for source in container.env_from.iter().flatten() {
        variables.extend(from_source(source, facts)?);
    }
    for variable in container.env.iter().flatten() {
        let known = |name: &str| variables.get(name).or_else(|| links.get(name)).cloned();
        if let Some(value) = value(pod, container, facts, variable, known)? {
            variables.insert(variable.name.clone(), value);
        }
    }
    for (name, value) in links {
        variables.entry(name).or_insert(value);
    }
    let hostname = || host_files::hostname(pod, &facts.node_name);
    variables.entry("HOSTNAME".to_owned()).or_insert_with(hostname);
    Ok(variables)
}

fn from_source(source: &EnvFromSource, facts: &PodFacts) -> Result<Variables, Error> {
    let mut entries = Variables::new();
    if let Some(reference) = &source.config_map_ref {
        match facts.lookups.config_maps.get(&reference.name) {
            Some(config_map) => entries.extend(config_map.data.clone().unwrap_or_default()),
            None if reference.optional.unwrap_or_default() => {}
            None => return Err(Error::ConfigMapNotFound { name: reference.name.clone() }),
        }
    } else if let Some(reference) = &source.secret_ref {
        match facts.lookups.secrets.get(&reference.name) {
            Some(secret) => entries.extend(
                secret.data.iter().flatten().map(|(key, value)| (key.clone(), text(&value.0))),
            ),
            None if reference.optional.unwrap_or_default() => {}
            None => return Err(Error::SecretNotFound { name: reference.name.clone() }),
        }
    }
    let prefix = source.prefix.as_deref().unwrap_or_default();
    let named = entries.into_iter().map(|(key, value)| (format!("{prefix}{key}"), value));
    Ok(named.filter(|(name, _)| is_env_var_name(name).is_empty()).collect())
}

/// `None`: something optional is not there, and neither is the variable.
fn value(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
    variable: &EnvVar,
    known: impl Fn(&str) -> Option<String>,
) -> Result<Option<String>, Error> {
    match (variable.value.as_deref().filter(|it| !it.is_empty()), &variable.value_from) {
        (Some(value), _) => Ok(Some(expansion::expand(value, known))),
        (None, Some(source)) => from_reference(pod, container, facts, source),
        (None, None) => Ok(Some(String::new())),
    }
}

fn from_reference(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
    source: &EnvVarSource,
) -> Result<Option<String>, Error> {
    let namespace = || pod.metadata.namespace.clone().unwrap_or_default();
    if let Some(field) = &source.field_ref {
        return Ok(Some(fields::field(pod, facts, &field.field_path)?));
    }
    if let Some(selector) = &source.resource_field_ref {
        return Ok(Some(fields::resource(pod, Some(container), facts, selector)?));
    }
    if let Some(wanted) = &source.config_map_key_ref {
        let (name, key) = (wanted.name.clone(), wanted.key.clone());
        let config_map = facts.lookups.config_maps.get(&name);
        let data = config_map.and_then(|it| it.data.as_ref());
        return match (data.and_then(|it| it.get(&key)), config_map) {
            (Some(value), _) => Ok(Some(value.clone())),
            (None, _) if wanted.optional.unwrap_or_default() => Ok(None),
            (None, None) => Err(Error::ConfigMapNotFound { name }),
            (None, Some(_)) => {
                Err(Error::KeyNotFound { kind: "ConfigMap", key, namespace: namespace(), name })
            }
        };
    }
    if let Some(wanted) = &source.secret_key_ref {
        let (name, key) = (wanted.name.clone(), wanted.key.clone());
        let secret = facts.lookups.secrets.get(&name);
        let data = secret.and_then(|it| it.data.as_ref());
        return match (data.and_then(|it| it.get(&key)), secret) {
            (Some(value), _) => Ok(Some(text(&value.0))),
            (None, _) if wanted.optional.unwrap_or_default() => Ok(None),
            (None, None) => Err(Error::SecretNotFound { name }),
            (None, Some(_)) => {
                Err(Error::KeyNotFound { kind: "Secret", key, namespace: namespace(), name })
            }
        };
    }
    match &source.file_key_ref {
        Some(wanted) => from_file(wanted, facts),
        None => Ok(Some(String::new())),
    }
}

/// An empty value counts as none, as upstream has it.
fn from_file(wanted: &FileKeySelector, facts: &PodFacts) -> Result<Option<String>, Error> {
    let (volume, path) = (wanted.volume_name.clone(), wanted.path.clone());
    let Some(root) = facts.volumes.get(&volume) else {
        return Err(Error::FileVolumeNotFound { volume });
    };
    let key = wanted.key.clone();
    let found = facts.files.get(&FileKey { volume, path, key: key.clone() });
    match found.cloned().flatten() {
        None => Err(Error::FileUnreadable),
        Some(value) if !value.is_empty() => Ok(Some(value)),
        Some(_) if wanted.optional.unwrap_or_default() => Ok(None),
        Some(_) => {
            let path = root.join(&wanted.path).to_string_lossy().into_owned();
            Err(Error::FileKeyNotFound { key, path })
        }
    }
}

/// An environment holds text; what is not is shown as well as can be.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
