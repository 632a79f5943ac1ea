//! What may not be had without a quota that bounds it (`limitedResources` of the plugin's file).
//! Pure; texts as upstream's.

use std::collections::BTreeSet;

use api::amounts::Amounts;
use api::core::resource_quota::usage::Counted;
use apimachinery::GroupResource;
use k8s_openapi::api::core::v1::ScopedResourceSelectorRequirement as Scope;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::configuration::Settings;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ResourceQuotaSettings {
    api_version: String,
    kind: String,
    #[serde(default)]
    pub(super) limited_resources: Vec<Limited>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Limited {
    #[serde(default)]
    api_group: String,
    #[serde(deserialize_with = "required")]
    resource: String,
    /// Parts of the names of what is limited: `.storageclass.storage.k8s.io/requests.storage`.
    #[serde(default)]
    match_contains: Vec<String>,
    #[serde(default)]
    match_scopes: Vec<Scope>,
}

impl Settings for ResourceQuotaSettings {
    const PLUGIN: &'static str = super::PLUGIN;
    const KINDS: &'static [(&'static str, &'static str)] = &[
        ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
        ("resourcequota.admission.k8s.io/v1", "Configuration"),
        ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
        ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
    ];

    fn api_version_and_kind(&self) -> (&str, &str) {
        (&self.api_version, &self.kind)
    }
}

fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text: Option<String> = Deserialize::deserialize(deserializer)?;
    let text = text.filter(|it| !it.is_empty());
    text.ok_or_else(|| D::Error::custom("limitedResources.resource: Required value"))
}

/// What of a write needs a quota.
pub(super) struct Needed<'a> {
    names: BTreeSet<&'a str>,
    scopes: Vec<&'a Scope>,
}

impl<'a> Needed<'a> {
    /// Scopes are looked for in all that is limited, whatever resource it is for, as upstream does.
    pub(super) fn of(
        limited: &'a [Limited],
        resource: &GroupResource,
        new: Counted<'_>,
        usage: &'a Amounts,
    ) -> Self {
        let is_it =
            |it: &&Limited| it.api_group == resource.group && it.resource == resource.resource;
        let used =
            || usage.iter().filter(|it| !it.1.amount.is_zero() && !it.1.amount.is_negative());
        let names = limited.iter().filter(is_it).flat_map(|limit| {
            let is_named = |name: &str| limit.match_contains.iter().any(|it| name.contains(it));
            used().map(|it| it.0.as_str()).filter(move |it| is_named(it))
        });
        let scopes = limited.iter().flat_map(|it| &it.match_scopes);
        Self { names: names.collect(), scopes: scopes.filter(|it| new.is_matched_by(it)).collect() }
    }

    /// Whether quotas bound it: those that apply bound `names`, and all that there are match
    /// `scopes` of it.
    pub(super) fn validate(&self, names: &BTreeSet<&str>, scopes: &[Scope]) -> Result<(), String> {
        let unbounded: Vec<&str> = self.names.difference(names).copied().collect();
        if !unbounded.is_empty() {
            return Err(format!("insufficient quota to consume: {}", unbounded.join(",")));
        }
        let is_covered = |it: &&&Scope| scopes.iter().any(|by| by.scope_name == it.scope_name);
        let uncovered: Vec<String> =
            self.scopes.iter().filter(|it| !is_covered(it)).map(|it| shown(it)).collect();
        match uncovered.is_empty() {
            true => Ok(()),
            false => {
                Err(format!("insufficient quota to match these scopes: [{}]", uncovered.join(" ")))
            }
        }
    }
}

/// As Go shows a struct: `{PriorityClass In [a b]}`.
fn shown(scope: &Scope) -> String {
    let values = scope.values.as_deref().unwrap_or_default().join(" ");
    format!("{{{} {} [{values}]}}", scope.scope_name, scope.operator)
}
