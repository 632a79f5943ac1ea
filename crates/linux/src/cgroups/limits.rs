//! Limits of CPU, memory and processes.

use std::path::Path;
use std::time::Duration;

use super::{Cgroup, Error, Hierarchy, Version, read, write};

/// `None`: no limit, or the kernel's default share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// On version 1's scale, 2 to 262144.
    pub cpu_shares: Option<u64>,
    pub cpu_quota: Option<CpuQuota>,
    pub memory: Option<u64>,
    pub pids: Option<u64>,
    pub oom_kill: OomKill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuQuota {
    pub quota: Duration,
    pub period: Duration,
}

/// Who is killed when memory runs out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OomKill {
    /// Whom the kernel chooses.
    #[default]
    One,
    /// Everything in the cgroup, where the kernel can (version 2).
    All,
}

const SHARES_DEFAULT: u64 = 1024;
const PERIOD_DEFAULT: Duration = Duration::from_millis(100);

pub(super) fn apply(cgroup: &Cgroup, limits: &Limits) -> Result<(), Error> {
    let with = |controller: &str, wanted: bool| -> Option<&Hierarchy> {
        let hierarchy = cgroup.hierarchies.with(controller);
        if hierarchy.is_none() && wanted {
            tracing::warn!(controller, cgroup = cgroup.name, "limit not set: no such controller");
        }
        hierarchy
    };
    if let Some(it) = with("cpu", limits.cpu_shares.is_some() || limits.cpu_quota.is_some()) {
        apply_cpu(it.version, &cgroup.directory(it), limits)?;
    }
    if let Some(it) = with("memory", limits.memory.is_some()) {
        match it.version {
            Version::V1 => apply_memory_v1(&cgroup.directory(it), limits.memory)?,
            Version::V2 => apply_memory_v2(&cgroup.directory(it), limits)?,
        }
    }
    if let Some(it) = with("pids", limits.pids.is_some()) {
        write(&cgroup.directory(it).join("pids.max"), &or_max(limits.pids))?;
    }
    Ok(())
}

fn or_max(limit: Option<u64>) -> String {
    limit.map_or_else(|| "max".to_owned(), |it| it.to_string())
}

fn apply_cpu(version: Version, directory: &Path, limits: &Limits) -> Result<(), Error> {
    let shares = limits.cpu_shares.unwrap_or(SHARES_DEFAULT);
    let period = limits.cpu_quota.map_or(PERIOD_DEFAULT, |it| it.period).as_micros();
    let quota = limits.cpu_quota.map(|it| it.quota.as_micros());
    match version {
        Version::V2 => {
            write(&directory.join("cpu.weight"), &weight(shares).to_string())?;
            let quota = quota.map_or_else(|| "max".to_owned(), |it| it.to_string());
            write(&directory.join("cpu.max"), &format!("{quota} {period}"))
        }
        Version::V1 => {
            write(&directory.join("cpu.shares"), &shares.to_string())?;
            let quota = quota.map_or_else(|| "-1".to_owned(), |it| it.to_string());
            let set_period = || write(&directory.join("cpu.cfs_period_us"), &period.to_string());
            let set_quota = || write(&directory.join("cpu.cfs_quota_us"), &quota);
            // In between, the old quota with the new period may be more than the parent allows: the
            // other way round.
            match set_period() {
                Ok(()) => set_quota(),
                Err(err) if err.errno() == Some(libc::EINVAL) => {
                    set_quota().and_then(|()| set_period())
                }
                Err(err) => Err(err),
            }
        }
    }
}

/// Memory with swap is limited to the same, so that a container does not swap. It may never be less
/// than memory alone, so which is written first depends on whether the limit goes up or down.
fn apply_memory_v1(directory: &Path, limit: Option<u64>) -> Result<(), Error> {
    let value = limit.map_or_else(|| "-1".to_owned(), |it| it.to_string());
    let memory = directory.join("memory.limit_in_bytes");
    let with_swap = directory.join("memory.memsw.limit_in_bytes");
    if !with_swap.exists() {
        return write(&memory, &value);
    }
    match write(&memory, &value) {
        Ok(()) => write(&with_swap, &value),
        Err(err) if err.errno() == Some(libc::EINVAL) => {
            write(&with_swap, &value).and_then(|()| write(&memory, &value))
        }
        Err(err) => Err(err),
    }
}

fn apply_memory_v2(directory: &Path, limits: &Limits) -> Result<(), Error> {
    write(&directory.join("memory.max"), &or_max(limits.memory))?;
    let swap = directory.join("memory.swap.max");
    if swap.exists() {
        write(&swap, if limits.memory.is_some() { "0" } else { "max" })?;
    }
    let group = directory.join("memory.oom.group");
    let value = if limits.oom_kill == OomKill::All { "1" } else { "0" };
    if group.exists() && read(&group)?.trim() != value {
        write(&group, value)?;
    }
    Ok(())
}

/// Shares of version 1 as a weight of version 2: 2 is 1, 1024 is 100, 262144 is 10000, and between
/// them a curve through the three (github.com/opencontainers/cgroups,
/// `ConvertCPUSharesToCgroupV2Value`).
pub fn weight(shares: u64) -> u64 {
    match shares {
        0..=2 => 1,
        262_144.. => 10_000,
        #[expect(clippy::cast_precision_loss, reason = "at most 262144")]
        _ => {
            let log = (shares as f64).log2();
            let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "1 to 10000"
            )]
            let weight = 10f64.powf(exponent).ceil() as u64;
            weight
        }
    }
}
