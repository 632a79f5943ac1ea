//! PodSecurityConfiguration: what holds where a namespace says nothing, and whom nothing holds for.

use std::collections::BTreeSet;

use apimachinery::validation::{is_dns_label, is_dns_subdomain};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::policy::{Level, Policy, Standard, Version};
use crate::configuration::Settings;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Configuration {
    api_version: String,
    kind: String,
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    pub(super) exemptions: Exemptions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Defaults {
    #[serde(deserialize_with = "level")]
    enforce: Option<Level>,
    #[serde(deserialize_with = "version")]
    enforce_version: Option<Version>,
    #[serde(deserialize_with = "level")]
    audit: Option<Level>,
    #[serde(deserialize_with = "version")]
    audit_version: Option<Version>,
    #[serde(deserialize_with = "level")]
    warn: Option<Level>,
    #[serde(deserialize_with = "version")]
    warn_version: Option<Version>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Exemptions {
    #[serde(deserialize_with = "usernames")]
    pub(super) usernames: BTreeSet<String>,
    #[serde(deserialize_with = "namespaces")]
    pub(super) namespaces: BTreeSet<String>,
    #[serde(deserialize_with = "runtime_classes")]
    pub(super) runtime_classes: BTreeSet<String>,
}

impl Settings for Configuration {
    const PLUGIN: &'static str = super::NAME;
    const KINDS: &'static [(&'static str, &'static str)] = &[
        ("pod-security.admission.config.k8s.io/v1", "PodSecurityConfiguration"),
        ("pod-security.admission.config.k8s.io/v1beta1", "PodSecurityConfiguration"),
        ("pod-security.admission.config.k8s.io/v1alpha1", "PodSecurityConfiguration"),
    ];

    fn api_version_and_kind(&self) -> (&str, &str) {
        (&self.api_version, &self.kind)
    }
}

impl Configuration {
    pub(super) fn defaults(&self) -> Policy {
        let Defaults { enforce, enforce_version, audit, audit_version, warn, warn_version } =
            &self.defaults;
        let standard = |level: &Option<Level>, version: &Option<Version>| Standard {
            level: level.unwrap_or(Level::Privileged),
            version: version.unwrap_or(Version::Latest),
        };
        Policy {
            enforce: standard(enforce, enforce_version),
            audit: standard(audit, audit_version),
            warn: standard(warn, warn_version),
        }
    }
}

/// An empty text is none.
fn parsed<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: fn(&str) -> Result<T, &'static str>,
) -> Result<Option<T>, D::Error> {
    let text: Option<String> = Deserialize::deserialize(deserializer)?;
    let text = text.filter(|it| !it.is_empty());
    let fail =
        |text: String, hint: &str| D::Error::custom(format!("Invalid value: {text:?}: {hint}"));
    text.map(|it| parse(&it).map_err(|hint| fail(it, hint))).transpose()
}

fn level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Level>, D::Error> {
    parsed(deserializer, Level::parse)
}

fn version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Version>, D::Error> {
    parsed(deserializer, Version::parse)
}

/// Names that are what they should be, each once.
fn names<'de, D: Deserializer<'de>>(
    deserializer: D,
    problems: fn(&str) -> Vec<String>,
) -> Result<BTreeSet<String>, D::Error> {
    let list: Option<Vec<String>> = Deserialize::deserialize(deserializer)?;
    let mut names = BTreeSet::new();
    for name in list.into_iter().flatten() {
        let problems = problems(&name);
        if !problems.is_empty() {
            let problems = problems.join(", ");
            return Err(D::Error::custom(format!("Invalid value: {name:?}: {problems}")));
        }
        if names.contains(&name) {
            return Err(D::Error::custom(format!("Duplicate value: {name:?}")));
        }
        names.insert(name);
    }
    Ok(names)
}

fn usernames<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    names(deserializer, |it| {
        let problem = it.is_empty().then(|| "username must not be empty".to_owned());
        problem.into_iter().collect()
    })
}

fn namespaces<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    names(deserializer, is_dns_label)
}

fn runtime_classes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeSet<String>, D::Error> {
    names(deserializer, is_dns_subdomain)
}
