//! `count`: prints numbers, one a line: a log whose gaps can be seen.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::stop::Stop;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Seconds between two numbers
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Ends before this number
    #[arg(long, value_name = "N", default_value_t = u64::MAX)]
    to: u64,
}

pub(crate) async fn run(flags: Flags) -> Result<()> {
    let mut stop = Stop::listen()?;
    let interval = Duration::try_from_secs_f64(flags.interval).context("--interval")?;
    for number in 0..flags.to {
        writeln!(std::io::stdout(), "{number}").context("printing")?;
        tokio::select! {
            biased;
            () = stop.wait() => return Ok(()),
            () = tokio::time::sleep(interval) => {}
        }
    }
    Ok(())
}
