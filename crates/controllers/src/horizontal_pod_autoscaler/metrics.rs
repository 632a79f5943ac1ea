//! Upstream's metrics of this controller.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::ObjectKey;
use telemetry::{
    Buckets, Counter, Description, Family, Gauge, Histogram, Registry, Stability, exponential,
};

const RECONCILIATIONS: Description<2> = Description {
    name: "horizontal_pod_autoscaler_controller_reconciliations_total",
    stability: Stability::Beta,
    help: "Number of reconciliations of HPA controller. The label 'action' should be either \
           'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', \
           'internal', or 'none'. Note that if both spec and internal errors happen during a \
           reconciliation, the first one to occur is reported in `error` label.",
    labels: ["action", "error"],
};
const RECONCILIATION_DURATION: Description<2> = Description {
    name: "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
    stability: Stability::Beta,
    help: "The time(seconds) that the HPA controller takes to reconcile once. The label 'action' \
           should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should \
           be either 'spec', 'internal', or 'none'. Note that if both spec and internal errors \
           happen during a reconciliation, the first one to occur is reported in `error` label.",
    labels: ["action", "error"],
};
const COMPUTATIONS: Description<3> = Description {
    name: "horizontal_pod_autoscaler_controller_metric_computation_total",
    stability: Stability::Beta,
    help: "Number of metric computations. The label 'action' should be either 'scale_down', \
           'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or \
           'none'. The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
    labels: ["action", "error", "metric_type"],
};
const COMPUTATION_DURATION: Description<3> = Description {
    name: "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
    stability: Stability::Beta,
    help: "The time(seconds) that the HPA controller takes to calculate one metric. The label \
           'action' should be either 'scale_down', 'scale_up', or 'none'. The label 'error' \
           should be either 'spec', 'internal', or 'none'. The label 'metric_type' corresponds to \
           HPA.spec.metrics[*].type",
    labels: ["action", "error", "metric_type"],
};
const COUNT: Description<0> = Description {
    name: "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers",
    stability: Stability::Alpha,
    help: "Current number of controlled HPA objects.",
    labels: [],
};
const DESIRED: Description<2> = Description {
    name: "horizontal_pod_autoscaler_controller_desired_replicas",
    stability: Stability::Alpha,
    help: "Current desired replica count for HPA objects.",
    labels: ["namespace", "hpa_name"],
};
const BUCKETS: Buckets = Buckets::seconds(&exponential::<15>(0.001, 2.0));

/// What was wrong with a reconciliation or a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    Spec,
    Internal,
}

impl Fault {
    fn label(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spec => "spec",
            Self::Internal => "internal",
        }
    }
}

pub(super) struct Metrics {
    reconciliations: Family<Counter, 2>,
    reconciliation_duration: Family<Histogram, 2>,
    computations: Family<Counter, 3>,
    computation_duration: Family<Histogram, 3>,
    count: Arc<Gauge>,
    desired: Family<Gauge, 2>,
}

impl Metrics {
    pub(super) fn new(registry: &Registry) -> Self {
        Self {
            reconciliations: registry.counters(&RECONCILIATIONS),
            reconciliation_duration: registry.histograms(&RECONCILIATION_DURATION, BUCKETS),
            computations: registry.counters(&COMPUTATIONS),
            computation_duration: registry.histograms(&COMPUTATION_DURATION, BUCKETS),
            count: registry.gauge(&COUNT),
            desired: registry.gauges(&DESIRED),
        }
    }

    pub(super) fn counted(&self, count: usize) {
        self.count.set(count as f64);
    }

    /// By how many replicas it changed the target.
    pub(super) fn reconciled(&self, change: i32, fault: Fault, elapsed: Duration) {
        let labels = [action(change), fault.label()];
        self.reconciliations.with(labels).increment();
        self.reconciliation_duration.with(labels).observe(elapsed);
    }

    pub(super) fn computed(&self, change: i32, fault: Fault, kind: &str, elapsed: Duration) {
        let change = if fault == Fault::None { change } else { 0 };
        let labels = [action(change), fault.label(), kind];
        self.computations.with(labels).increment();
        self.computation_duration.with(labels).observe(elapsed);
    }

    pub(super) fn desired(&self, key: &ObjectKey, replicas: i32) {
        self.desired.with([&key.namespace, &key.name]).set(f64::from(replicas));
    }
}

fn action(change: i32) -> &'static str {
    match change {
        0 => "none",
        1.. => "scale_up",
        _ => "scale_down",
    }
}
