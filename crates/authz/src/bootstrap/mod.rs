//! The roles and bindings that every cluster starts with, and how they are brought back at each
//! start.

mod parse;
mod reconcile;
#[cfg(test)]
mod tests;

use k8s_openapi::api::rbac::v1::{
    AggregationRule, ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};

use features::{Gates, Switch};

pub use reconcile::{Reconcile, reconcile};

pub(crate) const LABEL: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");
pub(crate) const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

const RULES: &str = include_str!("rules.txt");
/// What comes with metrics-server elsewhere.
const METRICS: &str = include_str!("metrics.txt");
/// What pod networks bring with them elsewhere.
const NETWORK: &str = include_str!("network.txt");
/// What installers add so that machines can join.
const NODES: &str = include_str!("nodes.txt");

/// Every bootstrap object, each list sorted as the rules file has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    pub cluster_roles: Vec<ClusterRole>,
    pub cluster_role_bindings: Vec<ClusterRoleBinding>,
    pub roles: Vec<Role>,
    pub role_bindings: Vec<RoleBinding>,
}

/// What there is only while a gate is on; a role that is there already gets more rules.
const GATED: &[(Switch, &str)] = &[
    (features::CLUSTER_TRUST_BUNDLE, include_str!("cluster_trust_bundle.txt")),
    (features::DRA_DEVICE_TAINT_RULES, include_str!("device_taint_rules.txt")),
    (features::GENERIC_WORKLOAD, include_str!("generic_workload.txt")),
    (features::POD_CERTIFICATE_REQUEST, include_str!("pod_certificate_request.txt")),
    (features::DRA_RESOURCE_POOL_STATUS, include_str!("resource_pool_status.txt")),
    (features::STORAGE_VERSION_API, include_str!("storage_version_api.txt")),
    (features::STORAGE_VERSION_MIGRATOR, include_str!("storage_version_migrator.txt")),
];

/// What a new cluster starts with. Aggregated roles already have the rules they will aggregate.
pub fn objects(gates: &Gates) -> Objects {
    let mut objects = parse::parse(RULES).expect("rules.txt is checked by a test");
    for (_, rules) in GATED.iter().filter(|it| gates.is_enabled(it.0)) {
        objects.add(parse::parse(rules).expect("every file is checked by a test"));
    }
    for ours in [METRICS, NETWORK, NODES] {
        objects.add(parse::parse(ours).expect("every file is checked by a test"));
    }
    aggregate(&mut objects.cluster_roles);
    objects
}

impl Objects {
    fn add(&mut self, more: Self) {
        let Self { cluster_roles, cluster_role_bindings, roles, role_bindings } = more;
        for role in cluster_roles {
            let known = self.cluster_roles.iter_mut();
            match known.into_iter().find(|it| it.metadata.name == role.metadata.name) {
                Some(known) => {
                    known.rules.get_or_insert_default().extend(role.rules.unwrap_or_default());
                }
                None => self.cluster_roles.push(role),
            }
        }
        self.cluster_role_bindings.extend(cluster_role_bindings);
        self.roles.extend(roles);
        self.role_bindings.extend(role_bindings);
    }
}

fn metadata(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
        labels: Some([(LABEL.0.to_owned(), LABEL.1.to_owned())].into()),
        annotations: Some([(AUTOUPDATE.to_owned(), "true".to_owned())].into()),
        ..ObjectMeta::default()
    }
}

fn aggregation_of(label: &str) -> AggregationRule {
    let selector = LabelSelector {
        match_labels: Some([(label.to_owned(), "true".to_owned())].into()),
        ..LabelSelector::default()
    };
    AggregationRule { cluster_role_selectors: Some(vec![selector]) }
}

/// Fills in the rules of aggregated roles, each after the roles it takes from, so that one pass per
/// role is enough.
fn aggregate(roles: &mut [ClusterRole]) {
    for name in ["view", "edit", "admin"] {
        let Some(at) = roles.iter().position(|it| it.metadata.name.as_deref() == Some(name)) else {
            continue;
        };
        let rules = aggregated(&roles[at], roles);
        roles[at].rules = Some(rules);
    }
}

/// The rules of the roles that `role` selects, without repeats. `roles` are sorted by name.
fn aggregated(role: &ClusterRole, roles: &[ClusterRole]) -> Vec<PolicyRule> {
    let selectors =
        role.aggregation_rule.iter().flat_map(|it| &it.cluster_role_selectors).flatten();
    let wanted: Vec<_> = selectors.flat_map(|it| &it.match_labels).flatten().collect();
    let mut rules: Vec<PolicyRule> = Vec::new();
    for source in roles.iter().filter(|it| it.metadata.name != role.metadata.name) {
        let labels = source.metadata.labels.as_ref();
        if wanted.iter().any(|(key, value)| labels.and_then(|it| it.get(*key)) == Some(*value)) {
            for rule in source.rules.iter().flatten() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}
