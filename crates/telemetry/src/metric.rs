//! One time series: a number that is added to, one that is set, or a histogram (quantiles are in
//! `summary`). Plain atomics:
//! whoever reads sees each number as it was at some moment, not all at the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::description::Buckets;
use crate::text::Sample;

/// What a family is made of.
pub trait Metric: Send + Sync + 'static {
    /// As the page calls it.
    const TYPE: &'static str;
    /// What all of one family have in common.
    type Shape: Copy + Send + Sync + 'static;

    fn new(shape: Self::Shape) -> Self;
    fn render(&self, sample: &mut Sample<'_>);
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn increment(&self) {
        self.add(1);
    }

    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Metric for Counter {
    const TYPE: &'static str = "counter";
    type Shape = ();

    fn new((): ()) -> Self {
        Self::default()
    }

    fn render(&self, sample: &mut Sample<'_>) {
        sample.value("", None, self.value() as f64);
    }
}

/// A number that only grows, as somebody else counts it: the kernel, for example.
#[derive(Debug, Default)]
pub struct Total(AtomicU64);

impl Total {
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

impl Metric for Total {
    const TYPE: &'static str = "counter";
    type Shape = ();

    fn new((): ()) -> Self {
        Self::default()
    }

    fn render(&self, sample: &mut Sample<'_>) {
        sample.value("", None, f64::from_bits(self.0.load(Ordering::Relaxed)));
    }
}

/// A number that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }

    pub fn add(&self, difference: f64) {
        let add = |bits| Some((f64::from_bits(bits) + difference).to_bits());
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    pub fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl Metric for Gauge {
    const TYPE: &'static str = "gauge";
    type Shape = ();

    fn new((): ()) -> Self {
        Self::default()
    }

    fn render(&self, sample: &mut Sample<'_>) {
        sample.value("", None, self.value());
    }
}

/// How often values fell into each bucket, and their sum. Counted in integers, so that each is one
/// addition.
#[derive(Debug)]
pub struct Histogram {
    buckets: Buckets,
    /// The bounds as integers, each the largest value that its bucket takes.
    bounds: Box<[u64]>,
    /// Of each bucket alone, the unbounded one last: they are added up when they are shown.
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    pub fn observe(&self, elapsed: Duration) {
        self.observe_units(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Bytes, or nanoseconds: what the buckets are counted in.
    pub fn observe_units(&self, value: u64) {
        // Most values fall into the first buckets.
        let index = self.bounds.iter().position(|bound| value <= *bound);
        let index = index.unwrap_or(self.bounds.len());
        self.counts[index].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().map(|it| it.load(Ordering::Relaxed)).sum()
    }
}

impl Metric for Histogram {
    const TYPE: &'static str = "histogram";
    type Shape = Buckets;

    fn new(buckets: Buckets) -> Self {
        let bound = |it: &f64| (it * buckets.scale).round() as u64;
        Self {
            buckets,
            bounds: buckets.bounds.iter().map(bound).collect(),
            counts: (0..=buckets.bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    fn render(&self, sample: &mut Sample<'_>) {
        let sum = self.sum.load(Ordering::Relaxed) as f64 / self.buckets.scale;
        let bounds = self.buckets.bounds.iter().copied().chain([f64::INFINITY]);
        let mut count = 0;
        for (bound, in_bucket) in bounds.zip(&self.counts) {
            count += in_bucket.load(Ordering::Relaxed);
            sample.value("_bucket", Some(("le", bound)), count as f64);
        }
        sample.value("_sum", None, sum);
        sample.value("_count", None, count as f64);
    }
}
