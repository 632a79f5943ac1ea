//! The plugin's file. Times are numbers: 0 is the default, -1 is none.

use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::configuration::Settings;

pub(super) const PLUGIN: &str = "ImagePolicyWebhook";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ImagePolicyWebhookSettings {
    pub(super) image_policy: ImagePolicy,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ImagePolicy {
    pub(super) kube_config_file: PathBuf,
    /// How long an agreement is remembered, in seconds.
    #[serde(rename = "allowTTL", default = "default_allow", deserialize_with = "allow")]
    pub(super) allow_for: Duration,
    /// The same of a refusal.
    #[serde(rename = "denyTTL", default = "default_deny", deserialize_with = "deny")]
    pub(super) deny_for: Duration,
    /// Before the second try, in milliseconds.
    #[serde(default = "default_backoff", deserialize_with = "backoff")]
    pub(super) retry_backoff: Duration,
    /// Whether pods are let through when nobody answers.
    #[serde(default)]
    pub(super) default_allow: bool,
}

impl Settings for ImagePolicyWebhookSettings {
    const PLUGIN: &'static str = PLUGIN;
    const KINDS: &'static [(&'static str, &'static str)] = &[];

    fn api_version_and_kind(&self) -> (&str, &str) {
        ("", "")
    }
}

fn default_allow() -> Duration {
    Duration::from_mins(5)
}

fn default_deny() -> Duration {
    Duration::from_secs(30)
}

fn default_backoff() -> Duration {
    Duration::from_millis(500)
}

fn allow<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    seconds(deserializer, default_allow())
}

fn deny<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    seconds(deserializer, default_deny())
}

fn seconds<'de, D: Deserializer<'de>>(
    deserializer: D,
    default: Duration,
) -> Result<Duration, D::Error> {
    match i64::deserialize(deserializer)? {
        -1 => Ok(Duration::ZERO),
        0 => Ok(default),
        given @ 1..=1800 => Ok(Duration::from_secs(given.unsigned_abs())),
        given => {
            Err(D::Error::custom(format!("valid value is between 1s and 30m0s, got {given}s")))
        }
    }
}

fn backoff<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    match i64::deserialize(deserializer)? {
        -1 => Ok(Duration::ZERO),
        0 => Ok(default_backoff()),
        given @ 1..=300_000 => Ok(Duration::from_millis(given.unsigned_abs())),
        given => {
            Err(D::Error::custom(format!("valid value is between 1ns and 5m0s, got {given}ms")))
        }
    }
}
