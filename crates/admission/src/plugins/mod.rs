//! One folder per plugin, and their order.

use std::sync::Arc;

use api::Lookup;
use stdx::Random;

use crate::chain::Plugin;
use crate::rights::Rights;

pub mod default_toleration_seconds;
pub mod namespace_lifecycle;
pub mod node_restriction;
pub mod priority;
pub mod service_account;
pub mod taint_nodes_by_condition;

#[cfg(test)]
mod fixture;

/// Every plugin, in upstream's order: it is part of the API, because a later plugin sees what earlier ones changed.
pub fn all(
    lookup: &Arc<dyn Lookup>,
    rights: Arc<dyn Rights>,
    random: &Random,
) -> Vec<Arc<dyn Plugin>> {
    vec![
        Arc::new(namespace_lifecycle::NamespaceLifecycle::new(lookup.clone())),
        Arc::new(service_account::ServiceAccounts::new(lookup.clone(), random.clone())),
        Arc::new(node_restriction::NodeRestriction::new(lookup.clone(), rights)),
        Arc::new(taint_nodes_by_condition::TaintNodesByCondition),
        Arc::new(priority::Priority),
        Arc::new(default_toleration_seconds::DefaultTolerationSeconds),
    ]
}
