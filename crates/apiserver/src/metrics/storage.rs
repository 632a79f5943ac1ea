//! What is asked of the store, and what is in it. The store's metrics have etcd's names, whichever
//! engine it is: that is where people look.

use std::sync::Arc;

use api::Kind;
use telemetry::{
    Buckets, Counter, Description, Family, Gauge, Histogram, Interner, Registry, Stability,
};
use tokio::time::Instant;

use super::requests::DURATION_BOUNDS;
use crate::cache::Cache;

const fn request(name: &'static str, help: &'static str) -> Description<3> {
    let labels = ["operation", "group", "resource"];
    Description { name, stability: Stability::Alpha, help, labels }
}

const DURATION: Description<3> = request(
    "etcd_request_duration_seconds",
    "Etcd request latency in seconds for each operation and object type.",
);
const TOTAL: Description<3> =
    request("etcd_requests_total", "Etcd request counts for each operation and object type.");
const ERRORS: Description<3> = request(
    "etcd_request_errors_total",
    "Etcd failed request counts for each operation and object type.",
);
const OBJECTS: Description<1> = Description {
    name: "apiserver_storage_objects",
    stability: Stability::Stable,
    help: "(Deprecated since 1.34.0) [DEPRECATED, consider using apiserver_resource_objects instead] Number of stored objects \
           at the time of last check split by kind. In case of a fetching error, the value will be -1.",
    labels: ["resource"],
};
const RESOURCE_OBJECTS: Description<2> = Description {
    name: "apiserver_resource_objects",
    stability: Stability::Alpha,
    help: "Number of stored objects at the time of last check split by kind. In case of a fetching error, the value will \
           be -1.",
    labels: ["group", "resource"],
};
const SIZE: Description<1> = Description {
    name: "apiserver_storage_size_bytes",
    stability: Stability::Stable,
    help: "Size of the storage database file physically allocated in bytes.",
    labels: ["storage_cluster_id"],
};
const REVISION: Description<0> = Description {
    name: "apiserver_storage_revision",
    stability: Stability::Unmarked,
    help: "The newest revision that this server has seen.",
    labels: [],
};
const READ_ONLY: Description<0> = Description {
    name: "apiserver_storage_read_only",
    stability: Stability::Unmarked,
    help: "Whether the store refuses writes.",
    labels: [],
};
/// Upstream numbers the clusters of etcd that a server uses.
const CLUSTER: &str = "etcd-0";

pub(crate) struct Storage {
    duration: Family<Histogram, 3>,
    total: Family<Counter, 3>,
    errors: Family<Counter, 3>,
    series: Interner<Series, 3>,
    objects: Family<Gauge, 1>,
    resource_objects: Family<Gauge, 2>,
    size: Family<Gauge, 1>,
    revision: Arc<Gauge>,
    read_only: Arc<Gauge>,
}

struct Series {
    duration: Arc<Histogram>,
    total: Arc<Counter>,
    errors: Arc<Counter>,
}

/// What a write does, as upstream names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
}

/// A request that the store has not answered yet.
pub(crate) struct Asked {
    series: Arc<Series>,
    start: Instant,
}

impl Asked {
    pub(crate) fn answered<T, E>(self, answer: &Result<T, E>) {
        self.series.duration.observe(self.start.elapsed());
        self.series.total.increment();
        if answer.is_err() {
            self.series.errors.increment();
        }
    }
}

impl Storage {
    pub(super) fn new(registry: &Registry) -> Self {
        let buckets = Buckets::seconds(&DURATION_BOUNDS);
        Self {
            duration: registry.histograms(&DURATION, buckets),
            total: registry.counters(&TOTAL),
            errors: registry.counters(&ERRORS),
            series: Interner::default(),
            objects: registry.gauges(&OBJECTS),
            resource_objects: registry.gauges(&RESOURCE_OBJECTS),
            size: registry.gauges(&SIZE),
            revision: registry.gauge(&REVISION),
            read_only: registry.gauge(&READ_ONLY),
        }
    }

    pub(crate) fn ask(&self, operation: Operation, kind: &dyn Kind) -> Asked {
        let names = kind.names();
        let operation = match operation {
            Operation::Create => "create",
            Operation::Update => "update",
            Operation::Delete => "delete",
        };
        let series = self.series.get([operation, &names.group, &names.plural], |labels| Series {
            duration: self.duration.with(labels),
            total: self.total.with(labels),
            errors: self.errors.with(labels),
        });
        Asked { series, start: Instant::now() }
    }

    /// What is in the store now. Kinds that are no longer served are no longer shown.
    pub(super) async fn read(&self, cache: &Cache) {
        self.objects.clear();
        self.resource_objects.clear();
        for kind in cache.kinds().iter() {
            if kind.registry_prefix().is_empty() {
                continue;
            }
            let (names, count) = (kind.names(), cache.count(kind.as_ref()) as f64);
            self.objects.with([&names.group_resource().to_string()]).set(count);
            self.resource_objects.with([&names.group, &names.plural]).set(count);
        }
        self.revision.set(cache.revision() as f64);
        if let Ok(status) = cache.store().status().await {
            self.size.with([CLUSTER]).set(status.bytes as f64);
            self.read_only.set(f64::from(u8::from(status.read_only.is_some())));
        }
    }
}
