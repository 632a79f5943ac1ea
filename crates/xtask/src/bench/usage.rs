//! What a process has used so far, as /proc tells, and how a figure is printed beside its budget.

use std::fs;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::say;

/// Clock ticks per second of /proc/PID/stat: fixed by the kernel's user-space ABI.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn report(what: &str, value: f64, unit: &str, budget: f64) {
    let verdict = if value <= budget { "within" } else { "OVER" };
    say(&format!("{what}: {value:.1} {unit} ({verdict} the budget of {budget} {unit})"));
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// MiB of a field of /proc/PID/status, such as `VmRSS`.
pub(super) fn memory(pid: u32, field: &str) -> Result<f64> {
    mebibytes(&format!("/proc/{pid}/status"), field)
}

/// MiB that are this process's alone, plus its share of what it shares.
pub(super) fn proportional_memory(pid: u32) -> Result<f64> {
    mebibytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

fn mebibytes(path: &str, field: &str) -> Result<f64> {
    let text = fs::read_to_string(path)?;
    let line = text.lines().find(|it| it.starts_with(field)).context("field of /proc/PID")?;
    let kib: f64 = line.split_whitespace().nth(1).unwrap_or("0").parse()?;
    Ok(kib / 1024.0)
}

pub(super) fn cpu_seconds(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: f64 = fields.get(11).context("utime")?.parse::<f64>()?
        + fields.get(12).context("stime")?.parse::<f64>()?;
    Ok(ticks / TICKS_PER_SECOND)
}

pub(super) fn written_bytes(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let line = text.lines().find(|it| it.starts_with("write_bytes")).context("write_bytes")?;
    Ok(line.split_whitespace().nth(1).unwrap_or("0").parse()?)
}

/// How often threads of the process have gone to sleep, and so were woken.
pub(super) fn switches(pid: u32) -> Result<f64> {
    let mut sum = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
        let line = text.lines().find_map(|it| it.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.and_then(|it| it.trim().parse::<f64>().ok()).unwrap_or(0.0);
    }
    Ok(sum)
}
