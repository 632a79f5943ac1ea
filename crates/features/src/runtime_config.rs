//! `--runtime-config`: which built-in API versions and resources are served.

use std::collections::{BTreeMap, BTreeSet};

use crate::parse_bool;

/// One resource that could be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    /// The server itself cannot do without.
    pub is_needed: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("runtime-config invalid key {0}")]
    Key(String),
    #[error("invalid value {key}={value}")]
    Value { key: &'static str, value: String },
    #[error(
        "invalid value of {key}: {value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax"
    )]
    NoBool { key: String, value: String },
    #[error(
        "invalid key {key}: group/version/resource and resource is always lowercase plural, not {resource:?}"
    )]
    Case { key: String, resource: String },
    #[error("invalid runtime-config with only api/all=false")]
    Nothing,
    #[error("unknown api groups {0}")]
    Groups(String),
    #[error("group version {0} that has not been registered")]
    Version(String),
    #[error("resource {0} that has not been registered")]
    Resource(String),
    #[error("{0} cannot be disabled: xebec itself needs it")]
    Needed(String),
}

/// Versions by how far they are. Later ones of this order win over earlier ones.
const STAGES: [&str; 4] = ["api/all", "api/ga", "api/beta", "api/alpha"];

/// What was asked for; what is still alpha or beta is served only if somebody says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// In the order of [`STAGES`].
    stages: [Option<bool>; STAGES.len()],
    /// By group and version; these win over stages.
    versions: BTreeMap<(String, String), bool>,
    /// By group, version and resource; these win over versions.
    resources: BTreeMap<(String, String, String), bool>,
}

impl RuntimeConfig {
    /// `api/all=false,v1=true,apps/v1=true,apps/v1/daemonsets=false`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut config = Self::default();
        for pair in text.split(',').filter(|it| !it.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            config.set(key.trim(), value.trim())?;
        }
        Ok(config)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Error> {
        if let Some(index) = STAGES.iter().position(|it| *it == key) {
            let value = match value {
                "true" => true,
                "false" => false,
                _ => return Err(Error::Value { key: STAGES[index], value: value.to_owned() }),
            };
            self.stages[index] = Some(value);
            return Ok(());
        }
        if key == "api/legacy" {
            return Ok(());
        }
        let parts: Vec<&str> = key.split('/').collect();
        let (group, version, resource) = match parts[..] {
            ["v1"] | ["api", "v1"] => ("", "v1", None),
            ["v1", resource] | ["api", "v1", resource] => ("", "v1", Some(resource)),
            [group, version] => (group, version, None),
            [group, version, resource] => (group, version, Some(resource)),
            _ => return Err(Error::Key(key.to_owned())),
        };
        let is_enabled = if value.is_empty() { Some(true) } else { parse_bool(value) };
        let is_enabled = is_enabled
            .ok_or_else(|| Error::NoBool { key: key.to_owned(), value: value.to_owned() })?;
        let (group, version) = (group.to_owned(), version.to_owned());
        match resource {
            None => {
                self.versions.insert((group, version), is_enabled);
            }
            Some(resource) if resource != resource.to_lowercase() => {
                return Err(Error::Case { key: key.to_owned(), resource: resource.to_owned() });
            }
            Some(resource) => {
                self.resources.insert((group, version, resource.to_owned()), is_enabled);
            }
        }
        Ok(())
    }

    /// What a flag that is given several times means: later ones count.
    pub fn merge(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::default(), |mut merged, next| {
            for (stage, later) in merged.stages.iter_mut().zip(next.stages) {
                *stage = later.or(*stage);
            }
            merged.versions.extend(next.versions);
            merged.resources.extend(next.resources);
            merged
        })
    }

    pub fn is_enabled(&self, group: &str, version: &str, resource: &str) -> bool {
        let version_key = (group.to_owned(), version.to_owned());
        let resource_key = (group.to_owned(), version.to_owned(), resource.to_owned());
        let stage = [true, is_ga(version), version.contains("beta"), version.contains("alpha")];
        let mut by_stage =
            self.stages.iter().zip(stage).filter_map(|(it, fits)| it.filter(|_| fits));
        let explicit =
            self.resources.get(&resource_key).or_else(|| self.versions.get(&version_key));
        explicit.copied().or_else(|| by_stage.next_back()).unwrap_or_else(|| is_ga(version))
    }

    /// Whether all that is named is there, and all that is needed stays.
    pub fn validate(&self, served: &[Served<'_>]) -> Result<(), Error> {
        let is_alone = self.versions.is_empty() && self.resources.is_empty();
        if self.stages == [Some(false), None, None, None] && is_alone {
            return Err(Error::Nothing);
        }
        let groups: BTreeSet<&str> = served.iter().map(|it| it.group).collect();
        let versions: BTreeSet<_> = served.iter().map(|it| (it.group, it.version)).collect();
        let resources = self.resources.keys().map(|(group, version, _)| (group, version));
        let named: BTreeSet<_> =
            self.versions.keys().map(|(g, v)| (g, v)).chain(resources).collect();
        let unknown = named.iter().filter(|(group, _)| !groups.contains(group.as_str()));
        let unknown: Vec<String> = unknown.map(|(group, version)| name(group, version)).collect();
        if !unknown.is_empty() {
            return Err(Error::Groups(unknown.join(",")));
        }
        for (group, version) in named {
            if !versions.contains(&(group.as_str(), version.as_str())) {
                return Err(Error::Version(name(group, version)));
            }
        }
        for (group, version, resource) in self.resources.keys() {
            let is_it = |it: &&Served<'_>| {
                (it.group, it.version, it.resource) == (group, version, resource)
            };
            if !served.iter().any(|it| is_it(&it)) {
                return Err(Error::Resource(format!("{}/{resource}", name(group, version))));
            }
        }
        let is_missing =
            |it: &&Served<'_>| it.is_needed && !self.is_enabled(it.group, it.version, it.resource);
        match served.iter().find(is_missing) {
            Some(it) => {
                Err(Error::Needed(format!("{}/{}", name(it.group, it.version), it.resource)))
            }
            None => Ok(()),
        }
    }
}

