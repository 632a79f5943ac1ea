//! How a metric is declared: a constant beside the code that records it.

use std::fmt;

/// What upstream promises of a metric (KEP-1209); the first word of its help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    Alpha,
    Beta,
    Stable,
    /// Of no Kubernetes component: Prometheus' own metrics of a process, and those that upstream
    /// has no word for.
    Unmarked,
}

impl fmt::Display for Stability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alpha => "[ALPHA] ",
            Self::Beta => "[BETA] ",
            Self::Stable => "[STABLE] ",
            Self::Unmarked => "",
        })
    }
}

/// A metric with `N` labels.
#[derive(Clone, Copy, Debug)]
pub struct Description<const N: usize> {
    pub name: &'static str,
    pub stability: Stability,
    pub help: &'static str,
    pub labels: [&'static str; N],
}

/// The upper bounds of a histogram's buckets, without the last, which has none.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    pub(crate) bounds: &'static [f64],
    /// How many of the integers that are counted make one of what is shown.
    pub(crate) scale: f64,
}

impl Buckets {
    /// Of durations, which are counted in nanoseconds and shown in seconds.
    pub const fn seconds(bounds: &'static [f64]) -> Self {
        Self { bounds, scale: 1e9 }
    }

    /// Of bytes, or of anything else that is counted one by one.
    pub const fn units(bounds: &'static [f64]) -> Self {
        Self { bounds, scale: 1.0 }
    }
}

/// Bounds that grow by a factor. Multiplied one after the other, as Prometheus' libraries do, so
/// that rounding is theirs: it is seen in the names of buckets.
pub const fn exponential<const COUNT: usize>(first: f64, factor: f64) -> [f64; COUNT] {
    let mut bounds = [first; COUNT];
    let mut index = 1;
    while index < COUNT {
        bounds[index] = bounds[index - 1] * factor;
        index += 1;
    }
    bounds
}
