//! How well endpoints are packed: what is desired, and how many slices that takes, over all
//! Services of one controller.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apimachinery::ObjectKey;
use telemetry::{Buckets, Description, Gauge, Registry, exponential};

/// Of histograms that count endpoints.
pub(crate) const BUCKETS: Buckets = Buckets::units(&exponential::<15>(2.0, 2.0));

/// One group of endpoints that may share slices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Efficiency {
    pub endpoints: usize,
    pub slices: usize,
}

/// The names of the three gauges.
pub(crate) struct TallyNames {
    pub endpoints: Description<0>,
    pub slices: Description<0>,
    pub desired_slices: Description<0>,
}

/// Sums over all Services, kept by difference.
pub(crate) struct Tally {
    per_slice: usize,
    groups: Mutex<BTreeMap<ObjectKey, Vec<Efficiency>>>,
    endpoints: Arc<Gauge>,
    slices: Arc<Gauge>,
    desired_slices: Arc<Gauge>,
}

impl Tally {
    pub(crate) fn new(registry: &Registry, names: &TallyNames, per_slice: usize) -> Self {
        Self {
            per_slice: per_slice.max(1),
            groups: Mutex::default(),
            endpoints: registry.gauge(&names.endpoints),
            slices: registry.gauge(&names.slices),
            desired_slices: registry.gauge(&names.desired_slices),
        }
    }

    fn groups(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Vec<Efficiency>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, service: &ObjectKey, groups: Vec<Efficiency>) {
        let mut all = self.groups();
        self.add(&groups, 1.0);
        if let Some(before) = all.insert(service.clone(), groups) {
            self.add(&before, -1.0);
        }
    }

    /// The Service is gone, or somebody else's.
    pub(crate) fn forget(&self, service: &ObjectKey) {
        if let Some(before) = self.groups().remove(service) {
            self.add(&before, -1.0);
        }
    }

    fn add(&self, groups: &[Efficiency], sign: f64) {
        let sum = |of: fn(&Efficiency, usize) -> usize| {
            let sum: usize = groups.iter().map(|it| of(it, self.per_slice)).sum();
            sign * f64::from(u32::try_from(sum).unwrap_or(u32::MAX))
        };
        self.endpoints.add(sum(|it, _| it.endpoints));
        self.slices.add(sum(|it, _| it.slices));
        self.desired_slices.add(sum(|it, per_slice| it.endpoints.div_ceil(per_slice)));
    }
}
