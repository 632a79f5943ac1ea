//! The plugin's file.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::configuration::Settings;

pub(super) const PLUGIN: &str = "EventRateLimit";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EventRateLimitSettings {
    api_version: String,
    kind: String,
    #[serde(deserialize_with = "limits")]
    pub(super) limits: Vec<Limit>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Limit {
    #[serde(rename = "type")]
    pub(super) type_: LimitType,
    #[serde(deserialize_with = "positive")]
    pub(super) qps: u32,
    #[serde(deserialize_with = "positive")]
    pub(super) burst: u32,
    /// 0 is the default.
    #[serde(default)]
    pub(super) cache_size: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum LimitType {
    Server,
    Namespace,
    User,
    SourceAndObject,
}

impl LimitType {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Namespace => "Namespace",
            Self::User => "User",
            Self::SourceAndObject => "SourceAndObject",
        }
    }
}

impl Settings for EventRateLimitSettings {
    const PLUGIN: &'static str = PLUGIN;
    const KINDS: &'static [(&'static str, &'static str)] =
        &[("eventratelimit.admission.k8s.io/v1alpha1", "Configuration")];

    fn api_version_and_kind(&self) -> (&str, &str) {
        (&self.api_version, &self.kind)
    }
}

fn limits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Limit>, D::Error> {
    let limits: Option<Vec<Limit>> = Deserialize::deserialize(deserializer)?;
    let limits = limits.unwrap_or_default();
    match limits.is_empty() {
        true => Err(D::Error::custom("limits: Invalid value: []: must not be empty")),
        false => Ok(limits),
    }
}

fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number: i64 = Deserialize::deserialize(deserializer)?;
    let fitting = i32::try_from(number).ok().and_then(|it| u32::try_from(it).ok());
    fitting
        .filter(|it| *it > 0)
        .ok_or_else(|| D::Error::custom(format!("Invalid value: {number}: must be positive")))
}
