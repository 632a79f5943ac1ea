//! What any bytes do to those who decide: objects are made of them that nobody has validated, and
//! each controller plans on those. Panics if one does, or wants more at once than is bounded. The
//! fuzz targets call it, and the test suite does with random bytes.

mod draw;

use apimachinery::cron::{Schedule, find_zone};
use jiff::tz::TimeZone;

pub(crate) use self::draw::{Draw, now};

/// One look may want so many writes: a few for each object that there is, and a burst of new ones.
const ACTIONS_MAX: usize = 600;
/// A schedule without a time limit looks so far.
const TIMES: usize = 3;

/// Plans on what was drawn; how much it wants done.
type Plan = fn(&mut Draw<'_>) -> usize;

const PLANS: &[(&str, Plan)] = &[
    ("bootstrap_signer", crate::bootstrap_signer::plan_any),
    ("certificate_approving", crate::certificate_approving::plan_any),
    ("certificate_cleaner", crate::certificate_cleaner::plan_any),
    ("certificate_signing", crate::certificate_signing::plan_any),
    ("cluster_role_aggregation", crate::cluster_role_aggregation::plan_any),
    ("cron_job", crate::cron_job::plan_any),
    ("daemon_set", crate::daemon_set::plan_any),
    ("deployment", crate::deployment::plan_any),
    ("device_taint_eviction", crate::device_taint_eviction::plan_any),
    ("disruption", crate::disruption::plan_any),
    ("endpoint_slice_mirroring", crate::endpoint_slice_mirroring::plan_any),
    ("endpoint_slices", crate::endpoint_slices::plan_any),
    ("endpoints", crate::endpoints::plan_any),
    ("garbage_collector", crate::garbage_collector::plan_any),
    ("horizontal_pod_autoscaler", crate::horizontal_pod_autoscaler::plan_any),
    ("job", crate::job::plan_any),
    ("legacy_token_cleaner", crate::legacy_token_cleaner::plan_any),
    ("load_balancer", crate::load_balancer::plan_any),
    ("namespace", crate::namespace::plan_any),
    ("node_certificate_approving", crate::node_certificate_approving::plan_any),
    ("node_ipam", crate::node_ipam::plan_any),
    ("node_lifecycle", crate::node_lifecycle::plan_any),
    ("persistent_volume_claim_protection", crate::persistent_volume_claim_protection::plan_any),
    ("persistent_volume_protection", crate::persistent_volume_protection::plan_any),
    ("pod_certificate_request_cleaner", crate::pod_certificate_request_cleaner::plan_any),
    ("pod_gc", crate::pod_gc::plan_any),
    ("pod_group_protection", crate::pod_group_protection::plan_any),
    ("replicas", crate::replicas::plan_any),
    ("resource_claim", crate::resource_claim::plan_any),
    ("resource_pool_status", crate::resource_pool_status::plan_any),
    ("resource_quota", crate::resource_quota::plan_any),
    ("root_ca_publisher", crate::root_ca_publisher::plan_any),
    ("service_account", crate::service_account::plan_any),
    ("service_account_tokens", crate::service_account_tokens::plan_any),
    ("service_cidr", crate::service_cidr::plan_any),
    ("stateful_set", crate::stateful_set::plan_any),
    ("storage_version_garbage_collector", crate::storage_version_garbage_collector::plan_any),
    ("storage_version_migrator", crate::storage_version_migrator::plan_any),
    ("taint_eviction", crate::taint_eviction::plan_any),
    ("token_cleaner", crate::token_cleaner::plan_any),
    ("trust_bundle_publisher", crate::trust_bundle_publisher::plan_any),
    ("ttl", crate::ttl::plan_any),
    ("ttl_after_finished", crate::ttl_after_finished::plan_any),
    ("validating_admission_policy_status", crate::validating_admission_policy_status::plan_any),
    ("volume_attributes_class_protection", crate::volume_attributes_class_protection::plan_any),
];

/// Those whose plan can be asked for by its place.
pub const N_PLANS: usize = PLANS.len();

/// The first byte says whose plan, the rest what there is.
pub fn plans(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let (name, plan) = PLANS[usize::from(*first) % N_PLANS];
    let n_actions = plan(&mut Draw::new(rest));
    assert!(n_actions <= ACTIONS_MAX, "{name} wants {n_actions} writes at once");
}

/// A schedule, its time zone behind a line break: what it says comes after what was asked for.
pub fn cron(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (schedule, zone) = text.split_once('\n').unwrap_or((&text, "UTC"));
    let zone = find_zone(zone).unwrap_or(TimeZone::UTC);
    let Ok(schedule) = Schedule::parse(schedule) else { return };
    let mut time = now();
    for _ in 0..TIMES {
        let Some(next) = schedule.next_after(time, &zone) else { return };
        assert!(next > time, "{next} is not after {time}");
        time = next;
    }
}

/// A list of completion indexes; the first byte says of how many.
pub fn indexes(bytes: &[u8]) {
    crate::job::read_any_indexes(bytes);
}
