//! How many claims were made from templates, and how many there are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api::resource::{ResourceClaim, ResourceClaimTemplate};
use informer::Indexer;
use k8s_openapi::api::resource::v1::ResourceClaimSpec;
use telemetry::{Counter, Description, Family, Registry, Stability, Watched};

use super::pod::POD_CLAIM;

const CREATES: Description<2> = Description {
    name: "resourceclaim_controller_creates_total",
    stability: Stability::Alpha,
    help: "Number of ResourceClaims creation requests, categorized by creation status and admin access",
    labels: ["status", "admin_access"],
};
const CLAIMS: Description<3> = Description {
    name: "resourceclaim_controller_resource_claims",
    stability: Stability::Alpha,
    help: "Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be 'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty (manually created by a user).",
    labels: ["allocated", "admin_access", "source"],
};
/// Annotation of claims that the scheduler made.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";

pub(super) struct Metrics {
    creates: Family<Counter, 2>,
    /// While this is held, claims are counted.
    _counting: Arc<()>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry, claims: &Indexer<ResourceClaim>) -> Self {
        let (gauges, claims) = (registry.gauges(&CLAIMS), claims.clone());
        let counting = Arc::new(());
        let is_counting = Arc::downgrade(&counting);
        let counts: Mutex<BTreeMap<[&'static str; 3], u32>> = Mutex::default();
        registry.on_read(move || {
            if is_counting.upgrade().is_none() {
                return Watched::Gone;
            }
            // What there was once is shown as none.
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.values_mut().for_each(|it| *it = 0);
            for claim in claims.list() {
                *counts.entry(labels(&claim)).or_default() += 1;
            }
            counts.iter().for_each(|(labels, n)| gauges.with(*labels).set(f64::from(*n)));
            Watched::Alive
        });
        Self { creates: registry.counters(&CREATES), _counting: counting }
    }

    pub(super) fn created(&self, template: &ResourceClaimTemplate, is_made: bool) {
        let status = if is_made { "success" } else { "failure" };
        self.creates.with([status, admin_access(&template.spec.spec)]).increment();
    }
}

fn admin_access(spec: &ResourceClaimSpec) -> &'static str {
    let mut requests = spec.devices.iter().flat_map(|it| it.requests.iter().flatten());
    let is_admin = requests
        .any(|it| it.exactly.as_ref().is_some_and(|exactly| exactly.admin_access == Some(true)));
    if is_admin { "true" } else { "false" }
}

fn labels(claim: &ResourceClaim) -> [&'static str; 3] {
    let is_allocated = claim.status.as_ref().is_some_and(|it| it.allocation.is_some());
    let annotations = claim.metadata.annotations.as_ref();
    let of = |name: &str| annotations.and_then(|it| it.get(name)).map_or("", String::as_str);
    let source = match (of(EXTENDED), of(POD_CLAIM)) {
        ("true", _) => "extended_resource",
        (_, "") => "",
        _ => "resource_claim_template",
    };
    [if is_allocated { "true" } else { "false" }, admin_access(&claim.spec), source]
}
