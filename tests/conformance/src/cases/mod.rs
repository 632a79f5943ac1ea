//! The cases: a folder per area of upstream's, a file per theme, one list.

mod api_machinery;
mod apps;
mod auth;
mod cli;
mod instrumentation;
mod network;
mod node;
mod scheduling;
mod storage;
mod toolbox;

use std::time::Duration;

use anyhow::Result;
use futures_util::future::LocalBoxFuture;

use crate::scope::Scope;

/// What shows that a requirement is met.
pub struct Case {
    /// Upstream's name of the requirement.
    pub codename: &'static str,
    /// How long it may take.
    pub(crate) limit: Duration,
    pub(crate) run: for<'a> fn(&'a Scope) -> LocalBoxFuture<'a, Result<()>>,
}

/// For what takes moments, on a machine that has other things to do.
const LIMIT: Duration = Duration::from_secs(180);

/// For what waits for the server's own time, such as compaction, each five minutes by default.
const SLOW: Duration = Duration::from_secs(15 * 60);

/// A case of a requirement and the function that shows it.
macro_rules! case {
    ($codename:literal, $function:path) => {
        $crate::cases::Case {
            codename: $codename,
            limit: $crate::cases::LIMIT,
            run: |scope| Box::pin($function(scope)),
        }
    };
}
use case;

const ALL: &[&[Case]] = &[
    api_machinery::admission_policies::CASES,
    api_machinery::aggregated_discovery::CASES,
    api_machinery::aggregator::CASES,
    api_machinery::chunking::CASES,
    api_machinery::custom_resources::CASES,
    api_machinery::dependents::CASES,
    api_machinery::discovery::CASES,
    api_machinery::field_validation::CASES,
    api_machinery::flow_control::CASES,
    api_machinery::garbage_collector::CASES,
    api_machinery::namespaces::CASES,
    api_machinery::published_schemas::CASES,
    api_machinery::resource_quotas::CASES,
    api_machinery::watch::CASES,
    api_machinery::webhooks::CASES,
    apps::cron_jobs::CASES,
    apps::daemon_sets::CASES,
    apps::deployments::CASES,
    apps::disruption_budgets::CASES,
    apps::evictions::CASES,
    apps::jobs::CASES,
    apps::replica_sets::CASES,
    apps::replication_controllers::CASES,
    apps::stateful_health::CASES,
    apps::stateful_sets::CASES,
    auth::certificates::CASES,
    auth::service_accounts::CASES,
    auth::subject_reviews::CASES,
    cli::commands::CASES,
    cli::controllers::CASES,
    cli::proxy::CASES,
    instrumentation::events::CASES,
    network::addresses::CASES,
    network::api_server::CASES,
    network::endpoints::CASES,
    network::ingresses::CASES,
    network::matching_pods::CASES,
    network::proxied::CASES,
    network::services::CASES,
    network::traffic::CASES,
    node::config_maps::CASES,
    node::devices::CASES,
    node::leases::CASES,
    node::nodes::CASES,
    node::pod_templates::CASES,
    node::pods::CASES,
    node::runtime_classes::CASES,
    node::secrets::CASES,
    node::taints::CASES,
    scheduling::limit_ranges::CASES,
    storage::attachments::CASES,
    storage::claims::CASES,
    storage::classes::CASES,
    storage::csi::CASES,
    storage::immutable::CASES,
    storage::many_volumes::CASES,
];

/// The cases whose codenames have this text, the slow ones first, so that they end with the others.
#[must_use]
pub fn all(filter: &str) -> Vec<&'static Case> {
    let mut cases: Vec<&Case> =
        ALL.iter().copied().flatten().filter(|it| it.codename.contains(filter)).collect();
    cases.sort_by_key(|it| std::cmp::Reverse(it.limit));
    cases
}
