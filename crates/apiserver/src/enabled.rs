//! The built-in kinds that `--runtime-config` leaves.

use std::sync::Arc;

use api::Kind;
use features::{RuntimeConfig, RuntimeConfigError, Served};

/// What this server itself writes or looks up: without it, it would not start, or not let anybody
/// in.
const NEEDED: &[&str] = &[
    "",
    "apiextensions.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "networking.k8s.io",
    "rbac.authorization.k8s.io",
];

/// Whether a server would start with it, and have the groups that others in its process follow.
pub fn validate_runtime_config(
    config: &RuntimeConfig,
    followed: &[&str],
) -> Result<(), RuntimeConfigError> {
    validate(config, &api::kinds(), followed)
}

pub(crate) fn kinds(config: &RuntimeConfig) -> Result<Vec<Arc<dyn Kind>>, RuntimeConfigError> {
    let kinds = api::kinds();
    validate(config, &kinds, &[])?;
    let is_enabled = |it: &Arc<dyn Kind>| {
        let names = it.names();
        config.is_enabled(&names.group, &names.version, &names.plural)
    };
    Ok(kinds.into_iter().filter(is_enabled).collect())
}

fn validate(
    config: &RuntimeConfig,
    kinds: &[Arc<dyn Kind>],
    followed: &[&str],
) -> Result<(), RuntimeConfigError> {
    let defaults = RuntimeConfig::default();
    let served: Vec<Served<'_>> = kinds
        .iter()
        .map(|it| {
            let names = it.names();
            let is_default = defaults.is_enabled(&names.group, &names.version, &names.plural);
            let is_of_needed = NEEDED.iter().chain(followed).any(|it| *it == names.group);
            Served {
                group: &names.group,
                version: &names.version,
                resource: &names.plural,
                // What is served only when asked for, nobody can need.
                is_needed: is_of_needed && is_default,
            }
        })
        .collect();
    config.validate(&served)
}

#[cfg(test)]
mod tests {
    use features::RuntimeConfig;

    use super::{kinds, validate_runtime_config};

    #[test]
    fn what_is_disabled_is_not_served() {
        let of = |flag: &str| {
            let config = RuntimeConfig::parse(flag).unwrap();
            kinds(&config).map(|it| it.len()).map_err(|it| it.to_string())
        };
        let all = of("").unwrap();
        assert_eq!(of("apps/v1/replicasets=false"), Ok(all - 1));
        assert!(of("apps/v1=false").unwrap() < all - 1);
        let config = RuntimeConfig::parse("apps/v1=false").unwrap();
        assert!(validate_runtime_config(&config, &[]).is_ok());
        assert!(validate_runtime_config(&config, &["apps"]).is_err());
        let refused = of("v1=false").unwrap_err();
        assert!(refused.ends_with(" cannot be disabled: xebec itself needs it"), "{refused}");
    }
}
