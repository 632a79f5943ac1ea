//! Limits of CPU, memory and processes.

use std::collections::BTreeMap;
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
    /// Memory and swap together; `None`: no swap where memory is limited.
    pub memory_and_swap: Option<u64>,
    pub pids: Option<u64>,
    /// Lists such as `0-2,7`; `None`: what the parent has.
    pub cpuset_cpus: Option<String>,
    pub cpuset_mems: Option<String>,
    /// Bytes by size of page, such as `2MB`. What is not named stays as it is.
    pub hugepages: BTreeMap<String, u64>,
    /// Files of version 2 and what to write there, after all others.
    pub unified: BTreeMap<String, String>,
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
            Version::V1 => apply_memory_v1(&cgroup.directory(it), limits)?,
            Version::V2 => apply_memory_v2(&cgroup.directory(it), limits)?,
        }
    }
    if let Some(it) = with("pids", limits.pids.is_some()) {
        write(&cgroup.directory(it).join("pids.max"), &or_max(limits.pids))?;
    }
    apply_cpuset(cgroup, "cpuset.cpus", limits.cpuset_cpus.as_deref())?;
    apply_cpuset(cgroup, "cpuset.mems", limits.cpuset_mems.as_deref())?;
    apply_hugepages(cgroup, &limits.hugepages)?;
    apply_unified(cgroup, &limits.unified)
}

/// Version 1 has no word for "what the parent has": it is copied.
fn apply_cpuset(cgroup: &Cgroup, file: &str, wanted: Option<&str>) -> Result<(), Error> {
    let Some(hierarchy) = cgroup.hierarchies.with("cpuset") else {
        return match wanted {
            Some(_) => Err(Error::NoController { what: "cpuset" }),
            None => Ok(()),
        };
    };
    let path = cgroup.directory(hierarchy).join(file);
    if wanted.is_none() && !path.exists() {
        return Ok(());
    }
    let is = read(&path)?;
    let wanted = match (wanted, hierarchy.version) {
        (Some(list), _) => list.to_owned(),
        (None, Version::V2) => String::new(),
        (None, Version::V1) => match path.parent().and_then(Path::parent) {
            Some(parent) => read(&parent.join(file))?.trim().to_owned(),
            None => return Ok(()),
        },
    };
    if is.trim() == wanted {
        return Ok(());
    }
    // Nothing at all would not be a write.
    write(&path, &format!("{wanted}\n"))
}

fn apply_hugepages(cgroup: &Cgroup, limits: &BTreeMap<String, u64>) -> Result<(), Error> {
    if limits.is_empty() {
        return Ok(());
    }
    let hierarchy = cgroup.hierarchies.with("hugetlb");
    let hierarchy = hierarchy.ok_or(Error::NoController { what: "hugepage limits" })?;
    for (size, limit) in limits {
        if !size.bytes().all(|it| it.is_ascii_alphanumeric()) {
            return Err(Error::Name(size.clone()));
        }
        let file = match hierarchy.version {
            Version::V1 => format!("hugetlb.{size}.limit_in_bytes"),
            Version::V2 => format!("hugetlb.{size}.max"),
        };
        write(&cgroup.directory(hierarchy).join(file), &limit.to_string())?;
    }
    Ok(())
}

