//! The built-in kinds that `--runtime-config` and the feature gates leave.

use std::sync::Arc;

use api::Kind;
use features::{Gates, RuntimeConfig, RuntimeConfigError, Served, Switch};

/// What this server itself writes or looks up: without it, it would not start, or not let anybody
/// in.
const NEEDED: &[&str] = &[
    "",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "networking.k8s.io",
    "rbac.authorization.k8s.io",
];

/// What is not served while its gate is off, whoever asks for it.
const GATED: &[(&str, &str, Switch)] = &[
    ("certificates.k8s.io", "clustertrustbundles", features::CLUSTER_TRUST_BUNDLE),
    ("certificates.k8s.io", "podcertificaterequests", features::POD_CERTIFICATE_REQUEST),
    ("scheduling.k8s.io", "podgroups", features::GENERIC_WORKLOAD),
    ("scheduling.k8s.io", "workloads", features::GENERIC_WORKLOAD),
    ("storagemigration.k8s.io", "storageversionmigrations", features::STORAGE_VERSION_MIGRATOR),
];

/// Whether a server would start with it, and have the groups that others in its process follow.
pub fn validate_runtime_config(
    config: &RuntimeConfig,
    followed: &[&str],
) -> Result<(), RuntimeConfigError> {
    validate(config, &api::kinds(), followed)
}

pub(crate) fn kinds(
    config: &RuntimeConfig,
    gates: &Gates,
) -> Result<Vec<Arc<dyn Kind>>, RuntimeConfigError> {
    let kinds = api::kinds();
    validate(config, &kinds, &[])?;
    let is_enabled = |it: &Arc<dyn Kind>| {
        let names = it.names();
        let is_asked_for = config.is_enabled(&names.group, &names.version, &names.plural);
        let gate = GATED.iter().find(|it| (it.0, it.1) == (&names.group, &names.plural));
        let is_off = gate.is_some_and(|it| !gates.is_enabled(it.2));
        if is_asked_for && is_off {
            tracing::warn!(resource = %names.plural, "not served: its feature gate is off");
        }
        is_asked_for && !is_off
    };
    // Whatever is asked for: elsewhere it is no part of the server either.
    Ok(kinds.into_iter().filter(is_enabled).chain(api::metrics::kinds()).collect())
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
    use features::{Gates, RuntimeConfig};

    use super::{kinds, validate_runtime_config};

    fn served(flag: &str, gates: &str) -> Result<Vec<String>, String> {
        let (config, gates) = (RuntimeConfig::parse(flag).unwrap(), Gates::parse(gates).unwrap());
        let kinds = kinds(&config, &gates).map_err(|it| it.to_string())?;
        let name = |it: &std::sync::Arc<dyn api::Kind>| {
            format!("{}/{}", it.names().api_version(), it.names().plural)
        };
        Ok(kinds.iter().map(name).collect())
    }

    #[test]
    fn what_is_not_stable_is_served_to_who_asks_for_it() {
        let has = |flag: &str, gates: &str, wanted: &str| {
            served(flag, gates).unwrap().iter().any(|it| it == wanted)
        };
        let (beta, stable) =
            ("resource.k8s.io/v1beta1/resourceclaims", "resource.k8s.io/v1/resourceclaims");
        assert!(has("", "", stable) && !has("", "", beta));
        assert!(has("resource.k8s.io/v1beta1=true", "", beta));
        assert!(has("api/beta=true", "", beta));
        // Stored in a version that is not served.
        let rules = "resource.k8s.io/v1beta2/devicetaintrules";
        assert!(has("api/beta=true", "", rules));
        let (asked, workloads) = ("api/alpha=true", "scheduling.k8s.io/v1alpha2/workloads");
        assert!(!has(asked, "", workloads));
        assert!(has(asked, "GenericWorkload=true", workloads));
        assert!(!has("", "GenericWorkload=true", workloads));
        let bundles = "certificates.k8s.io/v1beta1/clustertrustbundles";
        assert!(!has("api/beta=true", "", bundles));
        assert!(has("api/beta=true", "ClusterTrustBundle=true", bundles));
    }

    #[test]
    fn what_is_disabled_is_not_served() {
        let of = |flag: &str| served(flag, "").map(|it| it.len());
        let all = of("").unwrap();
        assert_eq!(of("apps/v1/replicasets=false"), Ok(all - 1));
        assert_eq!(of("storage.k8s.io/v1beta1=true"), Ok(all + 1));
        assert!(of("apps/v1=false").unwrap() < all - 1);
        let config = RuntimeConfig::parse("apps/v1=false").unwrap();
        assert!(validate_runtime_config(&config, &[]).is_ok());
        assert!(validate_runtime_config(&config, &["apps"]).is_err());
        let refused = of("v1=false").unwrap_err();
        assert!(refused.ends_with(" cannot be disabled: xebec itself needs it"), "{refused}");
    }
}
