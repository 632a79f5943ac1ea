//! Quantiles of the last hours, and the number and the sum of all values: what Prometheus calls a
//! summary. Bounded whatever is observed, and without a lock.
//!
//! Values are counted in cells that grow with them, 32 to each power of two, so that a quantile is
//! shown within 1.6 %: 1,000 falls into 992..1,008. Each fifth of the time has cells of its own,
//! the oldest of which are counted anew.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::metric::Metric;
use crate::text::Sample;

/// Those that Go's library shows if nobody asks for others.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
const PARTS: u64 = 5;
/// Of a power of two, as digits and as a number.
const CELL_BITS: u32 = 5;
const CELLS_OF_POWER: u64 = 1 << CELL_BITS;
/// Longer than an hour is an hour.
const VALUE_BITS: u32 = 42;
const CELLS: usize = (VALUE_BITS - CELL_BITS + 1) as usize * CELLS_OF_POWER as usize;
const NANOS: f64 = 1e9;

/// How long a value is told of.
#[derive(Clone, Copy, Debug)]
pub struct MaxAge(pub Duration);

#[derive(Debug)]
pub struct Summary {
    /// How long one part is.
    part: Duration,
    start: Instant,
    parts: [Part; PARTS as usize],
    count: AtomicU64,
    sum: AtomicU64,
}

#[derive(Debug, Default)]
struct Part {
    /// Which since the start, counted from 1: those of another time are not of the last hours.
    number: AtomicU64,
    cells: OnceLock<Box<[AtomicU32]>>,
}

impl Summary {
    pub fn observe(&self, elapsed: Duration) {
        let value = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
        let number = self.number();
        let part = &self.parts[(number % PARTS) as usize];
        part.cells_for(number)[cell_of(value)].fetch_add(1, Ordering::Relaxed);
    }

    /// Of the part of the time that it is now.
    fn number(&self) -> u64 {
        let parts = self.start.elapsed().as_nanos() / self.part.as_nanos().max(1);
        u64::try_from(parts).unwrap_or(u64::MAX - 1) + 1
    }

    /// Of all parts that are young enough, by cell.
    fn counts(&self) -> Vec<u64> {
        let number = self.number();
        let mut counts = vec![0; CELLS];
        for part in &self.parts {
            let age = number.saturating_sub(part.number.load(Ordering::Relaxed));
            let cells = part.cells.get().filter(|_| age < PARTS);
            for (count, cell) in counts.iter_mut().zip(cells.into_iter().flatten()) {
                *count += u64::from(cell.load(Ordering::Relaxed));
            }
        }
        counts
    }
}

impl Part {
    /// Emptied by whoever comes first in a new time. What others count at this very moment may be
    /// lost: of thousands.
    fn cells_for(&self, number: u64) -> &[AtomicU32] {
        let cells = self.cells.get_or_init(|| (0..CELLS).map(|_| AtomicU32::new(0)).collect());
        let before = self.number.load(Ordering::Relaxed);
        let order = Ordering::Relaxed;
        if before < number
            && self.number.compare_exchange(before, number, order, order).is_ok()
            && before != 0
        {
            cells.iter().for_each(|it| it.store(0, Ordering::Relaxed));
        }
        cells
    }
}

impl Metric for Summary {
    const TYPE: &'static str = "summary";
    type Shape = MaxAge;