fn apply_unified(cgroup: &Cgroup, settings: &BTreeMap<String, String>) -> Result<(), Error> {
    if settings.is_empty() {
        return Ok(());
    }
    let hierarchy = cgroup.hierarchies.unified().filter(|_| cgroup.hierarchies.is_unified());
    let hierarchy = hierarchy.ok_or(Error::NoController { what: "unified cgroup settings" })?;
    for (file, value) in settings {
        // `cgroup.procs` and its like move processes and are no limits.
        let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"._-".contains(&it);
        let is_limit = file.contains('.') && !file.starts_with("cgroup.");
        if !is_limit || !file.bytes().all(is_plain) {
            return Err(Error::Name(file.clone()));
        }
        write(&cgroup.directory(hierarchy).join(file), value)?;
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

/// Memory with swap is limited to the same unless more is asked for, so that a container does not
/// swap. It may never be less than memory alone, so which is written first depends on whether the
/// limit goes up or down.
fn apply_memory_v1(directory: &Path, limits: &Limits) -> Result<(), Error> {
    let text = |limit: Option<u64>| limit.map_or_else(|| "-1".to_owned(), |it| it.to_string());
    let value = text(limits.memory);
    let both = text(limits.memory_and_swap.or(limits.memory));
    let memory = directory.join("memory.limit_in_bytes");
    let with_swap = directory.join("memory.memsw.limit_in_bytes");
    if !with_swap.exists() {
        return match limits.memory_and_swap.is_some_and(|it| Some(it) != limits.memory) {
            true => Err(Error::NoController { what: "a limit of swap" }),
            false => write(&memory, &value),
        };
    }
    match write(&memory, &value) {
        Ok(()) => write(&with_swap, &both),
        Err(err) if err.errno() == Some(libc::EINVAL) => {
            write(&with_swap, &both).and_then(|()| write(&memory, &value))
        }
        Err(err) => Err(err),
    }
}

fn apply_memory_v2(directory: &Path, limits: &Limits) -> Result<(), Error> {
    write(&directory.join("memory.max"), &or_max(limits.memory))?;
    let swap = directory.join("memory.swap.max");
    // Version 2 counts swap alone.
    let allowed = match (limits.memory, limits.memory_and_swap) {
        (Some(memory), both) => Some(both.unwrap_or(memory).saturating_sub(memory)),
        (None, both) => both,
    };
    if swap.exists() {
        write(&swap, &or_max(allowed))?;
    } else if allowed.is_some_and(|it| it > 0) {
        return Err(Error::NoController { what: "a limit of swap" });
    }
    let group = directory.join("memory.oom.group");
    let value = if limits.oom_kill == OomKill::All { "1" } else { "0" };
    if group.exists() && read(&group)?.trim() != value {
        write(&group, value)?;
    }
    Ok(())
}

pub(super) fn read_back(cgroup: &Cgroup, told: &Limits) -> Result<Limits, Error> {
    let mut limits = told.clone();
    if let Some(hierarchy) = cgroup.hierarchies.with("cpu") {
        let directory = cgroup.directory(hierarchy);
        let (shares, quota) = match hierarchy.version {
            Version::V1 => cpu_v1(&directory)?,
            Version::V2 => cpu_v2(&directory, told.cpu_shares.unwrap_or(SHARES_DEFAULT))?,
        };
        let is_told = shares == told.cpu_shares.unwrap_or(SHARES_DEFAULT);
        limits.cpu_shares = if is_told { told.cpu_shares } else { Some(shares) };
        limits.cpu_quota = quota;
    }
    if let Some(hierarchy) = cgroup.hierarchies.with("memory") {
        let file = match hierarchy.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        let text = read(&cgroup.directory(hierarchy).join(file))?;
        let memory = text.trim().parse().ok().filter(|it| *it < UNLIMITED_V1);
        let is_rounded = matches!((told.memory, memory),
            (Some(told), Some(is)) if is <= told && told - is < PAGE_MAX);
        limits.memory = if is_rounded { told.memory } else { memory };
    }
    Ok(limits)
}

/// Version 1 has no word for "no limit" but a number that no machine has, which depends on the
/// size of a page.
const UNLIMITED_V1: u64 = 1 << 62;
/// The largest size of a page that Linux has on our machines.
const PAGE_MAX: u64 = 64 << 10;

fn cpu_v1(directory: &Path) -> Result<(u64, Option<CpuQuota>), Error> {
    let number = |file: &str| -> Result<i64, Error> {
        Ok(read(&directory.join(file))?.trim().parse().unwrap_or(0))
    };
    let shares = u64::try_from(number("cpu.shares")?).unwrap_or(0);
    let quota = u64::try_from(number("cpu.cfs_quota_us")?).ok();
    let period = u64::try_from(number("cpu.cfs_period_us")?).unwrap_or(0);
    Ok((shares, quota.map(|it| quota_of(it, period))))
}

fn cpu_v2(directory: &Path, told: u64) -> Result<(u64, Option<CpuQuota>), Error> {
    let weighs = read(&directory.join("cpu.weight"))?.trim().parse().unwrap_or(0);
    let shares = if weight(told) == weighs { told } else { fewest_shares(weighs) };
    let max = read(&directory.join("cpu.max"))?;
    let mut numbers = max.split_ascii_whitespace().map(|it| it.parse().ok());
    let (quota, period) = (numbers.next().flatten(), numbers.next().flatten());
    Ok((shares, quota.zip(period).map(|(quota, period)| quota_of(quota, period))))
}

fn quota_of(quota: u64, period: u64) -> CpuQuota {
    CpuQuota { quota: Duration::from_micros(quota), period: Duration::from_micros(period) }
}

/// The fewest shares that have this weight.
pub(super) fn fewest_shares(wanted: u64) -> u64 {
    let (mut low, mut high) = (2, 262_144);
    while low < high {
        let middle = u64::midpoint(low, high);
        if weight(middle) < wanted { low = middle + 1 } else { high = middle }
    }
    low
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
