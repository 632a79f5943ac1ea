//! What is counted of APIServices, under upstream's names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use api::apiregistration::APIService;
use api::apiregistration::api_service::availability;
use telemetry::{Counter, Description, Family, Gauge, Registry, Stability, Watched};

const UNAVAILABLE: Description<1> = Description {
    name: "aggregator_unavailable_apiservice",
    stability: Stability::Alpha,
    help: "Gauge of APIServices which are marked as unavailable broken down by APIService name.",
    labels: ["name"],
};
const LOST: Description<2> = Description {
    name: "aggregator_unavailable_apiservice_total",
    stability: Stability::Alpha,
    help: "Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
    labels: ["name", "reason"],
};

/// APIServices are few: those that there are, and reasons are ours.
pub(super) struct Metrics {
    known: Arc<Known>,
    lost: Family<Counter, 2>,
}

/// By name, whether each is unavailable.
#[derive(Default)]
struct Known(Mutex<BTreeMap<String, bool>>);

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let known = Arc::new(Known::default());
        let (gauges, shown) = (registry.gauges(&UNAVAILABLE), Arc::downgrade(&known));
        registry.on_read(move || show(&shown, &gauges));
        Self { known, lost: registry.counters(&LOST) }
    }

    /// What an APIService was, and what it is.
    pub(super) fn changed(
        &self,
        name: &str,
        before: Option<&APIService>,
        now: Option<&APIService>,
    ) {
        let mut known = self.known.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(now) = now else {
            known.remove(name);
            return;
        };
        let is_available = availability::is_available(now);
        known.insert(name.to_owned(), !is_available);
        if !is_available && before.is_some_and(availability::is_available) {
            let reason = availability::reason(now).unwrap_or("UnknownReason");
            self.lost.with([name, reason]).increment();
        }
    }
}

/// Names that are gone are not shown any more.
fn show(known: &Weak<Known>, gauges: &Family<Gauge, 1>) -> Watched {
    let Some(known) = known.upgrade() else { return Watched::Gone };
    gauges.clear();
    for (name, is_unavailable) in known.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        gauges.with([name]).set(f64::from(u8::from(*is_unavailable)));
    }
    Watched::Alive
}
