//! What recording costs: `cargo run --release -p telemetry --example cost`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use telemetry::{Buckets, Description, Registry, Stability, exponential};

const N_ROUNDS: u32 = 5_000_000;

const DURATION: Description<8> = Description {
    name: "apiserver_request_duration_seconds",
    stability: Stability::Stable,
    help: "As long as the API server's.",
    labels: [
        "verb",
        "dry_run",
        "group",
        "version",
        "resource",
        "subresource",
        "scope",
        "component",
    ],
};
const VALUES: [&str; 8] =
    ["GET", "", "apps", "v1", "deployments", "status", "resource", "apiserver"];
const BOUNDS: [f64; 23] = exponential(0.005, 1.5);

#[expect(clippy::print_stdout, reason = "its purpose")]
#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
fn measure(name: &str, n_threads: u32, work: impl Fn(u32) + Sync) {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| (0..N_ROUNDS).for_each(&work));
        }
    });
    let nanos = start.elapsed().as_nanos() as f64 / f64::from(N_ROUNDS);
    println!("{name}, {n_threads} threads: {nanos:.1} ns each");
}

fn main() {
    let registry = Registry::default();
    let family = registry.histograms(&DURATION, Buckets::seconds(&BOUNDS));
    let histogram = family.with(VALUES);
    for n_threads in [1, 2] {
        measure("observe", n_threads, |round| {
            histogram.observe(black_box(Duration::from_micros(u64::from(round % 10_000))));
        });
        measure("find 8 labels and observe", n_threads, |round| {
            let histogram = family.with(black_box(VALUES));
            histogram.observe(Duration::from_micros(u64::from(round % 10_000)));
        });
    }
}