/// `apps/v1`, or `v1` for the core group.
fn name(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// `v` and digits.
fn is_ga(version: &str) -> bool {
    version.strip_prefix('v').is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::{RuntimeConfig, Served};

    const fn served(
        group: &'static str,
        version: &'static str,
        resource: &'static str,
    ) -> Served<'static> {
        Served { group, version, resource, is_needed: false }
    }

    const ALL: &[Served<'static>] = &[
        Served { is_needed: true, ..served("", "v1", "namespaces") },
        served("", "v1", "pods"),
        served("apps", "v1", "daemonsets"),
        served("apps", "v1", "deployments"),
        served("apps", "v1beta1", "deployments"),
        served("batch", "v1", "jobs"),
        served("resource.k8s.io", "v1alpha3", "claims"),
    ];

    fn check(flag: &str, expected: &str) {
        let config = RuntimeConfig::parse(flag).and_then(|it| it.validate(ALL).map(|()| it));
        let outcome = match config {
            Ok(config) => {
                let all = ALL.iter();
                let on = all.filter(|it| config.is_enabled(it.group, it.version, it.resource));
                let text = |it: &Served<'_>| format!("{}/{}/{}", it.group, it.version, it.resource);
                on.map(text).collect::<Vec<_>>().join(" ")
            }
            Err(err) => err.to_string(),
        };
        assert_eq!(outcome, expected, "{flag}");
    }

    #[test]
    fn the_more_exact_wins() {
        let core = "/v1/namespaces /v1/pods";
        check("api/all=false,v1=true", core);
        check(
            "api/all=false,api/v1=1,apps/v1",
            &format!("{core} apps/v1/daemonsets apps/v1/deployments"),
        );
        check(
            "api/all=false,v1=true,apps/v1=true,apps/v1/daemonsets=false",
            &format!("{core} apps/v1/deployments"),
        );
        check(
            "api/ga=true,api/all=false",
            &format!("{core} apps/v1/daemonsets apps/v1/deployments batch/v1/jobs"),
        );
        check(
            "api/beta=false,api/alpha=false,batch/v1=false,api/legacy=true,",
            &format!("{core} apps/v1/daemonsets apps/v1/deployments"),
        );
        check("v1/pods=false,api/ga=false,v1/namespaces=true", "/v1/namespaces");
    }

    #[test]
    fn what_is_alpha_or_beta_is_asked_for() {
        let ga = "/v1/namespaces /v1/pods apps/v1/daemonsets apps/v1/deployments batch/v1/jobs";
        check("", ga);
        let beta = "/v1/namespaces /v1/pods apps/v1/daemonsets apps/v1/deployments apps/v1beta1/deployments batch/v1/jobs";
        check("api/beta=true", beta);
        check("apps/v1beta1=true", beta);
        check("resource.k8s.io/v1alpha3/claims", &format!("{ga} resource.k8s.io/v1alpha3/claims"));
        check("api/all=true", &format!("{beta} resource.k8s.io/v1alpha3/claims"));
        check("api/all=true,api/alpha=false", beta);
    }

    #[test]
    fn wrong_flags_are_refused_in_upstream_s_words() {
        check("api/all=false", "invalid runtime-config with only api/all=false");
        check("api/all=maybe", "invalid value api/all=maybe");
        check("apps=true", "runtime-config invalid key apps");
        check("a/b/c/d=true", "runtime-config invalid key a/b/c/d");
        check(
            "apps/v1=maybe",
            "invalid value of apps/v1: maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
        );
        check(
            "apps/v1/Deployments=true",
            "invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase \
             plural, not \"Deployments\"",
        );
        check("foo/v1=true,bar/v2=true", "unknown api groups bar/v2,foo/v1");
        check("apps/v7=true", "group version apps/v7 that has not been registered");
        check("apps/v1/cats=true", "resource apps/v1/cats that has not been registered");
        check("v1=false", "v1/namespaces cannot be disabled: xebec itself needs it");
    }

    #[test]
    fn later_flags_count() {
        let parse = |text| RuntimeConfig::parse(text).unwrap();
        let merged =
            RuntimeConfig::merge([parse("api/all=false,apps/v1=false"), parse("apps/v1=true")]);
        assert_eq!(merged, parse("api/all=false,apps/v1=true"));
    }
}
