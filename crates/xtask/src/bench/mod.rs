//! Benchmarks of the release binary, printed for `docs/benchmarks.md`.

pub(crate) mod api;
pub(crate) mod controllers;
pub(crate) mod extension;
pub(crate) mod node;
pub(crate) mod store;
pub(crate) mod up;
mod usage;

/// Not a number if there are none.
fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
