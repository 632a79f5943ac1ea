//! The plugin's file, and selectors as they are written in it and in annotations.

use std::collections::BTreeMap;

use apimachinery::validation::{is_label_value, is_qualified_name};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::configuration::Settings;

pub(super) const PLUGIN: &str = "PodNodeSelector";
/// The name that is no namespace's.
pub(super) const DEFAULT: &str = "clusterDefaultNodeSelector";

pub(super) type Selector = BTreeMap<String, String>;

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PodNodeSelectorSettings {
    #[serde(rename = "podNodeSelectorPluginConfig", default)]
    selectors: BTreeMap<String, Text>,
}

impl PodNodeSelectorSettings {
    pub(super) fn into_selectors(self) -> BTreeMap<String, Selector> {
        self.selectors.into_iter().map(|(name, it)| (name, it.0)).collect()
    }
}

impl Settings for PodNodeSelectorSettings {
    const PLUGIN: &'static str = PLUGIN;
    const KINDS: &'static [(&'static str, &'static str)] = &[];

    fn api_version_and_kind(&self) -> (&str, &str) {
        ("", "")
    }
}

struct Text(Selector);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: Option<String> = Deserialize::deserialize(deserializer)?;
        parse(&text.unwrap_or_default()).map(Self).map_err(D::Error::custom)
    }
}

/// `key=value,key=value`
pub(super) fn parse(text: &str) -> Result<Selector, String> {
    let mut selector = Selector::new();
    for label in text.split(',').filter(|_| !text.is_empty()) {
        let mut parts = label.split('=');
        let (Some(key), Some(value), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!("invalid selector: {label}"));
        };
        let (key, value) = (key.trim(), value.trim());
        let problems = [is_qualified_name(key), is_label_value(value)].concat();
        if !problems.is_empty() {
            return Err(format!("invalid selector: {label}: {}", problems.join("; ")));
        }
        selector.insert(key.to_owned(), value.to_owned());
    }
    Ok(selector)
}