    fn new(MaxAge(age): MaxAge) -> Self {
        Self {
            part: age / PARTS as u32,
            start: Instant::now(),
            parts: Default::default(),
            count: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    fn render(&self, sample: &mut Sample<'_>) {
        let counts = self.counts();
        let total: u64 = counts.iter().sum();
        for quantile in QUANTILES {
            let value = value_at(&counts, (quantile * total as f64).ceil() as u64);
            let seconds = value.map_or(f64::NAN, |it| it as f64 / NANOS);
            sample.value("", Some(("quantile", quantile)), seconds);
        }
        sample.value("_sum", None, self.sum.load(Ordering::Relaxed) as f64 / NANOS);
        sample.value("_count", None, self.count.load(Ordering::Relaxed) as f64);
    }
}

/// Small values have a cell each; of the others the first digits count.
fn cell_of(value: u64) -> usize {
    let value = value.min((1 << VALUE_BITS) - 1);
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(CELL_BITS + 1);
    (u64::from(shift) * CELLS_OF_POWER + (value >> shift)) as usize
}

/// The middle of what falls into a cell.
fn middle_of(cell: usize) -> u64 {
    let cell = cell as u64;
    if cell < 2 * CELLS_OF_POWER {
        return cell;
    }
    let shift = cell / CELLS_OF_POWER - 1;
    let first = (CELLS_OF_POWER + cell % CELLS_OF_POWER) << shift;
    first + (1 << shift) / 2
}

/// Of the values in order the one at `rank`, counted from 1; none if there are none.
fn value_at(counts: &[u64], rank: u64) -> Option<u64> {
    let mut seen = 0;
    let cell = counts.iter().position(|count| {
        seen += count;
        *count > 0 && seen >= rank
    })?;
    Some(middle_of(cell))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Description, Registry, Stability};

    const STEPS: Description<1> = Description {
        name: "steps_seconds",
        stability: Stability::Alpha,
        help: "Steps.",
        labels: ["type"],
    };

    #[test]
    fn a_cell_is_as_wide_as_its_values_are_large() {
        for power in 0..VALUE_BITS {
            for value in [1 << power, (1 << power) + (1 << power) / 3, (2 << power) - 1] {
                let middle = middle_of(cell_of(value));
                assert!(middle.abs_diff(value) * 64 <= value, "{value}: {middle}");
            }
        }
        assert_eq!(cell_of(0), 0);
        assert_eq!(cell_of(u64::MAX), CELLS - 1);
        // In order, and none is left out.
        let cells: Vec<usize> = (0..4096).map(cell_of).collect();
        assert!(cells.windows(2).all(|it| it[1] - it[0] <= 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_page_is_what_upstream_would_write() {
        let registry = Registry::default();
        let steps = registry.summaries(&STEPS, MaxAge(Duration::from_secs(5 * 3600)));
        let admit = steps.with(["admit"]);
        let check = |expected: &str| {
            let page = registry.render();
            let start = "# HELP steps_seconds [ALPHA] Steps.\n# TYPE steps_seconds summary\n";
            assert_eq!(page.strip_prefix(start), Some(expected));
        };
        check(
            "steps_seconds{type=\"admit\",quantile=\"0.5\"} NaN\n\
             steps_seconds{type=\"admit\",quantile=\"0.9\"} NaN\n\
             steps_seconds{type=\"admit\",quantile=\"0.99\"} NaN\n\
             steps_seconds_sum{type=\"admit\"} 0\n\
             steps_seconds_count{type=\"admit\"} 0\n",
        );
        for nanos in 1..=50 {
            admit.observe(Duration::from_nanos(nanos));
        }
        check(
            "steps_seconds{type=\"admit\",quantile=\"0.5\"} 2.5e-08\n\
             steps_seconds{type=\"admit\",quantile=\"0.9\"} 4.5e-08\n\
             steps_seconds{type=\"admit\",quantile=\"0.99\"} 5e-08\n\
             steps_seconds_sum{type=\"admit\"} 1.275e-06\n\
             steps_seconds_count{type=\"admit\"} 50\n",
        );
    }

    #[tokio::test(start_paused = true)]
    async fn quantiles_are_of_the_last_hours_and_the_sum_is_of_all() {
        const HOUR: Duration = Duration::from_secs(3600);
        let summary = Summary::new(MaxAge(5 * HOUR));
        let median = || value_at(&summary.counts(), summary.counts().iter().sum::<u64>() / 2);
        for _ in 0..10 {
            summary.observe(Duration::from_nanos(20));
        }
        assert_eq!(median(), Some(20));
        tokio::time::advance(4 * HOUR).await;
        for _ in 0..30 {
            summary.observe(Duration::from_nanos(40));
        }
        assert_eq!(summary.counts().iter().sum::<u64>(), 40);
        tokio::time::advance(HOUR).await;
        assert_eq!(summary.counts().iter().sum::<u64>(), 30, "the first hour is over");
        // Its cells are those of the sixth hour, from now on.
        summary.observe(Duration::from_nanos(60));
        assert_eq!(summary.counts().iter().sum::<u64>(), 31);
        assert_eq!(median(), Some(40));
        tokio::time::advance(100 * HOUR).await;
        assert_eq!(median(), None);
        assert_eq!(summary.count.load(Ordering::Relaxed), 41);
    }
}
