//! The plugin's file.

use api::core::pod_spec::validate_tolerations;
use apimachinery::FieldErrors;
use apimachinery::field::Path;
use k8s_openapi::api::core::v1::Toleration;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::configuration::Settings;

pub(super) const PLUGIN: &str = "PodTolerationRestriction";

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Tolerations {
    api_version: String,
    kind: String,
    /// What pods get of namespaces that have no list of their own.
    #[serde(default, deserialize_with = "default")]
    pub(super) default: Vec<Toleration>,
    /// What their pods may have; empty: anything.
    #[serde(default, deserialize_with = "whitelist")]
    pub(super) whitelist: Vec<Toleration>,
}

impl Settings for Tolerations {
    const PLUGIN: &'static str = PLUGIN;
    const KINDS: &'static [(&'static str, &'static str)] =
        &[("podtolerationrestriction.admission.k8s.io/v1alpha1", "Configuration")];

    fn api_version_and_kind(&self) -> (&str, &str) {
        (&self.api_version, &self.kind)
    }
}

fn list<'de, D: Deserializer<'de>>(
    deserializer: D,
    field: &str,
) -> Result<Vec<Toleration>, D::Error> {
    let list: Option<Vec<Toleration>> = Deserialize::deserialize(deserializer)?;
    let list = list.unwrap_or_default();
    let mut errors = FieldErrors::new();
    validate_tolerations(&list, &Path::new(field), &mut errors);
    match errors.is_empty() {
        true => Ok(list),
        false => Err(D::Error::custom(errors)),
    }
}

fn default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Toleration>, D::Error> {
    list(deserializer, "default")
}

fn whitelist<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Toleration>, D::Error> {
    list(deserializer, "whitelist")
}
