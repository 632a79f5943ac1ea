//! The metrics of one component.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::description::{Buckets, Description};
use crate::family::{Family, Render};
use crate::metric::{Counter, Gauge, Histogram, Metric, Total};
use crate::summary::{MaxAge, Summary};

/// Cheap to clone; clones are the same registry. Asking twice for a metric gives the same one, so
/// that a component that is started again goes on where it was.
#[derive(Clone, Default)]
pub struct Registry(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// By name: the order of the page.
    families: Mutex<BTreeMap<&'static str, Registered>>,
    readings: Mutex<Vec<Reading>>,
}

struct Registered {
    render: Arc<dyn Render>,
    /// The same `Family`.
    family: Box<dyn Any + Send + Sync>,
}

type Reading = Box<dyn Fn() -> Watched + Send + Sync>;

/// Whether what a reading reads is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    Alive,
    /// The reading is dropped.
    Gone,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(lock(&self.0.families).keys()).finish()
    }
}

/// A panic while adding leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    pub fn counters<const N: usize>(&self, description: &Description<N>) -> Family<Counter, N> {
        self.family(description, ())
    }

    pub fn counter(&self, description: &Description<0>) -> Arc<Counter> {
        self.counters(description).with([])
    }

    /// A counter whose value is read elsewhere.
    pub fn total(&self, description: &Description<0>) -> Arc<Total> {
        self.family(description, ()).with([])
    }

    pub fn gauges<const N: usize>(&self, description: &Description<N>) -> Family<Gauge, N> {
        self.family(description, ())
    }

    pub fn gauge(&self, description: &Description<0>) -> Arc<Gauge> {
        self.gauges(description).with([])
    }

    pub fn histograms<const N: usize>(
        &self,
        description: &Description<N>,
        buckets: Buckets,
    ) -> Family<Histogram, N> {
        self.family(description, buckets)
    }

    pub fn histogram(&self, description: &Description<0>, buckets: Buckets) -> Arc<Histogram> {
        self.histograms(description, buckets).with([])
    }

    /// Quantiles of what was observed within `age`.
    pub fn summaries<const N: usize>(
        &self,
        description: &Description<N>,
        age: MaxAge,
    ) -> Family<Summary, N> {
        self.family(description, age)
    }

    fn family<M: Metric, const N: usize>(
        &self,
        description: &Description<N>,
        shape: M::Shape,
    ) -> Family<M, N> {
        let mut families = lock(&self.0.families);
        if let Some(registered) = families.get(description.name) {
            let family = registered.family.downcast_ref::<Family<M, N>>();
            return family.expect("a metric is declared once, with one type").clone();
        }
        let family = Family::new(*description, shape);
        let (render, any) = (Arc::new(family.clone()), Box::new(family.clone()));
        families.insert(description.name, Registered { render, family: any });
        family
    }

    /// Called before each page is written, to set what changes by itself: ages, sizes, the
    /// process's numbers. Must not wait.
    pub fn on_read(&self, read: impl Fn() -> Watched + Send + Sync + 'static) {
        lock(&self.0.readings).push(Box::new(read));
    }

    /// The page, as text of [`CONTENT_TYPE`](crate::CONTENT_TYPE).
    pub fn render(&self) -> String {
        lock(&self.0.readings).retain(|read| read() == Watched::Alive);
        let families: Vec<_> =
            lock(&self.0.families).values().map(|it| it.render.clone()).collect();
        let mut page = String::with_capacity(16 << 10);
        for family in families {
            family.render(&mut page);
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::{Registry, Watched};
    use crate::{Buckets, Description, Stability, exponential};

    const REQUESTS: Description<2> = Description {
        name: "requests_total",
        stability: Stability::Stable,
        help: "Requests, by verb\nand code.",
        labels: ["verb", "code"],
    };
    const DURATION: Description<1> = Description {
        name: "duration_seconds",
        stability: Stability::Alpha,
        help: "How long.",
        labels: ["verb"],
    };
    const DEPTH: Description<0> =
        Description { name: "depth", stability: Stability::Unmarked, help: "Deep.", labels: [] };

    #[test]
    fn the_page_is_what_upstream_would_write() {
        let registry = Registry::default();
        let requests = registry.counters(&REQUESTS);
        requests.with(["PUT", "200"]).increment();
        requests.with(["GET", "404"]).add(2);
        requests.with(["GET", "200"]).increment();
        const BOUNDS: [f64; 3] = exponential(0.005, 10.0);
        let durations = registry.histograms(&DURATION, Buckets::seconds(&BOUNDS));
        for millis in [1, 5, 6, 2_000] {
            durations.with(["GET"]).observe(Duration::from_millis(millis));
        }
        registry.gauge(&DEPTH).add(-1.5);
        let expected = r#"# HELP depth Deep.
# TYPE depth gauge
depth -1.5
# HELP duration_seconds [ALPHA] How long.
# TYPE duration_seconds histogram
duration_seconds_bucket{verb="GET",le="0.005"} 2
duration_seconds_bucket{verb="GET",le="0.05"} 3
duration_seconds_bucket{verb="GET",le="0.5"} 3
duration_seconds_bucket{verb="GET",le="+Inf"} 4
duration_seconds_sum{verb="GET"} 2.012
duration_seconds_count{verb="GET"} 4
# HELP requests_total [STABLE] Requests, by verb\nand code.
# TYPE requests_total counter
requests_total{code="200",verb="GET"} 1
requests_total{code="200",verb="PUT"} 1
requests_total{code="404",verb="GET"} 2
"#;
        assert_eq!(registry.render(), expected);
    }

    #[test]
    fn a_metric_without_series_is_not_shown() {
        let registry = Registry::default();
        let requests = registry.counters(&REQUESTS);
        assert_eq!(registry.render(), "");
        requests.with(["GET", "200"]);
        assert!(registry.render().ends_with("} 0\n"));
        requests.clear();
        assert_eq!(registry.render(), "");
    }

    #[test]
    fn asking_twice_gives_the_same_metric() {
        let registry = Registry::default();
        registry.counters(&REQUESTS).with(["GET", "200"]).increment();
        registry.clone().counters(&REQUESTS).with(["GET", "200"]).increment();
        assert_eq!(registry.counters(&REQUESTS).with(["GET", "200"]).value(), 2);
        // Another registry has others of the same name.
        assert_eq!(Registry::default().counters(&REQUESTS).with(["GET", "200"]).value(), 0);
    }

    #[test]
    fn readings_end_with_what_they_read() {
        let registry = Registry::default();
        let (depth, queue) = (registry.gauge(&DEPTH), Arc::new(7.0));
        let seen = Arc::downgrade(&queue);
        registry.on_read(move || match seen.upgrade() {
            Some(queue) => {
                depth.set(*queue);
                Watched::Alive
            }
            None => Watched::Gone,
        });
        assert!(registry.render().ends_with("depth 7\n"));
        drop(queue);
        registry.render();
        assert!(registry.0.readings.lock().unwrap().is_empty());
    }

    #[test]
    #[should_panic(expected = "declared once")]
    fn one_name_has_one_type() {
        let registry = Registry::default();
        registry.counters(&REQUESTS);
        registry.gauges(&REQUESTS);
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let registry = Registry::default();
        let (counters, n_threads, n_each) = (registry.counters(&REQUESTS), 4, 10_000);
        let histogram = registry.histograms(&DURATION, Buckets::seconds(&[0.1]));
        std::thread::scope(|scope| {
            for _ in 0..n_threads {
                scope.spawn(|| {
                    for number in 0..n_each {
                        counters.with(["GET", &(number % 50).to_string()]).increment();
                        histogram.with(["GET"]).observe(Duration::from_nanos(1));
                    }
                });
            }
        });
        let total: u64 = (0..50).map(|it| counters.with(["GET", &it.to_string()]).value()).sum();
        assert_eq!((total, histogram.with(["GET"]).count()), (40_000, 40_000));
    }
}
