//! Load for any server of etcd's API, and what it cost the server. Prints `NAME VALUE` lines, which
//! `cargo xtask bench store` reads.
//!
//! `load PORT PID puts CLIENTS SECONDS | range KEYS | memory KEYS | watches N | events WATCHERS
//! PER_SECOND SECONDS`
#![expect(clippy::print_stdout, reason = "its output is its purpose")]
#![expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]

mod puts;
mod reads;
mod target;
mod watches;

use anyhow::{Context as _, Result, bail};

use target::Target;

// One thread is enough, and switches least.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| -> Result<u64> {
        let text = arguments.get(at).context("a number is missing")?;
        text.parse().with_context(|| format!("{text:?} is not a number"))
    };
    let target = Target::new(u16::try_from(number(0)?)?, u32::try_from(number(1)?)?);
    match arguments.get(2).map_or("", String::as_str) {
        "puts" => puts::run(&target, usize::try_from(number(3)?)?, number(4)?).await,
        "range" => reads::range(&target, number(3)?).await,
        "memory" => reads::memory(&target, number(3)?).await,
        "watches" => watches::idle(&target, usize::try_from(number(3)?)?).await,
        "events" => {
            watches::events(&target, usize::try_from(number(3)?)?, number(4)?, number(5)?).await
        }
        other => bail!("no such load: {other:?}"),
    }
}

/// One line of the output.
fn say(name: &str, value: f64) {
    println!("{name} {value:.3}");
}

/// The value below which this share of the sorted values is.
fn percentile<T: Copy + From<f32>>(sorted: &[T], share: f64) -> T {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_else(|| f32::NAN.into())
}
